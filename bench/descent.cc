#include "bench/descent.h"

#include <algorithm>
#include <cmath>

#include "tuner/points.h"

namespace autotune::bench {
namespace {

constexpr int kStarts = 100;  // number of the best measured points that are kept

class Descent : public SearchStrategy {
 public:
  Descent(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    std::vector<Proposal> proposals;
    for (const Start& start : best_) {
      for (const Point& neighbour : Neighbours(start)) {
        if (static_cast<int>(proposals.size()) == n) return proposals;
        if (!closed_.Close(neighbour.hash) || !std::isfinite(neighbour.draft)) continue;
        if (std::optional<Proposal> proposal = Realize(space_, neighbour, true))
          proposals.push_back(std::move(*proposal));
      }
    }
    return proposals;
  }

  void Observe(const Proposal& proposal, double seconds) override {
    Exclude(proposal);
    if (!std::isfinite(seconds)) return;
    auto place = std::upper_bound(best_.begin(), best_.end(), seconds,
                                  [](double s, const Start& start) { return s < start.seconds; });
    best_.insert(place, {proposal.sketch, proposal.decisions, seconds});
    if (best_.size() > kStarts) best_.pop_back();
  }
  void Exclude(const Proposal& proposal) override {
    closed_.Close(HashPoint(space_, proposal.sketch, proposal.decisions));
  }

 private:
  struct Start {
    int sketch;
    Decisions decisions;
    double seconds;
  };

  // Returns the open neighbours of a point, in random order.
  std::vector<Point> Neighbours(const Start& start) {
    const Sketch& sketch = space_.sketches[start.sketch];
    std::vector<Point> neighbours;
    for (size_t knob = 0; knob < start.decisions.size(); ++knob) {
      for (Decision& to : NeighboursOf(sketch, static_cast<int>(knob), start.decisions[knob])) {
        Decisions decisions = start.decisions;
        decisions[knob] = std::move(to);
        Point neighbour = MakePoint(space_, start.sketch, std::move(decisions));
        if (!closed_.Contains(neighbour.hash)) neighbours.push_back(std::move(neighbour));
      }
    }
    for (size_t i = neighbours.size(); i > 1; --i)
      std::swap(neighbours[i - 1], neighbours[static_cast<size_t>(rng_.Below(static_cast<int64_t>(i)))]);
    return neighbours;
  }

  const TaskSpace& space_;
  Rng rng_;
  std::vector<Start> best_;  // fastest first
  ClosedPoints closed_;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed) {
  return std::make_unique<Descent>(space, seed);
}

}  // namespace autotune::bench
