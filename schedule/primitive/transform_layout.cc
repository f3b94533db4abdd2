#include <algorithm>

#include "schedule/region.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

struct LayoutDigit {
  size_t place;      // in the new layout
  int64_t div, mod;  // mod 0: none
};

// Of each old dimension, its digits, smallest first; an error if they are not a mixed-radix system.
Result<std::vector<std::vector<LayoutDigit>>> LayoutDigitsOf(const State& state, const IndexMap& map, size_t dims) {
  std::vector<std::vector<LayoutDigit>> digits(dims);
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const DimTerm& term = map.dims[i];
    if (term.dim < 0 || term.dim >= static_cast<int64_t>(dims)) {
      return Err("the buffer has dimensions d0 to d", static_cast<int64_t>(dims) - 1, ", not d", term.dim);
    }
    int64_t div = TRY(state.Value(term.div)), mod = TRY(state.Value(term.mod));
    if (div < 1 || mod < 0 || div > (int64_t{1} << 30) || mod > (int64_t{1} << 30)) {
      return Err("a factor of d", term.dim, " is out of range");
    }
    digits[term.dim].push_back({i, div, mod});
  }
  for (size_t d = 0; d < dims; ++d) {
    std::vector<LayoutDigit>& list = digits[d];
    // By place value; of two equal ones (a digit of one value) the bounded one is the smaller.
    std::stable_sort(list.begin(), list.end(), [](const LayoutDigit& a, const LayoutDigit& b) {
      return a.div != b.div ? a.div < b.div : a.mod != 0 && b.mod == 0;
    });
    int64_t next = 1;
    for (size_t i = 0; i < list.size(); ++i) {
      bool last = i + 1 == list.size();
      if (list[i].div != next || (list[i].mod == 0) != last) {
        return Err("the terms of d", d, " are not its digits: each starts where the one below ends, the last is open");
      }
      next *= list[i].mod;
    }
    if (list.empty()) return Err("the new layout lacks d", d);
  }
  return digits;
}

}  // namespace

