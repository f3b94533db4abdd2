// The wall clock jumps during a whole run, in all its processes. Nothing may end early, hang or be lost. A preloaded
// library (jumping_clock.c) makes the clock jump.
#include <gmock/gmock.h>

#include <limits>

#include "records/open.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::TrialsOf;

constexpr int64_t kMonthMs = int64_t{30} * 24 * 3600 * 1000;

class Clocks : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    setenv("LD_PRELOAD", (std::string(AUTOTUNE_BINARY_DIR) + "/tests/libjumping_clock.so").c_str(), 1);
    // AddressSanitizer complains if another library is loaded before its own, so turn that check off.
    const char* options = getenv("ASAN_OPTIONS");
    asan_options_ = options ? options : "";
    setenv("ASAN_OPTIONS", (asan_options_ + ":verify_asan_link_order=0").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("LD_PRELOAD");
    setenv("ASAN_OPTIONS", asan_options_.c_str(), 1);
    CliTest::TearDown();
  }
  std::vector<std::string> Command(int trials) const {
    return {"--model", SmallModel(), "--trials", std::to_string(trials), "--search", "random", "--db", db_, "--json"};
  }
  // Expects that the run has ended with `trials` trials and that its report, by status, equals the contents of the
  // database.
  void ExpectExact(const CliResult& result, int trials) {
    ASSERT_EQ(result.code, 0) << result.Text();
    Json end = test::LastOf(EventsOf(result.out), "end");
    EXPECT_EQ(test::NameOf(end), "end");
    EXPECT_EQ(TrialsOf(end), trials);
    auto store = OpenStore(db_);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    EXPECT_TRUE((*store)->Check().ok());
    EXPECT_EQ((*store)->Count({.trials_only = true}).value(), trials);
    std::map<TrialStatus, int64_t> stored;  // number of records by status, without confirmations
    int64_t all = 0;
    for (const Record& record : (*store)->Scan({}, 0, 1000).value().records) {
      if (record.confirmation > 0) continue;
      ++stored[record.status];
      ++all;
    }
    EXPECT_EQ(Json(all), end["records"]);
    const Json::Object* outcomes = end["outcomes"].As<Json::Object>();
    ASSERT_TRUE(outcomes) << end.Dump();
    int64_t sum = 0;
    for (const auto& [name, count] : *outcomes) {
      std::optional<TrialStatus> status = EnumFromText<TrialStatus>(name);
      ASSERT_TRUE(status) << name;
      EXPECT_EQ(Json(stored[*status]), count) << name;
      sum += *count.As<int64_t>();
    }
    EXPECT_EQ(Json(sum), end["records"]);
  }

  std::string asan_options_;
};

TEST_F(Clocks, TheWallClockJumpsByYears) {
  constexpr int kTrials = 30;
  ExpectExact(Run(Command(kTrials)), kTrials);
  // The dates of the records show that the clock jumped.
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  RecordPage page = OpenStore(db_).value()->Scan({}, 0, 1000).value();
  for (const Record& record : page.records) {
    first = std::min(first, record.created_at);
    last = std::max(last, record.created_at);
    EXPECT_TRUE(IsRecordId(record.id));
  }
  EXPECT_GT(last - first, 12 * kMonthMs);
}

}  // namespace
}  // namespace autotune
