// The requirements for every record store; the suite runs on each kind.
#include "records/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "records/open.h"
#include "tests/records/sample.h"

namespace autotune {
namespace {

struct Kind {
  const char* name;
  bool on_disk;
  bool wal;
};

class Store : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/records_store_XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    Open();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Open() {
    store_.reset();
    auto store = OpenStore(GetParam().on_disk ? directory_ + "/r.db" : ":memory:", {.wal = GetParam().wal});
    ASSERT_TRUE(store.ok()) << store.error().Text();
    store_ = std::move(*store);
  }
  void Append(const std::vector<Record>& batch) {
    Status status = store_->Append(batch);
    ASSERT_TRUE(status.ok()) << status.error().Text();
  }
  int64_t Count(const RecordFilter& filter = {}) {
    auto count = store_->Count(filter);
    EXPECT_TRUE(count.ok()) << count.error().Text();
    return count.ok() ? *count : -1;
  }

  std::string directory_;
  std::unique_ptr<RecordStore> store_;
  const std::string target_ = SampleRecord(0).target;
};

TEST_P(Store, ReturnsWhatWasStored) {
  Record odd = SampleRecord(1);
  odd.times = {};
  odd.cost = 0;
  odd.status = TrialStatus::kRunCrashed;
  odd.verified = false;
  odd.error = "signal 11 — \"quoted\"; DROP TABLE record; \n next line";
  odd.tenant = odd.device = odd.run = odd.alternative = odd.trace = odd.func = "";
  odd.facts = Json();
  std::vector<Record> stored = {SampleRecord(0), odd, SampleRecord(2, "t1", 0.1 + 0.2)};
  Append(stored);
  auto page = store_->Scan({}, 0, 10);
  ASSERT_TRUE(page.ok()) << page.error().Text();
  EXPECT_EQ(page->records, stored);
}

TEST_P(Store, ConfirmedSchedulesComeFirstTheLatestBeforeAll) {
  auto confirmed = [](int i, double cost, int64_t at) {
    Record record = SampleRecord(i, "t0", cost);
    record.confirmation = at;
    return record;
  };
  Record wrong = confirmed(5, 1e-9, 20);
  wrong.verified = false;
  std::vector<Record> stored = {
      SampleRecord(0, "t0", 1e-3), SampleRecord(1, "t0", 2e-3), confirmed(0, 5e-3, 10),      confirmed(1, 4e-3, 10),
      confirmed(2, 9e-3, 20),      confirmed(1, 8e-3, 20),      SampleRecord(3, "t0", 3e-3), wrong};
  Append(stored);
  auto top = store_->Top("t0", target_, 10);
  ASSERT_TRUE(top.ok()) << top.error().Text();
  std::vector<Record> expected = {stored[5], stored[4], stored[2], stored[6]};
  EXPECT_EQ(*top, expected);
  EXPECT_EQ(Count({.trials_only = true}), 3) << "a confirmation does not count as a trial";
  EXPECT_EQ(Count(), 8);
  auto counts = store_->Prune(2, false);
  ASSERT_TRUE(counts.ok()) << counts.error().Text();
  top = store_->Top("t0", target_, 10);
  ASSERT_TRUE(top.ok()) << top.error().Text();
  EXPECT_EQ(*top, std::vector<Record>(expected.begin(), expected.begin() + 2));
}

// A confirmation that other processes disturbed ranks behind an undisturbed trial, too.
TEST_P(Store, DisturbedTimesRankBehindAllOthers) {
  auto disturbed = [](int i, double cost, int64_t at = 0) {
    Record record = SampleRecord(i, "t0", cost);
    record.confirmation = at;
    record.disturbed = "load";
    return record;
  };
  const Record slow = SampleRecord(3, "t0", 9e-3);
  std::vector<Record> stored = {disturbed(0, 1e-3), disturbed(1, 2e-3), disturbed(2, 4e-3, 2), disturbed(1, 3e-3, 1)};
  Append(stored);
  EXPECT_EQ(store_->Best("t0", target_)->value(), stored[2]) << "without an undisturbed one, turns decide";
  Append({slow});
  EXPECT_EQ(store_->Best("t0", target_)->value(), slow);
  const std::vector<Record> expected = {slow, stored[2], stored[3], stored[0]};
  EXPECT_EQ(*store_->Top("t0", target_, 10), expected);
  Record again = SampleRecord(0, "t0", 5e-3);
  Append({again});
  EXPECT_EQ(store_->Best("t0", target_)->value(), again) << "its undisturbed time counts";
  ASSERT_TRUE(store_->Prune(2, false).ok());
  EXPECT_EQ(*store_->Top("t0", target_, 10), (std::vector<Record>{again, slow}));
}

TEST_P(Store, EmptyStoreHasNoBest) {
  auto best = store_->Best("t0", target_);
  ASSERT_TRUE(best.ok());
  EXPECT_FALSE(best->has_value());
  EXPECT_EQ(Count(), 0);
  EXPECT_TRUE(store_->Targets("t0")->empty());
  EXPECT_TRUE(store_->Scan({}, 0, 10)->records.empty());
}

TEST_P(Store, BestIsTheCheapestThatRanAndIsRight) {
  Record wrong = SampleRecord(0, "t0", 1e-6), unverified = SampleRecord(1, "t0", 2e-6);
  wrong.status = TrialStatus::kWrongAnswer;
  unverified.verified = false;
  Record good = SampleRecord(2, "t0", 5e-4), tie = SampleRecord(3, "t0", 5e-4), slow = SampleRecord(4, "t0", 1e-3);
  Append({slow, wrong, unverified, good, tie, SampleRecord(5, "t1", 1e-7)});
  auto best = store_->Best("t0", target_);
  ASSERT_TRUE(best.ok() && best->has_value());
  EXPECT_EQ(**best, good);
  EXPECT_FALSE(store_->Best("t0", target_ + " ")->has_value());
  EXPECT_FALSE(store_->Best("t9", target_)->has_value());
}

TEST_P(Store, TopIsSortedAndHasEachScheduleOnce) {
  Record fast = SampleRecord(0, "t0", 1e-4), again = fast, other = SampleRecord(0, "t0", 3e-4);
  again.id = NewRecordId();
  again.cost = 2e-4;
  other.alternative = "packed";
  Append({SampleRecord(1, "t0", 4e-4), other, again, fast});
  auto top = store_->Top("t0", target_, 10);
  ASSERT_TRUE(top.ok());
  ASSERT_EQ(top->size(), 3u);
  EXPECT_EQ((*top)[0], fast);
  EXPECT_EQ((*top)[1], other);
  EXPECT_EQ(store_->Top("t0", target_, 2)->size(), 2u);
  EXPECT_EQ(store_->Top("t0", target_, 0)->size(), 0u);
}

TEST_P(Store, GetFindsARecordByItsId) {
  Record record = SampleRecord(3);
  Append({SampleRecord(1), record, SampleRecord(2)});
  auto found = store_->Get(record.id);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(**found, record);
  EXPECT_FALSE(store_->Get(NewRecordId())->has_value());
  for (const char* no_id : {"", "t0", "'; --"}) EXPECT_FALSE(store_->Get(no_id)->has_value()) << no_id;
}

TEST_P(Store, TasksAreCounted) {
  EXPECT_TRUE(store_->Tasks()->empty());
  Record rejected = SampleRecord(0), crashed = SampleRecord(1), elsewhere = SampleRecord(2, "t0", 1e-6);
  rejected.status = TrialStatus::kRejected;
  crashed.status = TrialStatus::kRunCrashed;
  elsewhere.target = "a";
  Append({SampleRecord(3, "t1", 2e-3), rejected, crashed, elsewhere, SampleRecord(4, "t0", 4e-4), SampleRecord(5)});
  auto tasks = store_->Tasks();
  ASSERT_TRUE(tasks.ok()) << tasks.error().Text();
  ASSERT_EQ(tasks->size(), 3u);
  auto text = [](const TaskSummary& t) {
    return t.task + " " + std::to_string(t.records) + " " + std::to_string(t.trials) + " " + std::to_string(t.ranked);
  };
  EXPECT_EQ((*tasks)[0].target, "a");
  EXPECT_EQ(text((*tasks)[0]), "t0 1 1 1");
  EXPECT_EQ(text((*tasks)[1]), "t0 4 3 2");
  EXPECT_EQ(text((*tasks)[2]), "t1 1 1 1");
}

TEST_P(Store, PruneKeepsTheBestOfEachTask) {
  std::vector<Record> best, batch;
  for (const char* task : {"t0", "t1"}) {
    for (int i = 0; i < 6; ++i) batch.push_back(SampleRecord(i, task, 1e-3 - 1e-4 * i));
    Record twin = SampleRecord(5, task, 9e-4), tie = SampleRecord(9, task, 6e-4), failed = SampleRecord(10, task);
    failed.status = TrialStatus::kRunCrashed;
    batch.insert(batch.end(), {twin, tie, failed});
  }
  Append(batch);
  ASSERT_TRUE(store_->PutRun({"key", Json(1), 2}).ok());
  auto top = [&](const std::string& task) { return store_->Top(task, target_, 3).value(); };
  std::vector<Record> t0 = top("t0"), t1 = top("t1");

  auto planned = store_->Prune(3, true);
  ASSERT_TRUE(planned.ok()) << planned.error().Text();
  EXPECT_EQ(Count(), 18) << "a dry run deletes nothing";
  auto done = store_->Prune(3, false);
  ASSERT_TRUE(done.ok()) << done.error().Text();
  for (const auto& counts : {*planned, *done}) {
    ASSERT_EQ(counts.size(), 2u);
    EXPECT_EQ(counts[0].task, "t0");
    EXPECT_EQ(counts[1].target, target_);
    EXPECT_EQ(counts[1].kept, 3);
    EXPECT_EQ(counts[1].removed, 6);
  }
  EXPECT_EQ(Count(), 6);
  EXPECT_EQ(top("t0"), t0);
  EXPECT_EQ(top("t1"), t1);
  EXPECT_TRUE(store_->Check().ok());
  EXPECT_TRUE(store_->GetRun("key")->has_value());
  // Deleted records may be added again, together with texts that only they used.
  int64_t added = 0;
  ASSERT_TRUE(store_->Append(batch, nullptr, &added).ok());
  EXPECT_EQ(added, 12);
  EXPECT_EQ(Count(), 18);
  EXPECT_TRUE(store_->Prune(0, false).ok());
  EXPECT_EQ(Count(), 0);
  EXPECT_TRUE(store_->Check().ok());
}

TEST_P(Store, TargetsAreThoseWithABest) {
  Record a = SampleRecord(0), b = SampleRecord(1), c = SampleRecord(2), failed = SampleRecord(3);
  a.target = "z";
  b.target = "y";
  failed.target = "x";
  failed.status = TrialStatus::kRunTimedOut;
  Append({a, b, c, failed, a, SampleRecord(4, "t1")});
  EXPECT_EQ(*store_->Targets("t0"), (std::vector<std::string>{target_, "y", "z"}));
  EXPECT_EQ(store_->Targets("t1")->size(), 1u);
  EXPECT_TRUE(store_->Targets("t2")->empty());
}

TEST_P(Store, AKnownIdIsLeftAsItIs) {
  Record record = SampleRecord(0), copy = record;
  copy.cost = 1e-9;
  Append({record, copy});
  Append({copy});
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(**store_->Best("t0", target_), record);
}

TEST_P(Store, ABadRecordRefusesItsWholeBatch) {
  Record bad = SampleRecord(1);
  bad.cost = std::nan("");
  std::vector<Record> batch = {SampleRecord(0), bad};
  EXPECT_FALSE(store_->Append(batch).ok());
  EXPECT_EQ(Count(), 0);
}

TEST_P(Store, ScanGoesOnWhereItStopped) {
  std::vector<Record> all;
  for (int i = 0; i < 10; ++i) all.push_back(SampleRecord(i, i % 2 ? "odd" : "even"));
  Append(all);
  std::vector<Record> seen;
  int64_t cursor = 0;
  for (int pages = 0; pages < 20; ++pages) {
    auto page = store_->Scan({}, cursor, 3);
    ASSERT_TRUE(page.ok());
    if (page->records.empty()) break;
    EXPECT_LE(page->records.size(), 3u);
    seen.insert(seen.end(), page->records.begin(), page->records.end());
    cursor = page->cursor;
  }
  EXPECT_EQ(seen, all);
  Append({SampleRecord(10, "odd")});
  EXPECT_EQ(store_->Scan({}, cursor, 3)->records.size(), 1u);
  EXPECT_EQ(store_->Scan({.task = "even"}, 0, 100)->records.size(), 5u);
}

TEST_P(Store, CountsByEachFilter) {
  Record built = SampleRecord(0), crashed = SampleRecord(1, "t1"), other = SampleRecord(2);
  built.status = TrialStatus::kBuildFailed;
  crashed.status = TrialStatus::kRunCrashed;
  other.run = "run1";
  other.target = "elsewhere";
  Append({built, crashed, other});
  EXPECT_EQ(Count(), 3);
  EXPECT_EQ(Count({.task = "t0"}), 2);
  EXPECT_EQ(Count({.target = "elsewhere"}), 1);
  EXPECT_EQ(Count({.run = "run0"}), 2);
  EXPECT_EQ(Count({.run = "run0", .status = TrialStatus::kRunCrashed}), 1);
  EXPECT_EQ(Count({.run = "run0", .trials_only = true}), 1);
  EXPECT_EQ(Count({.task = "t1", .run = "run1"}), 0);
}

TEST_P(Store, RunStateIsReplacedAsAWhole) {
  EXPECT_FALSE(store_->GetRun("k")->has_value());
  RunState run{"k", Json(Json::Object{{"round", 1}, {"old", true}}), 5};
  ASSERT_TRUE(store_->PutRun(run).ok());
  run.state = Json(Json::Object{{"round", 2}});
  run.updated_at = 6;
  std::vector<Record> batch = {SampleRecord(0)};
  ASSERT_TRUE(store_->Append(batch, &run).ok());
  auto read = store_->GetRun("k");
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ((*read)->state, run.state);
  EXPECT_EQ((*read)->updated_at, 6);
  EXPECT_EQ(store_->Runs()->size(), 1u);
  EXPECT_EQ(ToJson(store_->Runs()->front()), ToJson(run));
  EXPECT_EQ(Count(), 1);
  batch[0].id = "no id";
  run.updated_at = 7;
  EXPECT_FALSE(store_->Append(batch, &run).ok());
  EXPECT_EQ((*store_->GetRun("k"))->updated_at, 6) << "a refused batch must leave the run as it was";
}

TEST_P(Store, ARunStateIsRemovedAlone) {
  std::vector<Record> batch = {SampleRecord(0)};
  const RunState run{"k", Json(1), 5}, other{"l", Json(2), 5};
  ASSERT_TRUE(store_->Append(batch, &run).ok() && store_->PutRun(other).ok());
  EXPECT_FALSE(store_->RemoveRun("m").value());
  EXPECT_EQ(store_->Runs()->size(), 2u);
  EXPECT_TRUE(store_->RemoveRun("k").value());
  EXPECT_FALSE(store_->RemoveRun("k").value());
  EXPECT_FALSE(store_->GetRun("k")->has_value());
  EXPECT_TRUE(store_->GetRun("l")->has_value());
  EXPECT_EQ(Count(), 1);
  ASSERT_TRUE(store_->PutRun(run).ok());
  EXPECT_TRUE(store_->GetRun("k")->has_value());
}

TEST_P(Store, ARunHasOneOwner) {
  const RunOwner first = NewRunOwner(), second = NewRunOwner();
  EXPECT_TRUE(store_->Claim("run0", first, 1000).value().granted);
  EXPECT_TRUE(store_->Claim("run0", first, 1000).value().granted) << "an owner renews its claim";
  const RunClaim refused = store_->Claim("run0", second, 1000).value();
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.owner.id, first.id);
  EXPECT_EQ(refused.owner.Text(), first.Text());
  EXPECT_TRUE(store_->Claim("run1", second, 1000).value().granted) << "another run is free";
  ASSERT_TRUE(store_->Release("run0", second).ok());
  EXPECT_FALSE(store_->Claim("run0", second, 1000).value().granted) << "only its owner ends a claim";
  ASSERT_TRUE(store_->Release("run0", first).ok());
  EXPECT_TRUE(store_->Claim("run0", second, 1000).value().granted);
}