// Legal for intermediate buffers.
Status ApplyStep(State& state, TransformLayout& step) {
  const Buffer* found = FindBuffer(state.func, step.buffer);
  if (!found) return Err("there is no buffer '", step.buffer, "'");
  if (!IsAlloc(state.func, step.buffer)) {
    return Err("buffer '", step.buffer, "' is a parameter, whose layout its caller fixes; cache it first");
  }
  Buffer old = *found;
  for (const Expr& extent : old->shape) {
    if (!AsInt(extent)) return Err("buffer '", old->name, "' has a symbolic extent");
  }
  if (!old->strides.empty()) return Err("buffer '", old->name, "' has strides of its own");
  if (!old->dim_align.empty()) {
    return Err("the strides of buffer '", old->name, "' are aligned already: transform_layout before storage_align");
  }
  std::vector<int64_t> shape = ConstShape(old);
  std::vector<std::vector<LayoutDigit>> digits = TRY(LayoutDigitsOf(state, step.map, shape.size()));
  std::vector<int64_t> new_shape(step.map.dims.size());
  std::vector<bool> padded(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    for (const LayoutDigit& digit : digits[d]) {
      new_shape[digit.place] = digit.mod ? digit.mod : (shape[d] + digit.div - 1) / digit.div;
    }
    padded[d] = shape[d] % digits[d].back().div != 0;
  }
  auto* cell = new BufferCell;
  cell->name = old->name;
  cell->dtype = old->dtype;
  for (int64_t extent : new_shape) cell->shape.push_back(Expr(extent));
  cell->scope = old->scope;
  cell->alignment = old->alignment;
  Buffer buffer(cell);

  std::vector<Name> writers = WritersOf(state.func.body, old->name);
  if (writers.empty()) return Err("nothing writes buffer '", old->name, "'");
  std::vector<Stmt> roots = RootStmts(state.func.body);
  size_t place = RootIndexOf(roots, writers[0]), blocks = 0;
  Block writer;
  ForEachBlock(roots[place], [&](const Block& b, const auto&) {
    ++blocks;
    if (b.name == writers[0]) writer = b;
  });
  bool rebuild = writers.size() == 1 && blocks == 1 && IsPlainSpatial(writer);
  if (!rebuild && std::find(padded.begin(), padded.end(), true) != padded.end()) {
    return Err("the sizes of buffer '", old->name, "' do not divide, and block '", writers[0],
               "' cannot pad it: it is not a copy in loops of its own");
  }

  auto new_indices = [&](const std::vector<Expr>& indices, const Ranges& ranges) {
    std::vector<Expr> result(new_shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      for (const LayoutDigit& digit : digits[d]) {
        Expr e = FloorDiv(indices[d], Expr(digit.div));
        if (digit.mod) e = FloorMod(e, Expr(digit.mod));
        result[digit.place] = Normalized(e, ranges);
      }
    }
    return result;
  };
  state.func.body = RewriteBlocks(state.func.body, [&](const Block& block, const Ranges&) {
    if (rebuild && block.name == writers[0]) return Stmt();
    if (!Reads(block, old->name) && !Writes(block, old->name)) return Stmt();
    Ranges ranges;
    for (const Iter& iter : block.iters) {
      if (AsInt(iter.extent)) ranges.push_back({iter.var, *AsInt(iter.extent)});
    }
    auto on_expr = [&](const Expr& e) {
      const Load* load = e.As<Load>();
      return load && load->buffer->name == old->name ? MakeLoad(buffer, new_indices(load->indices, ranges)) : e;
    };
    auto on_stmt = [&](const Stmt& s) {
      const Store* store = s.As<Store>();
      if (!store || store->buffer->name != old->name) return s;
      return MakeStmt(Store{buffer, new_indices(store->indices, ranges), store->value});
    };
    Block changed = block;
    if (changed.init) changed.init = RewriteStmt(changed.init, on_stmt, on_expr);
    changed.body = RewriteStmt(changed.body, on_stmt, on_expr);
    return MakeStmt(std::move(changed));
  });
  ReplaceAlloc(state.func, buffer);

  if (!rebuild) {
    step.results = TRY(ResultNames(step.results.names, {}));
    return {};
  }
  std::vector<Name> names = LoopNames(writer.name, new_shape.size());
  step.results = TRY(ResultNames(step.results.names, names));
  roots = RootStmts(state.func.body);
  roots[place] = MakeSeq({});
  state.func.body = MakeSeq(roots);
  TRY(CheckNewVars(state.func, step.results.names));
  const Store& store = *SingleStore(writer);
  std::vector<size_t> iters = *AsIterators(store.indices, writer);
  roots[place] = MakeNest(state.func, writer.name, new_shape, step.results.names, [&](const std::vector<Expr>& v) {
    VarMap map;
    Expr inside;
    Ranges ranges;
    for (size_t i = 0; i < v.size(); ++i) ranges.push_back({v[i].As<Var>()->name, new_shape[i]});
    for (size_t d = 0; d < shape.size(); ++d) {
      Sum sum;
      for (size_t i = digits[d].size(); i-- > 0;) sum.AddTerm(v[digits[d][i].place], digits[d][i].div);
      Expr index = ToExpr(sum);
      map[writer.iters[iters[d]].var] = index;
      if (!padded[d]) continue;
      Expr condition = index < Expr(shape[d]);
      inside = inside ? And(inside, condition) : condition;
    }
    Expr value = Substitute(store.value, map);
    if (inside) value = MakeSelect(inside, value, ConstOf(step.pad_value, old->dtype));
    return Store{buffer, v, value};
  });
  state.func.body = MakeSeq(std::move(roots));
  return CheckSourcesCover(state, writer.name);
}

}  // namespace autotune::schedule
