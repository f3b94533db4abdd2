#include "tuner/rule/packing.h"

#include <algorithm>
#include <numeric>

#include "ir/linear_form.h"
#include "ir/visit.h"
#include "support/integer.h"

namespace autotune {
namespace {

int64_t SubscriptsWith(const Load& load, const Name& var) {
  return std::count_if(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return UsesVar(i, var); });
}

// Returns true if a subscript is an iterator plus a constant. The load then reads a slice of the buffer.
bool ReadsPiece(const Block& block, const Load& load) {
  return std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& index) {
    const Binary* sum = index.As<Binary>();
    auto moves = [&](const Expr& e) {
      return std::any_of(block.iters.begin(), block.iters.end(), [&](const Iter& iter) { return IsVar(e, iter.var); });
    };
    return sum && sum->op == BinaryOp::kAdd && moves(sum->a) && AsInt(sum->b);
  });
}

// Returns whether neighbouring values of the iterator read neighbouring elements.
bool IsContiguous(const Expr& index, const Name& iter) {
  const LinearForm form = ToLinear(index);
  const Expr rest = form.Rest();
  return form.Coefficient(iter) == 1 && !(rest && UsesVar(rest, iter));
}

// Adds to `rank` the dimensions of a copy of `operand`: one for each iterator of the block that indexes it. Sets `dim`
// to the dimension of `iter`.
void CountIterators(const Block& block, const Load& operand, const Name& iter, int& rank, int& dim) {
  for (const Iter& each : block.iters) {
    if (SubscriptsWith(operand, each.var) == 0) continue;
    if (each.var == iter) dim = rank;
    ++rank;
  }
}

// Returns the index of the packing block's first loop whose iterator has several values, which is the same wherever the
// block is computed. Returns 0 if there is no such loop around the copied vectors.
size_t FirstShared(const SketchBuilder& s, const Name& packing, const std::vector<Name>& loops, bool panels_inside) {
  const std::vector<BlockView> blocks = s.Blocks();
  const std::vector<Iter>& iters = FindBlock(blocks, packing)->node.As<Block>()->iters;
  // Index of the iterator to which the first loop belongs. The loop of iterator 0, over panels, may have moved inward.
  const size_t first = panels_inside ? 1 : 0;
  for (size_t i = 0; i + 1 < loops.size() && first + i + 1 < iters.size(); ++i) {
    if (const int64_t* extent = AsInt(iters[first + i].extent); !extent || *extent > 1) return i;
  }
  return 0;
}

// Returns the number of rows of a packed panel; 0: not constant. A row of a panel has one element of each column.
int64_t RowsOfPanel(const SketchBuilder& s, const Name& packing) {
  const std::vector<BlockView> blocks = s.Blocks();
  const std::vector<Iter>& iters = FindBlock(blocks, packing)->node.As<Block>()->iters;
  const int64_t* extent = AsInt(iters[iters.size() - 2].extent);
  return extent ? *extent : 0;
}

}  // namespace

std::optional<ColumnOperand> FindColumnOperand(const PrimFunc& func, const BlockView& view, const Name& m_iter,
                                               const Name& n_iter) {
  std::optional<ColumnOperand> operand;
  bool unfit = false;
  ForEachOperand(view, [&](const Load& load) {
    auto param = std::find_if(func.params.begin(), func.params.end(),
                              [&](const Param& p) { return p.buffer->name == load.buffer->name; });
    if (param == func.params.end() || SubscriptsWith(load, n_iter) == 0 || SubscriptsWith(load, m_iter) > 0) return;
    unfit |= operand.has_value();
    operand = ColumnOperand{.buffer = load.buffer, .constant = param->role == ParamRole::kConstant};
    auto plain =
        std::find_if(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return IsVar(i, n_iter); });
    operand->transposed = !view.reduce.empty() && IsVar(load.indices.back(), view.reduce.back().iter);
    const Name k_iter = view.reduce.empty() ? Name() : view.reduce.back().iter;
    operand->by_iterators =
        SubscriptsWith(load, n_iter) > 1 || plain == load.indices.end() || ReadsPiece(*view.node.As<Block>(), load);
    if (operand->by_iterators) {
      CountIterators(*view.node.As<Block>(), load, n_iter, operand->rank, operand->dim);
      int rank = 0;
      if (!k_iter.empty()) CountIterators(*view.node.As<Block>(), load, k_iter, rank, operand->k_dim);
    } else {
      operand->rank = static_cast<int>(load.indices.size());
      operand->dim = static_cast<int>(plain - load.indices.begin());
      const auto k = std::ranges::find_if(load.indices, [&](const Expr& i) { return IsVar(i, k_iter); });
      if (k != load.indices.end()) operand->k_dim = static_cast<int>(k - load.indices.begin());
    }
  });
  // A select may keep the load in bounds. A copy by iterators has no such condition, and would read out of bounds.
  unfit |= operand && operand->by_iterators && HasSelect(view);
  return unfit ? std::nullopt : operand;
}

