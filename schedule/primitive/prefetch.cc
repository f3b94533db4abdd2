// prefetch: prefetches the data of a later iteration of a loop, spread over the iterations of a loop inside it.
#include <algorithm>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "schedule/nest.h"
#include "schedule/region.h"
#include "support/integer.h"

namespace autotune::schedule {
namespace {

constexpr int64_t kLineBytes = 64;  // size of a cache line
// Half of an L1 data cache of 32 KiB. Prefetches of more bytes go to the L2 cache.
constexpr int64_t kFarBytes = 16 << 10;

// The lines to prefetch are numbered in a mixed radix. This is one digit of such a number. Either each digit stands for
// an iterator of the block, or each digit stands for a stride in memory. A digit has `count` values, which are `step`
// apart. The values of an iterator begin at `min`. The digit of a stride has neither `iter` nor `min`.
struct LineDigit {
  Name iter;
  Expr min;
  int64_t count = 1, step = 1;
};

// Replaces min(index, constant), which padding makes of an index, by the index, since a clamped index is not a linear
// function of the loops. A prefetched address need not be exact.
Expr WithoutClamps(const Expr& e) {
  const Binary* binary = e.As<Binary>();
  if (binary && binary->op == BinaryOp::kMin && AsInt(binary->b)) return WithoutClamps(binary->a);
  return MapChildren(e, WithoutClamps);
}

struct Access {
  Load where;
  bool written = false;
};

// Returns the one access of the block to the buffer. An error if there is none, or more than one.
Result<Access> OnlyAccess(const Block& block, const Name& buffer) {
  std::vector<Expr> found;
  bool written = false;
  auto add = [&](const Buffer& accessed, const std::vector<Expr>& indices) {
    if (accessed->name != buffer) return;
    Expr e = MakeLoad(accessed, indices);
    bool known = std::any_of(found.begin(), found.end(), [&](const Expr& f) { return autotune::Equal(f, e); });
    if (!known) found.push_back(e);
  };
  ForEachStore(block, [&](const Store& store) {
    written |= store.buffer->name == buffer;
    add(store.buffer, store.indices);
  });
  ForEachLoad(block, [&](const Load& load) { add(load.buffer, load.indices); });
  if (found.empty()) return Err("block '", block.name, "' does not access buffer '", buffer, "'");
  if (found.size() > 1) return Err("block '", block.name, "' accesses buffer '", buffer, "' at several places");
  if (UsesLoopInside(block, found[0])) {
    return Err("block '", block.name, "' accesses buffer '", buffer, "' inside a loop of its own");
  }
  const Load& load = *found[0].As<Load>();
  if (!HasConstShape(load.buffer)) return Err("buffer '", buffer, "' has a symbolic extent; this step needs constants");
  return Access{load, written};
}

// Returns a digit for each iterator that the load uses, in the order of the dimensions. The iterator of the contiguous
// dimension is the last digit, and its step is a cache line. `start` maps the loops inside the loop that prefetches to
// their first iteration.
Result<std::vector<LineDigit>> LineDigitsOf(const Block& block, const Load& load, const RegionMap& regions,
                                            const VarMap& start) {
  const int64_t bytes = load.buffer->dtype.Bytes();
  if (load.indices.empty()) return Err("buffer '", load.buffer->name, "' is one element; there is nothing to prefetch");
  Expr along = WithoutClamps(load.indices.back());
  int64_t piece = kLineBytes / bytes;
  if (const Binary* mod = along.As<Binary>(); mod && mod->op == BinaryOp::kFloorMod && AsInt(mod->b)) {
    piece = std::min(piece, *AsInt(mod->b));
    along = mod->a;
  }
  const Var* contiguous = along.As<Var>();
  if (!contiguous) {
    return Err("the last index of buffer '", load.buffer->name,
               "' is no iterator, so the contiguous elements are not known");
  }
  std::vector<LineDigit> digits, last;
  for (const Expr& index : load.indices) {
    Walk(index, [&](const Expr& e) {
      const Var* var = e.As<Var>();
      if (!var) return true;
      auto& list = var->name == contiguous->name ? last : digits;
      bool known = std::any_of(list.begin(), list.end(), [&](const LineDigit& d) { return d.iter == var->name; });
      if (!known) list.push_back({.iter = var->name});
      return true;
    });
  }
  digits.insert(digits.end(), last.begin(), last.end());
  for (LineDigit& digit : digits) {
    auto region = std::find_if(regions.begin(), regions.end(), [&](const auto& r) { return r.first == digit.iter; });
    if (region == regions.end()) {  // unknown region: uses the iterator's current value only
      auto iter =
          std::find_if(block.iters.begin(), block.iters.end(), [&](const Iter& i) { return i.var == digit.iter; });
      digit.min = Substitute(iter->binding, start);
      continue;
    }
    digit.min = region->second.min.InOrder();
    digit.count = region->second.span + 1;
  }
  digits.back().step = piece;
  digits.back().count = CeilDiv(digits.back().count, piece);
  return digits;
}

// The lines to prefetch, as distances from a base address. If a loop was fused from several dimensions, or windows
// overlap, the box around the iterators' values is several times larger than the set of elements that are read. Lines
// counted by address are then fewer than lines counted by iterator.
struct Walked {
  Expr base;                      // the address in the first iteration of all running loops, in elements
  std::vector<LineDigit> digits;  // digits of strides, longest step first
};

// Merges an outer digit with the inner one, from the innermost digit outwards, if the ranges of memory that the inner
// digit covers touch or overlap from one value of the outer digit to the next. Returns nothing if the ranges overlap
// and the outer step is not a multiple of the inner step.
std::optional<std::vector<LineDigit>> Merged(const std::vector<LineDigit>& digits) {
  std::vector<LineDigit> merged = {digits.back()};
  for (size_t d = digits.size() - 1; d-- > 0;) {
    const LineDigit& digit = digits[d];
    LineDigit& inner = merged.front();
    if (digit.count == 1) continue;
    if (digit.step % inner.step == 0 && digit.step / inner.step <= inner.count) {
      inner.count += digit.step / inner.step * (digit.count - 1);
    } else if (digit.step >= inner.step * inner.count) {
      merged.insert(merged.begin(), digit);
    } else {
      return std::nullopt;
    }
  }
  return merged;
}

// Returns the lines that `load` reads in one iteration of loop `moved`, by address. Leaves out lines that it also reads
// in the previous iteration. Returns nothing if the address is not a linear function of the loops `running`.
std::optional<Walked> WalkedBy(const Block& block, const Load& load, const Name& moved, const Ranges& running,
                               const Analyzer& analyzer) {
  VarMap bindings;
  for (const Iter& iter : block.iters) bindings[iter.var] = iter.binding;
  if (!load.buffer->strides.empty() || load.indices.empty()) return std::nullopt;
  const std::vector<int64_t> strides = StridesOf(ConstShape(load.buffer), load.buffer->dim_align);
  Expr address(0);
  for (size_t d = 0; d < load.indices.size(); ++d) {
    address = address + analyzer.Simplify(Substitute(WithoutClamps(load.indices[d]), bindings)) * Expr(strides[d]);
  }
  LinearForm form = ToLinear(analyzer.Simplify(address));
  const Expr rest = form.Rest();
  if (rest && UsesAny(rest, running)) return std::nullopt;
  const int64_t line = kLineBytes / load.buffer->dtype.Bytes();
  int64_t side_by_side = 1;
  std::vector<LineDigit> digits;
  for (const LoopRange& loop : running) {
    int64_t step = form.Coefficient(loop.var);
    if (step < 0) return std::nullopt;
    if (step >= line) {
      digits.push_back({.count = loop.extent, .step = step});
    } else {
      side_by_side += step * (loop.extent - 1);
    }
  }
  std::stable_sort(digits.begin(), digits.end(),
                   [](const LineDigit& a, const LineDigit& b) { return a.step > b.step; });
  digits.push_back({.count = CeilDiv(side_by_side, line), .step = line});
  std::optional<std::vector<LineDigit>> merged = Merged(digits);
  if (!merged) return std::nullopt;
  Walked walked{rest ? rest + Expr(form.constant) : Expr(form.constant), std::move(*merged)};
  for (const auto& [var, step] : form.Variables()) {
    if (!ExtentOf(running, var)) walked.base = walked.base + IndexVar(var) * Expr(step);
  }
  LineDigit& outer = walked.digits.front();
  const int64_t by = form.Coefficient(moved) / outer.step;
  if (form.Coefficient(moved) % outer.step == 0 && by > 0 && by < outer.count) {
    walked.base = walked.base + Expr((outer.count - by) * outer.step);
    outer.count = by;
  }
  return walked;
}

int64_t Lines(const std::vector<LineDigit>& digits) {
  int64_t lines = 1;
  for (const LineDigit& digit : digits) lines *= digit.count;
  return lines;
}

// Locates the line with the number `position`. Stores the values of the digits' iterators in `values`; `later` is
// substituted in them. Returns the sum of the digits' values without `min`. For digits of strides, this sum is the
// distance of the line from the base address, in elements.
Expr Located(const std::vector<LineDigit>& digits, Expr position, const VarMap& later, VarMap& values) {
  Expr sum(0);
  for (size_t d = digits.size(); d-- > 0;) {
    const LineDigit& digit = digits[d];
    // The outermost digit needs no modulo: a position beyond the last line may give any address.
    const bool carries = std::any_of(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(d),
                                     [](const LineDigit& outer) { return outer.count > 1; });
    Expr step = (carries ? FloorMod(position, Expr(digit.count)) : position) * Expr(digit.step);
    if (digit.min) values[digit.iter] = Substitute(digit.min, later) + step;
    sum = sum + step;
    position = carries ? FloorDiv(position, Expr(digit.count)) : Expr(0);
  }
  return sum;
}

}  // namespace

// Legal if the elements that the later iteration accesses are known. A prefetch changes no value.
Status ApplyStep(State& state, Prefetch& step) {
  const int64_t ahead = TRY(state.Value(step.ahead));
  if (ahead < 0) return Err("ahead must be 0 iterations or more, not ", ahead);
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
  const Ranges ranges = RangesOf(loops);
  VarMap start;
  for (size_t i = to + 1; i < loops.size(); ++i) start[loops[i]->var] = Expr(0);
  auto [load, written] = TRY(OnlyAccess(block, step.buffer));
  Analyzer analyzer;
  for (const LoopRange& loop : ranges) analyzer.Bind(loop.var, 0, loop.extent - 1);
  std::optional<Walked> walked = WalkedBy(block, load, step.loop, running, analyzer);
  Result<std::vector<LineDigit>> boxed = LineDigitsOf(block, load, IterRegions(block, running, fixed), start);
  if (boxed.ok() && walked && Lines(*boxed) <= Lines(walked->digits)) walked.reset();
  std::vector<LineDigit> digits = walked ? std::move(walked->digits) : TRY(std::move(boxed));

  state.prefetches = true;
  if (ahead == 0) return {};

  const int64_t lines = Lines(digits);
  int64_t iterations = 1;
  Expr iteration(0);
  for (size_t i = from + 1; i <= to; ++i) {
    if (loops[i]->kind == LoopKind::kVectorized) return Err("loop '", loops[i]->var, "' is vectorized");
    int64_t extent = TRY(ConstExtent(*loops[i]));
    iteration = iteration * Expr(extent) + IndexVar(loops[i]->var);
    iterations *= extent;
  }
  const int64_t each = CeilDiv(lines, iterations);
  const VarMap later{{step.loop, IndexVar(step.loop) + Expr(ahead)}};
  // If there are fewer lines than iterations, several iterations in a row prefetch the same line.
  Expr first = iterations > lines ? FloorDiv(iteration, Expr(iterations / lines)) : iteration * Expr(each);
  const bool far = lines * ahead * kLineBytes > kFarBytes;
  const Op hint = written ? Op::kPrefetchWrite : far ? Op::kPrefetchFar : Op::kPrefetch;
  std::vector<Stmt> body;
  for (int64_t i = 0; i < std::min(each, Nest::Prefetch::kMostLines); ++i) {  // i: position in this iteration's share
    VarMap values;
    Expr place = Located(digits, first + Expr(i), later, values);
    std::vector<Expr> indices;
    if (walked) {
      indices.assign(load.indices.size(), Expr(0));  // the last index is the whole address, even outside the buffer
      indices.back() = Normalized(Substitute(walked->base, later) + place, ranges);
    } else {
      for (const Expr& index : load.indices)
        indices.push_back(Normalized(Substitute(WithoutClamps(index), values), ranges));
    }
    body.push_back(MakeStmt(Evaluate{MakeCall(hint, {MakeLoad(load.buffer, std::move(indices))})}));
  }
  body.push_back(at.loop().body);
  For asking = at.loop();
  asking.annotations[kPrefetchOf + step.block.str() + " " + step.buffer.str() + " " + step.loop.str()] = ahead;
  asking.body = MakeSeq(std::move(body));
  state.func.body = ReplaceTarget(at, MakeStmt(std::move(asking)));
  return {};
}

}  // namespace autotune::schedule
