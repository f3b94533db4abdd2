// The farm's measurer builds only candidates that it has not built before or whose build failed. The result of a kept
// build is reported for the candidate that it was built for.
#include "tuner/farm_measurer.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>

#include "records/open.h"
#include "tests/tools/cli.h"
#include "tests/tools/forwarding_builder.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/confirm.h"
#include "tuner/defaults.h"
#include "tuner/poison.h"

namespace autotune {
namespace {

// Records the traces of each call. The first build of the trace `unlucky` fails. If `large_reference` is set, the next
// reference that is linked is too large to be sent to a device.
class Counting : public test::ForwardingBuilder {
 public:
  using ForwardingBuilder::ForwardingBuilder;
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    calls.emplace_back();
    for (const BuildRequest& request : requests) calls.back().insert(request.trace);
    EXPECT_EQ(calls.back().size(), requests.size()) << "a call must not contain a candidate twice";
    // Accepts register tiles that spill, since the rejection of spills depends on the machine.
    std::vector<BuildRequest> lenient = requests;
    for (BuildRequest& request : lenient) request.options.keep_spills = true;
    std::vector<BuildResult> results = ForwardingBuilder::Build(lenient, on_result);
    if (first_artifact.empty()) first_artifact = results.at(0).artifact.data;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].trace != unlucky) continue;
      unlucky.clear();
      results[i] = {.status = TrialStatus::kBuildTimedOut, .text = "too slow"};
    }
    return results;
  }

  Result<BuiltLibrary> Link(const std::vector<const KernelObject*>& objects, const std::string& target) override {
    BuiltLibrary library = TRY(ForwardingBuilder::Link(objects, target));
    if (std::exchange(large_reference, false)) library.artifact.data.resize(rpc::kMaxBlobBytes + 1);
    return library;
  }

  std::vector<std::set<std::string>> calls;
  std::string unlucky, first_artifact;
  bool large_reference = false;
};

// Compiles no reference. If it `stops`, that is since a stop is requested meanwhile.
class NoReferences : public test::ForwardingBuilder {
 public:
  NoReferences(Builder& builder, bool stops) : ForwardingBuilder(builder), stops_(stops) {}
  std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience) override {
    if (stops_) stop.request_stop();
    CompiledKernel none;
    none.status = stops_ ? TrialStatus::kCancelled : TrialStatus::kInfrastructure;
    none.text = "no reference";
    return std::vector<CompiledKernel>(requests.size(), none);
  }

  std::stop_source stop;

 private:
  const bool stops_;
};

// A measurer on a farm of this machine, whose builds are counted.
class KeptBuilds : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
    ASSERT_TRUE(workers.ok()) << workers.error().Text();
    workers_ = std::move(*workers);
    builder_.emplace(*workers_);
    auto farm = LocalFarm::Start();
    ASSERT_TRUE(farm.ok()) << farm.error().Text();
    farm_ = std::move(*farm);
    auto measurer = MakeFarmMeasurer(*builder_, {.tracker = farm_->tracker(), .key = farm_->key()});
    ASSERT_TRUE(measurer.ok()) << measurer.error().Text();
    measurer_ = std::move(*measurer);
  }

  std::unique_ptr<Builder> workers_;
  std::optional<Counting> builder_;
  std::unique_ptr<LocalFarm> farm_;
  std::unique_ptr<Measurer> measurer_;
};

class MissingReference : public test::CliTest {};

