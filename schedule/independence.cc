#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "arith/analyzer.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

bool UsedInsideOnly(const State& state, const Stmt& inside, const Name& buffer) {
  auto count = [&](const Stmt& s) {
    size_t n = 0;
    ForEachBlock(s, [&](const Block& b, const auto&) { n += Reads(b, buffer) || Writes(b, buffer); });
    return n;
  };
  return IsAlloc(state.func, buffer) && count(inside) == count(state.func.body);
}

// Returns true if each iteration of a loop of this kind has its own copy of a buffer of this scope that is used only
// inside the loop.
bool IsPrivate(Scope scope, LoopKind kind) {
  if (IsBlockAxis(kind)) return scope != Scope::kGlobal;
  if (IsThreadAxis(kind)) return scope == Scope::kLocal || scope == Scope::kRegister;
  return true;
}

}  // namespace

// Returns true if e is var plus terms that are fixed while var and the inner loops run. The values of e are then
// consecutive.
static bool IsShifted(const Expr& e, const Name& var, const Ranges& inner) {
  LinearForm form = ToLinear(e);
  return form.Coefficient(var) == 1 && !UsesVar(form.Rest(), var) && !UsesAny(e, inner);
}

// Simplifies (k * a + r) // (k * m) to a // m, and (k * a + r) % (k * m) to a % m, if r lies in [0, k). k divides the
// coefficients of all terms with var. The remainders are not equal, but the value of the first one determines the value
// of the second one, which suffices here. Returns any other expression unchanged.
static Expr WithoutLowDigits(const Expr& e, const Name& var, const Ranges& inner) {
  const Binary* b = e.As<Binary>();
  const int64_t* by = b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod) ? AsInt(b->b) : nullptr;
  if (!by || *by < 1) return e;
  const LinearForm sum = Normalize(b->a, {});
  int64_t k = *by;
  for (const LinearForm::Term& t : sum.terms) {
    if (UsesVar(t.atom, var)) k = std::gcd(k, t.coefficient);
  }
  LinearForm high, low;
  low.constant = sum.constant;
  for (const LinearForm::Term& t : sum.terms) {
    if (t.coefficient % k == 0) {
      high.terms.emplace_back(t.atom, t.coefficient / k);
    } else {
      low.terms.emplace_back(t);
    }
  }
  std::optional<Bounds> bounds = BoundsOf(low, inner);
  if (!bounds || bounds->low < 0 || bounds->high >= k) return e;
  return MakeBinary(b->op, high.InOrder(), Expr(*by / k));
}

static int CountDivisions(const Expr& e) {
  int count = 0;
  Walk(e, [&](const Expr& x) {
    const Binary* b = x.As<Binary>();
    count += b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
    return true;
  });
  return count;
}

// If `value` is x // d and `remainder` is (x // (d / by)) % by, returns x // (d / by), which determines both. Returns
// nothing otherwise.
static std::optional<Expr> JoinedQuotient(const Expr& value, const Expr& remainder, int64_t by, const Ranges& ranges) {
  const Binary* quotient = value.As<Binary>();
  const int64_t* whole = quotient && quotient->op == BinaryOp::kFloorDiv ? AsInt(quotient->b) : nullptr;
  if (!whole || *whole < by || *whole % by != 0) return std::nullopt;
  const Expr joined = Normalized(FloorDiv(quotient->a, Expr(*whole / by)), ranges);
  if (!Equal(Normalized(FloorMod(joined, Expr(by)), ranges), Normalized(remainder, ranges))) return std::nullopt;
  return joined;
}

static int64_t TermsWith(const Expr& value, const Name& var) {
  return std::ranges::count_if(ToLinear(value).terms, [&](const auto& term) { return UsesVar(term.atom, var); });
}

