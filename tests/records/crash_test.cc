// Several processes use one database, and some are killed.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "records/open.h"
#include "tests/records/helper.h"
#include "tests/records/sample.h"

namespace autotune {
namespace {

class Crash : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/records_crash_XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/r.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Returns the size of each batch of `run`. Each batch must be complete and hold its writer's records.
  std::map<int64_t, int> Batches(RecordStore& store, const std::string& run) {
    std::map<int64_t, int> sizes;
    int64_t cursor = 0;
    for (;;) {
      auto page = store.Scan({.run = run}, cursor, 500);
      EXPECT_TRUE(page.ok()) << page.error().Text();
      if (!page.ok() || page->records.empty()) break;
      for (const Record& record : page->records) {
        int64_t batch = *record.facts["batch"].As<int64_t>(), i = *record.facts["spills"].As<int64_t>();
        EXPECT_EQ(record.trace, run + "/" + std::to_string(batch) + "/" + std::to_string(i) + std::string(500, 'x'));
        ++sizes[batch];
      }
      cursor = page->cursor;
    }
    for (auto [batch, size] : sizes) EXPECT_EQ(size, kHelperBatch) << "batch " << batch << " of " << run;
    return sizes;
  }

  std::string directory_, path_;
};

TEST_F(Crash, KilledWritersLoseNothingThatWasAcknowledged) {
  Rng rng(20);
  for (int round = 0; round < 8; ++round) {
    std::string run = "round" + std::to_string(round);
    int acknowledged = -1;
    {
      Helper helper(path_, run, 1000000);
      std::string line = helper.ReadLine();
      ASSERT_EQ(line, "0");
      std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(40000)));
      helper.Kill();
      for (; !line.empty(); line = helper.ReadLine()) acknowledged = std::stoi(line);
      EXPECT_EQ(helper.Wait(), -9);
    }
    auto store = OpenStore(path_);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    Status whole = (*store)->Check();
    ASSERT_TRUE(whole.ok()) << whole.error().Text();
    auto batches = Batches(**store, run);
    int stored = static_cast<int>(batches.size());
    EXPECT_GE(stored, acknowledged + 1) << "an acknowledged batch is lost";
    EXPECT_LE(stored, acknowledged + 2) << "more is stored than the acknowledged batches and the one in flight";
    EXPECT_EQ(batches.rbegin()->first, stored - 1) << "a batch is missing between the stored ones";
    // The run's state is stored in the same transactions.
    EXPECT_EQ((*(*store)->GetRun(run))->state, Json(stored - 1));
  }
}

TEST_F(Crash, ProcessesAppendAtOnce) {
  constexpr int kBatches = 60;
  {
    Helper a(path_, "a", kBatches), b(path_, "b", kBatches), c(path_, "c", kBatches);
    for (Helper* helper : {&a, &b, &c}) {
      for (int i = 0; i < kBatches; ++i) EXPECT_EQ(helper->ReadLine(), std::to_string(i));
      EXPECT_EQ(helper->Wait(), 0);
    }
  }
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok()) << store.error().Text();
  for (std::string run : {"a", "b", "c"}) EXPECT_EQ(Batches(**store, run).size(), size_t{kBatches});
  EXPECT_TRUE((*store)->Check().ok());
}

TEST_F(Crash, AKilledWriterDoesNotStopTheOthers) {
  Helper survivor(path_, "survivor", 100);
  for (int i = 0; i < 4; ++i) {
    Helper victim(path_, "victim" + std::to_string(i), 1000000);
    EXPECT_EQ(victim.ReadLine(), "0");
    victim.Kill();
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(survivor.ReadLine(), std::to_string(i));
  EXPECT_EQ(survivor.Wait(), 0);
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(Batches(**store, "survivor").size(), 100u);
  EXPECT_TRUE((*store)->Check().ok());
}

TEST_F(Crash, AHelperThatCannotOpenSaysSo) {
  Helper helper(directory_ + "/missing/r.db", "a", 1);
  EXPECT_EQ(helper.ReadLine().substr(0, 6), "error ");
  EXPECT_EQ(helper.Wait(), 1);
}

}  // namespace
}  // namespace autotune
