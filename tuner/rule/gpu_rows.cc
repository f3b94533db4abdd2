#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/passes.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

constexpr int64_t kShortestRow = 64;      // elements; for shorter rows one thread per result is as fast
constexpr int64_t kMostInRegisters = 32;  // most elements of an intermediate row in one thread's registers
constexpr int64_t kMostCombined = 32;     // most partial results that one thread adds up, unrolled
// Most threads of a block. A compute unit holds four such blocks, and one computes while another waits at a barrier.
constexpr int64_t kMostThreads = 512;
constexpr int64_t kFewestSteps = 2;  // least vectors of a row per thread, so that their loads overlap
constexpr int64_t kMostLanes = 64;   // most lanes that sum a row; with more, the block sums columns instead of rows
// Least number of threads per row. If no divisor of the row is as large, numbers of threads are powers of two.
constexpr int64_t kFewDivisors = 8;
// Rows of a block of threads; a block has at most 64 threads along z [NVIDIA, CUDA C++ programming guide].
const std::vector<int64_t> kRows = {1, 2, 4, 8, 16};

// How the threads of a block share the elements of a row: element ((step * T + y) * X + x) * lanes + lane belongs to
// thread (x, y). So the threads of a warp access neighbouring vectors, and a thread has the same elements in all
// passes.
struct RowMap {
  int64_t pieces = 1;        // pieces of a row, each of X * lanes elements
  int64_t x = 1, lanes = 1;  // X; lanes
  Choice y, rows;            // T; number of rows of a block of threads
  bool whole = true;         // true: no thread has an element beyond the end of the row
  int64_t Width() const { return x * lanes; }
};

// Returns true if the block is a reduction that reads elements of the row: a buffer that no reduction has written.
bool ReadsElements(const std::vector<BlockView>& blocks, const BlockView& block) {
  return block.reduction && std::any_of(block.reads.begin(), block.reads.end(), [&](const Name& buffer) {
           return std::none_of(blocks.begin(), blocks.end(),
                               [&](const BlockView& b) { return b.reduction && b.writes == buffer; });
         });
}

// Schedules the passes over rows as one kernel.
class RowTiler {
 public:
  RowTiler(SketchBuilder& s, std::vector<BlockView> blocks, size_t depth)
      : s_(s), blocks_(std::move(blocks)), depth_(depth) {}

  Status Run() {
    TRY(ChooseMap());
    AddModel();
    for (const BlockView& block : blocks_) {
      if (ReadsElements(blocks_, block)) TRY(ShareSum(block));
    }
    const std::vector<BlockView> now = Left();
    const BlockView& last = *FindBlock(now, blocks_.back().name);
    auto [block, row] = TRY(s_.Split(TRY(s_.FuseLoops(RowLoops(last))), {kAuto, map_.rows}));
    for (size_t i = now.size(); i-- > 0;) {  // consumers first
      if (now[i].name != last.name) TRY(Place(now[i], TRY(MoveToRow(now[i], row))));
    }
    TRY(Place(last, Loops{last.spatial, last.reduce}.list));
    TRY(SetScopes(now));
    TRY(s_.Do(Bind{.loop = block, .axis = LoopKind::kBlockX}));
    TRY(s_.Do(Bind{.loop = row, .axis = LoopKind::kThreadZ}));
    for (const auto& [loop, axis] : threads_) TRY(s_.Do(Bind{.loop = loop, .axis = axis}));
    // This step is last, since a thread accesses the same elements in all passes only after all loops are bound.
    for (const Name& buffer : registers_) TRY(s_.Do(SetScope{.buffer = buffer, .scope = Scope::kRegister}));
    s_.Call("gpu_rows");
    return {};
  }

 private:
  std::ptrdiff_t Depth() const { return static_cast<std::ptrdiff_t>(depth_); }
  std::vector<Loop> ColumnsOf(const BlockView& block) const {
    return {block.spatial.begin() + Depth(), block.spatial.end()};
  }

  std::vector<Loop> RowLoops(const BlockView& block) const {
    return {block.spatial.begin(), block.spatial.begin() + Depth()};
  }
  std::vector<BlockView> Left() const {
    std::vector<BlockView> blocks = s_.Blocks();
    std::erase_if(blocks, [&](const BlockView& block) { return s_.IsPlaced(block.name); });
    return blocks;
  }

