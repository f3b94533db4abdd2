#include "tuner/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_set>

#include "tuner/points.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr double kHopeless = 6;  // factor on the best draft score above which a point is not worth a replay
// An algorithm is not worth a trial if its draft score is worse than the best one by more than this factor. The draft
// score may overrate Winograd's algorithm: it assumes the whole saving by a factor of 4 (for tiles of 4 x 4), minus the
// transforms. The direct algorithm must be tried in spite of that.
constexpr double kUnlikelyAlgorithm = 3.2;
// The same factor for sketches. It is smaller, since the draft score ranks sketches of one algorithm better than
// algorithms.
constexpr double kUnlikelySketch = 1.5;
// Failures after which an algorithm or sketch without a success is no longer proposed for its own sake. The first
// attempt follows the draft score; the later ones take the smallest bodies, so the cause of four failures is not the
// size.
constexpr int kAttempts = 4;
// Factor on the draft score of points near a measured winner, which are faster than the draft score predicts.
constexpr double kNearWinner = 0.7;
constexpr size_t kRemembered = 64;  // number of best measured points that the search keeps
// A time counts as progress if it is below the best time multiplied by this factor. A smaller gain is noise.
constexpr double kProgress = 0.99;
constexpr int kPatience = 16;          // successes without progress after which a search has stalled
constexpr int kDescentParents = 3;     // best points whose neighbours may be proposed
constexpr int kReplaysPerChoice = 10;  // replayed points per proposal; the model selects the best of them
constexpr int kSmallestBatch = 4;      // smaller batches get as many replays as a batch of this size
constexpr int kDrawsPerExplorer = 50;  // most draws for one random proposal

