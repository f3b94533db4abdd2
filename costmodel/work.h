// Work: what blocks of a Nest compute and move as a whole, whatever the order of their loops. A pure function;
// thread-safe.
#pragma once
#include <span>

#include "schedule/nest.h"

namespace autotune {

struct Work {
  // In units of an addition (ir/arithmetic.h), without padding. An instance that only moves an element counts as 1.
  double operations = 0;
  double read_bytes = 0;   // of buffers that none of the blocks writes; each element once
  double write_bytes = 0;  // of buffers that none of them reads, apart from what a reduction adds to
};

// Blocks that the Nest does not have are left out.
Work WorkOf(const Nest& nest, std::span<const Name> blocks);

}  // namespace autotune
