#include "tuner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <thread>
#include <unordered_set>

#include "support/cpus.h"
#include "tuner/rule/rule.h"
#include "tuner/successive_replays.h"

namespace autotune {
namespace {

constexpr uint64_t kDefaultSeed = 20;
constexpr int kDefaultDraws = 3000;
constexpr double kHopeless = 6;  // times slower than the best draft: not worth a replay
constexpr double kUnlikely = 3;  // times slower: an algorithm not worth a trial

struct Point {
  int sketch;
  Decisions decisions;
  double draft;
  uint64_t hash;
};

uint64_t PointHash(const TaskSpace& space, int sketch, const Decisions& decisions) {
  return HashCombine(HashDecisions(space.sketches[sketch], decisions), static_cast<uint64_t>(sketch));
}

Point MakePoint(const TaskSpace& space, int sketch, Decisions decisions) {
  double draft = DraftSeconds(space.sketches[sketch], decisions, space.target);
  uint64_t hash = PointHash(space, sketch, decisions);
  return {sketch, std::move(decisions), draft, hash};
}

Point DrawPoint(const TaskSpace& space, Rng& rng) {
  int sketch = static_cast<int>(rng.Below(static_cast<int64_t>(space.sketches.size())));
  return MakePoint(space, sketch, DrawDecisions(space.sketches[sketch], rng));
}

// Replays; nothing if a step refuses these decisions.
std::optional<Proposal> Realize(const TaskSpace& space, const Point& point, bool with_features,
                                SuccessiveReplays& replays) {
  Proposal proposal{.sketch = point.sketch,
                    .decisions = point.decisions,
                    .trace = Decide(replays.sketch(), point.decisions),
                    .draft_seconds = point.draft};
  Result<Schedule> schedule = replays.Replay(point.decisions, proposal.trace);
  if (!schedule.ok()) return std::nullopt;
  if (with_features) proposal.features = ExtractFeatures(schedule->func(), space.target);
  return proposal;
}

SuccessiveReplays ReplaysOf(const TaskSpace& space, int sketch) {
  return SuccessiveReplays(space.FuncOf(space.sketches[sketch]), space.sketches[sketch]);
}

std::optional<Proposal> Realize(const TaskSpace& space, const Point& point, bool with_features) {
  SuccessiveReplays replays = ReplaysOf(space, point.sketch);
  return Realize(space, point, with_features, replays);
}

// Of each point, in their order. On all cores: replays share nothing but immutable programs. Each core takes runs of
// neighbours, which share most of their decisions.
std::vector<std::optional<Proposal>> RealizeAll(const TaskSpace& space, std::span<const Point* const> points) {
  const size_t cores = static_cast<size_t>(AvailableCpus());
  const size_t run = std::clamp<size_t>(points.size() / (4 * cores), 1, 16);  // of neighbours; many are an even load
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (points[a]->sketch != points[b]->sketch) return points[a]->sketch < points[b]->sketch;
    return std::ranges::lexicographical_compare(points[a]->decisions, points[b]->decisions, {}, &Decision::values,
                                                &Decision::values);
  });
  std::vector<std::optional<Proposal>> proposals(points.size());
  std::vector<std::exception_ptr> failures(points.size());  // failing CHECKs, which the caller's thread reports
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t begin; (begin = next.fetch_add(run)) < order.size();) {
      std::optional<SuccessiveReplays> replays;
      for (size_t i : std::span(order).subspan(begin, std::min(run, order.size() - begin))) {
        const Point& point = *points[i];
        try {
          if (!replays || &replays->sketch() != &space.sketches[point.sketch])
            replays.emplace(ReplaysOf(space, point.sketch));
          proposals[i] = Realize(space, point, true, *replays);
        } catch (...) {
          failures[i] = std::current_exception();
          replays.reset();
        }
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < std::min(cores, (points.size() + run - 1) / run); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return proposals;
}

// The product of innermost tiles and unroll factors: the larger, the more a build has against it.
double UnrolledSize(const Point& point) {
  double size = 1;
  for (const Decision& decision : point.decisions) size *= std::max<double>(1, decision.values.back());
  return size;
}

void SortByDraft(std::vector<Point>& points) {
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.draft < b.draft; });
}