TEST_F(KeptBuilds, EveryGoodOneIsBuiltOnce) {
  TuneTask task = test::MakeTask("dense", test::Dense(16, 96, 64));
  TaskSpace space = TaskSpace::Make(task, Target::Parse("cpu").value()).value();
  std::vector<Proposal> all = MakeRandomSearch(space, 5)->Propose(6).value();
  ASSERT_EQ(all.size(), 6u);
  auto traces = [&](std::initializer_list<int> which) {
    std::set<std::string> texts;
    for (int i : which) texts.insert(ToText(all[i].trace));
    return texts;
  };
  MeasureOptions options{.repeats = 1, .max_repeats = 1, .min_repeat_ms = 0.1};
  // A measurement reports the facts of its candidate's build, whether the build is new or kept.
  std::map<std::string, std::string> facts;
  auto measure = [&](std::initializer_list<int> which) {
    std::vector<MeasureItem> some;
    for (int i : which) some.push_back({.space = &space, .proposal = all[i]});
    auto outcomes = measurer_->Measure(some, options);
    ASSERT_TRUE(outcomes.ok()) << outcomes.error().Text();
    for (size_t i = 0; i < some.size(); ++i) {
      Outcome& outcome = (*outcomes)[i];
      if (outcome.status != TrialStatus::kOk) continue;
      EXPECT_TRUE(outcome.verified);
      std::string build = outcome.facts["build"].Dump();
      auto [known, first] = facts.emplace(ToText(some[i].proposal.trace), build);
      EXPECT_EQ(known->second, build) << "the outcome has the facts of another build";
    }
  };

  builder_->unlucky = ToText(all[2].trace);
  measure({0, 1, 2, 3});
  EXPECT_EQ(builder_->calls.back(), traces({0, 1, 2, 3}));
  EXPECT_EQ(facts.size(), 3u);
  measure({3, 2, 1, 0});  // in another order
  EXPECT_EQ(builder_->calls.back(), traces({2})) << "a failed build must be tried again";
  EXPECT_EQ(facts.size(), 4u);
  measure({2, 4, 0});
  EXPECT_EQ(builder_->calls.back(), traces({4}));
  size_t calls = builder_->calls.size();
  measure({0, 4});
  EXPECT_EQ(builder_->calls.size(), calls) << "the builder must not be called without requests";
  calls = builder_->calls.size();
  measure({5, 1, 5});  // 1 is kept from the first call, and 5 is built once
  EXPECT_EQ(builder_->calls.back(), traces({5}));
  EXPECT_EQ(builder_->calls.size(), calls + 1);

  calls = builder_->calls.size();
  auto confirmed = Confirm(*measurer_, space, {{all[5]}, {all[1]}}, {.measure = options});
  ASSERT_TRUE(confirmed.ok()) << confirmed.error().Text();
  EXPECT_TRUE(confirmed->winner);
  EXPECT_EQ(builder_->calls.size(), calls) << "a confirmation must use the kept builds";
}

// The first of two candidates has broken two devices in an earlier run.
TEST_F(KeptBuilds, AnArtifactOnThePoisonListIsNotMeasured) {
  const std::vector<TuneTask> tasks = {test::MakeTask("dense", test::Dense(16, 96, 64))};
  const TaskSpace space = TaskSpace::Make(tasks[0], Target::Parse("cpu").value()).value();
  const std::vector<Proposal> proposals = MakeRandomSearch(space, 5)->Propose(2).value();
  ASSERT_EQ(proposals.size(), 2u);
  const std::vector<MeasureItem> items = {{&space, proposals[0]}, {&space, proposals[1]}};
  const MeasureOptions options{.repeats = 1, .max_repeats = 1, .min_repeat_ms = 0.1};
  ASSERT_EQ(measurer_->Measure(items, options)->at(0).status, TrialStatus::kOk);

  Record broke;
  broke.id = NewRecordId();
  broke.task = tasks[0].hash.Hex();
  broke.target = "cpu";
  broke.status = TrialStatus::kDeviceError;
  broke.facts[kPoisonFact] = PoisonName(builder_->first_artifact);
  Record other = broke;  // a device error of another cause
  other.id = NewRecordId();
  other.facts = Json();
  auto store = OpenStore(kMemoryStore).value();
  ASSERT_TRUE(store->Append(std::vector{broke, other}).ok());
  FarmMeasurerOptions with_list;
  with_list.poison = PoisonOf(*store, tasks).value();
  EXPECT_EQ(with_list.poison.size(), 1u);
  auto measurer = MakeFarmMeasurer(*builder_, {.tracker = farm_->tracker(), .key = farm_->key()}, with_list).value();
  measurer_.reset();  // gives the device back
  const std::vector<Outcome> outcomes = measurer->Measure(items, options).value();
  EXPECT_EQ(outcomes[0].status, TrialStatus::kRejected);
  EXPECT_EQ(outcomes[0].error, "its code has broken two devices before");
  EXPECT_EQ(outcomes[1].status, TrialStatus::kOk);
}

