#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "support/integer.h"
#include "tuner/rule/rule.h"
#include "tuner/rule/sum_parts.h"

namespace autotune {
namespace {

// Least and most steps of a piece of the sum, whose operands are in shared memory. In a shorter piece, the copies and
// the barrier are more than an eighth of the instructions of a tile of 8 x 8 results [counted in PTX]. Copies that are
// not asynchronous pass through registers, which hold shorter pieces.
constexpr int64_t kFewestPipelinedSteps = 16, kMostSteps = 32, kMostAsyncSteps = 64;
constexpr int64_t kFewResults = 8;    // results of a thread, if all lanes of the GPU have one thread [chosen]
constexpr int64_t kFewestPieces = 8;  // pieces of a short sum, so that there is a pipeline

// The levels of one loop of the product: blocks, threads of a block, elements of a thread. The elements of a thread are
// groups of contiguous lanes. The groups of neighbouring threads are side by side, so that a warp accesses contiguous
// memory. Therefore the groups of one thread are apart.
struct Cut {
  Name block, group, thread, lane;
  Choice threads, groups;
  IntArg lanes;
};

// One operand in shared memory.
struct Operand {
  Name buffer;        // also the name of the block that copies it
  int64_t lanes = 1;  // elements that a thread copies at once
};

// Returns true if the block reads several elements of one buffer for each result, as Winograd's transforms do.
bool ReadsSeveral(const BlockView& block) {
  std::map<Name, int> loads;
  ForEachOperand(block, [&](const Load& load) { ++loads[load.buffer->name]; });
  return std::any_of(loads.begin(), loads.end(), [](const auto& of) { return of.second > 1; });
}

// Returns true if an operand does not depend on the last loop over results. Otherwise each column has both operands for
// itself, as each channel of a depthwise convolution, and tiles in shared memory save no loads.
bool SharesOperand(const BlockView& block) {
  if (block.spatial.empty()) return true;
  bool shared = false;
  ForEachOperand(block, [&](const Load& load) {
    shared |= std::none_of(load.indices.begin(), load.indices.end(),
                           [&](const Expr& index) { return UsesVar(index, block.spatial.back().iter); });
  });
  return shared;
}

// Tiles one block in shared memory and registers.
class Tiler {
 public:
  // With several `slices`, the first iterator of the block is the slice, and block `sum` adds them up.
  Tiler(SketchBuilder& s, const BlockView& block, int64_t slices = 1, Name sum = {})
      : s_(s), block_(block), r_(RolesOf(block)), slices_(slices), sum_(std::move(sum)) {
    if (slices == 1) return;
    slice_ = block.spatial.front().var;
    std::erase_if(r_.outer, [&](const BlockView::Loop& loop) { return loop.var == slice_; });
  }

