#include "compiler/change.h"

#include <algorithm>

namespace autotune {
namespace {

// Returns the index of the ratio with the largest `key` among those that `counts` accepts; the number of ratios if it
// accepts none.
template <typename Counts, typename Key>
size_t Largest(const std::vector<MedianInterval>& ratios, const Counts& counts, const Key& key) {
  size_t best = ratios.size();
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (counts(ratios[i]) && (best == ratios.size() || key(ratios[i]) > key(ratios[best]))) best = i;
  }
  return best;
}

}  // namespace

bool IsUndecided(const MedianInterval& ratio) {
  return ratio.low <= 1 && ratio.high >= 1 && ratio.HalfWidth() > kResolution;
}

ChangeVerdict JudgeChange(const std::vector<MedianInterval>& ratios) {
  auto slowness = [](const MedianInterval& ratio) { return ratio.median; };
  const size_t none = ratios.size();
  const size_t loss = Largest(
      ratios, [](const MedianInterval& ratio) { return ratio.low > 1; }, slowness);
  if (loss != none) return {ChangeKind::kLoss, loss};
  const size_t gain = Largest(
      ratios, [](const MedianInterval& ratio) { return ratio.high < 1; },
      [](const MedianInterval& ratio) { return -ratio.median; });
  if (gain == none) {
    const size_t open = Largest(ratios, IsUndecided, [](const MedianInterval& ratio) { return ratio.HalfWidth(); });
    return open == none ? ChangeVerdict{} : ChangeVerdict{ChangeKind::kUndecided, open};
  }
  const size_t doubt = Largest(
      ratios, [](const MedianInterval& ratio) { return IsUndecided(ratio) && ratio.median > 1; }, slowness);
  return doubt == none ? ChangeVerdict{ChangeKind::kGain, gain} : ChangeVerdict{ChangeKind::kUndecided, doubt};
}

}  // namespace autotune
