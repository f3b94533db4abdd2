// Fixed kernels show that a device has become slower: the rule, the file, and when the session runs them.
#include "rpc/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/json.h"
#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

constexpr int64_t kHourMs = 3600'000;
constexpr double kUsual[] = {1.00, 1.02, 0.99, 1.01, 1.03, 0.98, 1.00, 1.01};  // quartiles 0.9975 and 1.0125

// A history of `kUsual`, one an hour; arithmetic takes milliseconds, copying ten times as long.
CalibrationHistory UsualHistory() {
  CalibrationHistory history;
  int64_t now = 0;
  for (const double usual : kUsual) history.Add("x", {usual * 1e-3, usual * 1e-2}, now += kHourMs);
  return history;
}

TEST(Calibration, ADeviceIsOffBeyondTheOuterFenceOfItsOwnTimes) {
  const CalibrationHistory history = UsualHistory();
  const int64_t now = 10 * kHourMs;
  EXPECT_EQ(history.Judge("x", {1.05e-3, 1.05e-2}, now), "") << "within three distances of the quartiles, 1.0575";
  EXPECT_EQ(history.Judge("x", {0.5e-3, 0.5e-2}, now), "") << "a faster device is not off";
  EXPECT_EQ(history.Judge("x", {1.07e-3, 1.0e-2}, now),
            "arithmetic takes 6.5 % longer than usual on this device (1.070 ms; its median of seven days is 1.005 ms)");
  EXPECT_THAT(history.Judge("x", {1.0e-3, 2e-2}, now), HasSubstr("copying takes 99.0 % longer"));
}

TEST(Calibration, ADeviceWithAWideSpreadMayVaryMore) {
  CalibrationHistory history;
  for (int i = 0; i < 16; ++i) history.Add("x", {i % 2 ? 1e-3 : 1.3e-3}, i);
  EXPECT_EQ(history.Judge("x", {1.6e-3}, 20), "");
  EXPECT_NE(history.Judge("x", {2.3e-3}, 20), "");
}

TEST(Calibration, ASteadyDeviceMayBecomeALittleSlower) {
  CalibrationHistory history;
  for (int i = 0; i < 16; ++i) history.Add("x", {1e-3}, i);
  EXPECT_EQ(history.Judge("x", {1.049e-3}, 20), "");
  EXPECT_NE(history.Judge("x", {1.051e-3}, 20), "");
}

TEST(Calibration, OnlyAWeekOfTheSameKernelsCounts) {
  const CalibrationHistory history = UsualHistory();
  const int64_t later = kHourMs + CalibrationHistory::kKeptMs;
  EXPECT_NE(history.Judge("x", {9e-3, 9e-2}, later), "") << "the first entry is seven days old";
  EXPECT_EQ(history.Judge("x", {9e-3, 9e-2}, later + 1), "") << "fewer than eight are left";
  EXPECT_EQ(history.Judge("x", {9e-3}, 10 * kHourMs), "") << "entries of two kernels say nothing of one";
  EXPECT_EQ(CalibrationHistory().Judge("x", {9e-3}, 0), "");
}

TEST(Calibration, OnlyTimesOfTheSameDeviceAndKernelsAreCompared) {
  const CalibrationHistory history = UsualHistory();
  EXPECT_NE(history.Judge("x", {9e-3, 9e-2}, 10 * kHourMs), "");
  EXPECT_EQ(history.Judge("y", {9e-3, 9e-2}, 10 * kHourMs), "");
}

TEST(Calibration, AHistoryIsBoundedAndForgetsAClockThatWasAhead) {
  CalibrationHistory history;
  for (size_t i = 0; i < 2 * CalibrationHistory::kMostEntries; ++i) history.Add("x", {1e-3}, static_cast<int64_t>(i));
  EXPECT_EQ(history.entries().size(), CalibrationHistory::kMostEntries);
  history.Add("x", {2e-3}, 600);
  EXPECT_EQ(history.entries().back().seconds, std::vector<double>{2e-3});
  EXPECT_LE(history.entries().front().at, 600);
  for (const CalibrationHistory::Entry& entry : history.entries()) EXPECT_LE(entry.at, 600);
  history.Add("x", {3e-3}, 601 + CalibrationHistory::kKeptMs);
  EXPECT_EQ(history.entries().size(), 1u);
}

