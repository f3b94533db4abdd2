// A real network through the compiler and the build workers. The result is deterministic, correct with default and with
// recorded schedules, and unaffected by records that do not fit.
#include "compiler/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "frontend/onnx/tensor_pb.h"
#include "ir/text.h"
#include "package/load.h"
#include "records/memory_store.h"
#include "runtime/compare.h"
#include "schedule/trace.h"
#include "support/rng.h"
#include "tests/compiler/compile_fixture.h"
#include "tests/compiler/two_convolutions.h"
#include "tuner/defaults.h"
#include "tuner/search.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CompileTest, DefaultSchedulesAreRight) {
  for (int threads : {1, 2}) {
    Comparison comparison = Check(plain(), threads);
    EXPECT_TRUE(comparison.ok) << comparison.Text();
  }
  EXPECT_EQ(plain().info.tasks, 15);
  EXPECT_EQ(plain().info.tuned_tasks, 0);
  ASSERT_EQ(plain().info.inputs.size(), 1u);
  EXPECT_EQ(plain().info.inputs[0].name, "image");
  EXPECT_EQ(plain().info.inputs[0].shape, (std::vector<int64_t>{1, 3, 32, 32}));
  // The check notices a wrong output: that of another input.
  LoadedModel model = LoadModel(plain(), 1).value();
  EXPECT_TRUE(model.executor->SetInput(0, Tensor::Zeros({1, 3, 32, 32}, "f32").value()).ok());
  EXPECT_TRUE(model.executor->Run().ok());
  EXPECT_FALSE(CompareTensors(model.executor->Output(0), ExampleTensor("output_0.pb")).value().ok);
}

TEST_F(CompileTest, TheSameBytesTwice) {
  CompileResult again = CompileWith(nullptr).value();
  EXPECT_EQ(again.package.library == plain().library, true);
  EXPECT_EQ(again.package.graph_json, plain().graph_json);
  EXPECT_EQ(again.package.params == plain().params, true);
  EXPECT_EQ(again.package.graph_text, plain().graph_text);
  EXPECT_EQ(ToJson(again.package.functions), ToJson(plain().functions));
}

TEST_F(CompileTest, RecordedSchedulesAreUsedAndRight) {
  auto store = NewMemoryStore();
  std::vector<Record> records;
  for (const TuneTask& task : tasks()) records.push_back(RecordOf(task, 5));
  ASSERT_TRUE(store->Append(records).ok());
  CompileResult tuned = CompileWith(store.get()).value();
  // A candidate may be rejected by the builder (spills); the others are used as they are recorded.
  EXPECT_GE(tuned.package.info.tuned_tasks, 10);
  for (size_t i = 0; i < records.size(); ++i) {
    if (tuned.choices[i].tuned) {
      EXPECT_EQ(tuned.choices[i].trace, records[i].trace);
    }
  }
  Comparison comparison = Check(tuned.package);
  EXPECT_TRUE(comparison.ok) << comparison.Text();
  EXPECT_FALSE(tuned.package.library == plain().library);
  // Without a database, the recorded schedules are not used.
  CompileResult without = CompileWith(nullptr).value();
  EXPECT_EQ(without.package.info.tuned_tasks, 0);
  EXPECT_TRUE(without.package.library == plain().library);
}

TEST_F(CompileTest, RecordsThatDoNotFitArePassedOver) {
  auto store = NewMemoryStore();
  std::vector<Record> records;
  for (size_t i = 0; i < network().tasks.size(); ++i) {
    Record record = RecordOf(tasks()[i], 5);
    switch (i % 6) {
      case 0:
        record.verified = false;
        break;
      case 1:
        record.status = TrialStatus::kWrongAnswer, record.error = "wrong";
        break;
      case 2:
        record.trace = "this is no trace";
        break;
      case 3:
        record.func += " ";
        break;
      case 4:
        record.alternative = "another";
        break;
      case 5:
        record.target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4";
        break;
    }
    records.push_back(record);
  }
  ASSERT_TRUE(store->Append(records).ok());
  CompileResult result = CompileWith(store.get()).value();
  EXPECT_EQ(result.package.info.tuned_tasks, 0);
  EXPECT_EQ(result.choices[0].note, "");
  EXPECT_THAT(result.choices[2].note, HasSubstr("its best schedule does not build any more"));
  EXPECT_THAT(result.choices[2].note, HasSubstr("its default schedule is used"));
  EXPECT_THAT(result.choices[3].note, HasSubstr("skipped"));
  EXPECT_TRUE(result.package.library == plain().library);
}

