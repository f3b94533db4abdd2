// SketchBuilder: the interface through which sketch rules write a sketch. A rule names the loops of a block by their
// roles and applies schedule steps. Work that several rules share is one method here. A method that leaves a number to
// search, such as the size of a tile, also registers the number as a knob of the sketch.
//
// Every method that changes the sketch returns an error if the schedule refuses a step. The rule returns this error,
// and its caller drops the changes (tuner/rule/rule.h). A value type: copy it to try an alternative. Threads may share
// an object only to read it.
#pragma once
#include <array>
#include <set>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/machine.h"
#include "tuner/rule/block_view.h"
#include "tuner/sketch.h"

namespace autotune {

// Limits of a register tile. Fourteen rows of one vector and two operands fill the 16 registers of AVX2. A tile of 14
// rows and 4 vectors is larger than every register file, so larger limits would only add tiles that spill.
inline constexpr int64_t kMaxRows = 14;    // rows of a product
inline constexpr int64_t kMaxVectors = 4;  // vectors of a row or pixel
inline constexpr int64_t kMaxUnroll = 8;   // unrolled steps of a reduction
// Limits of a parallel loop. bench/fork_join.cc measures what a fork costs.
inline constexpr int64_t kWorthForking = 16384;  // elements below which a fork costs more than it saves
inline constexpr int64_t kTasksPerCore = 8;      // enough to balance, few enough to be cheap

// The extent of the outermost level of a split: as many iterations as the loop needs.
inline constexpr int64_t kAuto = Factors::kAuto;

// A number that search chooses. Steps refer to it by its name, the draft score to its knob.
struct Choice {
  Name name;
  int knob = -1;  // -1: nothing to choose
  operator IntArg() const { return name; }
};

// A loop in tiles of two or three levels.
struct Tile {
  Name outer, middle, inner;  // no middle: two levels
  Choice sizes;
  int levels = 0;
  IntArg Inner() const { return Name(sizes.name.str() + "." + std::to_string(levels - 1)); }  // size of the innermost
};

struct TileOptions {
  int levels = 2;
  int64_t max_inner = 1;
  int64_t multiple_of = 1;  // of the innermost level
};

// A reduction loop of which `inner` is unrolled.
struct Unrolled {
  Name outer, inner;
  Choice factor;
};

// Loops, outermost first. Those that do not exist (empty names) are left out.
struct Loops {
  std::vector<Name> list;
  Loops() = default;
  Loops(const Name& loop) {
    if (!loop.empty()) list.push_back(loop);
  }
  Loops(std::vector<Name> loops) : list(std::move(loops)) {}
  template <size_t N>
  Loops(const std::array<Name, N>& loops) : list(loops.begin(), loops.end()) {}
  Loops(const std::vector<BlockView::Loop>& loops) {
    for (const BlockView::Loop& loop : loops) list.push_back(loop.var);
  }
  Loops(std::initializer_list<Loops> parts) {
    for (const Loops& part : parts) list.insert(list.end(), part.list.begin(), part.list.end());
  }
};

// Where the register tile of a reduction goes once its sums are complete: `block` reads `registers`.
struct WriteBack {
  Name block, registers;
  double flops = 0;  // of one instance; 0: a copy
};

// A register tile, by the loops around and in it.
struct RegisterTile {
  Name at;      // the innermost loop around the whole tile; the write-back is computed there
  Name below;   // the outermost reduction loop, above which the accumulators are zeroed; none: no reduction
  Loops steps;  // reduction loops that are unrolled
  Loops tile;   // the tile's own loops but for the lanes
  Name vector;  // the loop over lanes; none: scalars
  int64_t lanes = 0;
  // Unrolls the write-back's vectors before its rows. The program is the same, but records hold traces.
  bool vectors_first = false;
};

class SketchBuilder {
 public:
  // The target outlives the builder.
  SketchBuilder(PrimFunc func, const Target& target) : target_(&target), schedule_(std::move(func)) {}

  const PrimFunc& func() const { return schedule_.func(); }
  const Target& target() const { return *target_; }
  const Machine& machine() const { return MachineOf(*target_); }
  std::vector<BlockView> Blocks() const { return ViewBlocks(func()); }

  // Blocks that a rule has placed; no other rule sees them.
  bool IsPlaced(const Name& block) const { return placed_.contains(block); }
  size_t Placed() const { return placed_.size(); }  // how many
  void Place(const Name& block) { placed_.insert(block); }
  // `Call` adds the block's part to the name of the sketch, which people read. `AddStage` adds what the draft score
  // needs to know about the block, and returns the index of the stage.
  void Call(const std::string& part);
  int AddStage(const StageModel& stage);
  // Adds a stage for passes over whole buffers (`stage.block` and `stage.passes`). Fills in the arithmetic and the
  // traffic of the passes. Fills in the tasks of the parallel loop around them, unless the tasks depend on a choice
  // (shares_vectors, location_knob).
  int AddPasses(StageModel stage);
  bool IsInTask(const Name& block) const;  // in a parallel loop
  const std::vector<StageModel>& stages() const { return stages_; }

  // Returns true if the block computes partial results of a reduction: nothing but reductions that are not placed reads
  // them.
  bool IsPartial(const std::vector<BlockView>& blocks, const BlockView& block) const;

