#include "records/record.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/records/sample.h"

namespace autotune {
namespace {

TEST(Record, GoesThroughJsonUnchanged) {
  Record record = SampleRecord(3);
  auto parsed = Json::Parse(ToJson(record).Dump());
  ASSERT_TRUE(parsed.ok());
  auto back = FromJson<Record>(*parsed);
  ASSERT_TRUE(back.ok()) << back.error().Text();
  EXPECT_EQ(*back, record);
  back->times[1] *= 2;
  EXPECT_FALSE(*back == record);
}

TEST(RecordId, IsAVersion7UuidThatSortsByTime) {
  Rng rng(1);
  std::string id = NewRecordId(0x0123456789ab, rng);
  EXPECT_EQ(id.substr(0, 15), "01234567-89ab-7");
  EXPECT_EQ(id.size(), 36u);
  EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos) << id;
  EXPECT_LT(id, NewRecordId(0x0123456789ac, rng));
  Record record = SampleRecord(0);
  record.id = id;
  EXPECT_TRUE(ValidateRecord(record).ok());
}

TEST(RecordId, IsNewEachTime) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRecordId());
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(ValidateRecord, RefusesWhatCannotBeRanked) {
  EXPECT_TRUE(ValidateRecord(SampleRecord(0)).ok());
  auto refused = [](auto change) {
    Record record = SampleRecord(0);
    change(record);
    Status status = ValidateRecord(record);
    return !status.ok();
  };
  EXPECT_TRUE(refused([](Record& r) { r.id = "7"; }));
  EXPECT_TRUE(refused([](Record& r) { r.id[0] = 'G'; }));
  EXPECT_TRUE(refused([](Record& r) { r.id[8] = '0'; }));
  EXPECT_TRUE(refused([](Record& r) { r.task = ""; }));
  EXPECT_TRUE(refused([](Record& r) { r.target = ""; }));
  EXPECT_TRUE(refused([](Record& r) { r.cost = 0; }));
  EXPECT_TRUE(refused([](Record& r) { r.cost = -1; }));
  EXPECT_TRUE(refused([](Record& r) { r.cost = std::nan(""); }));
  EXPECT_TRUE(refused([](Record& r) { r.times[0] = INFINITY; }));
  EXPECT_FALSE(refused([](Record& r) { r.cost = 0, r.status = TrialStatus::kRunCrashed; }));
}

TEST(WasExecuted, SeparatesTrialsFromWhatNeverRan) {
  for (auto status :
       {TrialStatus::kOk, TrialStatus::kRunCrashed, TrialStatus::kWrongAnswer, TrialStatus::kRunTimedOut}) {
    EXPECT_TRUE(WasExecuted(status)) << ToText(status);
  }
  for (auto status : {TrialStatus::kRejected, TrialStatus::kBuildFailed, TrialStatus::kInfrastructure}) {
    EXPECT_FALSE(WasExecuted(status)) << ToText(status);
  }
}

TEST(RunKey, DependsOnEveryPartAndTheirBorders) {
  std::vector<std::string> a = {"model", "target"}, b = {"modelt", "arget"}, c = {"model", "target", ""};
  EXPECT_EQ(RunKey(a), RunKey(a));
  EXPECT_NE(RunKey(a), RunKey(b));
  EXPECT_NE(RunKey(a), RunKey(c));
}

}  // namespace
}  // namespace autotune