  Status Run() {
    if (r_.k.empty()) return Err("nothing is summed");
    if (r_.m.var.empty()) return Err("there are no rows");
    const WriteBack out = TRY(s_.MakeWriteBack(block_));
    TRY(CopyOperands());
    TRY(CutSum());
    const int64_t lanes = LanesThatDivide(r_.n.extent);
    shares_columns_ = slices_ > 1 && lanes % slices_ == 0;
    const Candidates candidates = CandidatesFor(lanes);
    m_ = TRY(CutLoop(r_.m, candidates.threads_m, candidates.groups_m, 1, {}));
    const Choice narrow = shares_columns_ ? Choice() : TRY(ChooseLanes(lanes));
    n_ = TRY(CutLoop(r_.n, candidates.threads_n, candidates.groups_n, lanes, narrow));
    TRY(s_.Order({r_.outer, m_.block, n_.block, pieces_, slice_, m_.thread, n_.thread, steps_, straight_, m_.group,
                  m_.lane, n_.group, n_.lane}));
    TRY(s_.Do(PadBlock{.block = block_.name}));
    TRY(PlaceOperands(pieces_.list.back()));
    TRY(PlaceResult(out));
    TRY(Zero(pieces_.list.front()));
    TRY(s_.Straighten({straight_, m_.group, m_.lane, n_.group, n_.lane}));
    threads_.push_back({slice_, m_.thread, n_.thread});
    WriteBack whole;  // of the sums of all slices
    if (slices_ > 1) whole = TRY(AddSlices());
    for (const Operand& operand : operands_) TRY(s_.Do(SetScope{.buffer = operand.buffer, .scope = Scope::kShared}));
    // With n stages, copies run n - 1 iterations ahead; one stage means no pipeline. Asynchronous copies need at least
    // two iterations to complete, so two stages are not offered; long sums are always pipelined. Other copies wait for
    // the loaded value before they store it, so they gain nothing from a longer lead: two stages only save a barrier.
    std::vector<int64_t> depths = {1, 2};
    if (s_.target().has_async_copies) depths = {1, 3, 4};
    if (s_.target().has_async_copies && Iterations(r_.k) >= kFewestPieces * kMostSteps) depths = {3, 4};
    const Choice stages = TRY(s_.Choose(block_.name.str() + "_stages", depths));
    TRY(s_.Do(Pipeline{.loop = pieces_.list.back(), .stages = stages}));
    TRY(BindLoops());
    // This step is last, since a thread accesses the same elements in all stages only after all loops are bound.
    TRY(s_.Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
    if (slices_ > 1) TRY(s_.Do(SetScope{.buffer = whole.registers, .scope = Scope::kRegister}));
    s_.Place(block_.name);
    StageModel model{.kind = StageModel::kGpuTiled,
                     .block = block_.name,
                     .m_knob = m_.groups.knob,
                     .n_knob = n_.groups.knob,
                     .k_knob = step_.knob,
                     .outer = Iterations(r_.outer),
                     .m = r_.m.extent,
                     .n = r_.n.extent,
                     .k = Iterations(r_.k),
                     .pieces = slices_,
                     .element_bytes = block_.element_bytes,
                     .flops = block_.flops,
                     .rows_knob = m_.threads.knob,
                     .stages_knob = stages.knob,
                     .row_knob = n_.threads.knob,
                     .depth_knob = narrow.knob,
                     .lanes = lanes,
                     .depth = steps_inside_};
    model.passes = {out.block};
    for (const auto& operand : operands_) model.passes.push_back(operand.buffer);
    if (slices_ > 1) model.passes.insert(model.passes.end(), {sum_, whole.block});
    s_.AddStage(s_.WithWork(std::move(model)));
    s_.Call(block_.name.str() + ":gpu_tiles");
    return {};
  }

 private:
  // Returns the lanes of a vector of the target if the extent is a multiple of them, else 1.
  int64_t LanesThatDivide(int64_t extent) const {
    const int64_t lanes = LanesOf(block_, s_.target());
    return extent % lanes == 0 ? lanes : 1;
  }

  int64_t MostSteps() const { return s_.target().has_async_copies ? kMostAsyncSteps : kMostSteps; }

  // Splits the sum into pieces. A piece has whole innermost loops, as many as have at most MostSteps() steps together,
  // and a part of the next loop. The innermost steps of a piece are contiguous, as many as a vector has lanes, so that
  // one load reads their operands.
  Status CutSum() {
    size_t whole = r_.k.size();
    int64_t inside = 1;
    while (whole > 1 && inside * r_.k[whole - 1].extent * slices_ <= MostSteps()) inside *= r_.k[--whole].extent;
    const BlockView::Loop &cut = r_.k[whole - 1], &last = r_.k.back();
    const int64_t straight = LanesThatDivide(last.extent);
    const bool same = whole == r_.k.size();
    if (same) inside = straight;
    const int64_t extent = same ? cut.extent / straight : cut.extent;
    std::vector<int64_t> steps = Divisors(extent, std::max<int64_t>(1, MostSteps() / (slices_ * inside)));
    const int64_t fewest = std::min(kFewestPipelinedSteps / slices_, Iterations(r_.k) / kFewestPieces);
    std::erase_if(steps, [&](int64_t n) { return n * inside < fewest && n != steps.back(); });
    step_ = TRY(s_.Choose(block_.name.str() + "_step", steps));
    for (size_t i = 0; i + 1 < whole; ++i) pieces_.list.push_back(r_.k[i].var);
    if (same) {
      auto [piece, step, lane] = TRY(s_.Split(cut.var, {kAuto, step_, straight}));
      pieces_.list.push_back(piece);
      steps_.list.push_back(step);
      straight_ = lane;
    } else {
      auto [piece, step] = TRY(s_.Split(cut.var, {kAuto, step_}));
      pieces_.list.push_back(piece);
      steps_.list.push_back(step);
      for (size_t i = whole; i + 1 < r_.k.size(); ++i) steps_.list.push_back(r_.k[i].var);
      auto [rest, lane] = TRY(s_.Split(last.var, {kAuto, straight}));
      steps_.list.push_back(rest);
      straight_ = lane;
    }
    steps_inside_ = inside;
    return {};
  }

  // Numbers of threads of a block, and of groups of a thread, along m and n.
  struct Candidates {
    std::vector<int64_t> threads_m = {4, 8, 16}, threads_n = {8, 16, 32}, groups_m = {1, 2, 3, 4, 5, 6, 7, 8}, groups_n;
  };

  // Returns the candidates. Leaves out small tiles of a thread if larger ones give each lane of the GPU work, since
  // these load less. If even small tiles do not, leaves out blocks with less than a warp for each part of a unit.
  Candidates CandidatesFor(int64_t lanes) const {
    Candidates c{.groups_n = lanes > 1 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1, 2, 4, 8}};
    const GpuMachine machine = GpuMachineOf(s_.target());
    const int64_t warps = static_cast<int64_t>(machine.parts * machine.warp);            // threads that use all parts
    const int64_t share = Iterations(block_.spatial) / (warps * s_.target().num_cores);  // results of such a thread
    if (!shares_columns_) std::erase_if(c.groups_m, [&](int64_t n) { return n % slices_ != 0; });  // ShareTile
    // Each slice copies its part of a short piece. With more rows of threads, some threads would copy nothing.
    std::erase_if(c.threads_m, [&](int64_t n) { return n * slices_ > kMostSteps; });
    const int64_t most_m = c.groups_m.back(), most_n = c.groups_n.back() * lanes;
    const int64_t least = std::min(most_m * most_n, share / 2);
    std::erase_if(c.groups_m, [&](int64_t n) { return n * most_n < least; });
    std::erase_if(c.groups_n, [&](int64_t n) { return n * lanes * most_m < least; });
    if (share >= kFewResults) return c;
    std::erase_if(c.threads_m, [&](int64_t n) { return n > c.threads_m.front() && n > r_.m.extent; });
    c.threads_m = {c.threads_m.back()};
    std::erase_if(c.threads_n, [&](int64_t n) { return n * c.threads_m[0] * slices_ < warps; });
    return c;
  }