TEST_P(Store, AnOwnerThatWasReplacedStoresNothing) {
  RunOwner first = NewRunOwner();
  first.processes = "another host";
  ASSERT_TRUE(store_->Claim("run0", first, 0).value().granted);
  Append({SampleRecord(0)});
  ASSERT_TRUE(store_->Claim("run0", NewRunOwner(), 1000).value().granted) << "its time to live has passed";
  Append({SampleRecord(1)});
  EXPECT_FALSE(store_->Claim("run0", first, 1000).value().granted);
  EXPECT_EQ(Count(), 2);
}

TEST_P(Store, ThreadsAppendAtOnce) {
  constexpr int kThreads = 6, kBatches = 20;
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int b = 0; b < kBatches; ++b) {
        std::vector<Record> batch;
        for (int i = 0; i < 5; ++i) batch.push_back(SampleRecord(t * 1000 + b * 10 + i, "t" + std::to_string(t)));
        if (!store_->Append(batch).ok()) ++failed;
        auto count = store_->Count({.task = "t" + std::to_string(t)});
        if (!count.ok() || *count != (b + 1) * 5) ++failed;  // an acknowledged batch must be visible
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(Count(), kThreads * kBatches * 5);
}

TEST_P(Store, IsThereAfterItWasClosed) {
  if (!GetParam().on_disk) return;
  std::vector<Record> all;
  for (int i = 0; i < 300; ++i) all.push_back(SampleRecord(i));
  Append(all);
  Open();
  EXPECT_EQ(store_->Scan({}, 0, 1000)->records, all);
  Status whole = store_->Check();
  EXPECT_TRUE(whole.ok()) << whole.error().Text();
  store_.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/r.db-wal") &&
               std::filesystem::file_size(directory_ + "/r.db-wal") > 0)
      << "closing the store must leave everything in one file";
}

INSTANTIATE_TEST_SUITE_P(Kinds, Store,
                         testing::Values(Kind{"memory", false, true}, Kind{"sqlite", true, true},
                                         Kind{"sqlite_without_wal", true, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace autotune
