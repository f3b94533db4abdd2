// If a server or a runner of a local farm is killed, the job continues. If the tuner is killed, no process stays
// behind.
#include <signal.h>

#include <set>
#include <thread>

#include "tests/tracker/farm.h"

namespace autotune {
namespace {

using testing::HasSubstr;

class FarmDeaths : public FarmTest {};

TEST_F(FarmDeaths, TunesForEver) {
  if (!std::getenv("AUTOTUNE_TEST_CHILD")) GTEST_SKIP() << "runs only as the child process of another test";
  EndWithParent();
  auto farm = StartLocal();
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile("for (volatile int forever = 1; forever;);")});
  job.candidates[0].run_seconds = 1000;
  std::thread measuring([&] { (void)client->Measure(job); });
  usleep(300000);
  dprintf(1, "\n%d %s !end", farm->server_pid(), farm->tracker().c_str());
  measuring.join();
}

TEST_F(FarmDeaths, TheServerIsKilledInMidBatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(10, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  std::set<pid_t> runners;
  int count = 0;
  pid_t first = farm->server_pid();
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   if (++count != 3) return;
                                   for (pid_t p : ChildrenOf(first)) runners.insert(p);
                                   kill(first, SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(10, TrialStatus::kOk));
  EXPECT_EQ(count, 10);  // each result is accepted once
  EXPECT_NE(farm->server_pid(), first);
  EXPECT_EQ(runners.size(), 2u);
  for (pid_t runner : runners) EXPECT_TRUE(Soon([&] { return !Alive(runner); }));
  EXPECT_TRUE(farm->Health().ok());
}

TEST_F(FarmDeaths, TheRunnerIsKilledInMidBatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(6, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  int count = 0;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   if (++count != 2) return;
                                   for (pid_t p : ChildrenOf(farm->server_pid())) kill(p, SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  // The runners were killed from outside, so their candidates are not blamed, but measured again.
  EXPECT_EQ(StatusesOf(*results), std::vector(6, TrialStatus::kOk));
}

TEST_F(FarmDeaths, AServerThatAlwaysDiesIsGivenUpWithTheCause) {
  std::string path = folder_ + "/rpc_server";
  std::ofstream(path) << "#!/bin/sh\nexit 42\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto farm = LocalFarm::Start({.server_path = path});
  ASSERT_FALSE(farm.ok());
  EXPECT_THAT(farm.error().Text(), HasSubstr("exited with code 42; it was restarted 5 times"));

  auto good = StartLocal({.max_restarts = 1});
  ASSERT_TRUE(good);
  auto client = ClientOf(*good);
  std::vector<Blob> artifacts(40, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  int kills = 0;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   ++kills;
                                   kill(good->server_pid(), SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok());  // at least one candidate was measured
  EXPECT_EQ(results->back().status, TrialStatus::kInfrastructure);
  EXPECT_THAT(results->back().error, HasSubstr("given up"));
  EXPECT_FALSE(good->Health().ok());
}

// A run of days may lose more servers than max_restarts.
TEST_F(FarmDeaths, RestartsOfLongAgoDoNotCount) {
  auto farm = StartLocal({.max_restarts = 1, .stable_seconds = 0});
  ASSERT_TRUE(farm);
  for (int i = 0; i < 3; ++i) {
    const int old = farm->server_pid();
    kill(old, SIGKILL);
    ASSERT_TRUE(Soon([&] { return farm->server_pid() != old; })) << i;
  }
  EXPECT_TRUE(farm->Health().ok());
}

TEST_F(FarmDeaths, NothingIsLeftWhenTheTunerIsKilled) {
  auto [out, in] = std::move(MakePipe()).value();
  Subprocess tuner = RunSelf("FarmDeaths.TunesForEver", in.get());
  in.Reset();
  std::string line = ReadLine(out.get());
  pid_t server = std::atoi(line.c_str());
  size_t slash = line.find('/');
  ASSERT_NE(slash, std::string::npos) << line;
  std::string folder = std::filesystem::path(line.substr(slash + 2)).parent_path();
  std::vector<pid_t> runners = ChildrenOf(server);
  ASSERT_EQ(runners.size(), 2u);
  ASSERT_TRUE(std::filesystem::exists(folder));
  tuner.Kill();
  ASSERT_TRUE(tuner.Wait(10000));
  EXPECT_TRUE(Soon([&] { return !Alive(server) && !Alive(runners[0]) && !Alive(runners[1]); }));
  // The next farm removes the files that the dead one left, and later its own.
  std::string own;
  {
    auto farm = StartLocal();
    own = std::filesystem::path(farm->tracker().substr(6)).parent_path();
    EXPECT_FALSE(std::filesystem::exists(folder));
    EXPECT_TRUE(std::filesystem::exists(own));
  }
  EXPECT_FALSE(std::filesystem::exists(own));
}

}  // namespace
}  // namespace autotune
