#include "tuner/sketch.h"

#include <algorithm>

#include "schedule/sample.h"
#include "support/hash.h"
#include "support/integer.h"

namespace autotune {
namespace {

// Draws a tile. Rules make only steps for which tiles exist, so a step without tiles fails a check.
Decision Draw(const SampleTile& step, int64_t extent, Rng& rng) {
  return DrawTile(extent, step.n, step.max_inner, step.multiple_of, CoverLimit(extent, false), rng).value();
}

// Returns the tiles that are one move away from `from`. A move changes the factor of one inner level (one unit more or
// less, twice or half as much) or moves a factor of two from one inner level to another. The outermost level follows,
// so that the product covers the extent.
std::vector<Decision> NeighbouringTiles(const SampleTile& step, int64_t extent, const Decision& from) {
  std::vector<Decision> tiles;
  const size_t levels = from.values.size();
  auto unit = [&](size_t level) { return level + 1 == levels ? step.multiple_of : 1; };
  auto half = [&](size_t level) { return CeilDiv(from.values[level] / 2, unit(level)) * unit(level); };
  auto add = [&](Decision to) {
    int64_t inner = 1;
    for (size_t level = 1; level < levels; ++level) {
      if (to.values[level] < unit(level)) return;
      inner *= to.values[level];
    }
    to.values[0] = CeilDiv(extent, inner);
    if (to == from || std::find(tiles.begin(), tiles.end(), to) != tiles.end()) return;
    if (CheckTile(to.values, extent, step.n, step.max_inner, step.multiple_of).ok()) tiles.push_back(std::move(to));
  };
  for (size_t level = 1; level < levels; ++level) {
    const int64_t now = from.values[level];
    for (int64_t factor : {now + unit(level), now - unit(level), now * 2, half(level)}) {
      Decision to = from;
      to.values[level] = factor;
      add(std::move(to));
    }
    for (size_t other = 1; other < levels; ++other) {
      if (other == level) continue;
      Decision to = from;
      to.values[level] = now * 2;
      to.values[other] = half(other);
      add(std::move(to));
    }
  }
  return tiles;
}

// Draws a candidate by the step's probabilities, or uniformly if it has none.
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

std::vector<Decision> NeighboursOf(const Sketch& sketch, int knob_index, const Decision& from) {
  const Knob& knob = sketch.knobs[knob_index];
  if (const auto* tile = std::get_if<SampleTile>(&sketch.trace[knob.step]))
    return NeighbouringTiles(*tile, knob.extent, from);
  std::vector<Decision> others;
  for (int64_t value : knob.candidates) {
    if (value != from.values[0]) others.push_back({value});
  }
  return others;
}

Decision MutateDecision(const Sketch& sketch, int knob_index, const Decision& from, Rng& rng) {
  const bool tile = std::holds_alternative<SampleTile>(sketch.trace[sketch.knobs[knob_index].step]);
  if (tile && rng.Below(4) == 0) return DrawDecision(sketch, knob_index, rng);
  std::vector<Decision> neighbours = NeighboursOf(sketch, knob_index, from);
  if (neighbours.empty()) return DrawDecision(sketch, knob_index, rng);
  return std::move(neighbours[rng.Below(static_cast<int64_t>(neighbours.size()))]);
}

Decisions WithSmallestBody(const Sketch& sketch, Decisions decisions) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Step& step = sketch.trace[sketch.knobs[i].step];
    std::vector<int64_t>& values = decisions[i].values;
    if (const auto* tile = std::get_if<SampleTile>(&step)) {
      const int64_t around = CeilDiv(values.end()[-2] * values.back(), tile->multiple_of);
      values.back() = tile->multiple_of;
      values.end()[-2] = values.size() > 2 ? around : CeilDiv(sketch.knobs[i].extent, tile->multiple_of);
    } else if (const auto* categorical = std::get_if<SampleCategorical>(&step)) {
      values = {*std::ranges::min_element(categorical->candidates)};
    } else {
      values = {*std::ranges::min_element(sketch.knobs[i].candidates)};
    }
  }
  return decisions;
}

bool Allows(const Sketch& sketch, int knob_index, const Decision& decision) {
  const Knob& knob = sketch.knobs[knob_index];
  if (const auto* tile = std::get_if<SampleTile>(&sketch.trace[knob.step]))
    return CheckTile(decision.values, knob.extent, tile->n, tile->max_inner, tile->multiple_of).ok();
  return decision.values.size() == 1 &&
         std::find(knob.candidates.begin(), knob.candidates.end(), decision.values[0]) != knob.candidates.end();
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
