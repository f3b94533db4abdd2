#include "topi/winograd.h"

#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using topi::WinogradStage;

// Candidates for the number of vectors of channels that a transform computes together. The transform keeps a row of a
// tile in registers for each of these vectors, so the candidates are small.
const std::vector<int64_t> kTransformVectors = {1, 2};

const BlockView* FindStage(const std::vector<BlockView>& blocks, WinogradStage stage) {
  auto found = std::find_if(blocks.begin(), blocks.end(), [&](const BlockView& b) { return b.winograd == stage; });
  return found == blocks.end() ? nullptr : &*found;
}

// Places all stages. Loops are named like the axes of the stages in topi/winograd.h.
class WinogradPlacer {
 public:
  WinogradPlacer(SketchBuilder& s, const BlockView& product)
      : s_(s), product_(product), blocks_(s.Blocks()), lanes_(LanesOf(product, s.target())) {}

  Status Run() {
    TRY(FindBlocks());
    auto [registers, copy, n, gh, gw, y, x, t, oc] =
        TRY(s_.Make<9>(CacheWrite{.block = product_.name, .scope = Scope::kGlobal}));
    TRY(Output());
    TRY(Product(registers, copy, {n, gh, gw, y, x, t, oc}));
    TRY(Weight());
    TRY(Data());
    TRY(Guard());
    for (const BlockView* block : {&product_, weight_rows_, weight_, rows_, data_, back_, out_, weight_peak_,
                                   weight_range_, weight_tame_, peak_lanes_, peak_fold_, peak_, tame_, direct_})
      s_.Place(block->name);
    s_.Place(copy);
    s_.Call(product_.name.str() + (InGroups() ? ":groups" : ":whole"));
    return {};
  }

 private:
  bool InGroups() const { return groups_ > 1; }

  // Finds the other stages and the extents. The output must be one element-wise block over (n, h, w, c).
  Status FindBlocks() {
    using Entry = std::pair<WinogradStage, const BlockView**>;
    const Entry stages[] = {{WinogradStage::kWeightRows, &weight_rows_},
                            {WinogradStage::kWeight, &weight_},
                            {WinogradStage::kRows, &rows_},
                            {WinogradStage::kData, &data_},
                            {WinogradStage::kBack, &back_},
                            {WinogradStage::kWeightPeak, &weight_peak_},
                            {WinogradStage::kWeightRange, &weight_range_},
                            {WinogradStage::kWeightTame, &weight_tame_},
                            {WinogradStage::kPeakLanes, &peak_lanes_},
                            {WinogradStage::kPeakFold, &peak_fold_},
                            {WinogradStage::kPeak, &peak_},
                            {WinogradStage::kTame, &tame_},
                            {WinogradStage::kDirect, &direct_}};
    for (const auto& [stage, block] : stages) {
      *block = FindStage(blocks_, stage);
      if (!*block) return Err("a stage is missing");
    }
    std::vector<const BlockView*> consumers = ConsumersOf(blocks_, *back_);
    if (consumers.size() != 1 || consumers[0]->reduction) return Err("the output is not one element-wise block");
    out_ = consumers[0];
    for (const BlockView& block : blocks_) {
      if (rows_->reads.contains(block.writes)) pad_ = &block;
    }
    auto [n, gh, gw, y, x, t, oc] = TRY(Exactly<7>(product_.spatial));
    auto [c] = TRY(Exactly<1>(product_.reduce));
    auto [back_n, back_gh, back_gw, a, back_x, back_t, back_oc] = TRY(Exactly<7>(back_->spatial));
    groups_h_ = gh.extent, groups_w_ = gw.extent;
    groups_ = n.extent * gh.extent * gw.extent;
    points_ = y.extent * x.extent;
    tiles_ = t, channels_ = oc, inputs_ = c;
    tile_ = a.extent;
    return {};
  }

  // Chooses the number of vectors of channels that the block computes together, of `extent` channels in all.
  Result<Choice> ChooseVectors(const Name& block, int64_t extent) {
    std::vector<int64_t> counts = kTransformVectors;
    std::erase_if(counts, [&](int64_t u) { return u > 1 && u * lanes_ > extent; });
    return s_.Choose(block.str() + "_u", counts);
  }

  // Orders and unrolls the loops of one transform, and vectorizes its channels.
  Status Unfold(const Name& outer, const Name& inner, const Name& channels) {
    auto [vectors, vector] = TRY(s_.Split(channels, {kAuto, lanes_}));
    const Loops order = {outer, vectors, inner, vector};
    TRY(s_.Order(order));
    return s_.Straighten(order);
  }