class Evolutionary : public SearchStrategy {
 public:
  Evolutionary(const TaskSpace& space, const CostModel* model, uint64_t seed, const EvolutionOptions& options)
      : space_(space), model_(model), rng_(seed), options_(options) {}

  std::vector<Proposal> Propose(int n) override {
    bool learned = model_ && model_->ready();
    std::vector<Point> points = Drafts();
    SortByDraft(points);
    std::vector<uint64_t> first = BestOfNewAlternatives(points);
    // Without a model the draft decides alone; some luck keeps its blind spots visible.
    int replays = learned ? options_.replays : std::max(2 * n, 16);
    std::vector<Scored> pool;
    std::unordered_set<uint64_t> in_pool;
    Evaluate(points, replays, learned, pool, in_pool);
    for (int generation = 1; learned && generation < options_.generations; ++generation) {
      SortByScore(pool);
      std::vector<Point> children;
      for (size_t i = 0; i < pool.size() && i < static_cast<size_t>(options_.parents); ++i) {
        for (int k = 0; k < options_.mutants / 2; ++k)
          AddMutant(pool[i].proposal.sketch, pool[i].proposal.decisions, children);
      }
      SortByDraft(children);
      Evaluate(children, options_.replays / 2, learned, pool, in_pool);
    }
    for (Scored& scored : pool) {
      if (std::find(first.begin(), first.end(), scored.hash) != first.end())
        scored.score = std::numeric_limits<double>::infinity();
    }
    SortByScore(pool);
    return Choose(std::move(pool), n);
  }

  void Observe(const Proposal& proposal, double seconds) override {
    seen_.insert(PointHash(space_, proposal.sketch, proposal.decisions));
    tried_.insert(space_.sketches[proposal.sketch].alternative);
    if (!std::isfinite(seconds)) return;
    measured_.push_back({proposal.sketch, proposal.decisions, seconds});
    std::stable_sort(measured_.begin(), measured_.end(),
                     [](const Best& a, const Best& b) { return a.seconds < b.seconds; });
    if (measured_.size() > 64) measured_.resize(64);
  }

 private:
  struct Best {
    int sketch;
    Decisions decisions;
    double seconds;
  };
  struct Scored {
    Proposal proposal;
    uint64_t hash;
    double score;  // greater is better
  };

  bool Fresh(uint64_t hash) const { return !seen_.count(hash); }

  std::vector<Point> Drafts() {
    std::vector<Point> points;
    std::unordered_set<uint64_t> known;
    auto add = [&](Point point) {
      if (std::isfinite(point.draft) && Fresh(point.hash) && known.insert(point.hash).second)
        points.push_back(std::move(point));
    };
    for (int i = 0; i < options_.drafts; ++i) add(DrawPoint(space_, rng_));
    std::vector<Point> mutants;
    size_t parents = std::min<size_t>(measured_.size(), options_.parents);
    for (size_t i = 0; i < parents; ++i) {
      for (int k = 0; k < options_.mutants; ++k) AddMutant(measured_[i].sketch, measured_[i].decisions, mutants);
      // One knob from another parent of the same sketch.
      const Best& other = measured_[rng_.Below(static_cast<int64_t>(parents))];
      if (other.sketch == measured_[i].sketch && !other.decisions.empty()) {
        Decisions child = measured_[i].decisions;
        int knob = static_cast<int>(rng_.Below(static_cast<int64_t>(child.size())));
        child[knob] = other.decisions[knob];
        mutants.push_back(MakePoint(space_, other.sketch, std::move(child)));
      }
    }
    // What lies near a measured winner is worth more than its draft score says.
    for (Point& point : mutants) {
      point.draft *= 0.7;
      add(std::move(point));
    }
    return points;
  }

  // Moves them to the front: the draft score compares schedules of one algorithm better than algorithms, so each that
  // is not hopeless is tried once.
  std::vector<uint64_t> BestOfNewAlternatives(std::vector<Point>& points) const {
    std::set<int> known = tried_;
    std::vector<uint64_t> hashes;
    for (const Point& point : points) {
      if (point.draft > kUnlikely * points.front().draft) break;
      if (known.insert(space_.sketches[point.sketch].alternative).second) hashes.push_back(point.hash);
    }
    std::stable_partition(points.begin(), points.end(), [&](const Point& point) {
      return std::find(hashes.begin(), hashes.end(), point.hash) != hashes.end();
    });
    return hashes;
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
    if (std::isfinite(point.draft) && Fresh(point.hash)) out.push_back(std::move(point));
  }

