// Tests of the search strategies: which points they propose.
#include "tuner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "schedule/replay.h"
#include "support/hash.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "topi/winograd.h"
#include "tuner/defaults.h"
#include "tuner/points.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;
using test::TestTarget;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A space so small that a test can exhaust it.
struct SmallSpace {
  TuneTask task = MakeTask("dense", Dense(2, 8, 3));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
};

using Search = std::unique_ptr<SearchStrategy>;
using MakeSearch = std::function<Search(const TaskSpace&)>;
const MakeSearch kStrategies[] = {[](const TaskSpace& space) { return MakeEvolutionarySearch(space, nullptr, 1); },
                                  [](const TaskSpace& space) { return MakeRandomSearch(space, 1); }};

// Returns the traces of all points that the search still proposes.
std::set<std::string> Drain(SearchStrategy& search) {
  std::set<std::string> traces;
  for (std::vector<Proposal> batch; !(batch = search.Propose(32).value()).empty();) {
    for (const Proposal& proposal : batch) EXPECT_TRUE(traces.insert(ToText(proposal.trace)).second);
  }
  return traces;
}

TEST(SearchStrategy, ProposesNoPointTwice) {
  SmallSpace small;
  for (const MakeSearch& make : kStrategies) {
    Search search = make(small.space);
    EXPECT_GT(Drain(*search).size(), 4u);
    EXPECT_TRUE(search->Propose(4).value().empty());
  }
}

TEST(SearchStrategy, ExcludedPointsAreNotProposed) {
  SmallSpace small;
  for (const MakeSearch& make : kStrategies) {
    std::vector<Proposal> known = make(small.space)->Propose(3).value();
    ASSERT_EQ(known.size(), 3u);
    Search search = make(small.space);
    for (const Proposal& proposal : known) search->Exclude(proposal);
    std::set<std::string> proposed = Drain(*search);
    for (const Proposal& proposal : known) EXPECT_EQ(proposed.count(ToText(proposal.trace)), 0u);
  }
}

TEST(SearchStrategy, ObservedPointsAreNotProposed) {
  SmallSpace small;
  for (const MakeSearch& make : kStrategies) {
    std::vector<Proposal> known = make(small.space)->Propose(2).value();
    ASSERT_EQ(known.size(), 2u);
    Search search = make(small.space);
    search->Observe(known[0], 1e-3);
    search->Observe(known[1], kInfinity);
    std::set<std::string> proposed = Drain(*search);
    EXPECT_GE(proposed.size(), 3u);
    for (const Proposal& proposal : known) EXPECT_EQ(proposed.count(ToText(proposal.trace)), 0u);
  }
}

// Disables everything that a batch does besides following the draft score, so that a test sees one cause at a time.
constexpr EvolutionOptions kPlain{.epsilon = 0, .descent = 0, .descent_stalled = 0};

// A convolution with a direct and two Winograd algorithms. The draft score prefers the Winograd ones.
struct ThreeAlgorithms {
  TuneTask task = MakeTask("conv", test::ConvBiasRelu(28, 28, 64, 64, 3, {.pad = {1, 1, 1, 1}}));
  TaskSpace space;

  ThreeAlgorithms() {
    for (int64_t tile : {2, 4}) {
      te::Tensor data = te::Placeholder("data", {1, 28, 28, 64}), weight = te::Placeholder("weight", {3, 3, 64, 64});
      te::Tensor out = topi::Conv2dWinograd("conv", data, weight, {.pad = {1, 1, 1, 1}}, {tile, 0, 0});
      PrimFunc func = te::CreatePrimFunc(
          "f", {{data, ParamRole::kInput}, {weight, ParamRole::kConstant}, {out, ParamRole::kOutput}},
          {.use_fma = true});
      task.alternatives.push_back({"winograd" + std::to_string(tile), std::move(func)});
    }
    space = TaskSpace::Make(task, TestTarget()).value();
  }
  bool IsDirect(const Proposal& proposal) const { return space.sketches[proposal.sketch].alternative == 0; }
};

// Returns the number of batches, among ten batches of three, that have a candidate of the direct algorithm. The first
// `rejected` candidates of that algorithm fail.
int BatchesWithDirect(int rejected) {
  ThreeAlgorithms three;
  Search search = MakeEvolutionarySearch(three.space, nullptr, 1, kPlain);
  int batches = 0;
  for (int i = 0; i < 10; ++i) {
    bool direct = false;
    for (const Proposal& proposal : search->Propose(3).value()) {
      bool fails = three.IsDirect(proposal) && rejected-- > 0;
      direct |= three.IsDirect(proposal);
      search->Observe(proposal, fails ? kInfinity : 1e-3);
    }
    batches += direct;
  }
  return batches;
}

