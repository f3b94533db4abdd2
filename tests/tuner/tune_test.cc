// The whole tuning loop on a simulated device, whose times are a function of the candidate, with injected failures.
#include "tuner/tune.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "records/memory_store.h"
#include "tests/tuner/simulated.h"
#include "tuner/defaults.h"
#include "tuner/trial_fault.h"

namespace autotune {
namespace {

using test::Failure;
using test::Scripted;
using test::Simulated;
using test::TestTarget;

std::vector<TuneTask> Tasks() { return test::TwoTasks(); }

// Expects that the report's best schedules are the store's, which `compile` uses.
void ExpectReportAgreesWithStore(const TuneReport& report, RecordStore& store) {
  for (const TaskReport& task : report.tasks) {
    auto best = store.Best(task.task->hash.Hex(), TestTarget().Text());
    ASSERT_TRUE(best.ok() && best->has_value());
    EXPECT_EQ((*best)->trace, task.best_trace);
    EXPECT_EQ((*best)->cost, task.best_seconds);
  }
}

std::string DefaultTrace(const TuneTask& task, size_t rank = 0) {
  return ToText(DefaultCandidates(TaskSpace::Make(task, TestTarget()).value())[rank].trace);
}

Outcome AllGood(Scripted& device, const MeasureItem& item, const std::string& trace) {
  return device.Good(item, trace);
}

TEST(Tune, SpendsTheBudgetAndImproves) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  auto report = Tune(tasks, TestTarget(), {.trials = 64, .seed = 1, .run = "r", .lock_host = false}, *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_EQ(report->trials, 64);
  EXPECT_EQ(*store->Count({.run = "r", .trials_only = true}), report->trials);
  for (const TaskReport& task : report->tasks) {
    EXPECT_GT(task.trials, 8);
    EXPECT_GT(task.default_seconds, 0);
    EXPECT_LE(task.best_seconds, task.default_seconds);
    EXPECT_GT(task.best_seconds, 1e-8) << "a wrong answer must not become best";
  }
  ExpectReportAgreesWithStore(*report, *store);
}

TEST(Tune, OneSeedOneRun) {
  std::vector<TuneTask> tasks = Tasks();
  std::vector<std::vector<Simulated::Item>> calls[3];
  for (int i = 0; i < 3; ++i) {
    auto store = NewMemoryStore();
    Simulated device;
    ASSERT_TRUE(Tune(tasks, TestTarget(), {.trials = 48, .seed = i == 2 ? 9u : 4u, .run = "r", .lock_host = false},
                     *store, device)
                    .ok());
    calls[i] = device.calls;
  }
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_NE(calls[0], calls[2]);
}

TEST(Tune, TheFirstRoundMeasuresTheDefaultsOfAllTasks) {
  std::vector<TuneTask> tasks = Tasks();
  tasks[1].weight = 60;  // makes the network spend about as much time in both tasks
  auto store = NewMemoryStore();
  Scripted device(AllGood);
  auto report = Tune(tasks, TestTarget(), {.trials = 40, .seed = 1, .run = "r", .confirm = false, .lock_host = false},
                     *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  std::set<std::string> first;
  for (const auto& item : device.calls[0]) first.insert(item.trace);
  EXPECT_TRUE(first.contains(DefaultTrace(tasks[0])) && first.contains(DefaultTrace(tasks[1])));
  int spanning = 0;
  for (const auto& call : device.calls) {
    std::set<std::string> labels;
    for (const auto& item : call) {
      if (item.check) labels.insert(item.task);
    }
    spanning += labels.size() > 1;
  }
  EXPECT_GT(spanning, 1) << "some rounds must span several tasks";
}

// The default schedule is the first default candidate that works, and no other candidate counts as the default.
TEST(Tune, TheDefaultIsTheTrueOne) {
  std::vector<TuneTask> tasks = {Tasks()[1]};
  for (size_t broken : {0u, 2u, 8u, 9u}) {
    std::set<std::string> bad;
    for (size_t i = 0; i < broken; ++i) bad.insert(DefaultTrace(tasks[0], i));
    auto store = NewMemoryStore();
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      return bad.contains(trace) ? Failure(TrialStatus::kRejected) : d.Good(item, trace);
    });
    TuneOptions options{.trials = 20, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    double truth = broken == 9 ? 0 : device.truth.at(DefaultTrace(tasks[0], broken));
    EXPECT_EQ(report->tasks[0].default_seconds, truth);
    EXPECT_GT(report->tasks[0].good, 0);
    // A later run measures the default again, although the database has it.
    device.times.clear();
    options.trials = 3;
    options.seed = 2;
    options.run = "s";
    auto later = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(later.ok());
    EXPECT_EQ(later->tasks[0].default_seconds, truth);
  }
}

// Candidates that fail by their own fault never end a run. Failures that point to a broken tool or a broken farm end
// it.
TEST(Tune, OnlyBrokenToolsEndARun) {
  std::vector<TuneTask> tasks = Tasks();
  int ended = 0;
  for (int i = 1; i <= static_cast<int>(TrialStatus::kCutOff); ++i) {
    auto status = static_cast<TrialStatus>(i);
    if (status == TrialStatus::kCancelled) continue;
    auto store = NewMemoryStore();
    Scripted device([&](Scripted&, const MeasureItem&, const std::string&) { return Failure(status); });
    TuneOptions options{.trials = 24, .seed = 1, .search = SearchKind::kRandom, .run = "r", .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    EXPECT_EQ(report.ok(), !IsToolFault(status)) << ToText(status);
    if (report.ok()) {
      EXPECT_GE(report->records, 24);
      for (const TaskReport& task : report->tasks)
        EXPECT_TRUE(task.good == 0 && task.default_seconds == 0 && task.best_seconds == 0);
    } else {
      ++ended;
      EXPECT_NE(report.error().message.find(std::string(ToText(status)) + ": injected"), std::string::npos)
          << report.error().Text();
      EXPECT_LE(device.Candidates().size(), 32u);
    }
  }
  EXPECT_EQ(ended, 7);
}

// Once a candidate has worked, only the farm's failures end a run.
TEST(Tune, AfterASuccessOnlyTheFarmEndsARun) {
  std::vector<TuneTask> tasks = Tasks();
  for (TrialStatus status : {TrialStatus::kBuildFailed, TrialStatus::kInfrastructure}) {
    auto store = NewMemoryStore();
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      return d.calls.size() == 1 ? d.Good(item, trace) : Failure(status);
    });
    TuneOptions options{.trials = 40, .seed = 1, .search = SearchKind::kRandom, .run = "r", .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    EXPECT_EQ(report.ok(), status == TrialStatus::kBuildFailed);
  }
}

// A default candidate is tried again after a failure of the device, but not after a rejection.
TEST(Tune, TroubleOfTheDeviceBurnsNothing) {
  std::vector<TuneTask> tasks = {Tasks()[1]};
  for (TrialStatus status : {TrialStatus::kDeviceError, TrialStatus::kInfrastructure, TrialStatus::kRejected}) {
    auto store = NewMemoryStore();
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      return d.calls.size() == 1 ? Failure(status) : d.Good(item, trace);
    });
    TuneOptions options{.trials = 12, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    std::atomic<bool> stop = false;
    auto first = Tune(
        tasks, TestTarget(), options, *store, device, [&](const TuneReport&, const TaskReport&) { stop = true; },
        &stop);
    ASSERT_TRUE(first.ok());
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    EXPECT_EQ(report->tasks[0].default_seconds,
              device.truth.at(DefaultTrace(tasks[0], status == TrialStatus::kRejected ? 1 : 0)));
  }
}

// A device with one lucky time. The slowest candidate of the first large round seems to be the fastest of all. Further
// measurements of a candidate give its true time.
class LuckyOnce : public Simulated {
 public:
  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    std::vector<Outcome> outcomes = TRY(Simulated::Measure(items, options));
    if (!lucky.empty() || items.size() < 4) return outcomes;
    Outcome* slowest = nullptr;
    for (size_t i = 0; i < items.size(); ++i) {
      if (outcomes[i].status != TrialStatus::kOk || (slowest && outcomes[i].cost <= slowest->cost)) continue;
      slowest = &outcomes[i];
      lucky = ToText(items[i].proposal.trace);
    }
    if (slowest) slowest->times = {slowest->cost = 1e-12};
    return outcomes;
  }
  std::string lucky;  // trace of the lucky candidate
};