  // ---- Steps --------------------------------------------------------------------------------------------------------
  // Applies a step; returns the names that it made.
  Result<std::vector<Name>> Do(Step step);
  // Applies a step if the schedule allows it; tells whether it did.
  bool Try(Step step) { return Do(std::move(step)).ok(); }
  // Calls `steps` with a copy of the builder. Keeps its changes if it succeeds, else drops them all.
  template <class Steps>
  bool TryAll(const Steps& steps) {
    SketchBuilder trial = *this;
    if (!steps(trial).ok()) return false;
    *this = std::move(trial);
    return true;
  }
  // Like Do, for a step that makes N names: auto [buffer, copy] = TRY(s.Make<2>(CacheWrite{...})).
  template <size_t N>
  Result<std::array<Name, N>> Make(Step step) {
    std::vector<Name> made = TRY(Do(std::move(step)));
    if (made.size() != N) return Err("a step made ", made.size(), " names where the rule expects ", N);
    std::array<Name, N> names;
    std::copy(made.begin(), made.end(), names.begin());
    return names;
  }
  // auto [outer, inner] = TRY(s.Split(loop, {kAuto, 4}))
  template <size_t N>
  Result<std::array<Name, N>> Split(const Name& loop, const IntArg (&factors)[N]) {
    autotune::Split step{.loop = loop};
    step.factors.list.assign(factors, factors + N);
    return Make<N>(std::move(step));
  }
  // How many loops are around `loop`, which is one of the spatial loops around the block; -1 if it is not.
  int64_t DepthOf(const Name& block, const Name& loop) const;
  Status Order(const Loops& loops);
  // Fuses the loops, also into a parallel one, and returns the loop; no loops: none.
  Result<Name> FuseLoops(const Loops& loops);
  Result<Name> Parallel(const Loops& loops);
  Status Unroll(const Loops& loops);
  // Unrolls all loops but the last, which becomes vectors.
  Status Straighten(const Loops& loops);

  // Splits a reduction loop into `parts`, whose partial sums belong to a new block. The part is the first iterator of
  // that block. The loop that adds up the parts comes after all loops of the block. Returns the new block.
  Result<Name> CutReduction(const BlockView& block, const BlockView::Loop& loop, int64_t parts);

  // ---- Choices ------------------------------------------------------------------------------------------------------
  Result<Choice> Choose(const std::string& name, std::vector<int64_t> candidates);
  // How far a reduction loop is unrolled; `candidates` divide its extent.
  Result<Choice> ChooseUnroll(const BlockView::Loop& loop, std::vector<int64_t> candidates);
  // -1: before the nest; k: inside the loop of that depth.
  Result<Choice> ChooseLocation(const Name& block, std::vector<int64_t> depths);
  Result<Tile> ChooseTile(const BlockView::Loop& loop, const TileOptions& options);
  // Splits the loop, which may have another name by now, into the tile's levels.
  Status SplitTile(const Name& loop, Tile& tile);
  Status SplitUnrolled(const Name& loop, Unrolled& unrolled);
  Result<Tile> TileLoop(const BlockView::Loop& loop, const TileOptions& options);
  Result<Unrolled> UnrollReduction(const BlockView::Loop& loop, std::vector<int64_t> candidates);
  // Chooses the prefetches of a block. All of them are equally far ahead, by one choice. Those that the schedule allows
  // are applied at the end, since no step may follow them. Makes no choice if none is possible.
  Result<Choice> ChoosePrefetches(const std::string& name, const std::vector<Prefetch>& wanted,
                                  std::vector<int64_t> ahead);
  // Adds prefetches one iteration ahead, without a choice.
  void AddPrefetches(const std::vector<Prefetch>& wanted);

  // Returns the fused consumer of the block. If there is none, adds a block that copies the result, and returns that.
  Result<WriteBack> MakeWriteBack(const BlockView& block);
  // Computes the write-back at the tile, keeps the accumulators in registers, initialises them with zeros, and unrolls
  // all loops. Places both blocks.
  Status MakeRegisterTile(const BlockView& block, const WriteBack& out, const RegisterTile& tile);
  // The part without a write-back: zeroes, unrolls, and vectorizes.
  Status ZeroAndStraighten(const Name& block, const Name& below, const Loops& steps, const Loops& tile,
                           const Name& vector);

  // The finished sketch: prefetches applied, decisions open.
  Result<Sketch> Finish() &&;

 private:
  // The prefetches that the schedule allows.
  std::vector<Prefetch> Possible(const std::vector<Prefetch>& wanted) const;
  Result<Choice> Sample(Step step, int64_t extent, std::vector<int64_t> candidates);

  const Target* target_;
  Schedule schedule_;
  std::string name_;
  std::vector<Knob> knobs_;
  std::vector<StageModel> stages_;
  std::set<Name> placed_;
  std::vector<Prefetch> prefetches_;
};

// Returns the lanes of a vector of the block's elements; 1 if the target has no vectors.
int64_t LanesOf(const BlockView& block, const Target& target);
// Like LanesOf, if all elements that the block accesses along its last loop are such vectors in memory; else returns 1.
int64_t LanesInMemory(const BlockView& block, const Target& target);
// Returns the elements of the shortest vector that any target has, 128 bits. What is shorter stays scalar.
int64_t ShortestVector(const BlockView& block);
// Returns the number of elements of a vector along n columns; 0 (scalars) for a single column. A narrow n gets the
// shortest vector that holds all of it, so that the fewest lanes overshoot.
int64_t TileLanes(const BlockView& block, int64_t n, const Target& target);
// The divisors of n from `least` to `most`.
std::vector<int64_t> Divisors(int64_t n, int64_t most, int64_t least = 1);

}  // namespace autotune
