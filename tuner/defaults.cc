#include "tuner/defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tuner/points.h"

namespace autotune {
namespace {

// Number of proposals among the candidates. Builds reject the first proposal of some tasks, but rarely the next ones,
// and almost no task needs the eighth.
constexpr int kDefaultsTried = 8;
constexpr uint64_t kDefaultSeed = 20;
constexpr int kDefaultDraws = 3000;
constexpr int kDescents = 8;  // [chosen] best draws of each sketch that descend, on GPUs
// Largest size of a default candidate's unrolled body, relative to the body of the previous candidate. A build that
// rejects a body because it spills also rejects other bodies of the same size. A factor near 1 would repeat rejections;
// a small factor would skip sizes that fit.
constexpr double kSmallerBody = 0.75;

// Changes one decision after the other, each time the one that lowers the draft score most, until no change does.
Point Descend(const TaskSpace& space, Point point) {
  const Sketch& sketch = space.sketches[static_cast<size_t>(point.sketch)];
  while (true) {
    std::optional<Point> best;
    for (size_t knob = 0; knob < sketch.knobs.size(); ++knob) {
      for (const Decision& decision : NeighboursOf(sketch, static_cast<int>(knob), point.decisions[knob])) {
        Decisions changed = point.decisions;
        changed[knob] = decision;
        Point next = MakePoint(space, point.sketch, std::move(changed));
        if (next.draft < (best ? best->draft : point.draft)) best = std::move(next);
      }
    }
    if (!best) return point;
    point = *std::move(best);
  }
}

// Draws distinct points and sorts them by their draft scores. For GPUs, adds the points to which the best draws of each
// sketch descend: a product has more than a dozen sketches, so few draws meet the best tiles of one. The default
// schedules of CPUs are those that were drawn, since they were measured.
std::vector<Point> SeededDraws(const TaskSpace& space) {
  Rng rng(kDefaultSeed);
  std::vector<Point> points;
  std::unordered_set<uint64_t> known;
  for (int i = 0; i < kDefaultDraws; ++i) {
    Point point = DrawPoint(space, rng);
    if (known.insert(point.hash).second) points.push_back(std::move(point));
  }
  SortByDraft(points);
  if (!space.target.IsGpu()) return points;
  std::unordered_map<int, int> descents;  // by sketch
  for (size_t i = 0, drawn = points.size(); i < drawn && std::isfinite(points[i].draft); ++i) {
    if (descents[points[i].sketch]++ >= kDescents) continue;
    Point lowest = Descend(space, points[i]);
    if (known.insert(lowest.hash).second) points.push_back(std::move(lowest));
  }
  SortByDraft(points);
  return points;
}

// Returns a copy of each point, with its body made as small as its sketch allows: first the copies of the best point of
// each sketch, then the copies of all other points. Both groups are in the order of `points`. Leaves out points with an
// infinite draft score.
std::vector<Point> SmallestBodies(const TaskSpace& space, const std::vector<Point>& points) {
  std::vector<Point> best, others;
  std::unordered_set<int> sketches;
  for (const Point& point : points) {
    if (!std::isfinite(point.draft)) break;
    Point smallest = MakePoint(space, point.sketch, WithSmallestBody(space.sketches[point.sketch], point.decisions));
    (sketches.insert(point.sketch).second ? best : others).push_back(std::move(smallest));
  }
  std::ranges::move(others, std::back_inserter(best));
  return best;
}

}  // namespace

std::vector<Proposal> DefaultProposals(const TaskSpace& space, int n) {
  const std::vector<Point> points = SeededDraws(space);
  constexpr double kAnyBody = std::numeric_limits<double>::infinity();
  std::vector<Proposal> proposals;
  std::unordered_set<uint64_t> proposed;
  double body = kAnyBody;  // size of the last proposal's body
  // Proposes the first of the points whose body is at most `largest`. Returns false if there is none.
  auto propose = [&](const std::vector<Point>& from, double largest) {
    for (const Point& point : from) {
      if (UnrolledSize(point) > largest || !proposed.insert(point.hash).second) continue;
      std::optional<Proposal> proposal = Realize(space, point, false);
      if (!proposal) continue;
      proposals.push_back(std::move(*proposal));
      body = UnrolledSize(point);
      return true;
    }
    return false;
  };
  const auto wanted = static_cast<size_t>(n), by_draft = wanted - wanted / 4;
  while (proposals.size() < by_draft && propose(points, kSmallerBody * body)) {
  }
  if (proposals.size() == wanted) return proposals;
  const std::vector<Point> smallest = SmallestBodies(space, points);
  while (proposals.size() < wanted && propose(smallest, kAnyBody)) {
  }
  return proposals;
}

std::vector<Proposal> DefaultCandidates(const TaskSpace& space) {
  std::vector<Proposal> candidates = DefaultProposals(space, kDefaultsTried);
  auto plain = std::min_element(space.sketches.begin(), space.sketches.end(),
                                [](const Sketch& a, const Sketch& b) { return a.alternative < b.alternative; });
  Proposal unscheduled;
  unscheduled.sketch = static_cast<int>(plain - space.sketches.begin());
  candidates.push_back(std::move(unscheduled));
  return candidates;
}

Result<PredictedTime> PredictDefault(const TuneTask& task, const Target& target) {
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  const std::vector<Proposal> proposals = DefaultProposals(space, 1);
  PredictedTime time;
  if (proposals.empty()) return time;
  const Proposal& first = proposals.front();
  for (const StageModel& stage : space.sketches[static_cast<size_t>(first.sketch)].stages) {
    const double seconds = GpuStageSeconds(stage, first.decisions, target);
    time.seconds += seconds;
    if (stage.kind == StageModel::kGpuUnbound) time.unbound_seconds += seconds;
  }
  return time;
}

}  // namespace autotune
