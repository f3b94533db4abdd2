#include <algorithm>

#include "schedule/region.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

struct LayoutDigit {
  size_t place;      // position in the new layout
  int64_t div, mod;  // mod 0: none
};

// Returns the digits of each old dimension, smallest place value first. An error if they are not a mixed-radix system.
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
    // Sorts by place value. A digit with mod 1 has the same place value as the next digit. If the next digit has no
    // mod, the digit with mod 1 must come first.
    std::stable_sort(list.begin(), list.end(), [](const LayoutDigit& a, const LayoutDigit& b) {
      return a.div != b.div ? a.div < b.div : a.mod != 0 && b.mod == 0;
    });
    int64_t next = 1;
    for (size_t i = 0; i < list.size(); ++i) {
      bool last = i + 1 == list.size();
      if (list[i].div != next || (list[i].mod == 0) != last) {
        return Err("the terms of d", d,
                   " are not its digits: each div must be the product of the smaller mods, and only the largest digit "
                   "has no mod");
      }
      next *= list[i].mod;
    }
    if (list.empty()) return Err("the new layout lacks d", d);
  }
  return digits;
}

// A buffer before and after the step.
struct NewLayout {
  Buffer old, buffer;
  std::vector<int64_t> old_shape, shape;
  std::vector<std::vector<LayoutDigit>> digits;  // by old dimension
  std::vector<bool> padded;                      // by old dimension: whether the new layout has more elements

  bool IsPadded() const { return std::find(padded.begin(), padded.end(), true) != padded.end(); }
};

Result<Buffer> BufferToChange(const State& state, const Name& name) {
  const Buffer* found = FindBuffer(state.func, name);
  if (!found) return Err("there is no buffer '", name, "'");
  if (!IsAlloc(state.func, name)) {
    return Err("buffer '", name, "' is a parameter, whose layout its caller fixes; cache it first");
  }
  const Buffer& buffer = *found;
  for (const Expr& extent : buffer->shape) {
    if (!AsInt(extent)) return Err("buffer '", name, "' has a symbolic extent");
  }
  if (!buffer->strides.empty()) return Err("buffer '", name, "' has strides of its own");
  if (!buffer->dim_align.empty()) {
    return Err("the strides of buffer '", name, "' are aligned already: transform_layout before storage_align");
  }
  return buffer;
}

Result<NewLayout> LayoutOf(const State& state, const TransformLayout& step) {
  NewLayout layout;
  layout.old = TRY(BufferToChange(state, step.buffer));
  layout.old_shape = ConstShape(layout.old);
  const size_t dims = layout.old_shape.size();
  layout.digits = TRY(LayoutDigitsOf(state, step.map, dims));
  layout.shape.resize(step.map.dims.size());
  layout.padded.resize(dims);
  for (size_t d = 0; d < dims; ++d) {
    for (const LayoutDigit& digit : layout.digits[d]) {
      layout.shape[digit.place] = digit.mod ? digit.mod : (layout.old_shape[d] + digit.div - 1) / digit.div;
    }
    layout.padded[d] = layout.old_shape[d] % layout.digits[d].back().div != 0;
  }
  auto* cell = new BufferCell;
  cell->name = layout.old->name;
  cell->dtype = layout.old->dtype;
  for (int64_t extent : layout.shape) cell->shape.push_back(Expr(extent));
  cell->scope = layout.old->scope;
  cell->alignment = layout.old->alignment;
  layout.buffer = Buffer(cell);
  return layout;
}

std::vector<Expr> NewIndices(const NewLayout& layout, const std::vector<Expr>& indices, const Ranges& ranges) {
  std::vector<Expr> result(layout.shape.size());
  for (size_t d = 0; d < indices.size(); ++d) {
    for (const LayoutDigit& digit : layout.digits[d]) {
      Expr e = FloorDiv(indices[d], Expr(digit.div));
      if (digit.mod) e = FloorMod(e, Expr(digit.mod));
      result[digit.place] = Normalized(e, ranges);
    }
  }
  return result;
}