// A batch with cancelled candidates leaves no records, unlike a batch whose reference cannot be built.
TEST_F(MissingReference, AStopDuringTheReferenceCancelsTheCandidates) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  TuneTask task = test::MakeTask("dense", test::Dense(16, 96, 64));
  TaskSpace space = TaskSpace::Make(task, Target::Parse("cpu").value()).value();
  const Proposal proposal = DefaultProposals(space, 1)[0];
  for (bool stops : {true, false}) {
    NoReferences references(**workers, stops);
    Counting builder(references);  // accepts spills
    auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()},
                                     {.stop = references.stop.get_token()});
    ASSERT_TRUE(measurer.ok()) << measurer.error().Text();
    auto outcomes = (*measurer)->Measure({{.space = &space, .proposal = proposal}}, {});
    ASSERT_TRUE(outcomes.ok()) << outcomes.error().Text();
    EXPECT_EQ(outcomes->front().status, stops ? TrialStatus::kCancelled : TrialStatus::kInfrastructure);
  }
}

// A call over two tasks builds all candidates at once and returns the outcomes in the order of the items.
TEST_F(KeptBuilds, OneCallMeasuresSeveralTasks) {
  TuneTask tasks[] = {test::MakeTask("dense", test::Dense(16, 96, 64)),
                      test::MakeTask("other", test::Dense(8, 32, 64))};
  std::vector<TaskSpace> spaces;
  std::vector<std::vector<Proposal>> proposals;
  for (const TuneTask& task : tasks) {
    spaces.push_back(TaskSpace::Make(task, Target::Parse("cpu").value()).value());
    proposals.push_back(MakeRandomSearch(spaces.back(), 5)->Propose(3).value());
    ASSERT_EQ(proposals.back().size(), 3u);
  }
  std::vector<MeasureItem> items;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t t = 0; t < 2; ++t) items.push_back({.space = &spaces[t], .proposal = proposals[t][i], .check = i != 2});
  }
  builder_->unlucky = ToText(proposals[1][0].trace);
  auto outcomes = measurer_->Measure(items, {.repeats = 1, .max_repeats = 1, .min_repeat_ms = 0.1});
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().Text();
  EXPECT_EQ(builder_->calls.size(), 1u);
  for (size_t i = 0; i < items.size(); ++i) {
    const Outcome& outcome = (*outcomes)[i];
    EXPECT_EQ(outcome.status, i == 1 ? TrialStatus::kBuildTimedOut : TrialStatus::kOk) << outcome.error;
    EXPECT_EQ(outcome.verified, i != 1 && items[i].check);
    EXPECT_EQ(outcome.cost > 0, i != 1);
  }
}

// The reference of the call's first task is too large to be sent. Only the candidates of this task fail.
TEST_F(KeptBuilds, AReferenceThatCannotBeSentFailsItsTaskOnly) {
  const TuneTask large = test::MakeTask("dense", test::Dense(16, 96, 64));
  const TuneTask small = test::MakeTask("other", test::Dense(8, 32, 64));
  const Target target = Target::Parse("cpu").value();
  const TaskSpace spaces[] = {TaskSpace::Make(large, target).value(), TaskSpace::Make(small, target).value()};
  std::vector<MeasureItem> items;
  for (const TaskSpace& space : spaces) {
    for (Proposal& proposal : MakeRandomSearch(space, 5)->Propose(2).value())
      items.push_back({&space, std::move(proposal)});
  }
  ASSERT_EQ(items.size(), 4u);
  builder_->large_reference = true;
  auto outcomes = measurer_->Measure(items, {.repeats = 1, .max_repeats = 1, .min_repeat_ms = 0.1});
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().Text();
  for (size_t i = 0; i < items.size(); ++i) {
    const Outcome& outcome = (*outcomes)[i];
    EXPECT_EQ(outcome.status, i < 2 ? TrialStatus::kInfrastructure : TrialStatus::kOk) << outcome.error;
    EXPECT_EQ(outcome.error.find("the reference artifact has") == 0, i < 2) << outcome.error;
  }
}

}  // namespace
}  // namespace autotune