// Replaces two of the values by one that they determine, and returns true if it found such a pair. Two values q and
// a % b determine b * q + a % b, which is a + b * (q - a // b). The sum replaces both if it has fewer quotients and
// remainders than they have, and at most one term with `var`. If q is a // b, for example, the sum is a.
static bool JoinTwo(std::vector<Expr>& values, const Name& var, const Ranges& ranges) {
  for (size_t j = 0; j < values.size(); ++j) {
    const Binary* remainder = values[j].As<Binary>();
    const int64_t* by = remainder && remainder->op == BinaryOp::kFloorMod ? AsInt(remainder->b) : nullptr;
    if (!by || *by < 1 || IsHuge(*by)) continue;
    const Expr quotient = FloorDiv(remainder->a, remainder->b);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i == j) continue;
      Expr joined = Normalized(remainder->a + remainder->b * Normalized(values[i] - quotient, ranges), ranges);
      if (std::optional<Expr> shorter = JoinedQuotient(values[i], values[j], *by, ranges)) joined = *shorter;
      if (CountDivisions(joined) >= CountDivisions(values[i]) + CountDivisions(values[j])) continue;
      if (TermsWith(joined, var) > 1) continue;
      values[i] = joined;
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(j));
      return true;
    }
  }
  return false;
}

// Returns the value without the terms that do not change while `var` and the loops inside it run.
static Expr WithoutFixedTerms(const Expr& value, const Name& var, const Ranges& inner) {
  LinearForm changing;
  for (const LinearForm::Term& t : ToLinear(value).terms) {
    if (UsesVar(t.atom, var) || UsesAny(t.atom, inner)) changing.terms.emplace_back(t);
  }
  return changing.InOrder();
}

// Returns a if the value is k * a + r, where a uses var and r lies in an interval shorter than k: the value determines
// a. Returns any other value unchanged.
static Expr WithoutLowTerms(const Expr& value, const Name& var, const Ranges& inner) {
  const LinearForm sum = ToLinear(value);
  const LinearForm::Term* own = nullptr;
  LinearForm rest;
  for (const LinearForm::Term& t : sum.terms) {
    if (!UsesVar(t.atom, var)) {
      rest.terms.emplace_back(t);
    } else if (own) {
      return value;
    } else {
      own = &t;
    }
  }
  if (!own) return value;
  const std::optional<Bounds> spread = BoundsOf(rest, inner);
  return spread && spread->high - spread->low < own->coefficient ? own->atom : value;
}

// Returns values that the spatial iterators determine: their bindings, with the quotient and the remainder of a value
// joined to the value itself. `known` maps loops of one iteration to their only value, or is empty.
static std::vector<Expr> Determined(const Block& block, const LoopRange& var, const Ranges& inner,
                                    const VarMap& known) {
  std::vector<Expr> values;
  for (const Iter& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial) continue;
    const Expr binding = known.empty() ? iter.binding : Normalized(Substitute(iter.binding, known), inner);
    const Expr changing = WithoutLowTerms(WithoutFixedTerms(binding, var.var, inner), var.var, inner);
    values.push_back(WithoutLowDigits(changing, var.var, inner));
  }
  const Ranges ranges = Concat({var}, inner);
  while (JoinTwo(values, var.var, ranges)) continue;
  return values;
}

// Collects the determined values twice: from the bindings as they are, and with 0 in place of loops of one iteration.
// A quotient and its remainder may be recognizable in only one of the two forms.
static std::vector<Expr> Determined(const Block& block, const LoopRange& var, const Ranges& inner) {
  std::vector<Expr> values = Determined(block, var, inner, {});
  VarMap zeros;
  for (const LoopRange& loop : inner) {
    if (loop.extent == 1) zeros[loop.var] = Expr(0);
  }
  if (zeros.empty()) return values;
  for (Expr& value : Determined(block, var, inner, zeros)) values.push_back(std::move(value));
  return values;
}

// The digits (base % to) // from of `base`.
struct Digits {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  Expr base;
  int64_t from = 1, to = kAll;
};

// Rewrites the sum a + u // q, where u uses var, as the quotient (q * a + u) // q. Returns nothing if e is no such sum.
static std::optional<Expr> AsOneQuotient(const Expr& e, const Name& var) {
  const LinearForm sum = ToLinear(e);
  if (sum.IsAtom()) return std::nullopt;
  for (const LinearForm::Term& t : sum.terms) {
    const Binary* b = t.atom.As<Binary>();
    const int64_t* by = b && b->op == BinaryOp::kFloorDiv && t.coefficient == 1 ? AsInt(b->b) : nullptr;
    if (!by || *by < 1 || IsHuge(*by) || !UsesVar(b->a, var)) continue;
    LinearForm whole = ToLinear(b->a);
    whole.Add(sum, *by);
    whole.Add(t.atom, -*by);
    if (whole.Huge()) return std::nullopt;
    return MakeBinary(BinaryOp::kFloorDiv, whole.InOrder(), b->b);
  }
  return std::nullopt;
}

