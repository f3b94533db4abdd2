#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "costmodel/work.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "tuner/rule/packing.h"
#include "tuner/rule/passes.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

enum Way { kKeysInPlace, kPackedKeys, kApart };

// Returns the loops of a matrix product with rows m and columns n, for each iteration of the outer loops; nothing: the
// block has too few loops for one.
std::optional<Roles> ProductRoles(const BlockView& block) {
  if (!block.reduction || block.spatial.size() < 2 || block.reduce.size() != 1) return std::nullopt;
  const auto m = block.spatial.end() - 2;
  if (m->iter.empty() || block.spatial.back().iter.empty()) return std::nullopt;
  return Roles{.n = block.spatial.back(), .m = *m, .outer = {block.spatial.begin(), m}, .k = block.reduce};
}

// Returns true if the block is a matrix product.
bool IsProduct(const SketchBuilder& s, const BlockView& block) {
  const std::optional<Roles> r = ProductRoles(block);
  return r && FindColumnOperand(s.func(), block, r->m.iter, r->n.iter);
}

// Places the blocks of softmax(f(q * k)) * v.
class AttentionPlacer {
 public:
  AttentionPlacer(SketchBuilder& s, bool packed) : s_(s), packed_(packed) {}

  // Finds the stages, and inlines cheap ones into their readers.
  Status Gather() {
    InlineViews();
    PlaceSums();
    TRY(FindProducts());
    for (const Name& name : OtherBlocks()) Inline(name);
    TRY(FindProducts());
    return FindPasses();
  }

  // Returns true if there are fewer tasks than cores even if each task has the rows of only one register tile.
  bool IsShort() const {
    const Loop& m = RowsOf(weighted());
    return Iterations(OuterLoops(weighted())) * CeilDiv(m.extent, std::min(kMaxRows, m.extent)) < s_.target().num_cores;
  }

  // Places all stages in one parallel loop over rows of scores.
  Status PlaceTogether() {
    if (packed_ && RowsOf(scores()).extent < kWorthPacking)
      return Err("the packed operand would be read too few times");
    if (s_.target().has_tiles && DotGroupOf(scores()) > 0)
      return Err("registers of two dimensions multiply faster, for all rows at once");
    TRY(PlaceWeighted());
    TRY(PlacePassesInTask());
    TRY(PlaceScores());
    s_.AddStage(Model());
    s_.Call(packed_ ? "attention:columns" : "attention");
    return {};
  }

  // Places the passes over rows in parallel loops of their own. A pass whose readers are all in one of these loops
  // joins that loop; any other pass begins a new one. Other rules place the products.
  Status PlaceApart() {
    if (!epilogue_.empty()) {  // inlines the epilogue as InlineRule does in other programs
      const std::vector<BlockView> blocks = s_.Blocks();
      (void)InlineRule(s_, *FindBlock(blocks, epilogue_), 0);
      TRY(FindProducts());
      TRY(FindPasses());
    }
    std::map<Name, size_t> group_of;             // by pass
    std::vector<std::vector<BlockView>> groups;  // consumers first
    for (size_t i = passes_.size(); i-- > 0;) {
      const BlockView& pass = passes_[i];
      std::set<size_t> read_by;
      for (const BlockView* consumer : ConsumersOf(blocks_, pass)) {
        auto group = group_of.find(consumer->name);
        read_by.insert(group == group_of.end() ? groups.size() : group->second);
      }
      const size_t group = read_by.size() == 1 ? *read_by.begin() : groups.size();
      if (group == groups.size()) groups.emplace_back();
      group_of[pass.name] = group;
      groups[group].insert(groups[group].begin(), pass);
    }
    for (const std::vector<BlockView>& group : groups) TRY(PlacePasses(s_, group, depth_));
    return {};
  }

 private:
  const BlockView& scores() const { return *FindBlock(blocks_, scores_); }
  const BlockView& weighted() const { return *FindBlock(blocks_, weighted_); }
  static const Loop& RowsOf(const BlockView& product) { return product.spatial[product.spatial.size() - 2]; }
  int64_t StepsOf(const BlockView& product) const { return StepsOfDot(product, s_.target()); }
  static std::vector<Loop> OuterLoops(const BlockView& product) {
    return {product.spatial.begin(), product.spatial.end() - 2};
  }

  Status FindProducts() {
    blocks_ = s_.Blocks();
    scores_ = weighted_ = Name();
    const bool in_groups = std::ranges::any_of(blocks_, [](const BlockView& b) { return DotGroupOf(b) > 0; });
    for (const BlockView& block : blocks_) {
      if (!IsProduct(s_, block) || (in_groups && DotGroupOf(block) == 0)) continue;
      if (scores_.empty()) {
        scores_ = block.name;
      } else if (weighted_.empty()) {
        weighted_ = block.name;
      } else {
        return Err("there are more than two products");
      }
    }
    if (weighted_.empty()) return Err("there are fewer than two products");
    if (scores().spatial.size() != weighted().spatial.size()) return Err("the two products have different loops");
    depth_ = scores().spatial.size() - 1;
    for (size_t i = 0; i < depth_; ++i) {
      if (scores().spatial[i].extent != weighted().spatial[i].extent)
        return Err("the two products have different rows");
    }
    return {};
  }