  // Sets map_: derives the lanes and pieces of a row from the row's sums (topi/reduce.h), and chooses the threads.
  Status ChooseMap() {
    const BlockView* sum = nullptr;
    for (const BlockView& block : blocks_) {
      if (!ReadsElements(blocks_, block)) continue;
      const std::vector<Loop> columns = ColumnsOf(block);
      if (columns.size() != 1) return Err("the sums of ", block.name, " have ", columns.size(), " loops, not one");
      const Loop& steps = block.reduce.back();
      if (sum && (columns[0].extent != ColumnsOf(*sum)[0].extent || steps.extent != map_.pieces))
        return Err("the sums have different lanes");
      sum = &block, map_.pieces = steps.extent;
      if (!ReadsRowOnce(block)) return Err("an operand is used several times");
    }
    if (!sum) return Err("nothing is summed along rows");
    const int64_t width = ColumnsOf(*sum)[0].extent, row = width * map_.pieces;
    if (row < kShortestRow || width > kMostLanes) return Err("the rows are too short, or have too many lanes");
    int64_t lanes = LanesOf(blocks_[0], s_.target());
    for (const BlockView& block : blocks_) {
      const int64_t columns = Iterations(ColumnsOf(block));
      const bool elements = !block.reduction && columns > 1;
      if (elements || ReadsElements(blocks_, block)) lanes = std::min(lanes, LanesInMemory(block, s_.target()));
      if (!elements) continue;
      if (CeilDiv(columns, width) != map_.pieces) return Err("block ", block.name, " has rows of another length");
      map_.whole = map_.whole && columns == row;
      kept_ += block.writes_output ? 0 : row * block.element_bytes;
    }
    map_.lanes = width % lanes == 0 ? lanes : 1;
    map_.x = width / map_.lanes;
    const std::vector<int64_t> threads = TRY(ThreadsOfRow());
    shared_ = 2 * kept_ <= s_.target().shared_bytes;
    map_.y = TRY(s_.Choose(blocks_.back().name.str() + "_threads", threads));
    std::vector<int64_t> rows = kRows;
    std::erase_if(rows, [&](int64_t n) {
      return n > 1 && (n > Iterations(RowLoops(*sum)) || n * threads.back() * map_.x > MostThreads());
    });
    map_.rows = TRY(s_.Choose(blocks_.back().name.str() + "_rows", rows));
    return {};
  }

  // Returns the candidates for T. If some numbers of threads keep a row in registers, returns only these.
  Result<std::vector<int64_t>> ThreadsOfRow() {
    const int64_t most = std::min({MostThreads() / map_.x, kMostCombined, map_.pieces});
    if (most < 1) return Err("a block has too few threads for its lanes");
    std::vector<int64_t> threads = Divisors(map_.pieces, most);
    if (threads.back() < std::min(kFewDivisors, most)) {
      for (threads = {1}; 2 * threads.back() <= most;) threads.push_back(2 * threads.back());
      map_.whole = false;
    }
    std::vector<int64_t> enough = threads;
    std::erase_if(enough, [&](int64_t n) { return CeilDiv(map_.pieces, n) * map_.lanes > kMostInRegisters; });
    in_registers_ = !enough.empty();
    if (in_registers_) threads = enough;
    std::vector<int64_t> busy = threads;
    std::erase_if(busy, [&](int64_t n) { return CeilDiv(map_.pieces, n) < kFewestSteps; });
    return busy.empty() ? threads : busy;
  }
  int64_t MostThreads() const { return std::min(s_.target().max_threads, kMostThreads); }

  // Returns true if the sums use each element of some operand once.
  static bool ReadsRowOnce(const BlockView& block) {
    bool once = false;
    ForEachOperand(
        block, [&](const Load& load) { once = once || ReadsOnce(block, FlatIndex(block, load.buffer, load.indices)); });
    return once;
  }

  // Splits a sum: each thread computes a partial result, and the first threads of a row add these up.
  Status ShareSum(const BlockView& block) {
    auto [step, thread] = TRY(s_.Split(block.reduce.back().var, {kAuto, map_.y}));
    TRY(s_.Order({thread, block.spatial, std::vector<Loop>(block.reduce.begin(), block.reduce.end() - 1), step}));
    const Name partial = TRY(s_.Do(Rfactor{.loop = thread, .axis = Depth()})).front();
    const std::vector<Name> made = TRY(s_.Do(CacheWrite{.block = partial, .scope = Scope::kGlobal}));
    sums_.push_back(partial);
    copies_.push_back(made[1]);
    registers_.push_back(made[0]);
    return {};
  }

