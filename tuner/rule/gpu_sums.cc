#include <algorithm>
#include <numeric>

#include "support/integer.h"
#include "target/machine.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

// These numbers are chosen by hand, not measured. kMostCombined and kMostThreads are the same in gpu_rows.cc.
constexpr int64_t kFewestSteps = 16;   // least steps of a sum; a shorter sum is as fast in one thread
constexpr int64_t kMostRows = 8;       // most rows of a product; a thread has an accumulator for each
constexpr int64_t kMostCombined = 32;  // most partial sums that one thread adds up, unrolled
constexpr int64_t kMostUnrolled = 8;   // most steps whose loads a thread has in flight
// Least unrolled steps. If no divisor of the length is as large, the last steps of the sum have guards.
constexpr int64_t kFewestUnrolled = 4;
constexpr int64_t kMostThreads = 512;  // most threads of a block
constexpr int64_t kSectorBytes = 32;   // smallest piece of global memory that is read
constexpr int64_t kFewestOfPart = 64;  // least steps of a part; with fewer, adding up the parts costs too much

// The loops of a reduction over outer dimensions. Neighbouring results are neighbours in memory, and so are the
// elements that they sum.
struct SumRoles {
  Loop columns;
  std::vector<Loop> rows;   // all rows use the same element of the operand that depends on the columns
  std::vector<Loop> outer;  // the other loops over results
  int64_t Results() const { return columns.extent * Iterations(outer); }
};

// Returns the roles of the block's loops, or an error that says why the block is no such reduction.
Result<SumRoles> SumRolesOf(const BlockView& view) {
  const Store* store = view.node.As<Block>()->body.As<Store>();
  if (!view.reduction || view.spatial.empty() || view.reduce.empty() || view.guarded || !store)
    return Err("the block is not a plain sum with contiguous results");
  SumRoles roles{.columns = view.spatial.back()};
  if (roles.columns.iter.empty() || !IsVar(store->indices.back(), roles.columns.iter))
    return Err("the results are not contiguous");
  std::vector<LinearForm> along;  // operands that depend on the columns
  bool fits = true;
  ForEachOperand(view, [&](const Load& load) {
    const LinearForm index = FlatIndex(view, load.buffer, load.indices);
    const int64_t step = index.Coefficient(roles.columns.iter);
    fits = fits && !index.Rest() && (step == 0 || step == 1);
    if (step == 1) along.push_back(index);
  });
  if (!fits || along.empty()) return Err("the elements of neighbouring results are not contiguous");
  std::set<Name> repeated;
  for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
    const Loop& loop = view.spatial[i];
    const bool used = loop.iter.empty() || std::any_of(along.begin(), along.end(), [&](const LinearForm& index) {
                        return index.Coefficient(loop.iter) != 0;
                      });
    (used ? roles.outer : roles.rows).push_back(loop);
    if (!used) repeated.insert(loop.iter);
  }
  if (Iterations(roles.rows) > kMostRows) return Err("a tile of registers reads operands less often");
  for (const LinearForm& index : along) {
    if (!ReadsOnce(view, index, repeated)) return Err("an operand is used several times");
  }
  return roles;
}

// Schedules one sum: the threads of a block share the steps of the sums of neighbouring results.
class SumTiler {
 public:
  // `steps` is the loop over all steps of the block.
  SumTiler(SketchBuilder& s, const BlockView& block, SumRoles roles, Name steps)
      : s_(s), name_(block.name), roles_(std::move(roles)), steps_(std::move(steps)) {
    length_ = Iterations(block.reduce);
    lanes_ = LanesInMemory(block, s.target());
    bytes_ = block.element_bytes;
  }

