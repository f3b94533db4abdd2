// Whether a server measures alone: its turns on the host, and the load beside them.
#include "rpc/host_turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "rpc/host_load.h"
#include "support/clock.h"
#include "support/process_stat.h"
#include "support/subprocess.h"
#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class HostTurnTest : public testing::Test {
 protected:
  ~HostTurnTest() override { std::filesystem::remove(path_); }

  // Returns a stopped process that holds the lock.
  Subprocess StoppedHolder() {
    const std::string script = "exec 9>" + path_ + " && flock 9 && kill -STOP $$";
    Subprocess holder = Subprocess::Spawn({.argv = {"/bin/sh", "-c", script}}).value();
    const auto is_stopped = [&] {
      const auto stat = StatOfProcess(holder.pid());
      return stat && stat->IsStopped();
    };
    for (const int64_t begin = BootMillis(); !is_stopped() && BootMillis() - begin < 10000;) usleep(1000);
    EXPECT_TRUE(is_stopped());
    return holder;
  }
  // Returns why a turn has no lock. Kills `holder`, if given, while the turn waits.
  std::string Unlocked(HostTurn::Options options, Subprocess* holder = nullptr) {
    Loop loop;
    std::optional<std::string> unlocked;
    HostTurn turn(loop, std::move(options), [&](const std::string& why) {
      unlocked = why;
      loop.Stop();
    });
    turn.SetPath(path_);
    turn.Want();
    Loop::Watch kill;
    if (holder) kill = loop.After(50, [&] { holder->Kill(SIGKILL); });
    loop.Run();
    return unlocked.value();
  }

  const std::string path_ = testing::TempDir() + "turn" + std::to_string(getpid());
};

TEST_F(HostTurnTest, ATurnBesideAStoppedHolderOfTheLockSaysSo) {
  Subprocess holder = StoppedHolder();
  EXPECT_THAT(Unlocked({.patience_ms = 100}), HasSubstr("without the host's lock: " + path_ + " is held by"));
}

TEST_F(HostTurnTest, ATurnThatGetsTheLockInTimeIsUndisturbed) {
  Subprocess holder = StoppedHolder();
  EXPECT_THAT(Unlocked({.patience_ms = 20000}, &holder), IsEmpty());
  EXPECT_THAT(Unlocked({}), IsEmpty());
}

TEST_F(HostTurnTest, AServerThatSharesItsHostSaysSo) {
  EXPECT_THAT(Unlocked({.locks = false}), HasSubstr("--shared-host"));
}

TEST_F(HostTurnTest, AnUnusableLockIsNamed) {
  const std::string good = path_;
  EXPECT_THAT(Unlocked({}), IsEmpty());
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/no/such/file", path_);
  EXPECT_THAT(Unlocked({}), HasSubstr("without the host's lock: cannot open the host lock " + good));
}

// Lets the time of `window` ms pass in turns of `turn` ms, in which others use `foreign` processors and the server one.
// Between the turns, others use four.
void Measure(HostLoad& load, double foreign, int64_t window = 2 * HostLoad::kWindowMs, int64_t turn = 100) {
  CpuTimes times;
  for (int64_t now = 1000; now < 1000 + 2 * window; now += turn) {
    if (load.IsDue(now)) load.See(times, now);
    now += turn;
    times.ours += static_cast<double>(turn);
    times.all += static_cast<double>(turn) * (1 + foreign);
    load.See(times, now);
    load.End();
    times.all += static_cast<double>(turn) * 4;
  }
}

TEST(HostLoad, OthersThatComputeBesideMeasurementsAreSeen) {
  HostLoad load;
  EXPECT_EQ(load.Text(), "");
  Measure(load, 1);
  EXPECT_EQ(load.Text(), "other processes used 1.0 of the device's processors");
  Measure(load, 0.1);
  EXPECT_EQ(load.Text(), "") << "the load has ended";
}