TEST(Calibration, AHistorySurvivesInItsFile) {
  const std::string path = testing::TempDir() + "calibrations" + std::to_string(getpid());
  EXPECT_TRUE(CalibrationHistory::Read(path).entries().empty());
  ASSERT_TRUE(UsualHistory().Write(path).ok());
  const CalibrationHistory read = CalibrationHistory::Read(path);
  EXPECT_EQ(ToJson(read.entries()), ToJson(UsualHistory().entries()));
  std::ofstream(path) << "[{\"at\":";
  EXPECT_TRUE(CalibrationHistory::Read(path).entries().empty());
  std::filesystem::remove(path);
}

TEST(Calibration, TheCpusKernelsTakeTimeInProportionToTheirWork) {
  std::vector<double> seconds;
  ASSERT_TRUE(RunCalibration(nullptr, seconds).ok());
  ASSERT_EQ(seconds.size(), std::size(kCalibrationKernels));
  for (const double each : seconds) {
    EXPECT_GT(each, 1e-4);
    EXPECT_LT(each, 1);
  }
}

// A session that calibrates. The judge returns `off`: why the device is slow.
struct CalibratingWorld : ServerWorld {
  CalibratingWorld()
      : ServerWorld({.server = kServer,
                     .incarnation = "i1",
                     .device = {.key = "cpu"},
                     .judge_calibration = [this](const std::vector<double>&) {
                       ++judged;
                       return off;
                     }}) {}
  void Answer(TrialStatus status = TrialStatus::kOk) {
    RunnerResult result{*probe, {.status = status, .error = "broken", .times = {1e-3}}};
    probe.reset();
    Take(session.OnRunnerMessage({"", result, {}}, now));
  }
  std::string Reported() {
    Pass(1000);
    return tracker.back().As<ServerReport>()->quarantine;
  }
  std::optional<std::string> off = "";
  int judged = 0;
};

TEST(Calibrating, AtRegistrationAndAfterLeasesAndHourly) {
  CalibratingWorld w;
  w.Pass(1);
  ASSERT_TRUE(w.probe) << "at registration";
  w.Answer();
  EXPECT_EQ(w.judged, 1);
  EXPECT_EQ(w.releases, 1);
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Finish();
  w.Pass(5000);
  EXPECT_FALSE(w.probe) << "during a lease";
  w.Say("end", LeaseEnd{ServerWorld::Claim(1)});
  w.Pass(50000);
  EXPECT_FALSE(w.probe) << "there was one a minute ago";
  w.Pass(6000);
  EXPECT_FALSE(w.probe);
  EXPECT_EQ(w.kills, 1) << "the client's candidates may answer in this runner's place";
  w.Take(w.session.OnRunnerReady(w.now));
  w.Pass(1);
  ASSERT_TRUE(w.probe);
  w.Answer();
  w.Pass(3590000);
  EXPECT_FALSE(w.probe);
  w.Pass(10000);
  ASSERT_TRUE(w.probe) << "after an idle hour";
  EXPECT_EQ(w.judged, 2);
}

TEST(Calibrating, AnOffDeviceIsQuarantinedUntilAProbeFindsItAsUsual) {
  CalibratingWorld w;
  w.off = "arithmetic takes longer";
  w.Pass(1);
  w.Answer();
  EXPECT_EQ(w.Reported(), "calibration: arithmetic takes longer");
  w.Say("b", ServerWorld::Batch(1, 1));
  EXPECT_FALSE(w.started);
  EXPECT_EQ(w.Results().at(0).status, TrialStatus::kDeviceError);
  w.Say("end", LeaseEnd{ServerWorld::Claim(1)});
  w.Pass(1100);
  ASSERT_TRUE(w.probe);
  w.Answer();
  EXPECT_EQ(w.Reported(), "calibration: arithmetic takes longer");
  w.off = std::nullopt;
  w.Pass(5000);
  ASSERT_TRUE(w.probe);
  w.Answer();
  EXPECT_EQ(w.Reported(), "calibration: arithmetic takes longer") << "times beside foreign load say nothing";
  w.off = "";
  w.Pass(60000);
  ASSERT_TRUE(w.probe);
  w.Answer();
  EXPECT_EQ(w.Reported(), "");
}

