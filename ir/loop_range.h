// LoopRange: the values of a loop's variable. Analyses take lists of them, outermost loop first. Stateless;
// thread-safe.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/name.h"

namespace autotune {

struct LoopRange {  // var runs over [0, extent)
  Name var;
  int64_t extent;
};
using Ranges = std::vector<LoopRange>;

// The extent of a variable, of the innermost loop if several have it; null if none has.
inline const int64_t* ExtentOf(const Ranges& ranges, const Name& var) {
  for (auto it = ranges.rbegin(); it != ranges.rend(); ++it) {
    if (it->var == var) return &it->extent;
  }
  return nullptr;
}

}  // namespace autotune
