// Keeps the memory of a process that handles messages of all sizes small.
#pragma once
#include <malloc.h>

namespace autotune::tools {

// To be called first in main. Blocks of memory from 256 KiB go back to the system when they are freed. The C library
// would otherwise raise this size to that of the largest block that was ever freed: after a few large messages, all
// messages would come from heaps, which are kept.
inline void ReturnMemory() { mallopt(M_MMAP_THRESHOLD, 256 << 10); }

}  // namespace autotune::tools
