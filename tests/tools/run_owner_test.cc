#include "tools/autotune/run_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace autotune::tools {
namespace {

namespace fs = std::filesystem;

class RunOwnerTest : public testing::Test {
 protected:
  RunOwnerTest() { fs::create_directory(folder_); }
  ~RunOwnerTest() override { fs::remove_all(folder_); }
  int Files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_ = fs::temp_directory_path() / ("run_owner_" + std::to_string(getpid()));
  std::string db_ = folder_ / "a.db";
};

TEST_F(RunOwnerTest, OneProcessAtATimeContinuesARun) {
  std::optional<RunOwner> owner(RunOwner::Take(db_, "run").value());
  Result<RunOwner> second = RunOwner::Take(folder_ / "." / "a.db", "run");
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().Text(), testing::HasSubstr("under way in process " + std::to_string(getpid())));
  EXPECT_TRUE(RunOwner::Take(db_, "other run").ok());
  EXPECT_TRUE(RunOwner::Take(folder_ / "b.db", "run").ok());
  EXPECT_EQ(Files(), 1);
  owner.reset();
  EXPECT_EQ(Files(), 0);
  EXPECT_TRUE(RunOwner::Take(db_, "run").ok());
}

TEST_F(RunOwnerTest, AFileOfAKilledOwnerIsNoOwner) {
  fs::path file;
  {
    const RunOwner owner = RunOwner::Take(db_, "run").value();
    file = fs::directory_iterator(folder_)->path();
  }
  std::ofstream(file) << "4711";
  EXPECT_TRUE(RunOwner::Take(db_, "run").ok());
}

TEST_F(RunOwnerTest, DatabasesInMemoryAreNotShared) {
  const RunOwner owner = RunOwner::Take(":memory:", "run").value();
  EXPECT_TRUE(RunOwner::Take(":memory:", "run").ok());
}

TEST_F(RunOwnerTest, AFolderThatIsNotThereIsAnError) {
  Result<RunOwner> owner = RunOwner::Take(folder_ / "none" / "a.db", "run");
  ASSERT_FALSE(owner.ok());
  EXPECT_THAT(owner.error().Text(), testing::HasSubstr("cannot open"));
}

}  // namespace
}  // namespace autotune::tools