// The record holds the default schedule of the first task. That schedule builds, so a record that is found is used.
TEST_F(CompileTest, RecordsOfAnotherCoreCountAreUsedWithANote) {
  auto store = NewMemoryStore();
  Record record = DefaultRecordOf(0);
  std::string own = record.target;
  record.target = own.substr(0, own.find(" -num-cores=")) + " -num-cores=64";
  ASSERT_TRUE(store->Append(std::vector{record}).ok());
  CompileResult result = CompileWith(store.get()).value();
  EXPECT_TRUE(result.choices[0].tuned);
  EXPECT_THAT(result.choices[0].note, HasSubstr("tuned for 64 cores"));
  EXPECT_TRUE(Check(result.package).ok);
  // A record of another program is not called outdated, since the program may depend on the target.
  record.func += " ";
  auto other = NewMemoryStore();
  ASSERT_TRUE(other->Append(std::vector{record}).ok());
  EXPECT_THAT(CompileWith(other.get()).value().choices[0].note, HasSubstr("for 64 cores are for another program"));
}

TEST_F(CompileTest, RecordsOfOtherCoreCountsAreNotMentionedBesideOwnOnes) {
  auto store = NewMemoryStore();
  std::vector<Record> records;
  Record record = RecordOf(tasks()[0], 0);
  const std::string own = record.target;
  for (const char* cores : {"1", "64"}) {
    records.push_back(record);
    records.back().id = NewRecordId();
    records.back().target = own.substr(0, own.find(" -num-cores=")) + " -num-cores=" + cores;
  }
  record.id = NewRecordId();
  records.push_back(record);
  ASSERT_TRUE(store->Append(records).ok());
  CompileResult result = CompileWith(store.get()).value();
  EXPECT_TRUE(result.choices[0].tuned);
  EXPECT_EQ(result.choices[0].note, "");
}

// The targets of old records state no caches. Records of another processor are not used.
TEST_F(CompileTest, RecordsOfOtherCachesAreUsedWithANote) {
  Record record = DefaultRecordOf(0);
  std::string own = record.target;
  size_t begin = own.find(" -caches="), end = own.find(" -num-cores=");
  ASSERT_TRUE(begin != std::string::npos && begin < end);
  for (const auto& [caches, note] :
       {std::pair{"", "caches of unknown size"}, {" -caches=1K,2K,3K", "caches of 1K,2K,3K"}}) {
    auto store = NewMemoryStore();
    record.target = own.substr(0, begin) + caches + own.substr(end);
    ASSERT_TRUE(store->Append(std::vector{record}).ok());
    CompileResult result = CompileWith(store.get()).value();
    EXPECT_THAT(result.choices[0].note, HasSubstr(note));
    EXPECT_EQ(result.package.info.tuned_tasks, 1);
  }
  auto store = NewMemoryStore();
  record.target = "llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem" + own.substr(begin);
  ASSERT_TRUE(store->Append(std::vector{record}).ok());
  EXPECT_EQ(CompileWith(store.get()).value().package.info.tuned_tasks, 0);
}

// The records claim one nanosecond for unscheduled programs. Runs of the whole network refute that.
TEST_F(CompileTest, TheNetworkRefusesSchedulesThatAreSlower) {
  auto store = NewMemoryStore();
  std::vector<Record> records;
  for (const TuneTask& task : tasks()) {
    Record record = RecordOf(task, 0);
    record.alternative = task.alternatives[0].name;
    record.func = ToText(task.alternatives[0].func);
    record.trace = "";
    record.cost = 1e-9;
    records.push_back(record);
  }
  ASSERT_TRUE(store->Append(records).ok());
  EXPECT_EQ(CompileWith(store.get()).value().package.info.tuned_tasks, 15);
  ChosenNetwork chosen = ChooseSchedules(network(), target(), *store, *shared_->builder, *MakeLocalHost(),
                                         {.max_seconds = 0.1, .max_extra_seconds = 0.1})
                             .value();
  EXPECT_GE(chosen.tasks_with_records, 10);
  // Unscheduled convolutions are many times slower; some of the smallest tasks may not be.
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(chosen.choice.schedules[i].seconds, 0) << network().tasks[i].label;
  ASSERT_TRUE(StoreChoice(*store, chosen.choice).ok());
  CompileResult compiled = CompileWith(store.get()).value();
  EXPECT_TRUE(compiled.followed_choice);
  EXPECT_TRUE(compiled.package.library == chosen.compiled.package.library);
  EXPECT_LT(compiled.package.info.tuned_tasks, 6);
  EXPECT_TRUE(Check(compiled.package).ok);
}