TEST(EvolutionarySearch, AnAlgorithmIsTriedUntilACandidateSucceeds) {
  const int at_once = BatchesWithDirect(0);
  EXPECT_LE(at_once, 3) << "the test needs a draft score that does not prefer direct";
  EXPECT_EQ(BatchesWithDirect(1), at_once + 1);
  EXPECT_EQ(BatchesWithDirect(2), at_once + 2);
}

TEST(EvolutionarySearch, AnAlgorithmThatOnlyFailsIsGivenUp) { EXPECT_LE(BatchesWithDirect(1000), 6); }

double BodyOf(const Proposal& proposal) { return UnrolledSize({.decisions = proposal.decisions}); }

// If builds reject all but tiny bodies, the search finds one although the draft score ranks them as slow.
TEST(EvolutionarySearch, FindsWhatBuildsWhereNearlyNothingDoes) {
  TuneTask task = MakeTask("dense", Dense(64, 256, 256));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  Search search = MakeEvolutionarySearch(space, nullptr, 1, kPlain);
  constexpr double kLargest = 16;
  int successes = 0, large = 0;
  for (int i = 0; i < 4; ++i) {
    for (const Proposal& proposal : search->Propose(8).value()) {
      bool builds = BodyOf(proposal) <= kLargest;
      successes += builds;
      large += !builds;
      search->Observe(proposal, builds ? 1e-3 : kInfinity);
    }
  }
  EXPECT_GT(successes, 0);
  EXPECT_GT(large, 8) << "the test needs a draft score that prefers larger bodies";
}

// After a rejection the search proposes a smaller body, which is less likely to spill.
TEST(EvolutionarySearch, ARejectedCandidateIsFollowedByASmallerOne) {
  ThreeAlgorithms three;
  Search search = MakeEvolutionarySearch(three.space, nullptr, 1, kPlain);
  std::vector<double> sizes;
  for (int i = 0; i < 2; ++i) {
    for (const Proposal& proposal : search->Propose(3).value()) {
      if (three.IsDirect(proposal)) sizes.push_back(BodyOf(proposal));
      search->Observe(proposal, three.IsDirect(proposal) ? kInfinity : 1e-3);
    }
  }
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_LT(sizes[1], sizes[0]);
}

TEST(EvolutionarySearch, ExclusionsAreNoTries) {
  ThreeAlgorithms three;
  Search search = MakeEvolutionarySearch(three.space, nullptr, 1, kPlain);
  for (const Proposal& proposal : search->Propose(3).value()) search->Exclude(proposal);
  std::vector<Proposal> again = search->Propose(3).value();
  EXPECT_TRUE(std::any_of(again.begin(), again.end(), [&](const Proposal& p) { return three.IsDirect(p); }));
}

// The last quarter of the default proposals have the smallest tiles and unroll factors of their sketches, and pad the
// input before the loops over tiles. The draft score prefers other proposals.
TEST(DefaultProposals, TheLastOnesHaveTheSmallestBodies) {
  TuneTask task = MakeTask("conv", test::ConvBiasRelu(28, 28, 16, 32, 3, {.pad = {1, 1, 1, 1}}));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  const std::vector<Proposal> proposals = DefaultProposals(space, 8);
  ASSERT_EQ(proposals.size(), 8u);
  int larger = 0;
  for (size_t i = 0; i < proposals.size(); ++i) {
    const Proposal& proposal = proposals[i];
    const bool smallest = WithSmallestBody(space.sketches[proposal.sketch], proposal.decisions) == proposal.decisions;
    larger += !smallest;
    EXPECT_TRUE(smallest || i < 6) << i;
  }
  EXPECT_GE(larger, 5) << "the test needs a draft score that prefers larger bodies";
  EXPECT_NE(proposals[6].sketch, proposals[7].sketch) << "the last two must have different sketches";
}

// Returns the number of proposals, among 60 that are made one by one, whose draft score is more than twice the best
// draft score.
int UnlikelyProposals(double epsilon) {
  TuneTask task = MakeTask("dense", Dense(64, 256, 256));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  EvolutionOptions options = kPlain;
  options.epsilon = epsilon;
  Search search = MakeEvolutionarySearch(space, nullptr, 1, options);
  std::vector<double> drafts;
  for (int i = 0; i < 60; ++i) {
    for (const Proposal& proposal : search->Propose(1).value()) {
      drafts.push_back(proposal.draft_seconds);
      search->Observe(proposal, proposal.draft_seconds);
    }
  }
  EXPECT_EQ(drafts.size(), 60u);
  double best = *std::min_element(drafts.begin(), drafts.end());
  return static_cast<int>(std::count_if(drafts.begin(), drafts.end(), [&](double d) { return d > 2 * best; }));
}

TEST(EvolutionarySearch, ExploresOutsideTheFavouritesOfTheDraftScore) {
  EXPECT_EQ(UnlikelyProposals(0), 0);
  EXPECT_GT(UnlikelyProposals(0.3), 0);
  EXPECT_GT(UnlikelyProposals(1), 10);
}

