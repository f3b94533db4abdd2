// Keeps the memory of a process that handles messages of all sizes small.
#pragma once
#include <malloc.h>

namespace autotune::tools {

// To be called first in main. Blocks of memory from 512 KiB go back to the system when they are freed. The C library
// would otherwise raise this size to that of the largest block that was ever freed: after a few large messages, all
// messages would come from heaps, which are kept. The chunks of uploads, 256 KiB, do come from heaps, of which 4 MiB
// stay: the system takes longer to clear pages for each than the network to bring it. [chosen]
inline void ReturnMemory() {
  mallopt(M_MMAP_THRESHOLD, 512 << 10);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

}  // namespace autotune::tools