TEST(Tune, ConfirmationTakesTheWinFromTheLucky) {
  for (bool confirm : {false, true}) {
    std::vector<TuneTask> tasks = {Tasks()[1]};
    auto store = NewMemoryStore();
    LuckyOnce device;
    TuneOptions options{.trials = 40, .seed = 1, .run = "r", .confirm = confirm, .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    ExpectReportAgreesWithStore(*report, *store);
    ASSERT_FALSE(device.lucky.empty());
    EXPECT_EQ(report->tasks[0].best_trace == device.lucky, !confirm);
    if (!confirm) continue;
    // The lucky one was a finalist, and the truly fastest finalist has won.
    std::vector<double> costs;
    for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records) {
      if (record.confirmation > 0) costs.push_back(device.truth.at(record.trace));
    }
    EXPECT_GE(costs.size(), 2u);
    EXPECT_GT(device.times[device.lucky], 1);
    EXPECT_DOUBLE_EQ(report->tasks[0].best_seconds, *std::min_element(costs.begin(), costs.end()));
  }
}

TEST(Tune, AConfirmationVerifiesNothingAgain) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  Simulated device;
  auto report = Tune(tasks, TestTarget(), {.trials = 64, .seed = 1, .run = "r", .lock_host = false}, *store, device);
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->confirmed, 0);
  std::set<std::string> checked;
  for (const auto& item : device.Candidates())
    EXPECT_TRUE(checked.insert(item.trace).second) << "a candidate was checked twice";
  for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records) {
    EXPECT_TRUE(record.confirmation == 0 || record.verified);
  }
}

