// Which candidates the farm's measurer builds: those it did not just build, and those that failed; and that what it
// keeps is measured under the right candidate.
#include "tuner/farm_measurer.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/tools/cli.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/confirm.h"

namespace autotune {
namespace {

// Notes which traces were asked for, call by call; the trace `unlucky` fails when it is first built.
class Counting : public Builder {
 public:
  explicit Counting(Builder& builder) : builder_(builder) {}
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    calls.emplace_back();
    for (const BuildRequest& request : requests) calls.back().insert(request.trace);
    EXPECT_EQ(calls.back().size(), requests.size()) << "the same candidate twice";
    std::vector<BuildRequest> lenient = requests;  // what spills would be rejected on some machines, and on others not
    for (BuildRequest& request : lenient) request.options.keep_spills = true;
    std::vector<BuildResult> results = builder_.Build(lenient, on_result);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].trace != unlucky) continue;
      unlucky.clear();
      results[i] = {.status = TrialStatus::kBuildTimedOut, .text = "too slow"};
    }
    return results;
  }
  Result<BuiltLibrary> BuildLibrary(const std::vector<BuildRequest>& requests) override {
    return builder_.BuildLibrary(requests);
  }

  std::vector<std::set<std::string>> calls;
  std::string unlucky;

 private:
  Builder& builder_;
};

class KeptBuilds : public test::CliTest {};

TEST_F(KeptBuilds, OnlyOfTheLastCallAndOnlyGoodOnes) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  Counting builder(**workers);
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();

  TuneTask task = test::MakeTask("dense", test::Dense(16, 96, 64));
  TaskSpace space = TaskSpace::Make(task, Target::Parse("cpu").value()).value();
  std::vector<Proposal> all = MakeRandomSearch(space, 5)->Propose(6);
  ASSERT_EQ(all.size(), 6u);
  auto traces = [&](std::initializer_list<int> which) {
    std::set<std::string> texts;
    for (int i : which) texts.insert(ToText(all[i].trace));
    return texts;
  };
  MeasureOptions options{.repeats = 1, .max_repeats = 1, .min_repeat_ms = 0.1};
  // The facts that a build leaves are those of the candidate, whether it was built now or before.
  std::map<std::string, std::string> facts;
  auto measure = [&](std::initializer_list<int> which) {
    std::vector<Proposal> some;
    for (int i : which) some.push_back(all[i]);
    auto outcomes = (*measurer)->Measure(space, some, options);
    ASSERT_TRUE(outcomes.ok()) << outcomes.error().Text();
    for (size_t i = 0; i < some.size(); ++i) {
      Outcome& outcome = (*outcomes)[i];
      if (outcome.status != TrialStatus::kOk) continue;
      EXPECT_TRUE(outcome.verified);
      std::string build = outcome.facts["build"].Dump();
      auto [known, first] = facts.emplace(ToText(some[i].trace), build);
      EXPECT_EQ(known->second, build) << "the build of another candidate, or built again";
    }
  };

  builder.unlucky = ToText(all[2].trace);
  measure({0, 1, 2, 3});
  EXPECT_EQ(builder.calls.back(), traces({0, 1, 2, 3}));
  EXPECT_EQ(facts.size(), 3u);
  measure({3, 2, 1, 0});  // in another order
  EXPECT_EQ(builder.calls.back(), traces({2})) << "what failed may succeed";
  EXPECT_EQ(facts.size(), 4u);
  measure({2, 4, 0});
  EXPECT_EQ(builder.calls.back(), traces({4}));
  size_t calls = builder.calls.size();
  measure({0, 4});
  EXPECT_EQ(builder.calls.size(), calls) << "nobody is asked for nothing";
  facts.erase(ToText(all[1].trace));
  measure({5, 1});  // 1 is forgotten: only the last call's are kept
  EXPECT_EQ(builder.calls.back(), traces({5, 1}));

  calls = builder.calls.size();
  auto confirmed = MeasureInTurns(**measurer, space, {all[5], all[1]}, 3, options);
  ASSERT_TRUE(confirmed.ok()) << confirmed.error().Text();
  EXPECT_EQ(builder.calls.size(), calls) << "a confirmation builds nothing that was just measured";
}

}  // namespace
}  // namespace autotune
