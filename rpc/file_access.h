// Which files a runner may open, enforced by Landlock.
#pragma once
#include <string>

#include "rpc/system_calls.h"

namespace autotune::rpc {

// Restricts the calling thread, and the threads that it starts.
// kKernels: it may open files of /proc/self and /sys/devices/system/cpu for reading, and no others; it may make no TCP
// connections, and send no signals to processes outside. Memory files, descriptors that are open and libraries that are
// loaded stay usable.
// kDriver, kCompiler: it may read all files, and write only to /dev, /proc/self, and folders for temporary files and
// caches.
// Returns what is enforced: "Landlock 7". Returns an error if nothing is; it says why.
Result<std::string> RestrictFiles(Restriction restriction);

}  // namespace autotune::rpc