  // Chooses between vectors of columns and single columns. With single columns, a small result has more threads.
  // Returns no choice if threads with vectors already fill the GPU.
  Result<Choice> ChooseLanes(int64_t lanes) {
    const GpuMachine machine = GpuMachineOf(s_.target());
    const double busy = machine.parts * machine.warp * static_cast<double>(s_.target().num_cores);
    if (lanes == 1 || static_cast<double>(Iterations(block_.spatial)) >= busy * static_cast<double>(lanes))
      return Choice();
    return s_.Choose(block_.name.str() + "_lanes", {1, lanes});
  }

  // Splits the loop into its levels. `chosen` is the choice of its lanes, if there is one. Leaves out a number of
  // threads or of groups if half of it would already cover the loop.
  Result<Cut> CutLoop(const BlockView::Loop& loop, std::vector<int64_t> threads, std::vector<int64_t> groups,
                      int64_t lanes, const Choice& chosen) {
    auto too_many = [&](int64_t n) { return n > 1 && n / 2 >= loop.extent; };
    const int64_t fewest = threads.front(), fewest_groups = groups.front();
    std::erase_if(threads, [&](int64_t n) { return too_many(n * lanes) && n != fewest; });
    std::erase_if(groups, [&](int64_t n) { return too_many(n) && n != fewest_groups; });
    Cut cut{.lanes = chosen.knob < 0 ? IntArg(lanes) : IntArg(chosen)};
    cut.threads = TRY(s_.Choose(loop.var.str() + "_threads", std::move(threads)));
    cut.groups = TRY(s_.Choose(loop.var.str() + "_groups", std::move(groups)));
    auto [block, group, thread, lane] = TRY(s_.Split(loop.var, {kAuto, cut.groups, cut.threads, cut.lanes}));
    cut.block = block, cut.group = group, cut.thread = thread, cut.lane = lane;
    return cut;
  }

