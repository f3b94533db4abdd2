// Sketch rules: each looks at the blocks of a partly scheduled function and applies the steps that usually pay off,
// leaving what must be searched to sampling steps. The list of rules is in sketch_generator.cc. To add one: a .cc here
// and a line in that list. Thread-safe.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "tuner/rule/block_view.h"
#include "tuner/sketch.h"

namespace autotune {

// Limits of a register tile. AVX2 has room for 14 accumulators of one vector each; no register file takes more than the
// product of the two.
inline constexpr int64_t kMaxRows = 14;          // rows of a product
inline constexpr int64_t kMaxVectors = 4;        // vectors of a row or pixel
inline constexpr int64_t kMaxUnroll = 8;         // unrolled steps of a reduction
inline constexpr int64_t kShortestVector = 4;    // elements: what is shorter stays scalar
inline constexpr int64_t kPage = 4096;           // bytes: the sets of a first-level cache cover it once, mostly
inline constexpr int64_t kWorthForking = 16384;  // elements below which a fork costs more than it saves
inline constexpr int64_t kTasksPerCore = 8;      // enough to balance, few enough to be cheap

// A sketch in the making.
struct SketchState {
  Schedule schedule;
  std::string name;
  std::vector<Knob> knobs;
  std::vector<StageModel> stages;
  std::set<Name> done;               // blocks that a rule has placed
  std::vector<Prefetch> prefetches;  // to be applied when all are: nothing else may follow them

  // Applies a step; the names it made. A failing step is an error of the rule's making.
  Result<std::vector<Name>> Do(Step step);
  // Applies a sampling step and registers its knob; `knob` receives the knob's index. Returns the result's name.
  Result<Name> Sample(Step step, int64_t extent, std::vector<int64_t> candidates, int& knob);
  // Of the prefetches, those that can be applied, in the end, all as far ahead as one new knob says; none: no knob.
  Status SampleAhead(const std::vector<Prefetch>& wanted, const std::string& name, const std::vector<int64_t>& ahead,
                     int& knob);
};

// The one element-wise block, not placed yet, that reads all that a reduction writes, over loops of the same extents:
// where its register tile can be written back through. Null if there is none.
const BlockView* FusedConsumer(const SketchState& state, const std::vector<BlockView>& blocks, const BlockView& block);
// Whether the block computes partial results of a reduction: nothing but reductions that are not placed reads them.
bool IsPartial(const SketchState& state, const std::vector<BlockView>& blocks, const BlockView& block);
// The iterator of the block that a loop alone feeds; empty if there is none.
Name IterOf(const BlockView& block, const Name& loop);

class SketchRule {
 public:
  virtual ~SketchRule() = default;
  // All ways to go on from `state` with one more block placed; empty if the rule applies to no block left.
  virtual Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const = 0;
};

class SketchBuilder;
using RuleFunction = Status(SketchBuilder& s, const BlockView& block, int way);
RuleFunction TilingRule, StreamsRule, WindowRule, WinogradRule, RowsRule, ColumnsRule, LanesRule, StreamingRule,
    InlineRule;

// Every sketch of a function. At least one for any function that te makes.
Result<std::vector<Sketch>> GenerateSketches(const PrimFunc& func, const Target& target);

}  // namespace autotune