  Status Output() {
    auto [n, h, w, c] = TRY(Exactly<4>(out_->spatial));
    auto tiles = [&](int64_t extent, int64_t groups) { return CeilDiv(CeilDiv(extent, tile_), groups); };
    auto [h_group, h_tile, h_pixel] = TRY(s_.Split(h.var, {kAuto, tiles(h.extent, groups_h_), tile_}));
    auto [w_group, w_tile, w_pixel] = TRY(s_.Split(w.var, {kAuto, tiles(w.extent, groups_w_), tile_}));
    Choice u = TRY(ChooseVectors(out_->name, c.extent));
    auto [c_outer, vectors, vector] = TRY(s_.Split(c.var, {kAuto, u, lanes_}));
    Loops tasks = {n.var, h_group, w_group}, inner = {h_tile, w_tile};
    if (!InGroups()) tasks = {n.var, h_group, h_tile, w_group, w_tile}, inner = {};
    const Loops unrolled = {vectors, h_pixel, w_pixel, vector};
    TRY(s_.Order({tasks, inner, c_outer, unrolled}));
    task_ = TRY(s_.Parallel(tasks));
    auto [back_n, gh, gw, a, x, t, oc] = TRY(s_.Make<7>(ComputeAt{.block = back_->name, .loop = c_outer}));
    TRY(Direct(c_outer));
    TRY(s_.Straighten(unrolled));
    TRY(Unfold(x, a, oc));
    s_.AddStage(Transform(back_->name, c.extent, tile_, u));
    return {};
  }

  // Places the direct sums of a tile that is not tame. They are rare, so their schedule is simple.
  Status Direct(const Name& channels) {
    auto [n, gh, gw, t, a, b, oc, kh, kw, c] = TRY(s_.Make<10>(ComputeAt{.block = direct_->name, .loop = channels}));
    auto [vectors, vector] = TRY(s_.Split(oc, {kAuto, lanes_}));
    TRY(s_.Order({a, kh, kw, c, b, vectors, vector}));
    TRY(s_.Do(SkipPadding{.block = direct_->name}));
    return s_.Straighten({b, vectors, vector});
  }

  // Places the guard. The peaks of all cells are computed first, each once; a task then finds out which of its tiles
  // are tame. Tiles share cells, so computing peaks within a task would take up to four times as long.
  Status Guard() {
    TRY(s_.Do(ComputeAt{.block = tame_->name, .loop = task_}));
    auto [n, y, x, end] = TRY(Exactly<4>(peak_->spatial));
    auto [f] = TRY(Exactly<1>(peak_->reduce));
    if (Instances(*peak_lanes_) >= kWorthForking) TRY(s_.Parallel({n.var, y.var}));
    TRY(s_.Unroll({end.var, f.var}));
    auto [fold_n, fold_y, fold_x, column, row] = TRY(s_.Make<5>(ComputeAt{.block = peak_fold_->name, .loop = x.var}));
    TRY(s_.Order({row, column}));
    TRY(s_.Straighten({row, column}));
    auto [lanes_n, lanes_y, lanes_x, l, dy, dx, k] =
        TRY(s_.Make<7>(ComputeAt{.block = peak_lanes_->name, .loop = x.var}));
    TRY(s_.Do(SkipPadding{.block = peak_lanes_->name}));
    for (const BlockView* stage : {peak_fold_, peak_lanes_})
      TRY(s_.Do(SetScope{.buffer = stage->writes, .scope = Scope::kRegister}));
    TRY(s_.Order({k, dy, dx, l}));
    TRY(s_.ZeroAndStraighten(peak_lanes_->name, k, {}, {dy, dx}, l));
    TRY(s_.Do(BranchOnSelect{.block = out_->name}));
    auto [kh, kw, group, oc] = TRY(Exactly<4>(weight_peak_->spatial));
    auto [c] = TRY(Exactly<1>(weight_peak_->reduce));
    auto [vectors, vector] = TRY(s_.Split(oc.var, {kAuto, lanes_}));
    TRY(s_.Order({kh.var, kw.var, group.var, vectors, c.var, vector}));
    TRY(s_.Do(Vectorize{.loop = vector}));
    return {};
  }

