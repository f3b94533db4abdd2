// JudgeChange: whether other schedules for a network are worth taking, from measured ratios of times. It is the one
// rule of the final choice (compiler/choose.h); the sentences about a choice derive from it. Pure functions of the
// ratios.
#pragma once
#include <cstddef>
#include <vector>

#include "support/statistics.h"

namespace autotune {

// Half-width of a ratio's interval at which a comparison ends. It resolves no smaller difference.
inline constexpr double kResolution = 0.005;

enum class ChangeKind {
  kGain,       // faster for sure at one number of threads, and no loss at any other: the change is taken
  kLoss,       // slower for sure at one number of threads
  kUndecided,  // no sure loss, but an undecided interval leaves open whether there is one
  kEven,       // no sure difference, and no undecided interval: no difference that the comparison resolves
};

struct ChangeVerdict {
  ChangeKind kind = ChangeKind::kEven;
  size_t at = 0;  // index of the ratio that decides: the largest sure gain, the largest loss, or the widest interval
};

// True: the interval includes 1 and is wider than the resolution, so more measurements may decide. A narrower interval
// that includes 1 is even: all of it lies within twice the resolution of 1.
bool IsUndecided(const MedianInterval& ratio);

// Judges a change. `ratios` are the times changed / unchanged, one for each number of threads. A gain or a loss is sure
// if its whole 95 % interval lies on one side of 1. A change with a sure gain is taken if no other ratio is a sure loss
// and no undecided one has a median above 1. No ratios: kEven.
ChangeVerdict JudgeChange(const std::vector<MedianInterval>& ratios);

}  // namespace autotune