std::optional<RowOperand> FindRowOperand(const BlockView& view, const Roles& roles) {
  const Block& block = *view.node.As<Block>();
  const Name m_iter = roles.m.iter, k_iter = roles.k.empty() ? Name() : roles.k.back().iter;
  if (m_iter.empty() || k_iter.empty()) return std::nullopt;
  std::optional<RowOperand> operand;
  bool unfit = false;
  ForEachOperand(view, [&](const Load& load) {
    if (SubscriptsWith(load, m_iter) == 0) return;
    unfit |= operand || SubscriptsWith(load, roles.n.iter) > 0 || !IsContiguous(load.indices.back(), k_iter);
    operand = RowOperand{
        .buffer = load.buffer, .is_slice = !IsVar(load.indices.back(), k_iter), .is_conditional = HasSelect(view)};
    CountIterators(block, load, m_iter, operand->rank, operand->m_dim);
    // k must also be the last dimension of the copy.
    unfit |= block.iters.back().var != k_iter && SubscriptsWith(load, block.iters.back().var) > 0;
    int64_t stride = load.buffer->dtype.Bytes();
    for (size_t d = load.indices.size(); d-- > 0;) {
      if (IsVar(load.indices[d], m_iter)) operand->row_bytes = stride;
      const int64_t* extent = AsInt(load.buffer->shape[d]);
      unfit |= !extent;
      stride *= extent ? *extent : 1;
    }
  });
  return unfit ? std::nullopt : operand;
}

Status CheckGroups(const Roles& roles, const std::optional<ColumnOperand>& columns,
                   const std::optional<RowOperand>& rows, int64_t lanes, int64_t group) {
  constexpr int64_t kFewestLanes = 4;  // the shortest vector of sums
  if (lanes < kFewestLanes || !columns || columns->k_dim < 0)
    return Err("no columns have the steps of the sum in one dimension");
  if (!rows) return Err("the other operand does not have the steps of the sum side by side");
  if (roles.k.back().extent % group != 0) return Err("the sum has no whole number of groups");
  return {};
}

Result<StreamedPanels> ChooseStreamedPanels(SketchBuilder& s, const BlockView::Loop& n, int64_t lanes) {
  const int64_t vectors = CeilDiv(n.extent, lanes);  // of all columns, the most of any choice
  // A search measures them all; wider panels or more of them do not fit the registers [chosen].
  std::vector<int64_t> widths, counts;
  for (const int64_t width : {1, 2, 4})
    if (width <= vectors) widths.push_back(width * lanes);
  for (const int64_t count : {1, 2, 3, 4, 6, 8})
    if (count <= vectors) counts.push_back(count);
  StreamedPanels panels;
  panels.width = TRY(s.Choose(n.var.str() + "_panel", widths));
  panels.count = TRY(s.Choose(n.var.str() + "_panels", counts));
  return panels;
}

bool DependsOn(const BlockView& block, const Buffer& operand, const BlockView::Loop& loop) {
  bool depends = false;
  ForEachOperand(block, [&](const Load& load) {
    depends |= load.buffer->name == operand->name && SubscriptsWith(load, loop.iter) > 0;
  });
  return depends;
}

ColumnModel ModelOf(const BlockView& block, const ColumnOperand& operand, int64_t group) {
  ColumnModel model{.bytes = operand.buffer->dtype.Bytes() * group};
  for (const BlockView::Loop& loop : block.reduce)
    model.held *= DependsOn(block, operand.buffer, loop) ? 1 : loop.extent;
  // The instruction for groups widens the elements.
  const auto converts = [&](const Expr& e) { return e.As<Binary>() || (e.As<Cast>() && group == 1); };
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    int columns = 0, others = 0;
    Walk(e, [&](const Expr& part) {
      if (const Load* load = part.As<Load>()) ++(load->buffer.Same(operand.buffer) ? columns : others);
      return true;
    });
    model.conversions += columns > 0 && others == 0 && converts(e);
    return true;
  });
  return model;
}