  // Copies both operands into buffers whose dimensions are iterators of the product. So the layout of the operands does
  // not matter: windows of an image become columns of a matrix (im2col). A producer that only pads, moves or converts
  // an operand is inlined into the copy. A transform is not: each tile would compute it again, its unrolled loads would
  // take the registers of the accumulators, and a transform of constants would not run in `prepare`.
  Status CopyOperands() {
    for (const Name& buffer : block_.reads) {
      const std::vector<Name> made = TRY(s_.Do(Reindex{.block = block_.name, .buffer = buffer}));
      operands_.push_back({made.front()});
      TRY(OrderDimensions(made.front()));
    }
    for (const BlockView& producer : s_.Blocks()) {
      const bool read = std::any_of(block_.reads.begin(), block_.reads.end(),
                                    [&](const Name& buffer) { return buffer == producer.writes; });
      if (read && !producer.reduction && !ReadsSeveral(producer) && !s_.IsPlaced(producer.name))
        s_.Try(ComputeInline{.block = producer.name});
    }
    for (Operand& operand : operands_) operand.lanes = TRY(LanesOfCopy(operand.buffer));
    return {};
  }

  // Returns how many elements a thread can copy at once: a vector if the elements are contiguous and aligned both in
  // the copy and in the operand, else 1.
  Result<int64_t> LanesOfCopy(const Name& copy) const {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, copy);
    if (!view || view->spatial.empty()) return Err("the copy of an operand no longer exists");
    const BlockView::Loop& last = view->spatial.back();
    const int64_t lanes = LanesThatDivide(last.extent);
    int64_t fits = lanes;
    ForEachOperand(*view, [&](const Load& load) {
      LinearForm index = FlatIndex(*view, load.buffer, load.indices);
      if (index.Coefficient(last.iter) != 1) fits = 1;
      index.Add(IndexVar(last.iter), -1);
      if (CommonFactor(index.ToExpr()) % lanes != 0) fits = 1;
    });
    return fits;
  }

  // Makes the columns the last dimension of the copy, since neighbouring threads have neighbouring columns. Then no two
  // of these threads access the same bank of shared memory. They also read contiguous memory if the operand's columns
  // are contiguous, as for weights. Slices become the first dimension, so that the threads of one slice write
  // contiguous memory.
  Status OrderDimensions(const Name& copy) {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, copy);
    if (!view) return Err("the copy of an operand no longer exists");
    const std::optional<size_t> last = DimensionOf(copy, r_.n.iter);
    std::optional<size_t> first;
    if (slices_ > 1) first = DimensionOf(copy, block_.spatial.front().iter);
    std::vector<size_t> order;
    if (first) order.push_back(*first);
    for (size_t d = 0; d < view->spatial.size(); ++d) {
      if (d != first && d != last) order.push_back(d);
    }
    if (last) order.push_back(*last);
    if (std::ranges::is_sorted(order)) return {};
    IndexMap map;
    for (const size_t d : order) map.dims.push_back({.dim = static_cast<int64_t>(d)});
    TRY(s_.Do(TransformLayout{.buffer = copy, .map = map}));
    return {};
  }