  Status Run() {
    TRY(ChooseThreads());
    TRY(ShareSteps());
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* sum = FindBlock(blocks, name_);
    if (!sum) return Err("the sum no longer exists");
    const Name epilogue = EpilogueOf(blocks, *sum);
    TRY(PlaceCombining(*sum));
    TRY(PlacePartial(copy_, false));
    TRY(PlacePartial(partial_, true));
    if (!epilogue.empty()) TRY(PlaceEpilogue(epilogue));
    if (!outer_.empty()) TRY(s_.Do(Bind{.loop = outer_, .axis = LoopKind::kBlockY}));
    TRY(s_.Do(Bind{.loop = block_, .axis = LoopKind::kBlockX}));
    TRY(s_.Do(SetScope{.buffer = partial_, .scope = Scope::kShared}));
    for (const auto& [loop, axis] : threads_) TRY(s_.Do(Bind{.loop = loop, .axis = axis}));
    // These steps are last, since a thread accesses the same elements in all stages only after all loops are bound.
    TRY(s_.Do(SetScope{.buffer = registers_, .scope = Scope::kRegister}));
    if (!epilogue.empty()) TRY(s_.Do(SetScope{.buffer = sum->writes, .scope = Scope::kRegister}));
    AddModel();
    s_.Call(name_.str() + ":gpu_sums");
    return {};
  }

 private:
  // Chooses the numbers of threads along columns and along steps, and how many steps a thread unrolls. Prefers divisors
  // of the length, with which no thread has a step beyond the end.
  Status ChooseThreads() {
    std::vector<int64_t> x = {8, 16, 32};
    std::erase_if(x, [&](int64_t n) { return n > 8 && n / 2 * lanes_ >= roles_.columns.extent; });
    std::vector<int64_t> y = Divisors(length_, kMostCombined, 4);
    // Few threads do not hide the latency of loads.
    if (y.size() > 3) y.erase(y.begin(), y.end() - 3);
    if (y.empty()) {
      for (int64_t n = 4; n <= kMostCombined && n <= length_; n *= 2) y.push_back(n);
    }
    int64_t all = 1;
    for (int64_t n : y) all = std::lcm(all, n);
    unroll_ = length_ % all == 0 ? Divisors(length_ / all, kMostUnrolled).back() : 1;
    if (unroll_ < kFewestUnrolled) unroll_ = std::min(kFewestUnrolled, CeilDiv(length_, y.back()));
    const int64_t most = std::min(kMostThreads, s_.target().max_threads);
    std::erase_if(y, [&](int64_t n) { return n * x.front() > most; });
    std::erase_if(x, [&](int64_t n) { return n > x.front() && !y.empty() && n * y.back() > most; });
    if (y.empty()) return Err("a block has too few threads");
    // Where wide blocks leave compute units idle, narrower ones read whole sectors, too.
    const auto idle = [&](int64_t n) {
      return CeilDiv(roles_.columns.extent, n * lanes_) * Iterations(roles_.outer) < s_.target().num_cores;
    };
    while (idle(x.front()) && x.front() / 2 * lanes_ * bytes_ >= kSectorBytes) x.insert(x.begin(), x.front() / 2);
    x_ = TRY(s_.Choose(name_.str() + "_columns", x));
    y_ = TRY(s_.Choose(name_.str() + "_threads", y));
    return {};
  }

  // Gives each thread a partial sum in registers, and adds a copy of the partial sums for the other threads to read.
  Status ShareSteps() {
    const std::vector<BlockView> before = s_.Blocks();
    auto [piece, unrolled, thread] = TRY(s_.Split(steps_, {kAuto, unroll_, y_}));
    const std::vector<Loop>& spatial = FindBlock(before, name_)->spatial;
    TRY(s_.Order({thread, spatial, piece, unrolled}));
    std::vector<Name> names = {Name(name_.str() + "_shared")};
    for (size_t i = 0; i <= spatial.size(); ++i) names.emplace_back(name_.str() + "_combine" + std::to_string(i));
    partial_ = TRY(s_.Do(Rfactor{.loop = thread, .axis = 0, .results = names})).front();
    const std::vector<Name> made = TRY(s_.Do(CacheWrite{.block = partial_, .scope = Scope::kGlobal}));
    registers_ = made[0], copy_ = made[1];
    return {};
  }

  // Returns the element-wise block that can follow the sum in the same threads, or an empty name.
  Name EpilogueOf(const std::vector<BlockView>& blocks, const BlockView& sum) const {
    const std::vector<const BlockView*> readers = ConsumersOf(blocks, sum);
    if (readers.size() != 1 || sum.writes_output) return {};
    const BlockView& reader = *readers[0];
    const auto same = [](const Loop& a, const Loop& b) { return a.extent == b.extent; };
    const bool fuses =
        !reader.reduction && !s_.IsPlaced(reader.name) &&
        std::equal(sum.spatial.begin(), sum.spatial.end(), reader.spatial.begin(), reader.spatial.end(), same);
    return fuses ? reader.name : Name();
  }

