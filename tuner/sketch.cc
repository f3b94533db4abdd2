#include "tuner/sketch.h"

#include <algorithm>

#include "schedule/sample.h"
#include "support/hash.h"

namespace autotune {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The rules make tiles that can be drawn: anything else is their bug.
Decision Draw(const SampleTile& step, int64_t extent, Rng& rng) {
  return DrawTile(extent, step.n, step.max_inner, step.multiple_of, CoverLimit(extent, false), rng).value();
}

// Another factor at one of the inner levels; the outermost level follows, so that the product covers the extent.
Decision MutateTile(const SampleTile& step, int64_t extent, const Decision& from, Rng& rng) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    Decision to = from;
    size_t level = 1 + static_cast<size_t>(rng.Below(static_cast<int64_t>(to.values.size()) - 1));
    int64_t unit = level + 1 == to.values.size() ? step.multiple_of : 1;
    int64_t& factor = to.values[level];
    switch (rng.Below(4)) {
      case 0:
        factor += unit;
        break;
      case 1:
        factor -= unit;
        break;
      case 2:
        factor *= 2;
        break;
      default:
        factor = CeilDiv(factor / 2, unit) * unit;
        break;
    }
    if (factor < unit) continue;
    int64_t inner = 1;
    for (size_t l = 1; l < to.values.size(); ++l) inner *= to.values[l];
    to.values[0] = CeilDiv(extent, inner);
    if (!(to == from) && CheckTile(to.values, extent, step.n, step.max_inner, step.multiple_of).ok()) return to;
  }
  return Draw(step, extent, rng);
}

// By the step's probabilities; equal ones if it has none.
Decision DrawCategorical(const SampleCategorical& step, Rng& rng) {
  if (step.probabilities.empty()) return {step.candidates[rng.Below(static_cast<int64_t>(step.candidates.size()))]};
  double at = rng.Uniform();
  for (size_t i = 0; i + 1 < step.candidates.size(); ++i) {
    if ((at -= step.probabilities[i]) < 0) return {step.candidates[i]};
  }
  return {step.candidates.back()};
}

}  // namespace

Decision DrawDecision(const Sketch& sketch, int knob_index, Rng& rng) {
  const Knob& knob = sketch.knobs[knob_index];
  const Step& step = sketch.trace[knob.step];
  if (const auto* tile = std::get_if<SampleTile>(&step)) return Draw(*tile, knob.extent, rng);
  if (const auto* categorical = std::get_if<SampleCategorical>(&step)) return DrawCategorical(*categorical, rng);
  return {knob.candidates[rng.Below(static_cast<int64_t>(knob.candidates.size()))]};
}

Decisions DrawDecisions(const Sketch& sketch, Rng& rng) {
  Decisions decisions;
  for (size_t i = 0; i < sketch.knobs.size(); ++i) decisions.push_back(DrawDecision(sketch, static_cast<int>(i), rng));
  return decisions;
}

Decision MutateDecision(const Sketch& sketch, int knob_index, const Decision& from, Rng& rng) {
  const Knob& knob = sketch.knobs[knob_index];
  const auto* tile = std::get_if<SampleTile>(&sketch.trace[knob.step]);
  if (tile && from.values.size() > 1 && rng.Below(4) != 0) return MutateTile(*tile, knob.extent, from, rng);
  if (tile || knob.candidates.size() < 2) return DrawDecision(sketch, knob_index, rng);
  auto at = std::find(knob.candidates.begin(), knob.candidates.end(), from.values[0]) - knob.candidates.begin();
  int64_t last = static_cast<int64_t>(knob.candidates.size()) - 1;
  int64_t next = at == 0 ? 1 : at == last ? last - 1 : rng.Below(2) ? at + 1 : at - 1;
  return {knob.candidates[next]};
}

Trace Decide(const Sketch& sketch, const Decisions& decisions) {
  Trace trace = sketch.trace;
  for (size_t i = 0; i < sketch.knobs.size(); ++i) *DecisionOf(trace[sketch.knobs[i].step]) = decisions[i];
  return trace;
}

uint64_t HashDecisions(const Sketch& sketch, const Decisions& decisions) {
  uint64_t hash = sketch.knobs.size();
  for (const Decision& decision : decisions) {
    for (int64_t value : decision.values)
      hash = HashCombine(hash, static_cast<uint64_t>(value) * 0x9e3779b97f4a7c15ULL);
  }
  return hash;
}

}  // namespace autotune