  static bool Holds(const std::vector<Name>& list, const Name& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  }
  void BindLater(const Name& y, const Name& x) {
    if (!y.empty()) threads_.emplace_back(y, LoopKind::kThreadY);
    if (!x.empty()) threads_.emplace_back(x, LoopKind::kThreadX);
  }

  // Moves the block into the loop over rows, with new names for its loops: its partial sums still use the old names.
  Result<std::vector<Name>> MoveToRow(const BlockView& block, const Name& row) {
    std::vector<Name> loops;
    for (size_t i = 0; i < block.spatial.size() + block.reduce.size(); ++i)
      loops.emplace_back(block.name.str() + "_r" + std::to_string(i));
    return s_.Do(ComputeAt{.block = block.name, .loop = row, .results = loops});
  }

  // Schedules a block inside a row. `loops` are the loops of its iterators; the first `depth_` of them are over rows.
  Status Place(const BlockView& block, const std::vector<Name>& loops) {
    s_.Place(block.name);
    const std::vector<Name> own(loops.begin() + Depth(), loops.end());
    if (Holds(sums_, block.name)) return PlaceThreadSums(block, own);
    if (Holds(copies_, block.name)) return PlaceCopy(own);
    if (block.reduction) return PlaceCombining(block, own);
    return own.empty() ? Status() : PlaceElements(own);
  }

  // Schedules the partial sums of each thread, in registers. `loops` run over lanes, threads, outer sums and steps.
  Status PlaceThreadSums(const BlockView& block, const std::vector<Name>& loops) {
    if (loops.size() < 3) return Err("the sums of ", block.name, " have too few loops");
    auto [x, lane] = TRY(s_.Split(loops[0], {kAuto, map_.lanes}));
    const std::vector<Name> sums(loops.begin() + 2, loops.end());
    TRY(s_.Order({loops[1], x, sums, lane}));
    const std::vector<Name> zero = TRY(s_.Do(DecomposeReduction{.block = block.name, .loop = sums.front()}));
    s_.Place(zero.front());
    TRY(s_.Straighten(zero.back()));
    if (in_registers_) TRY(s_.Unroll(sums.back()));
    TRY(s_.Straighten(lane));
    BindLater(loops[1], x);
    return {};
  }

  // Schedules the copy of the threads' sums to shared memory. `loops` run over threads and lanes.
  Status PlaceCopy(const std::vector<Name>& loops) {
    if (loops.size() != 2) return Err("the copy of sums has ", loops.size(), " loops, not two");
    auto [x, lane] = TRY(s_.Split(loops[1], {kAuto, map_.lanes}));
    TRY(s_.Straighten(lane));
    BindLater(loops[0], x);
    return {};
  }

  // Schedules a block that combines partial results. If it has a result for each lane of the X threads, these threads
  // run it. Otherwise one thread of each row does.
  Status PlaceCombining(const BlockView& block, const std::vector<Name>& loops) {
    const std::vector<Loop> columns = ColumnsOf(block);
    const std::vector<Name> sums(loops.begin() + std::ssize(columns), loops.end());
    if (columns.size() > 1 || sums.empty()) return Err("the results of ", block.name, " have several loops");
    Name x, lane;
    if (!columns.empty() && columns[0].extent == map_.Width()) {
      auto [thread, lanes] = TRY(s_.Split(loops[0], {kAuto, map_.lanes}));
      x = thread, lane = lanes;
    } else if (!columns.empty()) {
      lane = loops[0];
    }
    TRY(s_.Order({x, sums, lane}));
    const std::vector<Name> zero = TRY(s_.Do(DecomposeReduction{.block = block.name, .loop = sums.front()}));
    s_.Place(zero.front());
    if (!lane.empty()) TRY(s_.Straighten(zero.back()));
    if (block.reduce_length <= static_cast<double>(kMostCombined)) TRY(s_.Unroll(sums));
    if (!lane.empty()) TRY(s_.Straighten(lane));
    BindLater(Name(), x);
    return {};
  }

