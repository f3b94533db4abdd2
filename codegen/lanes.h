// The lanes of a vector of indices, where their distances are constants. Thread-safe. Internal to codegen/.
#pragma once
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace autotune {

struct Lanes {
  Expr base;                     // scalar
  std::vector<int64_t> offsets;  // lane i is base + offsets[i]
};
// Nothing if the distances between the lanes are not known.
std::optional<Lanes> LanesOf(const Expr& index);

}  // namespace autotune