// A later run with few trials may find a better schedule than the confirmed one, which `compile` then takes. If the new
// schedule is slower, `compile` keeps the confirmed one.
TEST(Tune, AShortRunCanBeatTheChampion) {
  for (bool better : {true, false}) {
    std::vector<TuneTask> tasks = {Tasks()[1]};
    auto store = NewMemoryStore();
    std::set<std::string> old;
    bool second = false;
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      if (!second) old.insert(trace);
      if (!old.contains(trace)) outcome.times = {outcome.cost = better ? 1e-9 : 1};
      return outcome;
    });
    auto first = Tune(tasks, TestTarget(), {.trials = 40, .seed = 1, .run = "r", .lock_host = false}, *store, device);
    ASSERT_TRUE(first.ok());
    ASSERT_EQ(first->confirmed, 1);
    second = true;
    auto report = Tune(tasks, TestTarget(), {.trials = 6, .seed = 2, .run = "s", .lock_host = false}, *store, device);
    ASSERT_TRUE(report.ok());
    ExpectReportAgreesWithStore(*report, *store);
    EXPECT_EQ(report->tasks[0].best_trace != first->tasks[0].best_trace, better);
    EXPECT_EQ(report->tasks[0].best_seconds == 1e-9, better);
  }
}

// In a second run, the trials of the default schedule and of new candidates have lucky times, which turns do not
// confirm. Default and tuned schedule are measured in the same turns, so the report's times agree with the decision.
// Without an earlier run, the default schedule is the incumbent, and no third finalist is needed.
TEST(Tune, TheDefaultIsAlwaysConfirmed) {
  for (bool warm : {true, false}) {
    std::vector<TuneTask> tasks = {Tasks()[1]};
    const std::string standard = DefaultTrace(tasks[0]);
    auto store = NewMemoryStore();
    std::set<std::string> old;
    bool second = false;
    Scripted device([&](Scripted&, const MeasureItem& item, const std::string& trace) {
      if (!second) old.insert(trace);
      const bool lucky = second && item.check;  // a trial, since turns need no check
      double seconds = 0.96e-3;
      if (trace == standard) {
        seconds = lucky ? 0.8e-3 : 1e-3;
      } else if (old.contains(trace)) {
        seconds = 0.9e-3;
      } else if (lucky) {
        seconds = 0.7e-3;
      }
      return Outcome{.status = TrialStatus::kOk, .times = {seconds}, .cost = seconds, .verified = item.check};
    });
    if (warm) {
      auto first = Tune(tasks, TestTarget(), {.trials = 8, .seed = 1, .run = "r", .lock_host = false}, *store, device);
      ASSERT_TRUE(first.ok()) << first.error().Text();
      ASSERT_EQ(first->tasks[0].best_seconds, 0.9e-3);
    }
    second = true;
    auto report = Tune(tasks, TestTarget(), {.trials = 6, .seed = 2, .run = "s", .lock_host = false}, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    ExpectReportAgreesWithStore(*report, *store);
    EXPECT_EQ(report->tasks[0].default_seconds, 1e-3);
    EXPECT_EQ(report->tasks[0].best_seconds, warm ? 0.9e-3 : 0.96e-3);
    size_t finalists = 0;
    for (const Record& record : store->Scan({.run = "s"}, 0, 1000).value().records)
      finalists += record.confirmation > 0;
    EXPECT_EQ(finalists, warm ? 3u : 2u);
  }
}

// The device cuts off candidates that are slower than the cutoff and, by mistake, one fast candidate. The fast one is
// measured again if its time seemed near the cutoff.
TEST(Tune, WhatWasCutOffHasNoTime) {
  for (double beyond : {1.2, 4.0}) {
    std::vector<TuneTask> tasks = {Tasks()[1]};
    auto store = NewMemoryStore();
    std::string unlucky;
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      if (item.cutoff_seconds == 0) return outcome;
      if (unlucky.empty()) {
        unlucky = trace;
        return Outcome{.status = TrialStatus::kCutOff, .error = "slow", .cost = beyond * item.cutoff_seconds};
      }
      if (trace == unlucky) outcome.times = {outcome.cost = 1e-9};
      if (outcome.cost > item.cutoff_seconds) outcome.status = TrialStatus::kCutOff, outcome.error = "slow";
      return outcome;
    });
    TuneOptions options{.trials = 40, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    EXPECT_EQ(report->trials, 40);
    EXPECT_EQ(device.times[unlucky], beyond < 2 ? 2 : 1);
    EXPECT_EQ(report->tasks[0].best_trace == unlucky, beyond < 2)
        << "a time within the noise deserves a second measurement";
    EXPECT_EQ(*store->Count({.run = "r"}), report->records) << "every outcome must have one record";
    for (const Record& record : store->Top(tasks[0].hash.Hex(), TestTarget().Text(), 100).value())
      EXPECT_EQ(record.status, TrialStatus::kOk);
  }
}