class Evolutionary : public SearchStrategy {
 public:
  Evolutionary(const TaskSpace& space, const CostModel* model, uint64_t seed, const EvolutionOptions& options)
      : space_(space), model_(model), seed_(seed), rng_(seed), options_(options), tries_(space.sketches.size()) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    // Seed the generator by the number of observations, not by the number of calls. A resumed search that has the same
    // observations and closed points then makes the same proposals.
    rng_ = Rng(HashCombine(seed_, static_cast<uint64_t>(observations_)));
    std::vector<Proposal> chosen;
    if (n <= 0) return chosen;
    std::vector<Point> points = Drafts();
    if (points.empty()) return chosen;
    TakeUntried(points, n, chosen);
    const int left = n - static_cast<int>(chosen.size());
    const int explorers = RandomlyRounded(options_.epsilon * left);
    const int neighbours = std::min(left - explorers, RandomlyRounded(DescentShare() * left));
    Explore(points.front().draft, explorers, chosen);
    TRY(Descend(neighbours, chosen));
    TRY(Evolve(points, n, chosen));
    return chosen;
  }

  void Observe(const Proposal& proposal, double seconds) override {
    closed_.Close(HashOf(proposal));
    ++observations_;
    Tries& tries = tries_[proposal.sketch];
    if (!std::isfinite(seconds)) {
      ++tries.failures;
      return;
    }
    tries.succeeded = true;
    const bool progress = measured_.empty() || seconds < kProgress * measured_.front().seconds;
    without_progress_ = progress ? 0 : without_progress_ + 1;
    auto place = std::upper_bound(measured_.begin(), measured_.end(), seconds,
                                  [](double s, const Measured& m) { return s < m.seconds; });
    measured_.insert(place, {proposal.sketch, proposal.decisions, seconds});
    if (measured_.size() > kRemembered) measured_.pop_back();
  }
  void Exclude(const Proposal& proposal) override { closed_.Close(HashOf(proposal)); }

 private:
  struct Measured {
    int sketch;
    Decisions decisions;
    double seconds;
  };
  // The outcomes of the candidates of a sketch.
  struct Tries {
    int failures = 0;
    bool succeeded = false;
  };
  struct Scored {
    Proposal proposal;
    uint64_t hash;
    double score;  // greater is better
  };

  uint64_t HashOf(const Proposal& proposal) const { return HashPoint(space_, proposal.sketch, proposal.decisions); }
  bool IsOpen(const Point& point) const { return std::isfinite(point.draft) && !closed_.Contains(point.hash); }
  int RandomlyRounded(double x) {
    double whole = std::floor(x);
    return static_cast<int>(whole) + (rng_.Uniform() < x - whole);
  }
  void Choose(Proposal proposal, std::vector<Proposal>& chosen) {
    closed_.Close(HashOf(proposal));
    chosen.push_back(std::move(proposal));
  }

  // Returns true if an algorithm or sketch with these tries needs no more trials of its own: one of its candidates
  // succeeded, or enough of them failed. Failures do not count before some candidate of the task has succeeded.
  bool IsSettled(const Tries& tries) const {
    return tries.succeeded || (tries.failures >= kAttempts && !measured_.empty());
  }

  // Returns open random points and open mutants of the best measured points, in the order in which to replay them.
  std::vector<Point> Drafts() {
    std::vector<Point> points;
    std::unordered_set<uint64_t> known;
    auto add = [&](Point point) {
      if (IsOpen(point) && known.insert(point.hash).second) points.push_back(std::move(point));
    };
    for (int i = 0; i < options_.drafts; ++i) add(DrawPoint(space_, rng_));
    std::vector<Point> mutants;
    size_t parents = std::min<size_t>(measured_.size(), options_.parents);
    for (size_t i = 0; i < parents; ++i) {
      for (int k = 0; k < options_.mutants; ++k) AddMutant(measured_[i].sketch, measured_[i].decisions, mutants);
      // Crossover: takes one decision from another parent of the same sketch.
      const Measured& other = measured_[rng_.Below(static_cast<int64_t>(parents))];
      if (other.sketch == measured_[i].sketch && !other.decisions.empty()) {
        Decisions child = measured_[i].decisions;
        int knob = static_cast<int>(rng_.Below(static_cast<int64_t>(child.size())));
        child[knob] = other.decisions[knob];
        mutants.push_back(MakePoint(space_, other.sketch, std::move(child)));
      }
    }
    std::unordered_set<uint64_t> near;
    for (Point& mutant : mutants) {
      near.insert(mutant.hash);
      add(std::move(mutant));
    }
    auto rank = [&](const Point& point) { return point.draft * (near.count(point.hash) ? kNearWinner : 1); };
    std::stable_sort(points.begin(), points.end(), [&](const Point& a, const Point& b) { return rank(a) < rank(b); });
    return points;
  }

  void AddMutant(int sketch, const Decisions& parent, std::vector<Point>& out) {
    if (parent.empty()) return;
    Decisions child = parent;
    int changes = 1 + static_cast<int>(rng_.Below(2));
    for (int i = 0; i < changes; ++i) {
      int knob = static_cast<int>(rng_.Below(static_cast<int64_t>(child.size())));
      child[knob] = MutateDecision(space_.sketches[sketch], knob, child[knob], rng_);
    }
    Point point = MakePoint(space_, sketch, std::move(child));
    if (IsOpen(point)) out.push_back(std::move(point));
  }

  // Chooses one candidate of each algorithm that is neither settled nor unlikely. In up to a quarter of the batch,
  // chooses one candidate of each sketch that is neither settled nor unlikely. The draft score ranks schedules of one
  // sketch well, but not sketches and algorithms against each other, so every plausible one is tried until a candidate
  // succeeds.
  void TakeUntried(const std::vector<Point>& points, int n, std::vector<Proposal>& chosen) {
    const size_t sketches = space_.sketches.size();
    std::vector<std::vector<const Point*>> of_sketch(sketches);
    std::vector<int> order;  // sketches, by their best point
    for (const Point& point : points) {
      if (of_sketch[point.sketch].empty()) order.push_back(point.sketch);
      of_sketch[point.sketch].push_back(&point);
    }
    std::vector<Tries> algorithms(space_.task->alternatives.size());
    for (size_t i = 0; i < sketches; ++i) {
      Tries& tries = algorithms[space_.sketches[i].alternative];
      tries.failures += tries_[i].failures;
      tries.succeeded |= tries_[i].succeeded;
    }
    int more = std::max(1, n / 4);
    for (int sketch : order) {
      if (static_cast<int>(chosen.size()) == n) return;
      const double behind = of_sketch[sketch].front()->draft / points.front().draft;
      Tries& algorithm = algorithms[space_.sketches[sketch].alternative];
      const bool of_algorithm = !IsSettled(algorithm) && behind <= kUnlikelyAlgorithm;
      if (!of_algorithm && (IsSettled(tries_[sketch]) || behind > kUnlikelySketch || more == 0)) continue;
      if (!TakeOne(of_sketch[sketch], tries_[sketch].failures > 0, chosen)) continue;
      more -= !of_algorithm;
      algorithm.succeeded = true;  // limits this batch to one candidate of the algorithm
    }
  }

  // Chooses the first of a sketch's points that can be replayed. `points` is sorted by draft score. If `small` is true,
  // which is the case after a failure, prefers small bodies to good draft scores. Once any candidate of the task has
  // succeeded, it then also leaves out points with an unlikely draft score. Returns false if no point can be replayed.
  bool TakeOne(std::vector<const Point*> points, bool small, std::vector<Proposal>& chosen) {
    if (small) {
      const double limit = kUnlikelyAlgorithm * points.front()->draft;
      if (!measured_.empty()) std::erase_if(points, [&](const Point* point) { return point->draft > limit; });
      std::stable_sort(points.begin(), points.end(),
                       [](const Point* a, const Point* b) { return UnrolledSize(*a) < UnrolledSize(*b); });
    }
    for (const Point* point : points) {
      if (std::optional<Proposal> proposal = Realize(space_, *point, true)) {
        Choose(std::move(*proposal), chosen);
        return true;
      }
      closed_.Close(point->hash);
    }
    return false;
  }

  // Chooses points uniformly among those whose draft score is not hopeless, since the rest of the batch depends on the
  // draft score.
  void Explore(double best_draft, int explorers, std::vector<Proposal>& chosen) {
    for (int tries = 0; explorers > 0 && tries < kDrawsPerExplorer * explorers; ++tries) {
      Point point = DrawPoint(space_, rng_);
      if (!IsOpen(point) || point.draft > kHopeless * best_draft) continue;
      std::optional<Proposal> proposal = Realize(space_, point, true);
      if (!proposal) {
        closed_.Close(point.hash);
        continue;
      }
      Choose(std::move(*proposal), chosen);
      --explorers;
    }
  }

  // Returns the share of a batch for coordinate descent. It is larger once the search has stalled.
  double DescentShare() const {
    if (measured_.empty()) return 0;
    return without_progress_ >= kPatience ? options_.descent_stalled : options_.descent;
  }

  // Coordinate descent: chooses points that differ from the best measured point in one decision, in the order of the
  // model's scores. If there are not enough, continues with the next best measured point.
  Status Descend(int neighbours, std::vector<Proposal>& chosen) {
    for (size_t i = 0; i < measured_.size() && i < kDescentParents && neighbours > 0; ++i) {
      const Measured& parent = measured_[i];
      std::vector<Point> points;
      for (size_t knob = 0; knob < parent.decisions.size(); ++knob) {
        for (Decision& to :
             NeighboursOf(space_.sketches[parent.sketch], static_cast<int>(knob), parent.decisions[knob])) {
          Decisions decisions = parent.decisions;
          decisions[knob] = std::move(to);
          Point point = MakePoint(space_, parent.sketch, std::move(decisions));
          if (IsOpen(point)) points.push_back(std::move(point));
        }
      }
      if (points.empty()) continue;
      SortByDraft(points);
      std::vector<Scored> pool;
      std::unordered_set<uint64_t> in_pool;
      TRY(Evaluate(points, static_cast<int>(points.size()), pool, in_pool));
      SortByScore(pool);
      for (Scored& scored : pool) {
        if (neighbours-- == 0) return {};
        Choose(std::move(scored.proposal), chosen);
      }
    }
    return {};
  }

  // Fills the batch with the best points of an evolution, as ranked by the model.
  Status Evolve(const std::vector<Point>& points, int n, std::vector<Proposal>& chosen) {
    const int left = n - static_cast<int>(chosen.size());
    if (left <= 0) return {};
    const bool learned = model_ && model_->ready();
    // Without a trained model, replays only show which points are legal, so few are needed.
    const int wanted = kReplaysPerChoice * std::max(left, kSmallestBatch);
    const int replays = learned ? std::min(options_.replays, wanted) : std::max(2 * left, 16);
    std::vector<Scored> pool;
    std::unordered_set<uint64_t> in_pool;
    TRY(Evaluate(points, replays, pool, in_pool));
    for (int generation = 1; learned && generation < options_.generations; ++generation) {
      SortByScore(pool);
      std::vector<Point> children;
      for (size_t i = 0; i < pool.size() && i < static_cast<size_t>(options_.parents); ++i) {
        for (int k = 0; k < options_.mutants / 2; ++k)
          AddMutant(pool[i].proposal.sketch, pool[i].proposal.decisions, children);
      }
      SortByDraft(children);
      TRY(Evaluate(children, replays / 2, pool, in_pool));
    }
    SortByScore(pool);
    for (Scored& scored : pool) {
      if (static_cast<int>(chosen.size()) == n) return {};
      Choose(std::move(scored.proposal), chosen);
    }
    return {};
  }

  // Adds the first `replays` points that are open, legal and not hopeless to the pool, with their scores.
  Status Evaluate(const std::vector<Point>& points, int replays, std::vector<Scored>& pool,
                  std::unordered_set<uint64_t>& in_pool) {
    size_t first = pool.size();
    for (auto point = points.begin(); replays > 0 && point != points.end();) {
      std::vector<const Point*> batch;  // as many points as are still needed if all of them are legal
      for (; static_cast<int>(batch.size()) < replays && point != points.end(); ++point) {
        if (point->draft <= kHopeless * points.front().draft && IsOpen(*point) && in_pool.insert(point->hash).second)
          batch.push_back(&*point);
      }
      std::vector<std::optional<Proposal>> proposals = RealizeAll(space_, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        if (!proposals[i]) {
          closed_.Close(batch[i]->hash);
          continue;
        }
        --replays;
        pool.push_back({std::move(*proposals[i]), batch[i]->hash, -std::log(batch[i]->draft)});
      }
    }
    if (!model_) return {};
    std::vector<Candidate> candidates;
    for (size_t i = first; i < pool.size(); ++i)
      candidates.push_back({&pool[i].proposal.features, pool[i].proposal.draft_seconds});
    const std::vector<float> scores = TRY(model_->Predict(space_.task->hash.low, candidates));
    for (size_t i = first; i < pool.size(); ++i) pool[i].score = scores[i - first];
    return {};
  }

  static void SortByScore(std::vector<Scored>& pool) {
    std::stable_sort(pool.begin(), pool.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  }

  const TaskSpace& space_;
  const CostModel* model_;
  const uint64_t seed_;
  Rng rng_;  // seeded again in each call of Propose
  EvolutionOptions options_;
  std::vector<Tries> tries_;  // by sketch
  ClosedPoints closed_;
  std::vector<Measured> measured_;  // best first
  int64_t observations_ = 0;
  int without_progress_ = 0;  // successes since the last progress
};