  // Places the product. `loops` are the loops of `copy`, the block that writes the products back.
  Status Product(const Name& registers, const Name& copy, std::array<Name, 7> loops) {
    if (InGroups()) loops = TRY(s_.Make<7>(ComputeAt{.block = copy, .loop = task_}));
    const auto& [n, gh, gw, y, x, t, oc] = loops;
    const int64_t m = tiles_.extent, most = std::min(kMaxVectors, CeilDiv(channels_.extent, lanes_));
    Tile rows = TRY(s_.ChooseTile({t, m}, {.levels = 2, .max_inner = std::min(kMaxRows, m)}));
    oc_ = TRY(s_.ChooseTile({oc, channels_.extent}, {.levels = 2, .max_inner = lanes_ * most, .multiple_of = lanes_}));
    Unrolled k;
    k.factor = TRY(s_.ChooseUnroll(inputs_, Divisors(inputs_.extent, kMaxUnroll)));
    TRY(s_.SplitTile(t, rows));
    TRY(s_.SplitTile(oc, oc_));
    TRY(s_.Order({y, x, oc_.outer, rows.outer, rows.inner, oc_.inner}));
    Name panels = oc_.outer;
    if (!InGroups()) panels = TRY(s_.Parallel({y, x, oc_.outer}));
    auto [pn, pgh, pgw, py, px, row, column, c] =
        TRY(s_.Make<8>(ComputeAt{.block = product_.name, .loop = rows.outer}));
    auto [copy_vectors, copy_vector] = TRY(s_.Split(oc_.inner, {kAuto, lanes_}));
    TRY(s_.Straighten({rows.inner, copy_vectors, copy_vector}));

    TRY(s_.SplitUnrolled(c, k));
    auto [vectors, vector] = TRY(s_.Split(column, {kAuto, lanes_}));
    TRY(s_.Order({k.outer, k.inner, row, vectors, vector}));
    TRY(s_.Do(PadBlock{.block = product_.name}));
    TRY(s_.Do(SetScope{.buffer = registers, .scope = Scope::kRegister}));
    TRY(s_.ZeroAndStraighten(product_.name, k.outer, k.inner, {row, vectors}, vector));
    // Prefetches the next panel, since transformed weights are several times larger than the original ones and come
    // from memory.
    Choice ahead = TRY(s_.ChoosePrefetches(
        product_.name.str() + "_panel_ahead",
        {{.block = product_.name, .buffer = weight_->writes, .loop = panels, .at = k.outer}}, {0, 1}));
    StageModel model{.kind = StageModel::kBatched,
                     .block = product_.name,
                     .m_knob = rows.sizes.knob,
                     .n_knob = oc_.sizes.knob,
                     .k_knob = k.factor.knob,
                     .outer = points_ * (InGroups() ? groups_ : 1),
                     .m = m,
                     .n = channels_.extent,
                     .k = inputs_.extent,
                     .packed = true,
                     .element_bytes = product_.element_bytes,
                     .panel_ahead_knob = ahead.knob};
    model.tasks = InGroups() ? groups_ : 0;
    s_.AddStage(model);
    return {};
  }

  // Places the transform of the weights. It packs them into panels as wide as the product's tile:
  // [y, x, panel, c, oc within the panel].
  Status Weight() {
    IndexMap map;
    map.dims = {{0, 1, 0}, {1, 1, 0}, {3, oc_.Inner(), 0}, {2, 1, 0}, {3, 1, oc_.Inner()}};
    auto [y, x, panel, c, oc] = TRY(s_.Make<5>(TransformLayout{.buffer = weight_->writes, .map = map}));
    auto [vectors, vector] = TRY(s_.Split(oc, {kAuto, lanes_}));
    TRY(s_.Order({panel, c, vectors, y, x, vector}));
    TRY(s_.Parallel(panel));
    TRY(s_.Straighten({y, x, vector}));
    auto [row_y, j, row_c, row_oc] = TRY(s_.Make<4>(ComputeAt{.block = weight_rows_->name, .loop = vectors}));
    TRY(s_.Order({j, row_y, row_c, row_oc}));
    return s_.Straighten({j, row_y, row_oc});
  }

