// Guards of vectorized and unrolled loops, and tails: the iterations that are left if the length of such a loop does
// not divide an extent. Thread-safe. Internal to lower/.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "arith/analyzer.h"
#include "ir/loop_range.h"
#include "ir/stmt.h"

namespace autotune {

// The guards (Ifs without an else whose conditions read no memory) inside s, each once, and the loops in it.
struct Guards {
  Ranges inner;  // those with constant extents
  std::vector<Expr> conditions;
};
Guards GuardsIn(const Stmt& s);

// Returns an expression that is >= 0 exactly if the comparison holds, or null if it does not compare indices.
Expr Slack(const Expr& condition);

// Replaces each conjunct c of each guard by fn(c). A conjunct that becomes the constant 1 is removed.
Stmt MapGuards(const Stmt& s, const std::function<Expr(const Expr&)>& fn);

// An expanded nest whose guards depend on the lanes of its vectorized loops, split in two. It stands for
//   if (whole) fast; else if (some) tail
// where `fast` has whole vectors and no such guards. If `whole` is absent, there is only the tail. If `some` is absent,
// the tail has no condition. Other guards stay.
struct Tails {
  Expr whole, some;
  Stmt fast, tail;
};
// Splits the nest `s`. Returns nothing if no guard depends on lanes, or if the number of remaining lanes differs
// between tails. A guard q * step + inner < n with inner < step has one remainder; other guards may have many.
std::optional<Tails> SplitTails(const Stmt& s, const Analyzer& outer);

}  // namespace autotune
