#include "bench/descent.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace autotune::bench {
namespace {

constexpr int kDraws = 40;    // of each decision's neighbours, which are few, but can only be drawn
constexpr int kStarts = 100;  // measured points that are remembered

class Descent : public SearchStrategy {
 public:
  Descent(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  std::vector<Proposal> Propose(int n) override {
    std::vector<Proposal> proposals;
    for (const Point& start : best_) {
      for (Decisions& decisions : Neighbours(start)) {
        if (static_cast<int>(proposals.size()) == n) return proposals;
        if (!closed_.insert(HashOf(start.sketch, decisions)).second) continue;
        const Sketch& sketch = space_.sketches[start.sketch];
        if (!std::isfinite(DraftSeconds(sketch, decisions, space_.target))) continue;
        std::optional<Proposal> proposal =
            Locate(space_, space_.task->alternatives[sketch.alternative].name, Decide(sketch, decisions));
        if (proposal) proposals.push_back(std::move(*proposal));
      }
    }
    return proposals;
  }

  void Observe(const Proposal& proposal, double seconds) override {
    Exclude(proposal);
    if (!std::isfinite(seconds)) return;
    auto place = std::upper_bound(best_.begin(), best_.end(), seconds,
                                  [](double s, const Point& point) { return s < point.seconds; });
    best_.insert(place, {proposal.sketch, proposal.decisions, seconds});
    if (best_.size() > kStarts) best_.pop_back();
  }
  void Exclude(const Proposal& proposal) override { closed_.insert(HashOf(proposal.sketch, proposal.decisions)); }
  void Readmit(const Proposal& proposal) override { closed_.erase(HashOf(proposal.sketch, proposal.decisions)); }

 private:
  struct Point {
    int sketch;
    Decisions decisions;
    double seconds;
  };

  uint64_t HashOf(int sketch, const Decisions& decisions) const {
    return HashCombine(HashDecisions(space_.sketches[sketch], decisions), static_cast<uint64_t>(sketch));
  }

  // Those that are still open, in a random order of the knobs.
  std::vector<Decisions> Neighbours(const Point& point) {
    const Sketch& sketch = space_.sketches[point.sketch];
    std::vector<Decisions> neighbours;
    std::unordered_set<uint64_t> known;
    for (size_t knob = 0; knob < point.decisions.size(); ++knob) {
      for (int i = 0; i < kDraws; ++i) {
        Decisions neighbour = point.decisions;
        neighbour[knob] = MutateDecision(sketch, static_cast<int>(knob), neighbour[knob], rng_);
        uint64_t hash = HashOf(point.sketch, neighbour);
        if (!closed_.contains(hash) && known.insert(hash).second) neighbours.push_back(std::move(neighbour));
      }
    }
    for (size_t i = neighbours.size(); i > 1; --i)
      std::swap(neighbours[i - 1], neighbours[static_cast<size_t>(rng_.Below(static_cast<int64_t>(i)))]);
    return neighbours;
  }

  const TaskSpace& space_;
  Rng rng_;
  std::vector<Point> best_;  // fastest first
  std::unordered_set<uint64_t> closed_;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed) {
  return std::make_unique<Descent>(space, seed);
}

}  // namespace autotune::bench