// Strips e of its nested quotients and remainders by constants. Returns the expression inside them and the digits of it
// that e keeps. Returns nothing if a remainder cuts a digit in two, or if a constant is too large.
static std::optional<Digits> DigitsOf(const Expr& e, const Name& var) {
  const Binary* b = e.As<Binary>();
  const int64_t* by = b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod) ? AsInt(b->b) : nullptr;
  if (!by) {
    const std::optional<Expr> quotient = AsOneQuotient(e, var);
    return quotient ? DigitsOf(*quotient, var) : Digits{.base = e};
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  std::optional<Digits> digits = DigitsOf(b->a, var);
  if (!digits || *by < 1 || *by > kMost || digits->from > kMost) return std::nullopt;
  const int64_t next = digits->from * *by;
  if (b->op == BinaryOp::kFloorDiv) {
    digits->from = next;
  } else if (digits->to == Digits::kAll || digits->to % next == 0) {
    digits->to = next;
  } else if (next < digits->to) {
    return std::nullopt;
  }
  return digits;
}

// Returns true if `digits` are also digits of `base`: if `base` equals digits.base, or differs from it by a multiple of
// digits.to, after which the digits repeat.
static bool AreDigitsOf(const Digits& digits, const Expr& base) {
  if (Equal(digits.base, base)) return true;
  if (digits.to == Digits::kAll) return false;
  LinearForm distance = ToLinear(base);
  distance.Add(ToLinear(digits.base), -1);
  return CommonFactor(distance.ToExpr()) % digits.to == 0;
}

