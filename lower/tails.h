// Guards of vectorized and unrolled loops, and tails: what is left where such loops do not divide an extent. Internal
// to lower/. Thread-safe.
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

// The expression that is >= 0 exactly where the comparison holds; absent if it compares no indices.
Expr Slack(const Expr& condition);

// Every guard's condition becomes what `fn` makes of it; one that becomes the constant 1 goes.
Stmt MapGuards(const Stmt& s, const std::function<Expr(const Expr&)>& fn);

// An expanded nest whose guards depend on the lanes of its vectorized loops, as vectors without guards:
// if (whole) fast else if (some) tail. `whole` absent: always `tail`; `some` absent: always. Other guards stay.
struct Tails {
  Expr whole, some;
  Stmt fast, tail;
};
// Absent where no guard depends on lanes, or the lanes that are left are not the same wherever some are: a guard
// q * step + inner < n, inner < step, has one remainder; others may have many.
std::optional<Tails> SplitTails(const Stmt& s, const Analyzer& outer);

}  // namespace autotune