  bool IsRow(const Loop& loop) const {
    return std::any_of(roles_.rows.begin(), roles_.rows.end(), [&](const Loop& row) { return row.iter == loop.iter; });
  }

  // Schedules the block that adds up the threads' partial sums. The threads (x, 0) of each block of threads run it.
  Status PlaceCombining(const BlockView& sum) {
    auto [columns, x, lane] = TRY(s_.Split(sum.spatial.back().var, {kAuto, x_, lanes_}));
    Loops outer, rows;
    for (size_t i = 0; i + 1 < sum.spatial.size(); ++i)
      (IsRow(sum.spatial[i]) ? rows : outer).list.push_back(sum.spatial[i].var);
    TRY(s_.Order({outer, columns, x, rows, sum.reduce, lane}));
    block_ = columns;
    outer_ = TRY(s_.FuseLoops(outer));
    const std::vector<Name> zero = TRY(s_.Do(DecomposeReduction{.block = name_, .loop = sum.reduce.front().var}));
    TRY(s_.Straighten(zero.back()));
    s_.Place(zero.front());
    TRY(s_.Unroll({rows, sum.reduce}));
    TRY(s_.Straighten(lane));
    threads_.emplace_back(x, LoopKind::kThreadX);
    s_.Place(name_);
    return {};
  }

  // Moves the computation of the partial sums (`sums` is true), or their copy to shared memory, into the loop over
  // blocks of threads.
  Status PlacePartial(const Name& block, bool sums) {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, block);
    if (!view) return Err("the partial sums no longer exist");
    std::vector<Name> loops;
    for (size_t i = 0; i < view->spatial.size() + view->reduce.size(); ++i)
      loops.emplace_back(block.str() + "_r" + std::to_string(i));
    loops = TRY(s_.Do(ComputeAt{.block = block, .loop = block_, .results = loops}));
    // The new loops are in the order of the iterators, in which rfactor puts its own one last.
    const std::vector<Iter>& iters = view->node.As<Block>()->iters;
    auto loop_of = [&](const Loop& loop) {
      const auto at = std::ranges::find(iters, loop.iter, &Iter::var);
      return at == iters.end() ? Name() : loops[static_cast<size_t>(at - iters.begin())];
    };
    const Name y = loop_of(view->spatial.front()), columns = loop_of(view->spatial.back());
    Loops own, steps;
    for (size_t i = 1; i + 1 < view->spatial.size(); ++i) own.list.push_back(loop_of(view->spatial[i]));
    for (size_t i = 0; i < loops.size(); ++i) {
      if (iters[i].kind == IterKind::kReduce) steps.list.push_back(loops[i]);
    }
    auto [x, lane] = TRY(s_.Split(columns, {x_, lanes_}));
    TRY(s_.Order({y, x, steps, own, lane}));
    if (sums) {
      const std::vector<Name> zero = TRY(s_.Do(DecomposeReduction{.block = block, .loop = steps.list.front()}));
      s_.Place(zero.front());
      TRY(s_.Straighten(std::vector<Name>(zero.begin() + 1, zero.end())));
      TRY(s_.Unroll(steps.list.back()));
    }
    TRY(s_.Straighten({own, lane}));
    threads_.emplace_back(y, LoopKind::kThreadY);
    threads_.emplace_back(x, LoopKind::kThreadX);
    s_.Place(block);
    return {};
  }

  Status PlaceEpilogue(const Name& epilogue) {
    std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = epilogue, .loop = block_}));
    auto [x, lane] = TRY(s_.Split(loops.back(), {x_, lanes_}));
    loops.pop_back();
    TRY(s_.Order({x, loops, lane}));
    TRY(s_.Straighten({loops, lane}));
    threads_.emplace_back(x, LoopKind::kThreadX);
    s_.Place(epilogue);
    return {};
  }

  void AddModel() {
    s_.AddStage({.kind = StageModel::kGpuSums,
                 .block = name_,
                 .n_knob = x_.knob,
                 .k_knob = y_.knob,
                 .outer = Iterations(roles_.outer),
                 .m = Iterations(roles_.rows),
                 .n = roles_.columns.extent,
                 .k = length_,
                 .element_bytes = bytes_,
                 .lanes = lanes_,
                 .depth = unroll_});
  }

  SketchBuilder& s_;
  const Name name_;
  const SumRoles roles_;
  const Name steps_;
  int64_t length_ = 1, lanes_ = 1, bytes_ = 4, unroll_ = 1;
  Choice x_, y_;
  // Block `partial_` computes the partial sums in buffer `registers_`. Block `copy_` copies them to the shared buffer
  // that is also called `partial_`.
  Name partial_, copy_, registers_;
  Name outer_, block_;  // loops over blocks of threads
  std::vector<std::pair<Name, LoopKind>> threads_;
};