// Collects the digits of var that the values of the spatial iterators determine, and checks that together these digits
// determine var. The value var itself gives all digits, var // a gives the digits from a on, and var % b the digits
// below b. A value counts only if the coefficient of its term with var exceeds the spread of the terms of the inner
// loops.
// The values may use var plus an offset instead of var, if the offset is the same in all of them: n consecutive numbers
// have different remainders by any number from n on.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner) {
  std::vector<Digits> digits;
  for (const Expr& value : Determined(block, var, inner)) {
    if (!UsesVar(value, var.var)) continue;
    LinearForm sum = Normalize(value, {});
    const LinearForm::Term* own = nullptr;
    bool several = false;
    for (const LinearForm::Term& t : sum.terms) {
      if (!UsesVar(t.atom, var.var)) continue;
      several |= own != nullptr;
      own = &t;
    }
    if (!own || several) continue;  // several terms with var may cancel
    // Computes the spread of the terms of inner loops; outer loops are fixed. `all` is the length of the interval that
    // the term with var spans. Terms whose coefficients are multiples of `all` are left out: the remainder by `all`
    // still determines the term with var.
    LinearForm atom;
    atom.Add(own->atom, 1);
    const std::optional<Bounds> values = BoundsOf(atom, Concat({var}, inner));
    const bool bounded = values && values->high - values->low < kMaxExtent && std::abs(own->coefficient) < kMaxExtent;
    const int64_t all = bounded ? WrapMul(own->coefficient, values->high - values->low + 1) : 0;
    LinearForm rest;
    for (const LinearForm::Term& t : sum.terms) {
      if (UsesVar(t.atom, var.var) || !UsesAny(t.atom, inner)) continue;
      if (all == 0 || IsHuge(all) || t.coefficient % all != 0) rest.terms.emplace_back(t);
    }
    std::optional<Bounds> spread = BoundsOf(rest, inner);
    if (!spread || std::abs(own->coefficient) <= spread->high - spread->low) continue;
    std::optional<Digits> found = DigitsOf(own->atom, var.var);
    if (!found || (!found->base.As<Var>() && !IsShifted(found->base, var.var, inner))) continue;
    if (found->base.As<Var>() && found->to >= var.extent) found->to = Digits::kAll;
    digits.push_back(*found);
  }
  std::sort(digits.begin(), digits.end(),
            [](const Digits& a, const Digits& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  // Returns true if the digits of `base` determine var. Invariant: the digits so far determine base % known. Digits
  // that begin at `known` or below, and end at a multiple `to` of `known`, extend this to base % to, since two values
  // with equal remainders by `known` either differ in these digits or are equal modulo `to`.
  auto tell_apart = [&](const Expr& base) {
    int64_t known = 1;
    for (const Digits& d : digits) {
      if (d.from > known || !AreDigitsOf(d, base)) continue;
      if (d.to == Digits::kAll) return true;
      if (d.to % known == 0) known = d.to;
    }
    return known >= var.extent;
  };
  return std::any_of(digits.begin(), digits.end(), [&](const Digits& d) { return tell_apart(d.base); });
}

namespace {

// Checks that no reduction loop outside `loop` accumulates into a buffer of which each iteration of `loop` has its own
// copy. The copy, and with it the partial sum, is lost when the iteration ends.
Status CheckNoneContinued(const State& state, const For& loop, LoopKind kind) {
  std::vector<Block> reductions;
  ForEachBlock(loop.body, [&](const Block& block, const auto&) {
    if (IsReduction(block)) reductions.push_back(block);
  });
  if (reductions.empty()) return {};
  Path path = TRY(FindLoop(state.func.body, loop.var));
  for (const Block& block : reductions) {
    for (const For* outer : path.Loops()) {
      if (!FeedsOf(block, outer->var).reduce) continue;
      Name sums;
      ForEachStore(block, [&](const Store& store) {
        bool own = IsPrivate(store.buffer->scope, kind) && UsedInsideOnly(state, loop.body, store.buffer->name);
        if (own) sums = store.buffer->name;
      });
      if (sums.empty()) continue;
      return Err("loop '", outer->var, "' adds to buffer '", sums, "', but each iteration of loop '", loop.var,
                 "' inside it has its own copy of the buffer");
    }
  }
  return {};
}

}  // namespace

Status CheckIndependent(const State& state, const For& loop, LoopKind kind) {
  const int64_t* extent = AsInt(loop.extent);
  if (kind == LoopKind::kParallel || IsBound(kind)) TRY(CheckNoneContinued(state, loop, kind));
  Status status;
  ForEachBlock(loop.body, [&](const Block& block, const std::vector<const For*>& loops) {
    if (!status.ok()) return;
    bool separate = extent && SeparatesInstances(block, {loop.var, *extent}, RangesOf(loops));
    if ((separate || (extent && *extent == 1)) && !FeedsOf(block, loop.var).reduce) return;
    bool own = kind == LoopKind::kParallel || IsBound(kind);
    ForEachStore(block, [&](const Store& s) {
      own = own && IsPrivate(s.buffer->scope, kind) && UsedInsideOnly(state, loop.body, s.buffer->name);
    });
    if (own && !FeedsOf(block, loop.var).reduce) return;
    if (FeedsOf(block, loop.var).reduce) {
      status = Err("loop '", loop.var, "' feeds a reduction iterator of block '", block.name, "'");
    } else {
      status = Err("iterations of loop '", loop.var, "' may write the same elements in block '", block.name, "'");
    }
  });
  return status;
}

Status CheckReadsComplete(const Block& block, const std::vector<const For*>& around, const std::string& place,
                          const std::vector<Name>& but_for) {
  for (const Name& buffer : BuffersRead(block)) {
    if (std::find(but_for.begin(), but_for.end(), buffer) != but_for.end()) continue;
    for (const For* loop : around) {
      for (const Name& writer : WritersOf(loop->body, buffer)) {
        return Err("block '", block.name, "' also needs block '", writer, "', which shares loop '", loop->var,
                   "' with ", place, " and is not complete there");
      }
    }
  }
  return {};
}

Status CheckStillIndependent(const State& state, const Name& block) {
  Path path = TRY(FindBlock(state.func.body, block));
  for (const For* loop : path.Loops()) {
    if (loop->kind == LoopKind::kParallel || loop->kind == LoopKind::kVectorized) {
      TRY(CheckIndependent(state, *loop, loop->kind));
    }
  }
  return {};
}

Status CheckSourcesIndependent(const State& state, const Block& block) {
  for (const Name& buffer : BuffersRead(block)) {
    if (!IsAlloc(state.func, buffer)) continue;
    for (const Name& writer : WritersOf(state.func.body, buffer)) TRY(CheckStillIndependent(state, writer));
  }
  return {};
}

}  // namespace autotune::schedule
