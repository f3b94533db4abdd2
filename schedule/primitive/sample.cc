// sample_tile, sample_categorical, sample_compute_location: draw decisions and check them.
#include "schedule/sample.h"

#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

Error Undecided() { return Err("the step has no decision, and no random generator to draw one"); }

}  // namespace

Status ApplyStep(State& state, SampleTile& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  int64_t extent = TRY(ConstExtent(path.loop()));
  if (step.n < 2 || step.n > 16) return Err("n=", step.n, " is not between 2 and 16");
  if (step.multiple_of < 1 || step.max_inner < step.multiple_of) {
    return Err("max_inner=", step.max_inner, " leaves no multiple of ", step.multiple_of);
  }
  // InnerTiles tries all multiples up to max_inner, so this bounds its time.
  constexpr int64_t kMaxInner = 1 << 16;
  if (step.max_inner > kMaxInner) return Err("max_inner=", step.max_inner, " is more than ", kMaxInner);
  step.results = TRY(ResultNames(step.results.names, {Suffixed(step.loop, "_t")}));
  TRY(state.CheckNewSample(step.results.names[0]));
  if (!step.decision.decided()) {
    if (!state.rng) return Undecided();
    bool reduction = false;
    ForEachBlock(path.target(),
                 [&](const Block& block, const auto&) { reduction |= FeedsOf(block, step.loop).reduce; });
    int64_t limit = CoverLimit(extent, reduction);
    step.decision = TRY(DrawTile(extent, step.n, step.max_inner, step.multiple_of, limit, *state.rng));
  }
  TRY(CheckTile(step.decision.values, extent, step.n, step.max_inner, step.multiple_of));
  state.samples.push_back({step.results.names[0], step.decision.values});
  return {};
}

Status ApplyStep(State& state, SampleCategorical& step) {
  if (step.candidates.empty()) return Err("there are no candidates");
  if (!step.probabilities.empty() && step.probabilities.size() != step.candidates.size()) {
    return Err("there are ", step.candidates.size(), " candidates and ", step.probabilities.size(), " probabilities");
  }
  double total = 0;
  for (double p : step.probabilities) {
    if (!(p >= 0 && p <= 1)) return Err("probability ", p, " is not between 0 and 1");
    total += p;
  }
  if (!step.probabilities.empty() && total <= 0) return Err("all probabilities are 0");
  if (step.results.names.size() != 1) return Err("sample_categorical has one result, which has no default name");
  TRY(state.CheckNewSample(step.results.names[0]));
  if (!step.decision.decided()) {
    if (!state.rng) return Undecided();
    size_t i = 0;
    if (step.probabilities.empty()) {
      i = state.rng->Below(static_cast<int64_t>(step.candidates.size()));
    } else {
      double at = state.rng->Uniform() * total;
      while (i + 1 < step.candidates.size() && (at >= step.probabilities[i] || step.probabilities[i] == 0)) {
        at -= step.probabilities[i++];
      }
    }
    step.decision = {step.candidates[i]};
  }
  if (step.decision.values.size() != 1) return Err("the decision is not one number");
  int64_t value = step.decision.values[0];
  if (std::find(step.candidates.begin(), step.candidates.end(), value) == step.candidates.end()) {
    return Err("the decision ", value, " is not a candidate");
  }
  state.samples.push_back({step.results.names[0], step.decision.values});
  return {};
}

Status ApplyStep(State& state, SampleComputeLocation& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Buffer buffer = TRY(WrittenBuffer(path.block()));
  std::vector<Name> readers = ReadersOf(state.func.body, buffer->name);
  if (readers.empty()) return Err("nothing reads block '", step.block, "'");
  // Collects the loops that are around all consumers, outermost first. Stops at the first loop that feeds a reduction
  // iterator of a consumer, or is vectorized.
  std::vector<Name> candidates;
  bool first = true;
  ForEachBlock(state.func.body, [&](const Block& block, const std::vector<const For*>& loops) {
    if (std::find(readers.begin(), readers.end(), block.name) == readers.end()) return;
    size_t n = 0;
    while (n < loops.size() && !FeedsOf(block, loops[n]->var).reduce && loops[n]->kind != LoopKind::kVectorized &&
           (first || (n < candidates.size() && candidates[n] == loops[n]->var))) {
      if (first) candidates.push_back(loops[n]->var);
      ++n;
    }
    candidates.resize(n);
    first = false;
  });
  step.results = TRY(ResultNames(step.results.names, {Suffixed(step.block, "_at")}));
  TRY(state.CheckNewSample(step.results.names[0]));
  int64_t count = static_cast<int64_t>(candidates.size());
  if (!step.decision.decided()) {
    if (!state.rng) return Undecided();
    step.decision = {state.rng->Below(count + 1) - 1};
  }
  if (step.decision.values.size() != 1) return Err("the decision is not one number");
  int64_t depth = step.decision.values[0];
  if (depth < -1 || depth >= count) return Err("the decision ", depth, " is not between -1 and ", count - 1);
  state.locations.push_back({step.results.names[0], depth < 0 ? Name() : candidates[depth]});
  return {};
}

}  // namespace autotune::schedule
