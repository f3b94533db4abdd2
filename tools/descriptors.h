// Keeps a process that others may connect to from running out of descriptors.
#pragma once
#include <sys/resource.h>

namespace autotune::tools {

// To be called first in main. Lets the process have as many descriptors as the system allows it. The usual 1,024 are
// for programs that use select(). libzmq aborts if an ipc listener cannot accept a connection for lack of them. With
// many, the memory of the connections is noticed first (rpc/memory_watch.h), and they are closed.
inline void AllowManyDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace autotune::tools