TEST(HostLoad, AQuietHostAndALoadBetweenTurnsAreNone) {
  for (double foreign : {0.0, 0.2, -0.1}) {
    HostLoad load;
    Measure(load, foreign);
    EXPECT_EQ(load.Text(), "") << foreign;
  }
}

TEST(HostLoad, TheLoadOfOneTurnIsKnownAtItsEnd) {
  HostLoad load;
  EXPECT_TRUE(load.WasQuiet({.all = 9e9}, 9)) << "no turn";
  load.See({.all = 100, .ours = 50}, 1000);
  EXPECT_TRUE(load.WasQuiet({.all = 210, .ours = 140}, 1100)) << "others used 20 ms of 100";
  EXPECT_FALSE(load.WasQuiet({.all = 300, .ours = 140}, 1100));  // 110 ms
  load.End();
  EXPECT_TRUE(load.WasQuiet({.all = 300, .ours = 140}, 1100));
}

TEST(HostLoad, ShortTurnsAreNotAllWatched) {
  HostLoad load;
  EXPECT_TRUE(load.IsDue(1000));
  load.See({}, 1000);
  load.End();
  EXPECT_FALSE(load.IsDue(1002));
  EXPECT_TRUE(load.IsDue(1000 + HostLoad::kBetweenTurnsMs));
}

TEST(HostLoad, TheDevicesCoresCount) {
  const std::string file = testing::TempDir() + "stat" + std::to_string(getpid());
  std::ofstream(file)
      << "cpu  70 7 7 70 7 7 7 7 0 0\ncpu0 10 1 2 500 6 3 4 5 0 0\ncpu1 60 6 5 40 1 4 3 2 0 0\nintr 9\n";
  const double tick = 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(BusyMillis(file, {0}), 25 * tick);
  EXPECT_EQ(BusyMillis(file, {0, 1}), 105 * tick);
  EXPECT_EQ(BusyMillis(file, {0, 2}), std::nullopt) << "there is no such core";
  EXPECT_EQ(BusyMillis(file + "?", {0}), std::nullopt);
  std::filesystem::remove(file);
  EXPECT_GT(OwnMillis(), 0);
}

// Ends the started candidate with a time, about which the runner says `disturbed`.
void FinishTimed(ServerWorld& w, const std::string& disturbed = "") {
  RunnerResult result{w.started->run, {.status = TrialStatus::kOk, .times = {1e-3}, .disturbed = disturbed}};
  w.started.reset();
  w.Take(w.session.OnRunnerMessage({"", result, {}}, w.now));
}

TEST(Disturbed, ResultsSayWhatDisturbedTheirTimes) {
  ServerWorld w;
  w.Say("quiet", ServerWorld::Batch(1, 4));
  FinishTimed(w);
  FinishTimed(w, "the runner's word");
  w.session.OnHostLoad("a load");
  FinishTimed(w);
  w.session.OnHostLoad("");
  FinishTimed(w);
  ASSERT_EQ(w.Results().size(), 4u);
  std::vector<std::string> disturbed;
  for (const TrialResult& result : w.Results()) disturbed.push_back(result.disturbed);
  EXPECT_THAT(disturbed, testing::ElementsAre("", "the runner's word", "a load", ""));
}

TEST(Disturbed, EachTimeOfATurnWithoutTheLockSaysSo) {
  ServerWorld w;
  w.unlocked = "no lock";
  w.Say("unlocked", ServerWorld::Batch(1, 2));
  FinishTimed(w);
  w.Finish(TrialStatus::kCancelled);
  ASSERT_EQ(w.Results().size(), 2u);
  EXPECT_EQ(w.Results()[0].disturbed, "no lock");
  EXPECT_EQ(w.Results()[1].disturbed, "") << "it has no time";
  w.unlocked = "";
  w.Say("locked", ServerWorld::Batch(1, 1));
  FinishTimed(w);
  EXPECT_EQ(w.Results().at(0).disturbed, "");
  EXPECT_EQ(w.Results().at(0).server, ServerWorld::kServer.substr(0, 16)) << "the whole id is a secret";
}

}  // namespace
}  // namespace autotune::rpc