  // Returns the dimension of a copied operand that is indexed by `iter`, if there is one.
  std::optional<size_t> DimensionOf(const Name& copy, const Name& iter) const {
    std::optional<size_t> at;
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, block_.name);
    if (!view) return at;
    ForEachOperand(*view, [&](const Load& load) {
      for (size_t d = 0; load.buffer->name == copy && d < load.indices.size(); ++d) {
        if (IsVar(load.indices[d], iter)) at = d;
      }
    });
    return at;
  }

  // Places the copies of the operands at the beginning of each piece of the sum. All threads of the block copy; with
  // slices, those of each slice copy its own operands.
  Status PlaceOperands(const Name& piece) {
    for (const Operand& operand : operands_) {
      std::optional<size_t> slices;
      if (slices_ > 1) slices = DimensionOf(operand.buffer, block_.spatial.front().iter);
      if (slices_ > 1 && !slices) return Err("an operand does not depend on the slice");
      std::vector<Name> loops = TRY(s_.Do(ComputeAt{.block = operand.buffer, .loop = piece}));
      Name z;
      if (slices) {
        z = loops[*slices];
        loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(*slices));
        TRY(s_.Order({z, loops}));
      }
      const Name all = TRY(s_.FuseLoops(loops));
      auto [turns, y, x, lane] = TRY(s_.Split(all, {kAuto, m_.threads, n_.threads, operand.lanes}));
      TRY(s_.Order({z, y, x, turns, lane}));
      TRY(s_.Straighten({turns, lane}));
      threads_.push_back({z, y, x});
      s_.Place(operand.buffer);
    }
    return {};
  }

  // Returns the position, among the loops of block `reader`, of the loop that takes the values of the product's
  // iterator `iter`. The block reads the results of the product from `buffer`, which lacks their first `dropped`
  // dimensions.
  Result<size_t> PositionIn(const Name& reader, const Name& buffer, const Name& iter, size_t dropped) const {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, reader);
    const Store* store = block_.node.As<Block>()->body.As<Store>();
    std::optional<size_t> at;
    if (view && store) {
      const std::vector<Iter>& iters = view->node.As<Block>()->iters;
      ForEachOperand(*view, [&](const Load& load) {
        for (size_t d = dropped; load.buffer->name == buffer && d < store->indices.size(); ++d) {
          for (size_t i = 0; i < iters.size() && IsVar(store->indices[d], iter); ++i) {
            if (IsVar(load.indices[d - dropped], iters[i].var)) at = i;
          }
        }
      });
    }
    if (!at) return Err("the result has no loop over ", iter.str());
    return *at;
  }

  // Places the write-back of the accumulators after the loops of the sum.
  Status PlaceResult(const WriteBack& out) {
    const size_t rows = TRY(PositionIn(out.block, out.registers, r_.m.iter, 0));
    const std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = out.block, .loop = n_.block}));
    if (rows + 1 >= loops.size()) return Err("the result has too few loops");
    auto [row_group, y, row] = TRY(s_.Split(loops[rows], {m_.groups, m_.threads, 1}));
    auto [group, x, lane] = TRY(s_.Split(loops.back(), {n_.groups, n_.threads, n_.lanes}));
    Loops others(std::vector<Name>(loops.begin(), loops.end() - 1));
    others.list.erase(others.list.begin() + static_cast<std::ptrdiff_t>(rows));
    const Name z = slices_ > 1 ? others.list.front() : Name();
    if (slices_ > 1) others.list.erase(others.list.begin());
    TRY(s_.Order({others, z, y, x, row_group, row, group, lane}));
    TRY(s_.Straighten({row_group, row, group, lane}));
    threads_.push_back({z, y, x});
    s_.Place(out.block);
    return {};
  }

  // Places the block that adds up the slices, and its write-back, after the partial sums, which the threads leave in
  // shared memory. The threads of all slices share the rows of the tile.
  Result<WriteBack> AddSlices() {
    std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* sum = FindBlock(blocks, sum_);
    if (!sum) return Err("the sum of the slices no longer exists");
    const WriteBack whole = TRY(s_.MakeWriteBack(*sum));
    std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = sum_, .loop = n_.block}));
    auto loop_of = [&](const Name& iter) -> Result<Name> {
      return loops.at(TRY(PositionIn(sum_, block_.writes, iter, 0)));
    };
    const Name slice = TRY(loop_of(block_.spatial.front().iter)), row = TRY(loop_of(r_.m.iter)),
               column = TRY(loop_of(r_.n.iter));
    std::erase_if(loops, [&](const Name& loop) { return loop == slice || loop == row || loop == column; });
    const Loops own = TRY(ShareTile(loops, row, column, slice));
    const std::vector<Name> zero = TRY(s_.Do(DecomposeReduction{.block = sum_, .loop = slice}));
    s_.Place(zero.front());
    TRY(s_.Straighten(std::vector<Name>(zero.begin() + 1, zero.end())));
    TRY(s_.Unroll(slice));
    TRY(s_.Straighten(own));
    s_.Place(sum_);
    const size_t rows = TRY(PositionIn(whole.block, whole.registers, r_.m.iter, 1));
    loops = TRY(s_.Do(ReverseComputeAt{.block = whole.block, .loop = n_.block}));
    if (rows + 1 >= loops.size()) return Err("the result has too few loops");
    const Name rows_of_tile = loops[rows], columns_of_tile = loops.back();
    std::erase_if(loops, [&](const Name& loop) { return loop == rows_of_tile || loop == columns_of_tile; });
    TRY(s_.Straighten(TRY(ShareTile(loops, rows_of_tile, columns_of_tile, {}))));
    s_.Place(whole.block);
    // A thread then reads fewer columns than a vector has. Rows at an odd multiple of half of all banks spread the
    // reads of a warp over the banks; single columns, of which a warp reads more than two rows, may conflict once.
    const auto rank = static_cast<int64_t>(block_.node.As<Block>()->body.As<Store>()->indices.size());
    if (shares_columns_) {
      TRY(s_.Do(StorageAlign{.buffer = block_.writes,
                             .axis = rank - 2,
                             .factor = kBanksBytes / block_.element_bytes,
                             .offset = kBanksBytes / 2 / block_.element_bytes}));
    }
    TRY(s_.Do(SetScope{.buffer = block_.writes, .scope = Scope::kShared}));
    return whole;
  }

  // Distributes the loops over a tile to the threads of all slices, outside the loop `inside`. Returns the loops of one
  // thread. If the slices divide a vector, each slice has a piece of the columns, so a thread may have any number of
  // rows. Otherwise the slices share the rows of a thread.
  Result<Loops> ShareTile(const Loops& others, const Name& row, const Name& column, const Name& inside) {
    if (shares_columns_) {
      auto [turn, y] = TRY(s_.Split(row, {m_.groups, m_.threads}));
      auto [z, x, lane] = TRY(s_.Split(column, {slices_, n_.threads, kAuto}));
      TRY(s_.Order({others, z, y, x, inside, turn, lane}));
      threads_.push_back({z, y, x});
      return Loops{turn, lane};
    }
    auto [turn, z, y] = TRY(s_.Split(row, {kAuto, slices_, m_.threads}));
    auto [group, x, lane] = TRY(s_.Split(column, {n_.groups, n_.threads, n_.lanes}));
    TRY(s_.Order({others, z, y, x, inside, turn, group, lane}));
    threads_.push_back({z, y, x});
    return Loops{turn, group, lane};
  }

  Status Zero(const Name& piece) {
    std::vector<Name> made = TRY(s_.Do(DecomposeReduction{.block = block_.name, .loop = piece}));
    s_.Place(made[0]);
    const size_t slices = slices_ > 1 ? 1 : 0;  // loops over slices
    if (made.size() != 7 + slices) return Err("the accumulators have ", made.size() - 1, " loops, not six");
    threads_.push_back({slices ? made[1] : Name(), made[1 + slices], made[2 + slices]});
    return s_.Straighten(std::vector<Name>(made.begin() + 3 + static_cast<std::ptrdiff_t>(slices), made.end()));
  }

  Status BindLoops() {
    const Name outer = TRY(s_.FuseLoops(r_.outer));
    if (!outer.empty()) TRY(s_.Do(Bind{.loop = outer, .axis = LoopKind::kBlockZ}));
    TRY(s_.Do(Bind{.loop = m_.block, .axis = LoopKind::kBlockY}));
    TRY(s_.Do(Bind{.loop = n_.block, .axis = LoopKind::kBlockX}));
    for (const auto& [z, y, x] : threads_) {
      if (slices_ > 1) TRY(s_.Do(Bind{.loop = z, .axis = LoopKind::kThreadZ}));
      TRY(s_.Do(Bind{.loop = y, .axis = LoopKind::kThreadY}));
      TRY(s_.Do(Bind{.loop = x, .axis = LoopKind::kThreadX}));
    }
    return {};
  }

  SketchBuilder& s_;
  const BlockView& block_;
  Roles r_;
  const int64_t slices_;
  const Name sum_;
  Name slice_;                   // the loop over slices; empty: one slice
  bool shares_columns_ = false;  // the slices divide a vector of columns (ShareTile)
  Cut m_, n_;
  Choice step_;
  Loops pieces_, steps_;      // loops over pieces of the sum, and over the steps of a piece
  Name straight_;             // the loop over the innermost, contiguous steps
  int64_t steps_inside_ = 1;  // steps of a piece divided by step_
  std::vector<Operand> operands_;
  std::vector<std::array<Name, 3>> threads_;  // loops over threads along z, y and x, of each stage
};

}  // namespace

