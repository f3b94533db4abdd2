// Context: what is known about variables. Internal to arith/: the state of an Analyzer. A value.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "ir/linear_form.h"

namespace autotune::arith {

// A closed interval whose sides may be infinite. All finite sides lie within +-2^62; arithmetic saturates.
struct Range {
  static constexpr int64_t kNegInf = INT64_MIN, kPosInf = INT64_MAX;
  int64_t low = kNegInf, high = kPosInf;

  bool IsPoint() const { return low == high; }
  bool Within(int64_t lo, int64_t hi) const { return low >= lo && high <= hi; }
  bool IsFinite() const { return low != kNegInf && high != kPosInf; }
};
Range Meet(Range a, Range b);
Range Join(Range a, Range b);
Range Plus(Range a, Range b);
Range Times(Range a, int64_t k);
Range Times(Range a, Range b);
Range DividedBy(Range a, int64_t c);  // floor, c > 0

using Term = LinearForm::Term;

// A floordiv or floormod by a positive constant.
struct DivMod {
  const Binary* node = nullptr;
  int64_t divisor = 0;
  bool is_div = false;
  explicit operator bool() const { return node != nullptr; }
};
DivMod AsDivMod(const Expr& e);

struct Context {
  std::vector<std::pair<Name, Range>> ranges;  // the last entry of a name counts
  std::vector<LinearForm> facts;               // forms that are >= 0
  std::vector<std::pair<Expr, bool>> known;    // simplified conditions and their values
};

}  // namespace autotune::arith
