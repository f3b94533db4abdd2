// prefetch: asks for what comes next, spread over a loop that computes.
#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

constexpr int64_t kLineBytes = 64;   // of a cache
constexpr int64_t kMostAtOnce = 32;  // lines asked for in one iteration

// A digit of the position in the piece: `count` steps of `step` from where the iterator's values begin.
struct Digit {
  Name iter;
  Expr min;
  int64_t count = 1, step = 1;
};

// A prefetched address need not be exact: bounds that padding clamped it to go, since they would tear it into pieces.
Expr WithoutClamps(const Expr& e) {
  const Binary* binary = e.As<Binary>();
  if (binary && binary->op == BinaryOp::kMin && AsInt(binary->b)) return WithoutClamps(binary->a);
  return MapChildren(e, WithoutClamps);
}

// The one load of the buffer in the block.
Result<Load> OnlyLoad(const Block& block, const Name& buffer) {
  std::vector<Expr> found;
  ForEachLoad(block, [&](const Load& load) {
    if (load.buffer->name != buffer) return;
    Expr e = MakeLoad(load.buffer, load.indices);
    bool known = std::any_of(found.begin(), found.end(), [&](const Expr& f) { return autotune::Equal(f, e); });
    if (!known) found.push_back(e);
  });
  if (found.empty()) return Err("block '", block.name, "' does not read buffer '", buffer, "'");
  if (found.size() > 1) return Err("block '", block.name, "' reads buffer '", buffer, "' at several places");
  return *found[0].As<Load>();
}

// The iterators that the load uses, outermost first by the dimension where each appears first, and last the one that
// runs along the lines of memory.
Result<std::vector<Digit>> DigitsOf(const Block& block, const Load& load, const RegionMap& regions, int64_t bytes) {
  Expr along = WithoutClamps(load.indices.back());
  int64_t piece = kLineBytes / bytes;
  if (const Binary* mod = along.As<Binary>(); mod && mod->op == BinaryOp::kFloorMod && AsInt(mod->b)) {
    piece = std::min(piece, *AsInt(mod->b));
    along = mod->a;
  }
  const Var* contiguous = along.As<Var>();
  if (!contiguous) {
    return Err("the last index of buffer '", load.buffer->name, "' is no iterator: what lies together is not known");
  }
  std::vector<Digit> digits, last;
  for (const Expr& index : load.indices) {
    Walk(index, [&](const Expr& e) {
      const Var* var = e.As<Var>();
      if (!var) return true;
      auto& list = var->name == contiguous->name ? last : digits;
      bool known = std::any_of(list.begin(), list.end(), [&](const Digit& d) { return d.iter == var->name; });
      if (!known) list.push_back({.iter = var->name});
      return true;
    });
  }
  digits.insert(digits.end(), last.begin(), last.end());
  for (Digit& digit : digits) {
    auto region = std::find_if(regions.begin(), regions.end(), [&](const auto& r) { return r.first == digit.iter; });
    if (region == regions.end()) {  // not known where it lies: only where it is now
      digit.min = std::find_if(block.iters.begin(), block.iters.end(), [&](const Iter& i) {
                    return i.var == digit.iter;
                  })->binding;
      continue;
    }
    digit.min = ToExpr(region->second.min);
    digit.count = region->second.span + 1;
  }
  digits.back().step = piece;
  digits.back().count = (digits.back().count + piece - 1) / piece;
  return digits;
}

}  // namespace

// Legal wherever it can be said what the next iteration reads: a hint changes no value.
Status ApplyStep(State& state, Prefetch& step) {
  const int64_t ahead = TRY(state.Value(step.ahead));
  if (ahead < 0) return Err("it must look ahead by 0 iterations or more, not ", ahead);
  Path path = TRY(FindBlock(state.func.body, step.block));
  const Block& block = path.block();
  Path outer = path.UpTo(step.loop), at = path.UpTo(step.at);
  for (const auto& [p, name] : {std::pair(&outer, &step.loop), std::pair(&at, &step.at)}) {
    if (p->nodes.empty()) return Err("loop '", *name, "' is not around block '", step.block, "'");
  }
  std::vector<const For*> loops = path.Loops();
  const size_t from = outer.Loops().size(), to = at.Loops().size();
  if (to <= from) return Err("loop '", step.at, "' is not inside loop '", step.loop, "'");
  Ranges fixed = RangesOf({loops.begin(), loops.begin() + from + 1});
  Ranges running = RangesOf({loops.begin() + from + 1, loops.end()});
  Load load = TRY(OnlyLoad(block, step.buffer));
  const int64_t bytes = load.buffer->dtype.Bytes();
  std::vector<Digit> digits = TRY(DigitsOf(block, load, IterRegions(block, running, fixed), bytes));

  state.prefetches = true;
  if (ahead == 0) return {};

  int64_t lines = 1, iterations = 1;
  for (const Digit& digit : digits) lines *= digit.count;
  Expr iteration(0);
  for (size_t i = from + 1; i <= to; ++i) {
    if (loops[i]->kind == LoopKind::kVectorized) return Err("loop '", loops[i]->var, "' is vectorized");
    int64_t extent = TRY(ConstExtent(*loops[i]));
    iteration = iteration * Expr(extent) + IndexVar(loops[i]->var);
    iterations *= extent;
  }
  const int64_t each = (lines + iterations - 1) / iterations;
  if (each > kMostAtOnce) {
    return Err("loop '", step.at, "' runs ", iterations, " times, too few for ", lines, " lines");
  }
  const VarMap later{{step.loop, IndexVar(step.loop) + Expr(ahead)}};
  const Ranges ranges = RangesOf(loops);
  // Fewer lines than iterations: some in a row ask for the same one.
  Expr first = iterations > lines ? FloorDiv(iteration, Expr(iterations / lines)) : iteration * Expr(each);
  std::vector<Stmt> body;
  for (int64_t i = 0; i < each; ++i) {
    Expr position = first + Expr(i);
    VarMap map;
    for (size_t d = digits.size(); d-- > 0;) {
      const Digit& digit = digits[d];
      Expr value = d > 0 ? FloorMod(position, Expr(digit.count)) : position;
      map[digit.iter] = Substitute(digit.min, later) + value * Expr(digit.step);
      position = FloorDiv(position, Expr(digit.count));
    }
    std::vector<Expr> indices;
    for (const Expr& index : load.indices) indices.push_back(Normalized(Substitute(WithoutClamps(index), map), ranges));
    body.push_back(MakeStmt(Evaluate{MakeCall(Op::kPrefetch, {MakeLoad(load.buffer, std::move(indices))})}));
  }
  body.push_back(at.loop().body);
  state.func.body = ReplaceTarget(at, WithBody(at.loop(), MakeSeq(std::move(body))));
  return {};
}

}  // namespace autotune::schedule
