#include "tuner/defaults.h"

#include <algorithm>
#include <utility>

namespace autotune {
namespace {

// Number of proposals by draft score among the candidates. Builds reject the first proposal of some tasks, but rarely
// the next ones, and almost no task needs the eighth.
constexpr int kDefaultsTried = 8;

}  // namespace

std::vector<Proposal> DefaultCandidates(const TaskSpace& space) {
  std::vector<Proposal> candidates = DefaultProposals(space, kDefaultsTried);
  auto plain = std::min_element(space.sketches.begin(), space.sketches.end(),
                                [](const Sketch& a, const Sketch& b) { return a.alternative < b.alternative; });
  Proposal unscheduled;
  unscheduled.sketch = static_cast<int>(plain - space.sketches.begin());
  candidates.push_back(std::move(unscheduled));
  return candidates;
}

}  // namespace autotune
