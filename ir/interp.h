// The interpreter: the slow, obvious definition of what programs of both dialects mean. Checks every access against its
// buffer's bounds and reports data races between iterations of a parallel loop. Not for speed. Reentrant.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

// Elements as doubles (floats up to f64, small ints) or, for 64-bit integers, exact. Row-major, compact.
struct InterpArray {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> data;  // every value is representable in dtype
};

struct InterpOptions {
  uint64_t order_seed = 0;  // order of parallel iterations: 0 in sequence, else a seeded shuffle
  bool detect_races = true;
};

// `args` in the order of the parameters; outputs are overwritten (their former content starts as NaN or a poison
// value). An error names the buffer, the index and the block where a bound is broken, a race, or a read of memory that
// was never written.
Status Interpret(const PrimFunc& f, std::vector<InterpArray>& args, const InterpOptions& options = {});

}  // namespace autotune