  Status Data() {
    auto [own_n, own_gh, own_gw, own_y, own_x, own_t, own_c] = TRY(Exactly<7>(data_->spatial));
    std::array<Name, 7> loops = {own_n.var, own_gh.var, own_gw.var, own_y.var, own_x.var, own_t.var, own_c.var};
    if (InGroups()) loops = TRY(s_.Make<7>(ComputeAt{.block = data_->name, .loop = task_}));
    const auto& [n, gh, gw, y, x, t, c] = loops;
    Choice u = TRY(ChooseVectors(data_->name, inputs_.extent));
    auto [c_outer, vectors, vector] = TRY(s_.Split(c, {kAuto, u, lanes_}));
    TRY(s_.Order({t, c_outer, y, vectors, x, vector}));
    Name inner = c_outer;
    if (!InGroups()) inner = TRY(s_.Parallel({t, c_outer}));
    TRY(s_.Straighten({y, vectors, x, vector}));
    auto [row_n, row_gh, row_gw, row_y, row_t, j, row_c] =
        TRY(s_.Make<7>(ComputeAt{.block = rows_->name, .loop = inner}));
    TRY(Unfold(j, row_y, row_c));
    StageModel model = Transform(data_->name, inputs_.extent, tile_ + 2, u);
    if (pad_) model.location_knob = TRY(Pad(t, inner)).knob;
    model.shares_vectors = !InGroups();
    s_.AddStage(model);
    return {};
  }

  // Chooses where the padded copy of the input is made: for a whole group, for one tile, or for some channels of a
  // tile. Without groups, at the root or for some channels of a tile.
  Result<Choice> Pad(const Name& t, const Name& channels) {
    std::vector<int64_t> depths = {-1, s_.DepthOf(rows_->name, channels)};
    if (InGroups()) depths = {0, s_.DepthOf(rows_->name, t), s_.DepthOf(rows_->name, channels)};
    Choice at = TRY(s_.ChooseLocation(pad_->name, depths));
    auto [n, h, w, c] = TRY(s_.Make<4>(ComputeAt{.block = pad_->name, .loop = at.name}));
    auto [vectors, vector] = TRY(s_.Split(c, {kAuto, lanes_}));
    TRY(s_.Do(Vectorize{.loop = vector}));
    TRY(s_.Parallel(h));
    s_.Place(pad_->name);
    return at;
  }

  // Returns the draft score's stage of a transform, which computes `width` x (tile + 2) elements for each tile and
  // channel.
  StageModel Transform(const Name& block, int64_t channels, int64_t width, const Choice& vectors) const {
    StageModel model{.kind = StageModel::kTransform,
                     .block = block,
                     .k_knob = vectors.knob,
                     .outer = groups_,
                     .m = tiles_.extent,
                     .n = channels,
                     .k = width * (tile_ + 2),
                     .element_bytes = product_.element_bytes};
    model.tasks = InGroups() ? groups_ : 0;
    model.lanes = lanes_;
    model.write_bytes = static_cast<double>(model.element_bytes * model.m * channels * points_);
    return model;
  }

  SketchBuilder& s_;
  const BlockView& product_;
  const std::vector<BlockView> blocks_;
  const BlockView *weight_rows_ = nullptr, *weight_ = nullptr, *rows_ = nullptr, *data_ = nullptr, *back_ = nullptr,
                  *out_ = nullptr, *pad_ = nullptr;
  const BlockView *weight_peak_ = nullptr, *weight_range_ = nullptr, *weight_tame_ = nullptr, *peak_lanes_ = nullptr,
                  *peak_fold_ = nullptr, *peak_ = nullptr, *tame_ = nullptr, *direct_ = nullptr;
  const int64_t lanes_;
  int64_t groups_ = 1, groups_h_ = 1, groups_w_ = 1;  // numbers of groups of tiles: all, along h, along w
  int64_t points_ = 1;                                // elements of a transformed tile, each with a product of its own
  int64_t tile_ = 4;                                  // rows and columns of outputs in a tile
  BlockView::Loop tiles_, channels_, inputs_;         // the product's m, n and k
  Name task_;                                         // the parallel loop around the outputs: over groups or tiles
  Tile oc_;                                           // output channels
};

}  // namespace

// Places all stages of a Winograd convolution. With several groups of tiles there is one parallel loop:
//
//   parallel over groups: { data, transformed; products; outputs, transformed back }
//
// The intermediate results then stay in the core's cache. With one group there are three parallel loops, one after the
// other. The product of one point (y, x) is a matrix product with a register tile. `prepare` transforms the weights and
// packs them into panels. Both one-dimensional transforms of a tile are unrolled over a few vectors of channels, with a
// buffer of that size between them.
Status WinogradRule(SketchBuilder& s, const BlockView& block, int) {
  if (block.winograd != WinogradStage::kProduct) return Err("the block is not the product of a Winograd convolution");
  return WinogradPlacer(s, block).Run();
}

}  // namespace autotune
