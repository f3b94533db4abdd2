// Tests that a run times all candidates, its reference kernel and its finalists with the options it was given. Among
// them are the bytes that the network touches between two calls, without which weights would be too cold or too warm.
#include <gtest/gtest.h>

#include "records/memory_store.h"
#include "tests/tuner/simulated.h"
#include "tuner/task_state.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// Keeps the options of every call.
class Observed : public test::Simulated {
 public:
  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    seen.push_back(options);
    return Simulated::Measure(items, options);
  }
  std::vector<MeasureOptions> seen;
};

TEST(MeasureOptions, AllMeasurementsOfARunHaveThem) {
  for (int64_t cold_bytes : {int64_t{-1}, int64_t{123456}}) {
    Observed device;
    auto store = NewMemoryStore();
    TuneOptions options{.trials = 48, .seed = 1, .run = "r", .measure = {.repeats = 4}, .lock_host = false};
    options.measure.cold_bytes = cold_bytes;
    ASSERT_TRUE(Tune(test::TwoTasks(), test::TestTarget(), options, *store, device).ok());
    bool confirmed = false;
    for (const MeasureOptions& seen : device.seen) {
      EXPECT_EQ(seen.cold_bytes, cold_bytes);
      confirmed |= seen.repeats == 1;  // a turn of a confirmation is one repeat
      EXPECT_TRUE(seen.repeats == 4 || seen.repeats == 1) << seen.repeats;
    }
    EXPECT_TRUE(confirmed);
    const std::vector<Record> records = store->Scan({.run = "r"}, 0, 1000).value().records;
    ASSERT_GE(records.size(), 48u);
    for (const Record& record : records) EXPECT_EQ(record.facts[kColdBytesFact].Number(), cold_bytes);
  }
}

}  // namespace
}  // namespace autotune