// Returns the number of proposals in a batch that differ from the best measured point in one decision. Before the
// batch, the search observes `successes` points, and only the first one is progress.
int NeighboursInABatch(int successes, const EvolutionOptions& options) {
  TuneTask task = MakeTask("dense", Dense(64, 256, 256));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  Search search = MakeEvolutionarySearch(space, nullptr, 1, options);
  std::vector<Proposal> first = search->Propose(successes).value();
  for (size_t i = 0; i < first.size(); ++i) search->Observe(first[i], i == 0 ? 1e-3 : 2e-3);
  int neighbours = 0;
  for (const Proposal& proposal : search->Propose(16).value()) {
    int differ = 0;
    for (size_t knob = 0; knob < proposal.decisions.size() && proposal.sketch == first[0].sketch; ++knob)
      differ += !(proposal.decisions[knob] == first[0].decisions[knob]);
    neighbours += differ == 1;
  }
  return neighbours;
}

TEST(EvolutionarySearch, DescendsByCoordinatesWhenItStalls) {
  EvolutionOptions options = kPlain;
  options.descent_stalled = 0.75;
  EXPECT_GE(NeighboursInABatch(20, options), 12);
  EXPECT_LT(NeighboursInABatch(4, options), 12);
  EXPECT_LT(NeighboursInABatch(20, kPlain), 12);
}

// A search that observes the points of another search makes the same proposals as that one, with or without a model.
TEST(EvolutionarySearch, ContinuesAlikeFromTheSameObservations) {
  TuneTask task = MakeTask("dense", Dense(16, 96, 64));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  auto model = MakeXgboostModel();
  for (const CostModel* m : {static_cast<const CostModel*>(nullptr), static_cast<const CostModel*>(model.get())}) {
    Search whole = MakeEvolutionarySearch(space, m, 3), resumed = MakeEvolutionarySearch(space, m, 3);
    std::vector<std::pair<Proposal, double>> history;
    for (int round = 0; round < 4; ++round) {
      for (const Proposal& proposal : whole->Propose(8).value()) {
        double seconds = Hash64(ToText(proposal.trace)) % 5 == 0 ? kInfinity : proposal.draft_seconds;
        whole->Observe(proposal, seconds);
        history.push_back({proposal, seconds});
      }
    }
    for (const auto& [proposal, seconds] : history) resumed->Observe(proposal, seconds);
    std::vector<Proposal> a = whole->Propose(8).value(), b = resumed->Propose(8).value();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(ToText(a[i].trace), ToText(b[i].trace));
    if (m) continue;
    std::vector<Sample> samples;
    for (const auto& [p, seconds] : history) samples.push_back({task.hash.low, p.features, p.draft_seconds, seconds});
    model->Add(samples);
    ASSERT_TRUE(model->Train().ok() && model->ready());
  }
}

// Allows() recognizes decisions that no rule offers, which records and imported traces may have.
TEST(Sketch, AllowsOnlyDecisionsOfItsKnobs) {
  auto sketches = GenerateSketches(test::Product(32, 128, 64), TestTarget());
  ASSERT_TRUE(sketches.ok());
  Rng rng(1);
  int lists = 0, tiles = 0;
  for (const Sketch& sketch : *sketches) {
    Decisions decisions = DrawDecisions(sketch, rng);
    for (int knob = 0; knob < static_cast<int>(decisions.size()); ++knob) {
      EXPECT_TRUE(Allows(sketch, knob, decisions[knob]));
      for (const Decision& neighbour : NeighboursOf(sketch, knob, decisions[knob])) {
        EXPECT_TRUE(Allows(sketch, knob, neighbour));
        EXPECT_FALSE(neighbour == decisions[knob]);
      }
      Decision outside = decisions[knob];
      outside.values.back() = 77;
      EXPECT_FALSE(Allows(sketch, knob, outside));
      EXPECT_FALSE(Allows(sketch, knob, {}));
      (sketch.knobs[knob].candidates.empty() ? tiles : lists) += 1;
    }
  }
  EXPECT_GT(lists, 4);
  EXPECT_GT(tiles, 4);
}

TEST(Sketch, TracesWithDecisionsOutsideTheirListsAreNotLocated) {
  TuneTask task = MakeTask("product", test::Product(32, 128, 64));
  TaskSpace space = TaskSpace::Make(task, TestTarget()).value();
  Rng rng(1);
  int refused = 0;
  for (Sketch& sketch : space.sketches) {
    Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
    EXPECT_TRUE(Locate(space, "direct", trace).has_value());
    for (Knob& knob : sketch.knobs) {
      if (!std::holds_alternative<SampleComputeLocation>(trace[knob.step])) continue;
      // Remove the trace's location from the list, as if this version of the rule did not offer it.
      std::erase(knob.candidates, DecisionOf(trace[knob.step])->values[0]);
      EXPECT_FALSE(Locate(space, "direct", trace).has_value());
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace autotune
