#include <functional>
#include <limits>
#include <numeric>

#include "schedule/state.h"
#include "support/integer.h"

namespace autotune::schedule {
namespace {

// Returns the factors as numbers, with "?" replaced. Checks that they cover `extent`.
Result<std::vector<int64_t>> ResolveFactors(const State& state, const Factors& factors, int64_t extent) {
  std::vector<int64_t> values;
  int64_t product = 1;
  std::optional<size_t> open;
  if (!factors.sampled.empty()) {
    const std::vector<int64_t>* sample = state.Sample(factors.sampled);
    if (!sample) return Err("there is no sampled tile '", factors.sampled, "'");
    values = *sample;
  } else {
    for (const IntArg& arg : factors.list) {
      int64_t value = TRY(state.Value(arg));
      if (value == Factors::kAuto && arg.sampled.empty()) {
        if (open) return Err("only one factor may be ?");
        open = values.size();
        value = 1;
      }
      values.push_back(value);
    }
  }
  if (values.size() < 2) return Err("a split needs at least two factors");
  for (int64_t value : values) {
    if (value < 1) return Err("factor ", value, " is not positive");
    if (value > kMaxExtent / product) return Err("the factors' product is out of range");
    product *= value;
  }
  if (open) {
    values[*open] = CeilDiv(extent, product);
    product *= values[*open];
  }
  if (product < extent) return Err("the factors cover ", product, " of ", extent, " iterations");
  return values;
}

}  // namespace

Status ApplyStep(State& state, Split& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  const For& loop = path.loop();
  int64_t extent = TRY(ConstExtent(loop));
  std::vector<int64_t> factors = TRY(ResolveFactors(state, step.factors, extent));
  if (loop.kind != LoopKind::kSerial)
    return Err("loop '", loop.var, "' is ", ToText(loop.kind), "; split it before changing its kind");

  std::vector<Name> defaults;
  for (size_t i = 0; i < factors.size(); ++i) defaults.push_back(Suffixed(loop.var, "_" + std::to_string(i)));
  step.results = TRY(ResultNames(step.results.names, defaults));
  TRY(CheckNewVars(state.func, step.results.names));

  Ranges loops;
  for (size_t i = 0; i < factors.size(); ++i) loops.push_back({step.results.names[i], factors[i]});
  auto product_from = [&](size_t i) {
    return std::accumulate(factors.begin() + static_cast<int64_t>(i), factors.end(), int64_t{1}, std::multiplies<>());
  };
  const int64_t product = product_from(0);
  LinearForm sum;
  for (size_t i = 0; i < factors.size(); ++i) sum.Add(IndexVar(loops[i].var), product_from(i + 1));
  Expr value = sum.InOrder(), guard = product > extent ? value < Expr(extent) : Expr();
  VarMap map{{loop.var, value}};
  Ranges outer = Concat(path.LoopRanges(), loops);
  Stmt body = RewriteBlocks(loop.body, [&](const Block& block, const Ranges& inner) {
    Stmt changed = WithBindings(block, map, Concat(outer, inner));
    if (!guard) return changed;
    Block guarded = *changed.As<Block>();
    guarded.predicate = guarded.predicate ? And(guarded.predicate, guard) : guard;
    return MakeStmt(std::move(guarded));
  });
  if (!loop.annotations.empty()) {
    body = WrapLoops({loops.begin() + 1, loops.end()}, std::move(body));
    body = MakeStmt(For{loops[0].var, Expr(loops[0].extent), LoopKind::kSerial, loop.annotations, std::move(body)});
  } else {
    body = WrapLoops(loops, std::move(body));
  }
  state.func.body = ReplaceTarget(path, std::move(body));
  return {};
}

}  // namespace autotune::schedule
