#include "tuner/rule/packing.h"

#include <algorithm>

#include "ir/visit.h"

namespace autotune {

std::optional<ColumnOperand> FindColumnOperand(const PrimFunc& func, const BlockView& view, const Name& m_iter,
                                               const Name& n_iter) {
  const Block& block = *view.node.As<Block>();
  std::optional<ColumnOperand> operand;
  bool unfit = false, conditional = false;
  Walk(block.body, nullptr, [&](const Expr& e) {
    conditional |= e.As<Select>() != nullptr;
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name == view.writes) return true;
    auto param = std::find_if(func.params.begin(), func.params.end(),
                              [&](const Param& p) { return p.buffer->name == load->buffer->name; });
    if (param == func.params.end()) return true;
    auto uses = [&](const Name& var) {
      return std::count_if(load->indices.begin(), load->indices.end(), [&](const Expr& i) { return UsesVar(i, var); });
    };
    if (uses(n_iter) == 0 || uses(m_iter) > 0) return true;
    unfit |= operand.has_value();
    operand = ColumnOperand{.buffer = load->buffer, .constant = param->role == ParamRole::kConstant};
    auto plain =
        std::find_if(load->indices.begin(), load->indices.end(), [&](const Expr& i) { return IsVar(i, n_iter); });
    operand->by_iterators = uses(n_iter) > 1 || plain == load->indices.end();
    if (!operand->by_iterators) {
      operand->rank = static_cast<int>(load->indices.size());
      operand->dim = static_cast<int>(plain - load->indices.begin());
      return true;
    }
    for (const Iter& iter : block.iters) {
      if (!uses(iter.var)) continue;
      if (iter.var == n_iter) operand->dim = operand->rank;
      ++operand->rank;
    }
    return true;
  });
  // A condition may be what keeps the load in bounds, so that its elements cannot all be copied.
  unfit |= conditional && operand && operand->by_iterators;
  return unfit ? std::nullopt : operand;
}

std::optional<RowOperand> FindRowOperand(const BlockView& view, const Name& m_iter, const Name& n_iter,
                                         const Name& k_iter) {
  const Block& block = *view.node.As<Block>();
  if (m_iter.empty() || k_iter.empty()) return std::nullopt;
  std::optional<RowOperand> operand;
  bool unfit = false;
  Walk(block.body, nullptr, [&](const Expr& e) {
    unfit |= e.As<Select>() != nullptr;  // a condition may be what keeps the load in bounds
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name == view.writes || load->indices.empty()) return true;
    auto uses = [&](const Name& var) {
      return std::any_of(load->indices.begin(), load->indices.end(), [&](const Expr& i) { return UsesVar(i, var); });
    };
    if (!uses(m_iter)) return true;
    unfit |= operand || uses(n_iter) || !IsVar(load->indices.back(), k_iter);
    operand = RowOperand{.buffer = load->buffer};
    for (const Iter& iter : block.iters) {
      if (!uses(iter.var)) continue;
      if (iter.var == m_iter) operand->m_dim = operand->rank;
      unfit |= iter.var != k_iter && &iter == &block.iters.back();  // k must be the copy's last dimension, too
      ++operand->rank;
    }
    int64_t stride = 4;
    for (size_t d = load->indices.size(); d-- > 0;) {
      if (IsVar(load->indices[d], m_iter)) operand->row_bytes = stride;
      const int64_t* extent = AsInt(load->buffer->shape[d]);
      unfit |= !extent;
      stride *= extent ? *extent : 1;
    }
    return true;
  });
  return unfit ? std::nullopt : operand;
}

Result<Name> PackColumns(SketchState& state, const Name& block, const ColumnOperand& operand, const IntArg& width) {
  const Name& buffer = operand.buffer->name;
  std::vector<Name> made = operand.by_iterators
                               ? TRY(state.Do(Reindex{.block = block, .buffer = buffer}))
                               : TRY(state.Do(CacheRead{.block = block, .buffer = buffer, .scope = Scope::kGlobal}));
  const Name packing = made[0];
  IndexMap map;
  // Groups stay outermost: the panels of one follow one another.
  const int64_t outer = operand.by_iterators ? operand.dim : 0;
  for (int64_t d = 0; d < outer; ++d) map.dims.push_back({d, 1, 0});
  map.dims.push_back({operand.dim, width, 0});
  for (int64_t d = outer; d < operand.rank; ++d) {
    if (d != operand.dim) map.dims.push_back({d, 1, 0});
  }
  map.dims.push_back({operand.dim, 1, width});
  TRY(state.Do(TransformLayout{.buffer = packing, .map = map}));
  state.done.insert(packing);
  return packing;
}

Result<Name> PackRows(SketchState& state, const Name& block, const RowOperand& operand, const Name& m_tile,
                      const Name& k_unroll) {
  Name packing = TRY(state.Do(Reindex{.block = block, .buffer = operand.buffer->name}))[0];
  IndexMap map;
  map.dims.push_back({operand.m_dim, RegisterTile(m_tile), 0});
  for (int64_t d = 0; d + 1 < operand.rank; ++d) {
    if (d != operand.m_dim) map.dims.push_back({d, 1, 0});
  }
  map.dims.push_back({operand.rank - 1, k_unroll, 0});
  map.dims.push_back({operand.m_dim, 1, RegisterTile(m_tile)});
  map.dims.push_back({operand.rank - 1, 1, k_unroll});
  TRY(state.Do(TransformLayout{.buffer = packing, .map = map}));
  state.done.insert(packing);
  return packing;
}

Status PlacePacked(SketchState& state, const Name& packing, int64_t deepest, Packing kind, int64_t lanes, int& knob) {
  std::vector<int64_t> depths;
  for (int64_t depth = -1; depth <= deepest; ++depth) depths.push_back(depth);
  Name at = TRY(state.Sample(SampleComputeLocation{.block = packing}, 0, depths, knob));
  std::vector<Name> loops = TRY(state.Do(ComputeAt{.block = packing, .loop = at}));
  if (kind == Packing::kColumns) {
    // Panel by panel in each row: whole rows are read, not pieces that lie pages apart.
    std::rotate(loops.begin(), loops.begin() + 1, loops.end() - 1);
    TRY(state.Do(Reorder{.loops = loops}));
    std::vector<Name> made = TRY(state.Do(Split{.loop = loops.back(), .factors = {Factors::kAuto, lanes}}));
    loops.back() = made[0];
    loops.push_back(made[1]);
  }
  // What the last tile lacks is packed, too: padding, which its users need not guard against.
  TRY(state.Do(PadBlock{.block = packing}));
  TRY(state.Do(Vectorize{.loop = loops.back()}));
  TRY(state.Do(Unroll{.loop = loops[loops.size() - 2]}));
  TRY(state.Do(Parallel{.loop = loops[0]}));  // serial inside the parallel loop
  return {};
}

}  // namespace autotune