// In one call the whole machine is slower, or only the candidates are. If it was the machine, candidates of that call
// that may win are measured again.
TEST(Tune, NoticesAnotherStateOfTheMachine) {
  for (bool machine : {true, false}) {
    std::vector<TuneTask> tasks = Tasks();
    auto store = NewMemoryStore();
    std::map<std::string, double> third;  // true seconds of the slow call's candidates, by trace: the least of all
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      bool now = d.calls.size() == 4;
      if (now && item.check) third.emplace(trace, 1e-8 + 1e-9 * static_cast<double>(third.size()));
      if (third.contains(trace)) outcome.cost = third[trace];
      if (now && (machine || item.check)) outcome.cost *= 1.31;
      outcome.times = {outcome.cost};
      return outcome;
    });
    TuneOptions options{.trials = 80, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(tasks, TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    ASSERT_FALSE(third.empty());
    int again = 0, marked = 0;
    for (const auto& [trace, seconds] : third) again += device.times[trace] > 1;
    for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records)
      marked += !record.facts["machine"].IsNull();
    EXPECT_EQ(report->notes.size(), machine && device.calls.size() <= 4 ? 1u : 0u);  // one of four rounds is many
    EXPECT_EQ(again > 0, machine);
    EXPECT_EQ(marked, machine ? static_cast<int>(third.size()) : 0);
    for (const std::string& note : report->notes)
      EXPECT_NE(note.find("the machine changed"), std::string::npos) << note;
    EXPECT_EQ(report->trials, 80);
  }
}

// A note counts the rounds in which the machine was slow if they are a quarter of all or more.
TEST(Tune, AsksForAQuieterMachineIfManyRoundsWereDisturbed) {
  for (size_t every : {3, 6}) {
    std::set<size_t> slow;
    auto store = NewMemoryStore();
    Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      const size_t call = d.calls.size();
      if (call >= 4 && (call - 4) % every == 0) slow.insert(call), outcome.times = {outcome.cost *= 1.31};
      return outcome;
    });
    TuneOptions options{.trials = 200, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(Tasks(), TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    ASSERT_EQ(4 * slow.size() >= device.calls.size(), every == 3) << slow.size() << " of " << device.calls.size();
    ASSERT_EQ(report->notes.size(), every == 3 ? 1u : 0u);
    const std::string counted = std::to_string(slow.size()) + " of " + std::to_string(device.calls.size());
    EXPECT_THAT(report->notes, ::testing::Each(::testing::HasSubstr("changed in " + counted + " rounds")));
  }
}

