// Points of a task's space: draws them, computes their draft scores, and replays them into proposals. The functions are
// thread-safe as long as each thread has its own Rng.
#pragma once
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "tuner/search.h"

namespace autotune {

struct Point {
  int sketch = 0;
  Decisions decisions;
  double draft = 0;  // draft score, in seconds
  uint64_t hash = 0;
};

uint64_t HashPoint(const TaskSpace& space, int sketch, const Decisions& decisions);
Point MakePoint(const TaskSpace& space, int sketch, Decisions decisions);
// Draws uniformly among the sketches, then among the decisions of the sketch.
Point DrawPoint(const TaskSpace& space, Rng& rng);
void SortByDraft(std::vector<Point>& points);
// Returns a measure of the size of the unrolled code: the product of the last values of all decisions, such as
// innermost tiles and unroll factors. The larger it is, the likelier a build rejects the candidate.
double UnrolledSize(const Point& point);

// Replays a point. Returns nothing if a step refuses its decisions.
std::optional<Proposal> Realize(const TaskSpace& space, const Point& point, bool with_features);
// Replays every point, on all cores, and returns the proposals in the order of the points. It sorts the points by their
// decisions and gives each core contiguous ranges, since neighbours then reuse the replay of their common prefix.
std::vector<std::optional<Proposal>> RealizeAll(const TaskSpace& space, std::span<const Point* const> points);

// The points that must not be proposed, by hash: observed, being measured, excluded or illegal ones.
class ClosedPoints {
 public:
  bool Contains(uint64_t hash) const { return closed_.contains(hash); }
  // Returns false if the point was closed already.
  bool Close(uint64_t hash) { return closed_.insert(hash).second; }

 private:
  std::unordered_set<uint64_t> closed_;
};

}  // namespace autotune
