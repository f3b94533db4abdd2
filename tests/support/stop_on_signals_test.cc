#include "support/stop_on_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace autotune {
namespace {

bool Soon(auto condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) usleep(10000);
  return condition();
}

TEST(StopOnSignals, TheFirstSignalRequestsAStop) {
  for (int signal : {SIGINT, SIGTERM}) {
    std::stop_source source;
    StopOnSignals stop(source, 42);
    std::atomic<bool> told = false;
    std::stop_callback callback(source.get_token(), [&] { told = true; });
    EXPECT_FALSE(told);
    kill(getpid(), signal);
    EXPECT_TRUE(Soon([&] { return told.load(); }));
    EXPECT_TRUE(source.stop_requested());
  }
}

TEST(StopOnSignalsDeathTest, TheSecondSignalEndsTheProcess) {
  auto twice = [] {
    std::stop_source source;
    StopOnSignals stop(source, 42);
    kill(getpid(), SIGINT);
    Soon([&] { return source.stop_requested(); });
    kill(getpid(), SIGTERM);
    sleep(60);
  };
  EXPECT_EXIT(twice(), ::testing::ExitedWithCode(42), "");
}

TEST(StopOnSignalsDeathTest, WithoutARequestTheFirstSignalEndsTheProcess) {
  auto at_once = [](int signal) {
    StopOnSignals stop(42);
    kill(getpid(), signal);
    sleep(60);
  };
  for (int signal : {SIGINT, SIGTERM}) EXPECT_EXIT(at_once(signal), ::testing::ExitedWithCode(42), "");
}

TEST(StopOnSignalsDeathTest, AfterwardsASignalEndsTheProcessAsUsual) {
  auto afterwards = [] {
    { StopOnSignals stop(std::stop_source(), 42); }
    kill(getpid(), SIGINT);
    sleep(60);
  };
  EXPECT_EXIT(afterwards(), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace autotune