TEST_F(CompileTest, AChoiceComesBeforeRecordsIfItFits) {
  auto store = NewMemoryStore();
  Record best = DefaultRecordOf(0);
  best.trace = "";
  best.alternative = tasks()[0].alternatives[0].name;
  best.func = ToText(tasks()[0].alternatives[0].func);
  ASSERT_TRUE(store->Append(std::vector{best}).ok());
  Record chosen = DefaultRecordOf(0);
  NetworkChoice choice{.network = StructureHash(network()),
                       .target = target().Text(),
                       .schedules = {{.task = chosen.task,
                                      .alternative = chosen.alternative,
                                      .func_hash = HashBytes128(chosen.func).Hex(),
                                      .trace = chosen.trace,
                                      .seconds = 2e-6}},
                       .versions = CurrentVersions(),
                       .created_at = 1};
  auto trace_of_first = [&] { return CompileWith(store.get()).value().choices[0].trace; };
  EXPECT_EQ(trace_of_first(), "");
  ASSERT_TRUE(StoreChoice(*store, choice).ok());
  EXPECT_EQ(trace_of_first(), chosen.trace);
  // A choice for another program is ignored, so the record is used again.
  choice.schedules[0].func_hash = HashBytes128("another").Hex();
  ASSERT_TRUE(StoreChoice(*store, choice).ok());
  EXPECT_EQ(trace_of_first(), "");
  // A choice in another step language is ignored, with a note.
  choice.schedules[0].func_hash = HashBytes128(chosen.func).Hex();
  choice.versions.step_language += 1;
  ASSERT_TRUE(StoreChoice(*store, choice).ok());
  CompileResult result = CompileWith(store.get()).value();
  EXPECT_FALSE(result.followed_choice);
  EXPECT_THAT(result.note, HasSubstr("from another version"));
  EXPECT_EQ(result.choices[0].trace, "");
}

// The default schedule of task 0 is the unscheduled program here, many times slower than any other schedule.
TEST_F(CompileTest, AnEarlierChoiceStaysIfNothingIsFaster) {
  const Network small = test::TwoConvolutions(target(), *shared_->builder);
  const std::vector<TuneTask> tasks = MakeTuneTasks(small);
  const TuneTask& task = tasks[0];
  TaskSpace space = TaskSpace::Make(task, target()).value();
  std::set<std::string> defaults;
  for (const Proposal& proposal : DefaultCandidates(space)) defaults.insert(ToText(proposal.trace));
  defaults.erase("");
  Refusing refusing(*shared_->builder, [&](const BuildRequest& request) { return defaults.contains(request.trace); });
  auto store = NewMemoryStore();
  const ChooseOptions once{.max_seconds = 0, .max_extra_seconds = 0};
  auto choose = [&] { return ChooseSchedules(small, target(), *store, refusing, *MakeLocalHost(), once).value(); };
  ChosenNetwork chosen = choose();
  EXPECT_TRUE(chosen.kept_defaults);
  EXPECT_EQ(chosen.choice.schedules[0].trace, "");

  std::vector<Proposal> drawn = MakeRandomSearch(space, 1)->Propose(60).value();
  std::erase_if(drawn, [&](const Proposal& proposal) { return defaults.contains(ToText(proposal.trace)); });
  const Proposal& fast = *std::min_element(drawn.begin(), drawn.end(), [](const Proposal& a, const Proposal& b) {
    return a.draft_seconds < b.draft_seconds;
  });
  const TaskAlternative& alternative = task.alternatives[space.sketches[fast.sketch].alternative];
  NetworkChoice earlier = chosen.choice;
  earlier.schedules[0] = {.task = task.hash.Hex(),
                          .alternative = alternative.name,
                          .func_hash = HashBytes128(ToText(alternative.func)).Hex(),
                          .trace = ToText(fast.trace),
                          .seconds = 1e-6};
  earlier.created_at = 1;
  ASSERT_TRUE(StoreChoice(*store, earlier).ok());
  chosen = choose();
  EXPECT_TRUE(chosen.kept_previous);
  EXPECT_FALSE(chosen.kept_defaults);
  EXPECT_EQ(chosen.tuned_tasks, 1);
  EXPECT_EQ(chosen.choice.schedules[0].trace, earlier.schedules[0].trace);
  EXPECT_GT(chosen.choice.created_at, 1) << "the choice was made again";

  // The choice stays as it is if there are no new schedules. With a new record, schedules are compared again.
  ASSERT_TRUE(StoreChoice(*store, chosen.choice).ok());
  ChosenNetwork again = choose();
  EXPECT_TRUE(again.same_schedules && again.kept_previous && !again.kept_defaults);
  EXPECT_EQ(ToJson(again.choice), ToJson(chosen.choice));
  EXPECT_TRUE(again.compiled.package.library == chosen.compiled.package.library);
  ASSERT_TRUE(store->Append(std::vector{RecordOf(tasks[1], 3)}).ok());
  EXPECT_FALSE(choose().same_schedules);

  // A choice for another program and a choice of another version do not compete.
  NetworkChoice other = earlier;
  other.schedules[0].func_hash = HashBytes128("another").Hex();
  ASSERT_TRUE(StoreChoice(*store, other).ok());
  EXPECT_TRUE(choose().kept_defaults);
  other = earlier;
  other.versions.code_generator -= 1;
  ASSERT_TRUE(StoreChoice(*store, other).ok());
  EXPECT_TRUE(choose().kept_defaults);

  // Where the default schedules can be built, they are faster than an unscheduled program that was chosen before.
  other = earlier;
  other.schedules[0].alternative = task.alternatives[0].name;
  other.schedules[0].func_hash = HashBytes128(ToText(task.alternatives[0].func)).Hex();
  other.schedules[0].trace = "";
  ASSERT_TRUE(StoreChoice(*store, other).ok());
  chosen = ChooseSchedules(small, target(), *store, *shared_->builder, *MakeLocalHost(), once).value();
  EXPECT_TRUE(chosen.kept_defaults);
}