Result<Name> PackColumns(SketchBuilder& s, const Name& block, const ColumnOperand& operand, const IntArg& width,
                         int64_t group) {
  const Name& buffer = operand.buffer->name;
  std::vector<Name> made = operand.by_iterators
                               ? TRY(s.Do(Reindex{.block = block, .buffer = buffer}))
                               : TRY(s.Do(CacheRead{.block = block, .buffer = buffer, .scope = Scope::kGlobal}));
  const Name packing = made.front();
  IndexMap map;
  // The groups of a grouped convolution stay outermost, so that the panels of a group are neighbours.
  const int64_t outer = operand.by_iterators ? operand.dim : 0;
  for (int64_t d = 0; d < outer; ++d) map.dims.push_back({d, 1, 0});
  map.dims.push_back({operand.dim, width, 0});
  for (int64_t d = outer; d < operand.rank; ++d) {
    if (d != operand.dim && (group == 1 || d != operand.k_dim)) map.dims.push_back({d, 1, 0});
  }
  if (group > 1) map.dims.push_back({operand.k_dim, group, 0});
  map.dims.push_back({operand.dim, 1, width});
  if (group > 1) map.dims.push_back({operand.k_dim, 1, group});
  TRY(s.Do(TransformLayout{.buffer = packing, .map = map}));
  s.Place(packing);
  return packing;
}

Result<Name> PackRows(SketchBuilder& s, const Name& block, const RowOperand& operand, const IntArg& height,
                      const IntArg& piece) {
  Name packing = TRY(s.Do(Reindex{.block = block, .buffer = operand.buffer->name})).front();
  const int64_t k_dim = operand.rank - 1;
  IndexMap map{{{operand.m_dim, height, 0}}};
  for (int64_t d = 0; d < k_dim; ++d) {
    if (d != operand.m_dim) map.dims.push_back({d, 1, 0});
  }
  map.dims.push_back({k_dim, piece, 0});
  map.dims.push_back({operand.m_dim, 1, height});
  map.dims.push_back({k_dim, 1, piece});
  TRY(s.Do(TransformLayout{.buffer = packing, .map = map}));
  s.Place(packing);
  return packing;
}

Result<Choice> PlacePacked(SketchBuilder& s, const Name& packing, int64_t deepest, Packing kind, int64_t lanes) {
  std::vector<int64_t> depths(static_cast<size_t>(deepest) + 2);
  std::iota(depths.begin(), depths.end(), -1);
  Choice at = TRY(s.ChooseLocation(packing, depths));
  std::vector<Name> loops = TRY(s.Do(ComputeAt{.block = packing, .loop = at.name}));
  Name vector = loops.back();
  loops.pop_back();
  Name unrolled = loops.back();
  const bool in_squares = kind == Packing::kTransposedColumns && RowsOfPanel(s, packing) % lanes == 0;
  const bool panels_inside = kind != Packing::kRows && kind != Packing::kGroups && !in_squares;
  if (in_squares) {
    auto [squares, row] = TRY(s.Split(loops.back(), {kAuto, lanes}));
    auto [vectors, within] = TRY(s.Split(vector, {kAuto, lanes}));
    loops.back() = vectors;
    TRY(s.Order({loops, squares, row, within}));
    unrolled = row, vector = within;
  } else if (panels_inside) {
    // Moves the loop over panels inward, so that the copy reads whole rows of the operand, one after the other. Panel
    // by panel, it would read short pieces that lie pages apart.
    std::rotate(loops.begin(), loops.begin() + 1, loops.end());
    TRY(s.Order({loops, vector}));
    auto [vectors, within] = TRY(s.Split(vector, {kAuto, lanes}));
    unrolled = vectors, vector = within;
  }
  // The copy also writes the padding of the last tile, so that its readers need no guards.
  TRY(s.Do(PadBlock{.block = packing}));
  TRY(s.Do(Vectorize{.loop = vector}));
  TRY(s.Unroll(unrolled));
  // Fuses the loops down to the first one with several iterations into a parallel loop, since loops of one iteration,
  // such as a batch of one, give the cores nothing to share. Inside another parallel loop it stays serial.
  loops.resize(FirstShared(s, packing, loops, panels_inside) + 1);
  TRY(s.Parallel(loops));
  return at;
}

}  // namespace autotune