class Random : public SearchStrategy {
 public:
  Random(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    std::vector<Proposal> chosen;
    for (int tries = 0; static_cast<int>(chosen.size()) < n && tries < 200 * n; ++tries) {
      Point point = DrawPoint(space_, rng_);
      if (!closed_.Close(point.hash)) continue;
      if (std::optional<Proposal> proposal = Realize(space_, point, true)) chosen.push_back(std::move(*proposal));
    }
    return chosen;
  }
  void Observe(const Proposal& proposal, double) override { Exclude(proposal); }
  void Exclude(const Proposal& proposal) override { closed_.Close(HashOf(proposal)); }

 private:
  uint64_t HashOf(const Proposal& proposal) const { return HashPoint(space_, proposal.sketch, proposal.decisions); }

  const TaskSpace& space_;
  Rng rng_;
  ClosedPoints closed_;
};

}  // namespace

Result<TaskSpace> TaskSpace::Make(const TuneTask& task, const Target& target) {
  TaskSpace space{.task = &task, .target = target};
  for (size_t i = 0; i < task.alternatives.size(); ++i) {
    std::vector<Sketch> sketches =
        TRY_NOTE(GenerateSketches(task.alternatives[i].func, target),
                 "while making sketches for alternative " + task.alternatives[i].name + " of " + task.label);
    for (Sketch& sketch : sketches) {
      sketch.alternative = static_cast<int>(i);
      space.sketches.push_back(std::move(sketch));
    }
  }
  if (space.sketches.empty())
    return Err("task ", task.label, " has no alternative that can be scheduled for ", target.Text());
  return space;
}

