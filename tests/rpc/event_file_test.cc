// The file of a process's events.
#include "rpc/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/file.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::Not;

class EventFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "events-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    setenv("AUTOTUNE_FARM_EVENTS", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("AUTOTUNE_FARM_EVENTS");
    std::filesystem::remove_all(folder_);
  }
  std::string Text() const {
    std::string text;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) text += ReadFile(file.path()).value();
    return text;
  }
  std::string folder_;
};

TEST_F(EventFileTest, AnEventHasTheTimeThatItIsGiven) {
  EventFile file("tracker", "here");
  file.Write({.kind = FarmEvent::Kind::kLeased, .server = "s1"}, 1234);
  EXPECT_THAT(Text(), HasSubstr("\"at\":1234"));
  file.Write({.kind = FarmEvent::Kind::kReturned, .server = "s1"}, 5678);
  EXPECT_THAT(Text(), HasSubstr("\"at\":5678"));
}

TEST_F(EventFileTest, WithoutAFolderNothingIsWritten) {
  unsetenv("AUTOTUNE_FARM_EVENTS");
  EventFile file("tracker", "here");
  file.Write({.kind = FarmEvent::Kind::kLeased, .server = "s1"}, 1234);
  EXPECT_EQ(Text(), "");
}

TEST_F(EventFileTest, AfterAnEventThatCannotBeWrittenThereIsNone) {
  EventFile file("tracker", "here");
  file.Write({.kind = FarmEvent::Kind::kLeased, .server = "s1"}, 1234);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, before.rlim_max};  // files cannot grow, as on a full disk
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  file.Write({.kind = FarmEvent::Kind::kReturned, .server = "s1"}, 5678);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, ignored);
  file.Write({.kind = FarmEvent::Kind::kLost, .server = "s1"}, 9999);
  EXPECT_THAT(Text(), HasSubstr("\"at\":1234"));
  EXPECT_THAT(Text(), Not(HasSubstr("5678")));
  EXPECT_THAT(Text(), Not(HasSubstr("9999"))) << "books with a gap would be false";
}

}  // namespace
}  // namespace autotune::rpc