// Returns the number of parts into which the sums are cut, so that all threads of the GPU have work. Different blocks
// of threads compute the parts. The number divides the length. It is 1 if no parts are needed or no number fits.
int64_t PartsOf(const SumRoles& roles, int64_t length, int64_t lanes, const Target& target) {
  const double busy = static_cast<double>(target.num_cores) * GpuMachineOf(target).threads;
  const int64_t threads = CeilDiv(roles.Results(), lanes) * std::min(kMostCombined, length);
  const int64_t wanted = static_cast<int64_t>(busy) / threads;
  if (wanted < 2) return 1;
  const std::vector<int64_t> parts = Divisors(length, std::min(wanted, length / kFewestOfPart));
  return parts.empty() ? 1 : parts.back();
}

}  // namespace

// Places long sums over outer dimensions with few results: column sums, global pooling, products of few rows, and the
// combination of lanes in the sum of a whole tensor. One thread for each result would leave most of a GPU idle. So the
// threads of a block share the steps of neighbouring results. Neighbouring threads read neighbouring vectors.
//
//   blocks over (outer loops), c_0
//     threads (y, x): registers = 0; steps: rows, lanes: registers += elements; shared[y, rows, x, lanes] = registers
//     threads (x): sums over y; the element-wise epilogue
//
// In way 0, the sums are cut into parts if there are too few blocks of threads, and another kernel adds up the parts.
// In way 1 they are not cut.
Status GpuSumsRule(SketchBuilder& s, const BlockView& block, int way) {
  SumRoles roles = TRY(SumRolesOf(block));
  const int64_t length = Iterations(block.reduce), lanes = LanesInMemory(block, s.target());
  if (length < kFewestSteps) return Err("the sum has few steps");
  const double busy = static_cast<double>(s.target().num_cores) * GpuMachineOf(s.target()).threads;
  if (roles.rows.empty() && static_cast<double>(roles.Results()) >= busy)
    return Err("one thread for each result fills the GPU");
  const int64_t parts = PartsOf(roles, length, lanes, s.target());
  if (way == 1 && parts == 1) return Err("the sum is not cut");
  TRY(s.Order({block.spatial, block.reduce}));
  const Name steps = TRY(s.FuseLoops(block.reduce));
  if (way == 1 || parts == 1) return SumTiler(s, block, roles, steps).Run();

  auto [part, rest] = TRY(s.Split(steps, {parts, kAuto}));
  TRY(s.Order({part, block.spatial, rest}));
  const Name partial = TRY(s.Do(Rfactor{.loop = part, .axis = 0})).front();
  std::vector<BlockView> blocks = s.Blocks();
  const BlockView* view = FindBlock(blocks, partial);
  if (!view) return Err("the partial sums no longer exist");
  TRY(SumTiler(s, *view, TRY(SumRolesOf(*view)), view->reduce.front().var).Run());
  blocks = s.Blocks();
  view = FindBlock(blocks, block.name);
  if (!view) return Err("the sum no longer exists");
  if (parts < kFewestSteps) return {};  // other rules place short sums
  TRY(s.Order({view->spatial, view->reduce}));
  return SumTiler(s, *view, TRY(SumRolesOf(*view)), view->reduce.front().var).Run();
}

}  // namespace autotune