std::optional<Proposal> Locate(const TaskSpace& space, std::string_view alternative, const Trace& trace) {
  for (size_t i = 0; i < space.sketches.size(); ++i) {
    const Sketch& sketch = space.sketches[i];
    if (space.task->alternatives[sketch.alternative].name != alternative || sketch.trace.size() != trace.size())
      continue;
    Trace undecided = trace;
    Decisions decisions;
    for (const Knob& knob : sketch.knobs) {
      Decision* decision = DecisionOf(undecided[knob.step]);
      if (!decision) break;
      decisions.push_back(std::move(*decision));
      decision->values.clear();
    }
    if (decisions.size() != sketch.knobs.size() || !Equal(undecided, sketch.trace)) continue;
    bool allowed = true;
    for (size_t knob = 0; knob < decisions.size(); ++knob)
      allowed &= Allows(sketch, static_cast<int>(knob), decisions[knob]);
    if (!allowed) return std::nullopt;
    return Realize(space, MakePoint(space, static_cast<int>(i), std::move(decisions)), true);
  }
  return std::nullopt;
}

std::unique_ptr<SearchStrategy> MakeEvolutionarySearch(const TaskSpace& space, const CostModel* model, uint64_t seed,
                                                       const EvolutionOptions& options) {
  return std::make_unique<Evolutionary>(space, model, seed, options);
}

std::unique_ptr<SearchStrategy> MakeRandomSearch(const TaskSpace& space, uint64_t seed) {
  return std::make_unique<Random>(space, seed);
}

}  // namespace autotune