  bool IsParam(const Name& buffer) const {
    return std::any_of(s_.func().params.begin(), s_.func().params.end(),
                       [&](const Param& p) { return p.buffer->name == buffer; });
  }

  // Inlines blocks that only move elements of a parameter, so that queries, keys and values are read in place.
  void InlineViews() {
    auto is_view = [&](const BlockView& block) {
      return !block.reduction && block.reads.size() == 1 && IsParam(*block.reads.begin());
    };
    bool found = true;
    while (found) {
      found = false;
      for (const BlockView& block : s_.Blocks()) {
        found = is_view(block) && InlineRule(s_, block, 0).ok();
        if (found) break;
      }
    }
  }

  // Places the sums of operands that correct products of bytes, in loops of their own.
  void PlaceSums() {
    std::set<Name> before;
    for (const BlockView& block : s_.Blocks()) before.insert(block.name);
    bool found = true;
    while (found) {
      found = false;
      for (const BlockView& block : s_.Blocks()) {
        found = !s_.IsPlaced(block.name) && before.contains(block.name) &&
                s_.TryAll([&](SketchBuilder& trial) { return OperandSumsRule(trial, block, 0); });
        if (found) break;
      }
    }
    for (const BlockView& block : s_.Blocks())
      if (s_.IsPlaced(block.name) || !before.contains(block.name)) sums_.insert(block.name);
  }

  // Returns the names of all blocks to place except the two products.
  std::vector<Name> OtherBlocks() const {
    std::vector<Name> names;
    for (const BlockView& block : blocks_) {
      if (block.name != scores_ && block.name != weighted_ && !sums_.contains(block.name)) names.push_back(block.name);
    }
    return names;
  }

  // Inlines an element-wise block, with two exceptions that would be computed repeatedly. A function of the scores with
  // several readers stays in the epilogue of the first product. The weights that the second product reads stay a pass.
  void Inline(const Name& name) {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView& block = *FindBlock(blocks, name);
    const std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
    const bool weights = !consumers.empty() && std::any_of(consumers.begin(), consumers.end(),
                                                           [&](const BlockView* c) { return c->name == weighted_; });
    const bool score = consumers.size() > 1 && block.reads.contains(FindBlock(blocks, scores_)->writes);
    if (!weights && !score) (void)InlineRule(s_, block, 0);
  }

  // Sets passes_ to all blocks except the products and their epilogues.
  Status FindPasses() {
    passes_.clear();
    epilogue_ = EpilogueOf(scores());
    const Name end = EpilogueOf(weighted());
    for (const Name& name : OtherBlocks()) {
      if (name != epilogue_ && name != end) passes_.push_back(*FindBlock(blocks_, name));
    }
    if (passes_.empty()) return Err("there are no passes over rows between the products");
    if (CommonLoops(passes_) != depth_) return Err("the passes have other rows than the products");
    return {};
  }

  // Returns the element-wise block that is the only reader of the product; an empty name if there is none.
  Name EpilogueOf(const BlockView& product) const {
    const std::vector<const BlockView*> consumers = ConsumersOf(blocks_, product);
    const bool one =
        consumers.size() == 1 && !consumers[0]->reduction && Instances(*consumers[0]) == Iterations(product.spatial);
    return one ? consumers[0]->name : Name();
  }