// If only one of the two runs of a batch's reference kernel is slow, it was disturbed for a moment. The batch then has
// no reference, and the machine counts as usual.
TEST(Tune, AMomentIsNoStateOfTheMachine) {
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  int references = 0;
  Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
    Outcome outcome = d.Good(item, trace);
    if (!item.check && d.calls.size() >= 4 && references++ % 2 == 0) outcome.cost *= 1.31;
    return outcome;
  });
  TuneOptions options{.trials = 80, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
  auto report = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  ASSERT_GE(references, 2);
  EXPECT_TRUE(report->notes.empty());
  for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records)
    EXPECT_TRUE(record.facts["machine"].IsNull());
}

// The report counts every requested measurement by status, and the store has a record of each. This holds for all kinds
// of failures, and also for a resumed run with records that the search cannot locate.
TEST(Tune, TheAccountsAreExact) {
  int asked = 0;
  std::map<TrialStatus, int> statuses;
  constexpr int kStatuses = static_cast<int>(TrialStatus::kCutOff) + 1;
  Scripted device([&](Scripted& d, const MeasureItem& item, const std::string& trace) {
    Outcome outcome = d.Good(item, trace);
    if (!item.check) return outcome;    // the reference kernel
    int n = asked++ % (2 * kStatuses);  // even: a good outcome
    auto status = static_cast<TrialStatus>(n / 2);
    if (n % 2 == 1 && status != TrialStatus::kOk && status != TrialStatus::kCancelled) outcome = Failure(status);
    if (outcome.status == TrialStatus::kCutOff) outcome.cost = 1e9;  // too slow for a second measurement
    ++statuses[outcome.status];
    return outcome;
  });
  std::vector<TuneTask> tasks = Tasks();
  auto store = NewMemoryStore();
  TuneOptions options{
      .trials = 64, .seed = 1, .search = SearchKind::kRandom, .run = "r", .confirm = false, .lock_host = false};
  auto expect_exact = [&](const TuneReport& report) {
    EXPECT_EQ(report.records, asked);
    std::map<TrialStatus, int> reported, stored;
    int trials = 0, records = 0;
    for (const TaskReport& task : report.tasks) {
      int failures = 0;
      for (const auto& [status, count] : task.failures) reported[status] += count, failures += count;
      reported[TrialStatus::kOk] += task.records - failures;
      records += task.records;
      trials += task.trials;
    }
    EXPECT_EQ(records, report.records);
    EXPECT_EQ(trials, report.trials);
    int executed = 0;
    RecordPage page = store->Scan({.run = "r"}, 0, 1000).value();
    for (const Record& record : page.records) {
      ++stored[record.status];
      executed += WasExecuted(record.status);
    }
    EXPECT_EQ(executed, report.trials);
    EXPECT_EQ(reported, statuses);
    EXPECT_EQ(stored, statuses);
  };
  std::atomic<bool> stop = false;
  auto first = Tune(
      tasks, TestTarget(), options, *store, device,
      [&](const TuneReport& report, const TaskReport&) { stop = report.records >= 40; }, &stop);
  ASSERT_TRUE(first.ok()) << first.error().Text();
  ASSERT_TRUE(first->interrupted);
  expect_exact(*first);

  // Add two records of an unknown step language.
  Record old = store->Scan({.run = "r"}, 0, 1).value().records[0];
  old.versions.step_language = 0;
  for (TrialStatus status : {TrialStatus::kOk, TrialStatus::kRunCrashed}) {
    old.id = NewRecordId();
    old.status = status;
    old.cost = old.verified = status == TrialStatus::kOk;
    old.error = status == TrialStatus::kOk ? "" : "injected";
    ASSERT_TRUE(store->Append(std::vector<Record>{old}).ok());
    ++asked;
    ++statuses[status];
  }
  auto second = Tune(tasks, TestTarget(), options, *store, device);
  ASSERT_TRUE(second.ok()) << second.error().Text();
  EXPECT_EQ(second->trials, 64);
  expect_exact(*second);
  EXPECT_EQ(statuses.size(), static_cast<size_t>(kStatuses - 1)) << "some statuses did not occur";
}

TEST(Tune, ATinyBudgetStillReachesEveryTask) {
  std::vector<TuneTask> tasks = Tasks();
  for (int trials : {1, 2}) {
    auto store = NewMemoryStore();
    Scripted device(AllGood);
    auto report =
        Tune(tasks, TestTarget(), {.trials = trials, .seed = 1, .run = "r", .lock_host = false}, *store, device);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->trials, trials);
    for (const TaskReport& task : report->tasks) EXPECT_LE(task.records, 1);
  }
}

}  // namespace
}  // namespace autotune
