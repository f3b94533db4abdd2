// Servers that a cluster's manager ends, or that end for lack of work: no result is lost.
#include <signal.h>

#include <future>
#include <thread>

#include "tests/tracker/farm.h"

namespace autotune {
namespace {

// Computes for a good part of a second in each call.
const std::string kLong = std::string(kDouble) + "for (volatile long i = 0; i < 100000000; ++i);";

class FarmLeaving : public FarmTest {
 protected:
  // A tracker and a server measure three candidates. While the second one runs, `signal` is called with the number of
  // the server's process. Once this server has ended, another one starts. Returns the results, and checks that the
  // server exits with code 0.
  std::vector<TrialResult> MeasureWhile(const std::function<void(pid_t)>& signal) {
    Subprocess tracker = StartTracker();
    Subprocess first = StartServer("pi");
    auto client = Client("pi");
    MeasureJob job = JobOf({Compile(kDouble), Compile(kLong), Compile(kDouble)});
    job.candidates[1].repeats = 1;
    for (Candidate& candidate : job.candidates) candidate.run_seconds = 100;
    auto measured = std::async(std::launch::async, [&] {
      return client->Measure(job, {.on_result = [&](const TrialResult& result) {
                               if (result.candidate == "0") signal(first.pid());
                             }});
    });
    const std::optional<ExitStatus> ended = first.Wait(60000);
    EXPECT_TRUE(ended && ended->ok()) << (ended ? ended->Text() : "still alive");
    Subprocess second = StartServer("pi", {"--state", folder_ + "/second"});
    auto results = measured.get();
    EXPECT_TRUE(results.ok()) << (results.ok() ? "" : results.error().Text());
    return results.ok() ? *results : std::vector<TrialResult>(3);
  }
};

TEST_F(FarmLeaving, SigtermLetsTheRunningCandidateEnd) {
  // A cluster's manager may send the signal to the runners, too.
  const std::vector<TrialResult> results = MeasureWhile([](pid_t server) {
    for (pid_t runner : ChildrenOf(server)) kill(runner, SIGTERM);
    kill(server, SIGTERM);
  });
  EXPECT_EQ(StatusesOf(results), std::vector(3, TrialStatus::kOk));
  EXPECT_EQ(results[1].server, results[0].server);
  EXPECT_NE(results[2].server, results[0].server);
}

// The twin: a server that is ended at once loses the candidate that runs. It is measured again elsewhere.
TEST_F(FarmLeaving, ASecondSignalDoesNotWait) {
  const std::vector<TrialResult> results = MeasureWhile([](pid_t server) {
    kill(server, SIGTERM);
    kill(server, SIGINT);
  });
  EXPECT_EQ(StatusesOf(results), std::vector(3, TrialStatus::kOk));
  EXPECT_NE(results[1].server, results[0].server);
}

TEST_F(FarmLeaving, AnIdleServerEndsAndABusyOneDoesNot) {
  Subprocess tracker = StartTracker();
  auto client = Client("pi");
  Subprocess other = StartServer("other", {"--shared-host"});
  Subprocess server = StartServer("pi", {"--shared-host", "--idle-exit", "3s"});
  MeasureJob job = JobOf(std::vector<Blob>(2, Compile(kLong)));
  for (Candidate& candidate : job.candidates) {
    candidate.min_repeat_ms = 1000;  // both take longer than 3 s
    candidate.run_seconds = 100;
  }
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(2, TrialStatus::kOk));
  EXPECT_FALSE(server.Poll());
  client.reset();
  const std::optional<ExitStatus> ended = server.Wait(60000);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->ok()) << ended->Text();
  EXPECT_TRUE(Soon([&] { return Count("pi", "") == 0; }));
  EXPECT_FALSE(other.Poll());  // it has no --idle-exit
  EXPECT_EQ(Count("other"), 1);
}

}  // namespace
}  // namespace autotune