  void Evaluate(const std::vector<Point>& points, int replays, bool learned, std::vector<Scored>& pool,
                std::unordered_set<uint64_t>& in_pool) {
    size_t first = pool.size();
    for (auto point = points.begin(); replays > 0 && point != points.end();) {
      std::vector<const Point*> batch;  // as many as are missing, were all of them legal
      for (; static_cast<int>(batch.size()) < replays && point != points.end(); ++point) {
        if (point->draft <= kHopeless * points.front().draft && in_pool.insert(point->hash).second) {
          batch.push_back(&*point);
        }
      }
      std::vector<std::optional<Proposal>> proposals = RealizeAll(space_, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        if (!proposals[i]) {
          seen_.insert(batch[i]->hash);
          continue;
        }
        --replays;
        pool.push_back({std::move(*proposals[i]), batch[i]->hash, -batch[i]->draft});
      }
    }
    if (!learned) return;
    std::vector<Features> features;
    for (size_t i = first; i < pool.size(); ++i) features.push_back(pool[i].proposal.features);
    std::vector<float> scores = model_->Predict(features);
    for (size_t i = first; i < pool.size(); ++i) pool[i].score = scores[i - first];
  }

  static void SortByScore(std::vector<Scored>& pool) {
    std::stable_sort(pool.begin(), pool.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  }

  std::vector<Proposal> Choose(std::vector<Scored> pool, int n) {
    std::vector<Proposal> chosen;
    int lucky = static_cast<int>(std::ceil(options_.epsilon * n));
    while (static_cast<int>(chosen.size()) < n && !pool.empty()) {
      bool random = n > 1 && static_cast<int>(chosen.size()) >= n - lucky;
      size_t i = random ? rng_.Below(static_cast<int64_t>(pool.size())) : 0;
      seen_.insert(pool[i].hash);
      chosen.push_back(std::move(pool[i].proposal));
      pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return chosen;
  }

  const TaskSpace& space_;
  const CostModel* model_;
  Rng rng_;
  EvolutionOptions options_;
  std::set<int> tried_;                // alternatives observed
  std::unordered_set<uint64_t> seen_;  // proposed, observed or illegal
  std::vector<Best> measured_;         // best first
};

class Random : public SearchStrategy {
 public:
  Random(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  std::vector<Proposal> Propose(int n) override {
    std::vector<Proposal> chosen;
    for (int tries = 0; static_cast<int>(chosen.size()) < n && tries < 200 * n; ++tries) {
      Point point = DrawPoint(space_, rng_);
      if (!seen_.insert(point.hash).second) continue;
      if (std::optional<Proposal> proposal = Realize(space_, point, true)) chosen.push_back(std::move(*proposal));
    }
    return chosen;
  }
  void Observe(const Proposal& proposal, double) override {
    seen_.insert(PointHash(space_, proposal.sketch, proposal.decisions));
  }

 private:
  const TaskSpace& space_;
  Rng rng_;
  std::unordered_set<uint64_t> seen_;
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

std::vector<Proposal> DefaultProposals(const TaskSpace& space, int n) {
  Rng rng(kDefaultSeed);
  std::vector<Point> points;
  std::unordered_set<uint64_t> known;
  for (int i = 0; i < kDefaultDraws; ++i) {
    Point point = DrawPoint(space, rng);
    if (known.insert(point.hash).second) points.push_back(std::move(point));
  }
  SortByDraft(points);
  std::vector<Proposal> proposals;
  auto propose = [&](int wanted) {
    for (const Point& point : points) {
      if (static_cast<int>(proposals.size()) >= wanted) break;
      if (std::optional<Proposal> proposal = Realize(space, point, false)) proposals.push_back(std::move(*proposal));
    }
  };
  int last_resorts = n / 4;
  propose(n - last_resorts);
  std::stable_sort(points.begin(), points.end(),
                   [&](const Point& a, const Point& b) { return UnrolledSize(a) < UnrolledSize(b); });
  propose(n);
  return proposals;
}

}  // namespace autotune