  Status PlaceElements(const std::vector<Name>& loops) {
    const Name all = TRY(s_.FuseLoops(loops));
    auto [step, y, x, lane] = TRY(s_.Split(all, {kAuto, map_.y, map_.x, map_.lanes}));
    TRY(s_.Order({y, x, step, lane}));
    if (in_registers_) TRY(s_.Unroll(step));
    TRY(s_.Straighten(lane));
    BindLater(y, x);
    return {};
  }

  // Chooses the memory of intermediate results. Each thread keeps its elements of a row in registers, if they fit.
  // Elements of a longer row are in shared memory or, if they do not fit there either, in global memory (and so in the
  // L2 cache).
  Status SetScopes(const std::vector<BlockView>& now) {
    for (const BlockView& block : now) {
      if (block.writes_output || Holds(registers_, block.writes)) continue;
      const bool elements = !block.reduction && !Holds(copies_, block.name) && Iterations(ColumnsOf(block)) > 1;
      if (elements && in_registers_ && map_.whole) {
        registers_.push_back(block.writes);
      } else if (!elements || shared_) {
        TRY(s_.Do(SetScope{.buffer = block.writes, .scope = Scope::kShared}));
      }
    }
    return {};
  }

  void AddModel() {
    const BlockView& last = blocks_.back();
    StageModel model{.kind = StageModel::kGpuRows,
                     .block = last.name,
                     .k_knob = map_.y.knob,
                     .m = Iterations(RowLoops(last)),
                     .n = map_.Width(),
                     .k = map_.pieces,
                     .element_bytes = last.element_bytes,
                     .rows_knob = map_.rows.knob,
                     .lanes = map_.lanes};
    model.depth =
        std::count_if(blocks_.begin(), blocks_.end(), [&](const BlockView& b) { return ReadsElements(blocks_, b); });
    model.packed = in_registers_, model.row_bytes = shared_ ? kept_ : 0;
    for (size_t i = 0; i + 1 < blocks_.size(); ++i) model.passes.push_back(blocks_[i].name);
    s_.AddPasses(std::move(model));
  }

  SketchBuilder& s_;
  const std::vector<BlockView> blocks_;  // the blocks before any step
  const size_t depth_;                   // number of loops over rows
  RowMap map_;
  bool in_registers_ = false, shared_ = false;  // intermediate rows are in registers, or in shared memory; else global
  int64_t kept_ = 0;                            // bytes of all intermediate results of one row
  std::vector<Name> sums_, copies_;             // blocks that compute each thread's sums; blocks that copy these
  std::vector<Name> registers_;                 // buffers that will be in registers
  std::vector<std::pair<Name, LoopKind>> threads_;
};

}  // namespace

// Places passes over rows on a GPU: softmax, layer normalization, sums of rows. All passes are one kernel, which reads
// a row from memory once and writes it once. The threads of a block share one row or a few. A thread has the same
// elements in all passes, in vectors of 16 bytes, and keeps its intermediate results in registers. Sums are combined in
// shared memory.
//
//   blocks over rows_0; threads z over rows_1
//     threads (y, x): registers = 0; steps, lanes: registers += elements; shared[y, x, lanes] = registers
//     threads (x): sums over y, in lanes; then the last lanes, by one thread of a row
//     threads (y, x): steps, lanes: results of the elements and the sums
Status GpuRowsRule(SketchBuilder& s, const BlockView& block, int) {
  std::vector<BlockView> blocks = s.Blocks();
  std::erase_if(blocks, [&](const BlockView& b) { return s.IsPlaced(b.name); });
  if (block.name != blocks.front().name) return Err("the rule for rows takes all blocks or none");
  for (const BlockView& b : blocks) {
    if (b.writes_output != (b.name == blocks.back().name)) return Err("the passes do not end in one result");
  }
  Status status = Err("the blocks have no rows in common");
  for (size_t depth = CommonLoops(blocks); depth > 0; --depth) {
    SketchBuilder trial = s;
    Status placed = RowTiler(trial, blocks, depth).Run();
    if (placed.ok() && !IsOnce(trial.Blocks(), blocks, depth)) placed = Err("a block is computed again for each row");
    if (placed.ok()) {
      s = std::move(trial);
      return {};
    }
    status = std::move(placed);
  }
  return status;
}

}  // namespace autotune