  // Places the second product. Its tiles of rows are the tasks.
  Status PlaceWeighted() {
    const BlockView block = weighted();
    const Loop m = RowsOf(block), n = block.spatial.back();
    lanes_ = TileLanes(block, n.extent, s_.target());
    if (lanes_ == 0) return Err("the second product has only one column");
    const std::optional<ColumnOperand> operand = TRY(ColumnsOf(block, lanes_));
    const WriteBack out = TRY(s_.MakeWriteBack(block));
    m_ = TRY(s_.TileLoop(m, {.levels = 3, .max_inner = std::min(kMaxRows, m.extent)}));
    const int64_t most = std::min(kMaxVectors, CeilDiv(n.extent, lanes_));
    n_ = TRY(s_.TileLoop(n, {.levels = 2, .max_inner = lanes_ * most, .multiple_of = lanes_}));
    const int64_t group = StepsOf(block);
    Name panels;
    if (group > 1) panels = TRY(PackColumns(s_, block.name, *operand, n_.Inner(), group));
    auto [k, steps] = TRY(InGroups(block.reduce.back(), group));
    k_ = TRY(s_.UnrollReduction(k, Divisors(k.extent, kMaxUnroll)));
    auto [vectors, vector] = TRY(s_.Split(n_.inner, {kAuto, lanes_}));
    vectors_ = vectors, vector_ = vector;
    const std::vector<Loop> outer = OuterLoops(block);
    TRY(s_.Order({outer, m_.outer, n_.outer, m_.middle, k_.outer, k_.inner, m_.inner, vectors_, vector_, steps}));
    TRY(AnnotateGroup(steps));
    task_ = TRY(s_.Parallel({outer, m_.outer}));
    if (group > 1) values_at_ = TRY(PlacePacked(s_, panels, 0, PackingOf(*operand, group), lanes_));
    TRY(s_.Do(PadBlock{.block = block.name}));
    return s_.MakeRegisterTile(block, out,
                               {.at = m_.middle,
                                .below = k_.outer,
                                .steps = k_.inner,
                                .tile = {m_.inner, vectors_},
                                .vector = vector_,
                                .lanes = lanes_,
                                .vectors_first = true});
  }

  // Returns the operand that has the product's columns. An error if instructions of the target add its products in
  // groups, but not those of this operand.
  Result<std::optional<ColumnOperand>> ColumnsOf(const BlockView& product, int64_t lanes) const {
    const Roles r = *ProductRoles(product);
    std::optional<ColumnOperand> columns = FindColumnOperand(s_.func(), product, r.m.iter, r.n.iter);
    if (StepsOf(product) > 1) TRY(CheckGroups(r, columns, FindRowOperand(product, r), lanes, StepsOf(product)));
    return columns;
  }

  // Splits a sum into groups and the steps of a group. Returns the loop over groups, and the name of that over steps,
  // which is empty if a group has one.
  Result<std::pair<Loop, Name>> InGroups(Loop sum, int64_t group) {
    if (group == 1) return std::pair(sum, Name());
    auto [groups, steps] = TRY(s_.Split(sum.var, {kAuto, group}));
    sum.var = groups;
    sum.extent /= group;
    return std::pair(sum, steps);
  }

  Status AnnotateGroup(const Name& steps) {
    if (!steps.empty()) TRY(s_.Do(Annotate{.target = steps, .key = kDot, .value = 1}));
    return {};
  }

  // Places the passes over a task's rows, consumers first. If only passes of one loop over rows read a pass, it is
  // computed in that loop. Otherwise it gets a new loop over rows.
  Status PlacePassesInTask() {
    std::map<Name, Name> row_of;  // by pass
    for (size_t i = passes_.size(); i-- > 0;) {
      const BlockView& pass = passes_[i];
      std::set<Name> rows;
      for (const BlockView* consumer : ConsumersOf(blocks_, pass)) {
        auto row = row_of.find(consumer->name);
        rows.insert(row == row_of.end() ? task_ : row->second);
      }
      const Name at = rows.size() == 1 ? *rows.begin() : task_;
      const std::vector<Name> loops = TRY(s_.Do(ComputeAt{.block = pass.name, .loop = at}));
      row_of[pass.name] = at == task_ ? loops[depth_ - 1] : at;
      TRY(MakePass(s_, blocks_, static_cast<size_t>(FindBlock(blocks_, pass.name) - blocks_.data()), loops, depth_));
      s_.Place(pass.name);
    }
    return {};
  }

  // Places the first product: a task computes all columns of its rows.
  Status PlaceScores() {
    const BlockView block = scores();
    const Loop n = block.spatial.back();
    const int64_t lanes = TileLanes(block, n.extent, s_.target());
    if (lanes == 0) return Err("there is only one key");
    const int64_t most = std::min(kMaxVectors, CeilDiv(n.extent, lanes)), group = StepsOf(block);
    const std::optional<ColumnOperand> operand = TRY(ColumnsOf(block, lanes));
    const WriteBack out = TRY(s_.MakeWriteBack(block));
    Tile& columns = columns_;
    columns = TRY(s_.ChooseTile(n, {.levels = 2, .max_inner = lanes * most, .multiple_of = lanes}));
    Unrolled& k = width_;
    Loop sum = block.reduce.back();
    sum.extent /= group;
    k.factor = TRY(s_.ChooseUnroll(sum, Divisors(sum.extent, kMaxUnroll)));
    Name panels;
    if (!packed_ && group > 1) return Err("keys in groups must be packed");
    if (!packed_ && !IsContiguous(*operand)) return Err("neighbouring keys are not contiguous, so keys must be packed");
    if (packed_) {
      panels = TRY(PackColumns(s_, block.name, *operand, columns.Inner(), group));
    }
    TRY(s_.Do(ComputeAt{.block = out.block, .loop = task_}));
    const std::vector<Name> loops = TRY(s_.Do(ComputeAt{.block = block.name, .loop = task_}));
    auto [row_tiles, rows] = TRY(s_.Split(loops[depth_ - 1], {kAuto, m_.Inner()}));
    TRY(s_.SplitTile(loops[depth_], columns));
    sum.var = loops[depth_ + 1], sum.extent *= group;
    auto [groups, steps] = TRY(InGroups(sum, group));
    TRY(s_.SplitUnrolled(groups.var, k));
    auto [vectors, vector] = TRY(s_.Split(columns.inner, {kAuto, lanes}));
    TRY(s_.Order({columns.outer, row_tiles, k.outer, k.inner, rows, vectors, vector, steps}));
    TRY(AnnotateGroup(steps));
    TRY(s_.Do(PadBlock{.block = block.name}));
    if (packed_) packed_at_ = TRY(PlacePacked(s_, panels, 0, PackingOf(*operand, group), lanes));
    return s_.MakeRegisterTile(block, out,
                               {.at = row_tiles,
                                .below = k.outer,
                                .steps = k.inner,
                                .tile = {rows, vectors},
                                .vector = vector,
                                .lanes = lanes,
                                .vectors_first = true});
  }