TEST_F(CompileTest, AStopEndsTheChoice) {
  auto store = NewMemoryStore();
  std::atomic<bool> stop = true;
  EXPECT_TRUE(ChooseSchedules(network(), target(), *store, *shared_->builder, *MakeLocalHost(), {.stop = &stop})
                  .value()
                  .stopped);
}

TEST_F(CompileTest, StructureHashTellsNetworksApart) {
  Network other = network();
  EXPECT_EQ(StructureHash(other), StructureHash(network()));
  other.name = "another";
  other.digest = {};
  EXPECT_EQ(StructureHash(other), StructureHash(network()));
  graph::Graph main = other.main();
  ASSERT_NE(main.nodes.front().attrs, main.nodes.back().attrs);
  std::swap(main.nodes.front().attrs, main.nodes.back().attrs);  // each calls the other's function
  other.module.Set(std::string(IRModule::kMain), main);
  EXPECT_NE(StructureHash(other), StructureHash(network()));
}

// LoadModel refuses a package with truncated, invalid, empty or contradictory members. Its error has one line.
TEST_F(CompileTest, DamagedMembersAreRefused) {
  auto error_of = [](Package package) {
    auto model = LoadModel(std::move(package), 1);
    EXPECT_FALSE(model.ok());
    std::string text = model.ok() ? "" : model.error().Text();
    EXPECT_THAT(text, Not(HasSubstr("\n")));
    return text;
  };
  Package package = plain();
  package.library.resize(package.library.size() / 2);
  error_of(package);
  package = plain();
  package.library = "no shared object";
  error_of(package);
  package = plain();
  package.params.resize(package.params.size() - 1000);
  error_of(package);
  package = plain();
  package.params.clear();
  error_of(package);
  package = plain();
  package.graph_json.resize(package.graph_json.size() / 2);
  error_of(package);
  package = plain();
  package.graph_json.replace(package.graph_json.find("k0_"), 3, "z0_");
  EXPECT_THAT(error_of(package), HasSubstr("z0_"));
  package = plain();
  package.info.inputs.clear();
  error_of(package);
}

TEST_F(CompileTest, AGraphWithOneChangedByteNeverCrashes) {
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    Package package = plain();
    size_t at = rng.Below(package.graph_json.size());
    package.graph_json[at] = "0123456789,:[]{}\"ax"[rng.Below(19)];
    auto model = LoadModel(std::move(package), 1);
    if (model.ok()) continue;
    ++refused;
    EXPECT_THAT(model.error().Text(), Not(HasSubstr("\n")));
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace autotune
