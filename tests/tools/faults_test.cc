// Build workers are killed at random during a run. The run ends as requested, and its accounts are exact: the outcomes
// of the builders, of the devices, of the report and of the database agree one by one.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <map>
#include <thread>

#include "records/open.h"
#include "support/rng.h"
#include "tests/tools/cli.h"
#include "tests/tools/forwarding_builder.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;
using test::Process;

std::vector<Process> BuildWorkersOfThis() {
  std::vector<Process> workers;
  for (const Process& process : test::DescendantsOf(getpid())) {
    if (process.Is("--build-worker")) workers.push_back(process);
  }
  return workers;
}

// Records the outcome of each build, and whether candidates are being built now.
class Noting : public test::ForwardingBuilder {
 public:
  using ForwardingBuilder::ForwardingBuilder;
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    building = true;
    std::vector<BuildResult> results = ForwardingBuilder::Build(requests, on_result);
    building = false;
    EXPECT_EQ(results.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_TRUE(built.emplace(requests[i].trace, results[i].status).second) << "a candidate was built twice";
    }
    return results;
  }
  std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience patience) override {
    in_library = true;
    std::vector<CompiledKernel> kernels = ForwardingBuilder::Compile(requests, patience);
    in_library = false;
    return kernels;
  }

  std::atomic<bool> building = false, in_library = false;
  std::map<std::string, TrialStatus> built;  // keys: traces
};

class Faults : public test::CliTest {
 protected:
  std::unique_ptr<Builder> Workers(int count) {
    auto workers = MakeBuildWorkers({.workers = count,
                                     .timeout_seconds = 100,  // so long that only killed workers fail
                                     .command = {test::kTools + "/autotune", "--build-worker"}});
    EXPECT_TRUE(workers.ok()) << workers.error().Text();
    return std::move(*workers);
  }
};

TEST_F(Faults, WorkersDieAtRandom) {
  constexpr int kTrials = 24, kFaults = 9;
  std::unique_ptr<Builder> workers = Workers(2);
  Noting builder(*workers);
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();

  std::atomic<bool> over = false;
  int faults = 0;
  std::thread misfortune([&] {
    for (Rng rng(11); faults < kFaults && !over; usleep(static_cast<useconds_t>(20000 + rng.Below(200000)))) {
      while (!builder.building && !over) usleep(1000);
      std::vector<Process> victims = BuildWorkersOfThis();
      if (victims.empty()) continue;
      pid_t victim = victims[static_cast<size_t>(rng.Below(static_cast<int64_t>(victims.size())))].pid;
      faults += kill(victim, SIGKILL) == 0;
    }
  });
  std::vector<TuneTask> tasks = {MakeTask("dense", Dense(16, 96, 64))};
  auto store = OpenStore(db_).value();
  TuneOptions options{.trials = kTrials,
                      .batch = 8,
                      .seed = 3,
                      .search = SearchKind::kRandom,
                      .run = "r",
                      .confirm = false,
                      .give_up_after = 1000};
  options.measure = {.repeats = 2, .min_repeat_ms = 1};
  auto report = Tune(tasks, Target::Parse("cpu").value(), options, *store, **measurer);
  over = true;
  misfortune.join();
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_GE(faults, 3);

  EXPECT_EQ(report->trials, kTrials);
  // A candidate that was measured in an unusual state of the machine is measured again with the same build.
  EXPECT_GE(report->records, static_cast<int>(builder.built.size()));
  std::map<TrialStatus, int> failures;
  int executed = 0, records = 0, died = 0;
  RecordPage page = store->Scan({}, 0, 1000).value();
  for (const Record& record : page.records) {
    ++records;
    executed += WasExecuted(record.status);
    if (record.status != TrialStatus::kOk) ++failures[record.status];
    ASSERT_TRUE(builder.built.count(record.trace)) << "the record's candidate was not built";
    TrialStatus built = builder.built[record.trace];
    if (built == TrialStatus::kOk) {
      EXPECT_TRUE(WasExecuted(record.status)) << ToText(record.status) << ": " << record.error;
    } else {
      EXPECT_EQ(record.status, built);
    }
    EXPECT_EQ(record.error.empty(), record.status == TrialStatus::kOk);
    died += record.error.find("build worker") != std::string::npos;
  }
  EXPECT_EQ(records, report->records);
  EXPECT_EQ(executed, report->trials);
  EXPECT_EQ(report->tasks[0].records, records);
  EXPECT_EQ(report->tasks[0].failures, failures);
  std::printf("%d workers killed; %d of %d candidates failed since two workers died\n", faults, died, records);
  EXPECT_LE(2 * died, faults) << "a candidate may fail only after two of its workers died";
}

// All candidates are compared with the reference, so its build must survive the death of four workers.
TEST_F(Faults, TheReferenceSurvivesItsWorkers) {
  std::unique_ptr<Builder> workers = Workers(1);
  Noting builder(*workers);
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();
  std::atomic<bool> over = false;
  int kills = 0;
  std::thread misfortune([&] {
    std::set<pid_t> killed;
    while (!builder.in_library && !over) usleep(500);
    for (; kills < 4 && !builder.building && !over; usleep(500)) {
      for (const Process& worker : BuildWorkersOfThis()) {
        if (killed.insert(worker.pid).second) kills += kill(worker.pid, SIGKILL) == 0;
      }
    }
  });
  std::vector<TuneTask> tasks = {MakeTask("dense", Dense(16, 96, 64))};
  auto store = OpenStore(db_).value();
  TuneOptions options{.trials = 2, .batch = 2, .search = SearchKind::kRandom, .run = "r", .confirm = false};
  options.measure = {.repeats = 1, .min_repeat_ms = 1};
  auto report = Tune(tasks, Target::Parse("cpu").value(), options, *store, **measurer);
  over = true;
  misfortune.join();
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_EQ(kills, 4);
  EXPECT_EQ(report->trials, 2);
}

}  // namespace
}  // namespace autotune