  // Returns true if neighbouring columns of the operand are neighbours in memory.
  static bool IsContiguous(const ColumnOperand& operand) {
    return !operand.by_iterators && operand.dim + 1 == static_cast<int>(operand.buffer->shape.size());
  }

  StageModel Model() const {
    StageModel model{.kind = StageModel::kAttention,
                     .block = weighted_,
                     .m_knob = m_.sizes.knob,
                     .n_knob = columns_.sizes.knob,
                     .k_knob = width_.factor.knob,
                     .outer = Iterations(OuterLoops(weighted())),
                     .m = RowsOf(weighted()).extent,
                     .n = scores().spatial.back().extent,
                     .k = scores().reduce.back().extent,
                     .group = StepsOf(scores()),
                     .packed = packed_,
                     .element_bytes = weighted().element_bytes,
                     .location_knob = packed_at_.knob,
                     .rows_knob = values_at_.knob};
    for (const BlockView& pass : passes_) model.passes.push_back(pass.name);
    model.operations = WorkOf(NestOf(s_.func()), model.passes).operations;
    model.scores = scores_;
    model.depth_knob = n_.sizes.knob;
    model.row_knob = k_.factor.knob;
    model.depth = weighted().spatial.back().extent;
    return model;
  }

  SketchBuilder& s_;
  const bool packed_;  // true: the keys are packed for the first product
  std::vector<BlockView> blocks_;
  std::set<Name> sums_;  // blocks that make the sums of operands
  Name scores_, weighted_, epilogue_;
  std::vector<BlockView> passes_;
  size_t depth_ = 0;  // number of loops over rows
  // Tiles and choices of the first product.
  Tile columns_;
  Unrolled width_;
  Choice packed_at_;
  // Tiles and loops of the second product.
  Tile m_, n_;
  Unrolled k_;
  Choice values_at_;
  Name task_, vectors_, vector_;
  int64_t lanes_ = 0;
};

}  // namespace

// Attention, softmax(f(q * k)) * v with an element-wise f. A task computes everything for some rows of queries. So
// their scores stay in the core's own cache and are never stored to memory.
//
//   parallel over (heads, m_0)
//     scores of the rows: n_0, m_1: register tile over (m_2, n_1), written back through f
//     each row: its maximum, then its exponentials
//     each row: the sum of its exponentials, and the row's scale
//     values of the rows: n_0, m_1: register tile over (m_2, n_1), scaled as it is written back
//
// The register tiles of both products have the same rows. Way 0 reads the keys in place. Way 1 packs them for the
// register tile, which is necessary if the elements of one key are contiguous in memory instead of neighbouring keys,
// and for products of bytes in groups, which also pack the values.
// Way 2 places only the passes and leaves the products to TilingRule. It applies if there are fewer tasks than cores,
// or if the other ways fail. If a transpose of rows follows, the results are stored in its order.
Status AttentionRule(SketchBuilder& s, const BlockView& block, int way) {
  if (s.Placed() > 0 || block.name != s.Blocks().front().name)
    return Err("the rule for attention takes all blocks or none");
  AttentionPlacer placer(s, way == kPackedKeys);
  TRY(placer.Gather());
  if (way != kApart) return placer.PlaceTogether();
  for (const bool packed : {false, true}) {
    SketchBuilder trial = s;
    AttentionPlacer together(trial, packed);
    TRY(together.Gather());
    if (!together.IsShort() && together.PlaceTogether().ok()) return Err("there are enough tasks for all cores");
  }
  return placer.PlaceApart();
}

}  // namespace autotune
