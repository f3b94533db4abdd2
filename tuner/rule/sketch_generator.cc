#include <deque>
#include <map>
#include <optional>
#include <span>

#include "support/log.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

struct ListedRule {
  const char* name;
  SketchRule* place;
  int ways;
};

#define AUTOTUNE_LIST_RULE(function, ways) {#function, function, ways},
constexpr ListedRule kCpuRules[] = {AUTOTUNE_SKETCH_RULES(AUTOTUNE_LIST_RULE)};
constexpr ListedRule kGpuRules[] = {AUTOTUNE_GPU_RULES(AUTOTUNE_LIST_RULE)};
#undef AUTOTUNE_LIST_RULE

using Refusals = std::map<Name, std::string>;  // by block

// Returns one builder for each way in which the rule can place the next block. Returns none if the rule can place no
// further block. Adds the reasons to `refusals`.
std::vector<SketchBuilder> PlaceOne(const ListedRule& rule, const SketchBuilder& from, Refusals& refusals) {
  std::vector<SketchBuilder> placed;
  for (const BlockView& block : from.Blocks()) {
    if (from.IsPlaced(block.name)) continue;
    for (int way = 0; way < rule.ways; ++way) {
      SketchBuilder next = from;
      if (Status status = rule.place(next, block, way); !status.ok()) {
        if (way == 0) refusals[block.name] += std::string("; ") + rule.name + ": " + status.error().Text();
        continue;
      }
      CHECK(next.Placed() > from.Placed() || !FindBlock(next.Blocks(), block.name))
          << rule.name << " succeeds, but does not place block " << block.name.str();
      placed.push_back(std::move(next));
    }
    if (!placed.empty()) break;
  }
  return placed;
}

}  // namespace

Result<std::vector<Sketch>> GenerateSketches(const PrimFunc& func, const Target& target) {
  std::vector<SketchBuilder> states = {SketchBuilder(func, target)};
  Refusals refusals;
  const std::span<const ListedRule> rules =
      target.IsGpu() ? std::span<const ListedRule>(kGpuRules) : std::span<const ListedRule>(kCpuRules);
  for (const ListedRule& rule : rules) {
    std::deque<SketchBuilder> open(std::make_move_iterator(states.begin()), std::make_move_iterator(states.end()));
    states.clear();
    while (!open.empty()) {
      SketchBuilder state = std::move(open.front());
      open.pop_front();
      std::vector<SketchBuilder> next = PlaceOne(rule, state, refusals);
      if (next.empty()) states.push_back(std::move(state));
      open.insert(open.begin(), std::make_move_iterator(next.begin()), std::make_move_iterator(next.end()));
    }
  }
  // A block that no rule places keeps its serial loops, which are slow but correct. Such a sketch is used only if there
  // is no complete one.
  std::vector<Sketch> complete, partial;
  std::optional<Error> failed;
  for (SketchBuilder& state : states) {
    std::string unplaced;
    for (const BlockView& block : state.Blocks()) {
      if (!state.IsPlaced(block.name)) unplaced += " no rule places " + block.name.str() + refusals[block.name];
    }
    Result<Sketch> sketch = std::move(state).Finish();
    if (!sketch.ok()) {
      failed = std::move(sketch).error();
      continue;
    }
    sketch->name += unplaced;
    (unplaced.empty() ? complete : partial).push_back(*std::move(sketch));
  }
  if (complete.empty() && partial.empty() && failed) return *std::move(failed);
  if (complete.empty() && !partial.empty()) Log(LogLevel::kDebug, func.name, ":", partial.front().name);
  return complete.empty() ? std::move(partial) : std::move(complete);
}

}  // namespace autotune
