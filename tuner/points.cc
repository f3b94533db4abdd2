#include "tuner/points.h"

#include <algorithm>
#include <numeric>

#include "support/check.h"
#include "support/cpus.h"
#include "tuner/parallel.h"
#include "tuner/successive_replays.h"

namespace autotune {
namespace {

constexpr size_t kLongestRun = 16;  // most points that one core takes at a time
constexpr size_t kRunsPerCore = 4;  // least number of runs of points per core, for an even load

std::optional<Proposal> RealizeNext(const TaskSpace& space, const Point& point, bool with_features,
                                    SuccessiveReplays& replays) {
  Proposal proposal{.sketch = point.sketch,
                    .decisions = point.decisions,
                    .trace = Decide(replays.sketch(), point.decisions),
                    .draft_seconds = point.draft};
  Result<Schedule> schedule = replays.Replay(point.decisions, proposal.trace);
  if (!schedule.ok()) return std::nullopt;
  if (with_features) proposal.features = ExtractFeatures(NestOf(schedule->func()), space.target);
  return proposal;
}

SuccessiveReplays ReplaysOf(const TaskSpace& space, int sketch) {
  return SuccessiveReplays(space.FuncOf(space.sketches[sketch]), space.sketches[sketch]);
}

// Returns the indices of the points in an order in which points of one sketch with equal first decisions are
// neighbours.
std::vector<size_t> ByDecisions(std::span<const Point* const> points) {
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (points[a]->sketch != points[b]->sketch) return points[a]->sketch < points[b]->sketch;
    return std::ranges::lexicographical_compare(points[a]->decisions, points[b]->decisions, {}, &Decision::values,
                                                &Decision::values);
  });
  return order;
}

}  // namespace

uint64_t HashPoint(const TaskSpace& space, int sketch, const Decisions& decisions) {
  return HashCombine(HashDecisions(space.sketches[sketch], decisions), static_cast<uint64_t>(sketch));
}

Point MakePoint(const TaskSpace& space, int sketch, Decisions decisions) {
  double draft = DraftSeconds(space.sketches[sketch], decisions, space.target);
  uint64_t hash = HashPoint(space, sketch, decisions);
  return {sketch, std::move(decisions), draft, hash};
}

Point DrawPoint(const TaskSpace& space, Rng& rng) {
  int sketch = static_cast<int>(rng.Below(static_cast<int64_t>(space.sketches.size())));
  return MakePoint(space, sketch, DrawDecisions(space.sketches[sketch], rng));
}

void SortByDraft(std::vector<Point>& points) {
  // Points with equal scores are sorted by sketch, since a rule lists first the sketch that is fastest if it builds.
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return std::pair(a.draft, a.sketch) < std::pair(b.draft, b.sketch);
  });
}

double UnrolledSize(const Point& point) {
  double size = 1;
  for (const Decision& decision : point.decisions) size *= std::max<double>(1, decision.values.back());
  return size;
}

std::optional<Proposal> Realize(const TaskSpace& space, const Point& point, bool with_features) {
  SuccessiveReplays replays = ReplaysOf(space, point.sketch);
  return RealizeNext(space, point, with_features, replays);
}

std::vector<std::optional<Proposal>> RealizeAll(const TaskSpace& space, std::span<const Point* const> points) {
  const size_t cores = static_cast<size_t>(AvailableCpus());
  const size_t run = std::clamp<size_t>(points.size() / (kRunsPerCore * cores), 1, kLongestRun);
  const std::vector<size_t> order = ByDecisions(points);
  std::vector<std::optional<Proposal>> proposals(points.size());
  Status done = ForEachInParallel((points.size() + run - 1) / run, 0, [&](size_t begin) -> Status {
    std::optional<SuccessiveReplays> replays;
    for (size_t i = begin * run; i < std::min((begin + 1) * run, order.size()); ++i) {
      const Point& point = *points[order[i]];
      if (!replays || &replays->sketch() != &space.sketches[point.sketch])
        replays.emplace(ReplaysOf(space, point.sketch));
      proposals[order[i]] = RealizeNext(space, point, true, *replays);
    }
    return {};
  });
  CHECK(done.ok());
  return proposals;
}

}  // namespace autotune
