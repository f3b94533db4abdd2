#include "tuner/rule/builder.h"

namespace autotune {

Result<std::vector<Name>> SketchState::Do(Step step) {
  Rng rng(0);  // any decision will do: sketches are undecided again when they are done
  return schedule.Apply(std::move(step), &rng);
}

Result<Name> SketchState::Sample(Step step, int64_t extent, std::vector<int64_t> candidates, int& knob) {
  knob = static_cast<int>(knobs.size());
  knobs.push_back({static_cast<int>(schedule.trace().size()), extent, std::move(candidates)});
  return TRY(Do(std::move(step)))[0];
}

Status SketchState::SampleAhead(const std::vector<Prefetch>& wanted, const std::string& name,
                                const std::vector<int64_t>& ahead, int& knob) {
  std::vector<Prefetch> possible;
  for (const Prefetch& prefetch : wanted) {
    if (SketchState trial = *this; trial.Do(prefetch).ok()) possible.push_back(prefetch);
  }
  if (possible.empty()) return {};
  Name n = TRY(Sample(SampleCategorical{.candidates = ahead, .results = {Name(name)}},
                      static_cast<int64_t>(ahead.size()), ahead, knob));
  for (Prefetch& prefetch : possible) {
    prefetch.ahead = n;
    prefetches.push_back(prefetch);
  }
  return {};
}

namespace {
class Steps : public SketchRule {
 public:
  Steps(RuleFunction* rule, int ways) : rule_(rule), ways_(ways) {}
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<SketchState> states;
    for (const BlockView& block : ViewBlocks(state.schedule.func())) {
      if (state.done.contains(block.name)) continue;
      for (int way = 0; way < ways_; ++way) {
        SketchBuilder builder(state, target);
        if (rule_(builder, block, way).ok()) states.push_back(std::move(builder).Take());
      }
      if (!states.empty()) break;
    }
    return states;
  }

 private:
  RuleFunction* rule_;
  int ways_;
};
}  // namespace

Result<std::vector<Sketch>> GenerateSketches(const PrimFunc& func, const Target& target) {
  // Each rule in turn, until it finds no block; a state that branches becomes several.
  const Steps rows(RowsRule, 1), columns(ColumnsRule, 1), lanes(LanesRule, 1), in_line(InlineRule, 1),
      streaming(StreamingRule, 1), winograd(WinogradRule, 1), window(WindowRule, 2), tiling(TilingRule, 6),
      streams(StreamsRule, 1);
  const SketchRule* const rules[] = {&in_line, &winograd, &rows,   &window,   &columns,
                                     &lanes,   &streams,  &tiling, &streaming};
  std::vector<SketchState> states = {SketchState{.schedule = Schedule(func)}};
  for (const SketchRule* rule : rules) {
    std::vector<SketchState> finished;
    while (!states.empty()) {
      SketchState state = std::move(states.back());
      states.pop_back();
      std::vector<SketchState> next = TRY(rule->Apply(state, target));
      if (next.empty()) {
        finished.push_back(std::move(state));
      } else {
        states.insert(states.end(), std::make_move_iterator(next.begin()), std::make_move_iterator(next.end()));
      }
    }
    states = std::move(finished);
  }
  std::vector<Sketch> sketches;
  for (SketchState& state : states) {
    for (const Prefetch& prefetch : state.prefetches) TRY(state.Do(prefetch));
    Sketch sketch{.name = state.name,
                  .trace = state.schedule.trace(),
                  .knobs = std::move(state.knobs),
                  .stages = std::move(state.stages)};
    for (const Knob& knob : sketch.knobs) DecisionOf(sketch.trace[knob.step])->values.clear();
    sketches.push_back(std::move(sketch));
  }
  return sketches;
}

}  // namespace autotune
