// Runs whose measurements other processes disturb, or that several devices make.
#include <gmock/gmock.h>

#include <map>

#include "records/memory_store.h"
#include "tests/tuner/simulated.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// Other processes disturb all times of some calls, from the third one on. Candidates that may win are measured again as
// soon as the host is quiet, or at the end of the run, and only those; the number of trials stays. If the load never
// ends, turns decide, and a note says so.
TEST(Disturbances, MeasuresDisturbedCandidatesAgain) {
  enum class Load { kNone, kTwoCalls, kToTheEnd, kAlways };
  for (const Load load : {Load::kNone, Load::kTwoCalls, Load::kToTheEnd, Load::kAlways}) {
    auto store = NewMemoryStore();
    std::map<std::string, size_t> disturbed;  // the first call that disturbed a candidate
    std::map<std::string, size_t> again;      // the first undisturbed or later call of such a candidate
    test::Scripted device([&](test::Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      const size_t call = d.calls.size();
      const bool now = load == Load::kAlways || (load == Load::kTwoCalls && (call == 4 || call == 5)) ||
                       (load == Load::kToTheEnd && call >= 4);
      if (now) outcome.disturbed = "a load";
      if (!item.check) return outcome;
      if (disturbed.contains(trace)) again.try_emplace(trace, call);
      if (now) disturbed.try_emplace(trace, call);
      return outcome;
    });
    TuneOptions options{.trials = 120, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(test::TwoTasks(), test::TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    EXPECT_EQ(report->trials, 120);
    EXPECT_EQ(again.empty(), load == Load::kNone);
    const size_t last = device.calls.size();
    for (const auto& [trace, call] : again) {
      if (load == Load::kTwoCalls) {
        EXPECT_GE(call, 6u) << "while the host is not quiet";
      } else {
        EXPECT_EQ(call, last) << "before the end of the run";
      }
    }
    size_t marked = 0;
    for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records)
      marked += record.disturbed == "a load";
    EXPECT_EQ(marked > 0, load != Load::kNone);
    for (const TuneTask& task : test::TwoTasks()) {
      const Record best = *store->Best(task.hash.Hex(), test::TestTarget().Text()).value();
      EXPECT_EQ(best.disturbed, load == Load::kAlways ? "a load" : "");
    }
    EXPECT_EQ(report->notes.size(), load == Load::kAlways ? 1u : 0u);
    for (const std::string& note : report->notes)
      EXPECT_THAT(note, ::testing::HasSubstr("every time of 2 of 2 tasks was disturbed (a load), so only comparisons"));
  }
}

// Two devices of one key, one slower than the other, measure every other batch. Each is in its usual state. If their
// records did not tell them apart, half of the batches would seem to be unusual.
TEST(Disturbances, EachDeviceHasItsOwnUsualState) {
  for (const bool named : {true, false}) {
    auto store = NewMemoryStore();
    test::Scripted device([&](test::Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      const bool slow = d.calls.size() % 2 == 0;
      if (slow) outcome.times = {outcome.cost *= 1.5};
      if (named) outcome.server = slow ? "slow" : "fast";
      return outcome;
    });
    TuneOptions options{.trials = 160, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    auto report = Tune(test::TwoTasks(), test::TestTarget(), options, *store, device);
    ASSERT_TRUE(report.ok()) << report.error().Text();
    int marked = 0, with_server = 0;
    for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records) {
      marked += !record.facts["machine"].IsNull();
      with_server += !record.server.empty();
    }
    EXPECT_EQ(marked > 0, !named);
    EXPECT_EQ(with_server > 0, named);
    EXPECT_EQ(report->notes.empty(), named);
  }
}

// The device changes between the two runs of the reference kernel, so the batch has no reference.
TEST(Disturbances, AReferenceOfTwoDevicesIsNone) {
  for (const bool changes : {true, false}) {
    auto store = NewMemoryStore();
    int references = 0;
    test::Scripted device([&](test::Scripted& d, const MeasureItem& item, const std::string& trace) {
      Outcome outcome = d.Good(item, trace);
      outcome.server = changes && !item.check && references++ % 2 == 0 ? "first" : "second";
      return outcome;
    });
    TuneOptions options{.trials = 80, .seed = 1, .run = "r", .confirm = false, .lock_host = false};
    ASSERT_TRUE(Tune(test::TwoTasks(), test::TestTarget(), options, *store, device).ok());
    int with_reference = 0;
    for (const Record& record : store->Scan({.run = "r"}, 0, 1000).value().records)
      with_reference += !record.facts["reference_seconds"].IsNull();
    EXPECT_EQ(with_reference > 0, !changes);
  }
}

}  // namespace
}  // namespace autotune