// Returns the block with its accesses to the old buffer replaced.
Block WithNewIndices(const NewLayout& layout, Block block) {
  Ranges ranges;
  for (const Iter& iter : block.iters) {
    if (AsInt(iter.extent)) ranges.push_back({iter.var, *AsInt(iter.extent)});
  }
  auto on_expr = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name != layout.old->name) return e;
    return MakeLoad(layout.buffer, NewIndices(layout, load->indices, ranges));
  };
  auto on_stmt = [&](const Stmt& s) {
    const Store* store = s.As<Store>();
    if (!store || store->buffer->name != layout.old->name) return s;
    return MakeStmt(Store{layout.buffer, NewIndices(layout, store->indices, ranges), store->value});
  };
  if (block.init) block.init = RewriteStmt(block.init, on_stmt, on_expr);
  block.body = RewriteStmt(block.body, on_stmt, on_expr);
  return block;
}

// Returns the store of `writer` at element `v` of the new layout. Elements beyond the old buffer get `pad_value`.
Store StoreAt(const NewLayout& layout, const Block& writer, const std::vector<Expr>& v, double pad_value) {
  const Store& store = *SingleStore(writer);
  const std::vector<size_t> iters = *AsIterators(store.indices, writer);
  VarMap map;
  Expr inside;
  for (size_t d = 0; d < layout.digits.size(); ++d) {
    LinearForm sum;
    const std::vector<LayoutDigit>& digits = layout.digits[d];
    for (size_t i = digits.size(); i-- > 0;) sum.Add(v[digits[i].place], digits[i].div);
    Expr index = sum.InOrder();
    map[writer.iters[iters[d]].var] = index;
    if (!layout.padded[d]) continue;
    Expr condition = index < Expr(layout.old_shape[d]);
    inside = inside ? And(inside, condition) : condition;
  }
  Expr value = Substitute(store.value, map);
  if (inside) value = MakeSelect(inside, value, ConstOf(pad_value, layout.old->dtype));
  return Store{layout.buffer, v, value};
}

// Replaces the writer's nest by a nest over the elements of the new layout. `place` is the index of the nest among the
// top-level statements.
Status RebuildWriter(State& state, TransformLayout& step, const NewLayout& layout, const Block& writer, size_t place) {
  step.results = TRY(ResultNames(step.results.names, LoopNames(writer.name, layout.shape.size())));
  std::vector<Stmt> roots = RootStmts(state.func.body);
  roots[place] = MakeSeq({});
  state.func.body = MakeSeq(roots);
  TRY(CheckNewVars(state.func, step.results.names));
  roots[place] = MakeNest(state.func, writer.name, layout.shape, step.results.names,
                          [&](const std::vector<Expr>& v) { return StoreAt(layout, writer, v, step.pad_value); });
  state.func.body = MakeSeq(std::move(roots));
  return CheckSourcesCover(state, writer.name);
}

}  // namespace

// Legal for intermediate buffers with constant extents and default strides. If the new layout needs padding, the
// buffer's only writer must be rebuilt (`rebuild`), so that it fills the padding.
Status ApplyStep(State& state, TransformLayout& step) {
  const NewLayout layout = TRY(LayoutOf(state, step));
  const Name& name = layout.old->name;
  std::vector<Name> writers = WritersOf(state.func.body, name);
  if (writers.empty()) return Err("nothing writes buffer '", name, "'");
  const std::vector<Stmt> roots = RootStmts(state.func.body);
  const size_t place = RootIndexOf(roots, writers[0]);
  size_t blocks = 0;
  Block writer;
  ForEachBlock(roots[place], [&](const Block& b, const auto&) {
    ++blocks;
    if (b.name == writers[0]) writer = b;
  });
  const bool rebuild = writers.size() == 1 && blocks == 1 && IsPlainSpatial(writer);
  if (!rebuild && layout.IsPadded()) {
    return Err("the new layout does not divide the sizes of buffer '", name, "', and block '", writers[0],
               "' cannot pad it: it is not a copy in loops of its own");
  }
  state.func.body = RewriteBlocks(state.func.body, [&](const Block& block, const Ranges&) {
    if (rebuild && block.name == writers[0]) return Stmt();
    if (!Reads(block, name) && !Writes(block, name)) return Stmt();
    return MakeStmt(WithNewIndices(layout, block));
  });
  ReplaceAlloc(state.func, layout.buffer);
  if (rebuild) return RebuildWriter(state, step, layout, writer, place);
  step.results = TRY(ResultNames(step.results.names, {}));
  return {};
}

}  // namespace autotune::schedule
