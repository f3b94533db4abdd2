// Work: the operations of blocks of a Nest, and the bytes that these blocks must move whatever the order of their loops
// is. A pure function; thread-safe.
#pragma once
#include <span>

#include "schedule/nest.h"

namespace autotune {

struct Work {
  // In units of an addition (ir/arithmetic.h), without padding. An instance of a block that only moves an element
  // counts 1.
  double operations = 0;
  double read_bytes = 0;   // bytes of buffers that no given block writes; each element once
  double write_bytes = 0;  // bytes of buffers that no given block reads, except to accumulate into them
};

// Sums over the named blocks; names that the Nest does not have are ignored.
Work WorkOf(const Nest& nest, std::span<const Name> blocks);

}  // namespace autotune
