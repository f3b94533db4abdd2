// The lock of the host: who may hold it together, who is named as its holder, and how a wait for it is reported and
// ends.
#include "support/host_lock.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "support/clock.h"
#include "support/subprocess.h"

namespace autotune {
namespace {

using Mode = HostLock::Mode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostLockTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("AUTOTUNE_HOST_LOCK", path_.c_str(), 1); }
  void TearDown() override {
    unsetenv("AUTOTUNE_HOST_LOCK");
    unlink(path_.c_str());
  }
  static std::optional<HostLock> Try(Mode mode) { return std::move(HostLock::TryAcquire(mode)).value(); }
  // Returns the name by which HeldText calls a process.
  static std::string NameOf(pid_t pid) {
    std::string name;
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::getline(file, name);
    return "process " + std::to_string(pid) + " (" + name + ")";
  }

  const std::string path_ = ::testing::TempDir() + "host-lock-" + std::to_string(getpid());
};

TEST_F(HostLockTest, EachDeviceHasALockOfItsOwn) {
  const std::string a = HostLock::PathOf("GPU-a"), b = HostLock::PathOf("Portable Computing/x 1");
  EXPECT_EQ(HostLock::PathOf(""), path_);
  EXPECT_EQ(a, path_ + ".GPU-a");
  EXPECT_EQ(b, path_ + ".Portable_Computing_x_1");
  {
    auto build = Try(Mode::kShared);
    auto gpu = std::move(HostLock::TryAcquire(Mode::kExclusive, a)).value();
    EXPECT_TRUE(build && gpu) << "builds go on beside a GPU's measurement";
    EXPECT_TRUE(std::move(HostLock::TryAcquire(Mode::kExclusive, b)).value());
    EXPECT_FALSE(std::move(HostLock::TryAcquire(Mode::kExclusive, a)).value());
    EXPECT_FALSE(std::move(HostLock::AcquireWithin(Mode::kExclusive, 20, nullptr, a)).value());
    EXPECT_EQ(HostLock::HeldText(a), a + " is held by " + NameOf(getpid()));
  }
  unlink(a.c_str());
  unlink(b.c_str());
}

// Keeps the reports of waits.
struct Reports {
  std::vector<HostWait> waits;
  HostWaitWatch watch{[this](const HostWait& wait) { waits.push_back(wait); }};
};

TEST_F(HostLockTest, SharedAmongBuildersExclusiveForMeasuring) {
  {
    auto first = Try(Mode::kShared), second = Try(Mode::kShared);
    EXPECT_TRUE(first && second);
    EXPECT_FALSE(Try(Mode::kExclusive));
  }
  {
    auto alone = std::move(HostLock::Acquire(Mode::kExclusive)).value();
    EXPECT_FALSE(Try(Mode::kShared));
  }
  EXPECT_TRUE(Try(Mode::kShared));
  setenv("AUTOTUNE_HOST_LOCK", "/no/such/folder/lock", 1);
  EXPECT_FALSE(HostLock::Acquire(Mode::kShared).ok());
}

TEST_F(HostLockTest, ItsHoldersAreNamed) {
  auto [ready, tell] = std::move(MakePipe()).value();
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    alarm(60);
    std::optional<HostLock> lock = Try(Mode::kShared);
    if (write(tell.get(), lock ? "y" : "n", 1) == 1) pause();
    _exit(1);
  }
  char locked = 0;
  ASSERT_EQ(read(ready.get(), &locked, 1), 1);
  ASSERT_EQ(locked, 'y');
  EXPECT_EQ(HostLock::HeldText(), path_ + " is held by " + NameOf(other));
  std::optional<HostLock> own = Try(Mode::kShared), twice = Try(Mode::kShared);
  EXPECT_THAT(HostLock::HeldText(), AllOf(HasSubstr(NameOf(other)), HasSubstr(NameOf(getpid()))));
  kill(other, SIGKILL);
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  EXPECT_EQ(HostLock::HeldText(), path_ + " is held by " + NameOf(getpid())) << "each process is named once";
  own.reset();
  twice.reset();
  EXPECT_EQ(HostLock::HeldText(), path_ + " is held by another process");
}

TEST_F(HostLockTest, AWaitIsReportedUntilItEnds) {
  constexpr int64_t kWaitMs = 1500;
  std::optional<HostLock> measurement = Try(Mode::kExclusive);
  const int64_t begin = BootMillis();
  {
    Reports earlier, latest;
    EXPECT_FALSE(std::move(HostLock::AcquireWithin(Mode::kShared, kWaitMs)).value());
    ASSERT_GE(latest.waits.size(), 2u);
    EXPECT_EQ(latest.waits.front().reason, path_ + " is held by " + NameOf(getpid()));
    EXPECT_EQ(latest.waits.back().reason, "");
    for (const HostWait& wait : latest.waits) {
      EXPECT_GE(wait.since, begin);
      EXPECT_LE(wait.since, BootMillis() - kWaitMs);
    }
    EXPECT_THAT(earlier.waits, IsEmpty()) << "only the latest watch hears of waits";
    measurement.reset();
    latest.waits.clear();
    EXPECT_TRUE(HostLock::Acquire(Mode::kShared).ok());
    EXPECT_THAT(latest.waits, IsEmpty());
    EXPECT_TRUE(HostWaitWatch::Tell({}));
  }
  EXPECT_FALSE(HostWaitWatch::Tell({}));
}

TEST_F(HostLockTest, AShortWaitIsNotReported) {
  std::optional<HostLock> measurement = Try(Mode::kExclusive);
  Reports reports;
  EXPECT_FALSE(std::move(HostLock::AcquireWithin(Mode::kShared, 50)).value());
  EXPECT_THAT(reports.waits, IsEmpty());
}

TEST_F(HostLockTest, AStopEndsAWait) {
  std::optional<HostLock> measurement = Try(Mode::kExclusive);
  std::atomic<bool> stop = false;
  std::atomic<double> stopped_at = 0;
  std::thread stopper([&] {
    usleep(100'000);
    stopped_at = SteadySeconds();
    stop = true;
  });
  Result<HostLock> lock = HostLock::Acquire(Mode::kShared, &stop);
  EXPECT_LT(SteadySeconds() - stopped_at, 1);
  stopper.join();
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().kind, ErrorKind::kStopped);
  EXPECT_THAT(lock.error().Text(), HasSubstr(path_ + " is held by "));
  Result<std::optional<HostLock>> limited = HostLock::AcquireWithin(Mode::kExclusive, 600'000, &stop);
  ASSERT_FALSE(limited.ok());
  EXPECT_EQ(limited.error().kind, ErrorKind::kStopped);
  measurement.reset();
  EXPECT_TRUE(HostLock::Acquire(Mode::kShared, &stop).ok()) << "a free lock needs no wait";
}

}  // namespace
}  // namespace autotune