// Places a product in tiles. Each block of threads computes a tile of the result, and each thread keeps a part of the
// tile in registers. The operands of a piece of the sum are copied to shared memory, which all threads of the block
// read. After Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).
//
//   blocks over (outer loops, m_0, n_0)
//     registers = 0
//     pieces of the sum, pipelined: operands of later pieces are loaded at the same time
//       shared = both operands, in vectors
//       threads over (m_1, n_1): steps of the piece: m_2, n_2 unrolled: registers += a * b
//     write the registers back through the element-wise epilogue
//
// The ways are all pairs of a number of parts and a number of slices. In the first 1 + kWaysToCut ways, the sum is not
// cut, or cut into parts (split-K, tuner/rule/sum_parts.h). In the next as many, each part is also cut into two slices,
// which threads along z compute, then into four. So a block of few results has enough threads although each of them has
// a large tile, which loads less from shared memory. The partial sums of the slices meet in shared memory:
//
//   blocks over (outer loops, m_0, n_0)
//     pieces of the sum: threads over (slices, m_1, n_1): registers += a * b, as above
//     threads over (slices, m_1, n_1): shared[slice] = registers
//     threads over (slices, m_1, n_1), which share the tile: sums over the slices; the element-wise epilogue
Status GpuTilingRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!block.reduction) return Err("the block is not a reduction");
  if (block.reads.size() != 2) return Err("the block is not a product of two operands");
  if (!SharesOperand(block)) return Err("no operand is shared by the columns");
  const int cuts = way % (1 + kWaysToCut), doublings = way / (1 + kWaysToCut);
  const int64_t slices = int64_t{1} << doublings;
  return InParts(s, block, cuts, slices * LanesOf(block, s.target()), [&](const BlockView& part) {
    if (slices == 1) return Tiler(s, part).Run();
    return InSlices(s, part, slices,
                    [&](const BlockView& product, const Name& sum) { return Tiler(s, product, slices, sum).Run(); });
  });
}

}  // namespace autotune