TEST(Calibrating, WithoutTheHostNothingIsJudged) {
  CalibratingWorld w;
  w.off = "slow";
  w.unlocked = "a build runs";
  w.Pass(1000);
  EXPECT_FALSE(w.probe);
  EXPECT_EQ(w.releases, 1);
  w.unlocked = "";
  w.Pass(58000);
  EXPECT_FALSE(w.probe);
  w.Pass(3000);
  ASSERT_TRUE(w.probe) << "the next try is a minute later";
}

TEST(Calibrating, ADeviceThatFailsComesBackByAProbe) {
  CalibratingWorld w;
  w.Pass(1);
  w.Answer(TrialStatus::kDeviceError);
  EXPECT_EQ(w.judged, 0);
  EXPECT_EQ(w.Reported(), "broken");
  w.Pass(1000);
  ASSERT_TRUE(w.probe);
  w.Answer();
  EXPECT_EQ(w.judged, 0) << "a probe does not calibrate";
  EXPECT_EQ(w.Reported(), "");
}

// A client that takes the device within the second after a lease keeps that second after its own lease.
TEST(Calibrating, EachLeaseEndsBeforeASecondOfPeace) {
  CalibratingWorld w;
  w.Pass(1);
  w.Answer();
  w.Pass(100000);
  for (int lease = 1; lease <= 3; ++lease) {
    w.Say("b" + std::to_string(lease), ServerWorld::Batch(lease, 1));
    w.Finish();
    w.Pass(5000);
    w.Say("end", LeaseEnd{ServerWorld::Claim(lease)});
    w.Pass(900);
    EXPECT_EQ(w.kills, 0) << lease;
  }
  w.Pass(200);
  EXPECT_EQ(w.kills, 1) << "for a fresh runner";
}

TEST(Calibrating, ACancelledBatchLeavesTheHostToTheCalibration) {
  CalibratingWorld w;
  w.Pass(1);
  ASSERT_TRUE(w.probe);
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Say("c", BatchCancel{ServerWorld::Claim(1), "b"});
  EXPECT_EQ(w.releases, 0);
  w.Answer();
  EXPECT_EQ(w.releases, 1);
}

TEST(Calibrating, ABatchWaitsForARunningCalibration) {
  for (const bool ends : {true, false}) {
    CalibratingWorld w;
    w.Pass(1);
    ASSERT_TRUE(w.probe);
    w.Say("b", ServerWorld::Batch(1, 1));
    EXPECT_FALSE(w.started) << "two things at once";
    ends ? w.Answer() : w.End({"was ended by signal 9", 9, false});
    ASSERT_TRUE(w.started);
    EXPECT_EQ(w.releases, 0);
    w.Finish();
    EXPECT_EQ(w.Results().at(0).status, TrialStatus::kOk);
    EXPECT_EQ(w.releases, 1);
  }
}

TEST(Calibrating, WithoutRunnersABatchDoesNotWaitForIt) {
  CalibratingWorld w;
  w.Pass(1);
  ASSERT_TRUE(w.probe);
  w.Take(w.session.OnRunnersUnavailable("no runner", w.now));
  EXPECT_EQ(w.releases, 1);
  w.Take(w.session.OnRunnerReady(w.now));
  w.Say("b", ServerWorld::Batch(1, 1));
  EXPECT_TRUE(w.started);
}

TEST(Calibrating, ADeviceThatHangsIsQuarantined) {
  CalibratingWorld w;
  w.Pass(1);
  ASSERT_TRUE(w.probe);
  w.Pass(31000);
  EXPECT_EQ(w.kills, 1);
  EXPECT_EQ(w.Reported(), "a calibration took longer than 30 s");
}

}  // namespace
}  // namespace autotune::rpc
