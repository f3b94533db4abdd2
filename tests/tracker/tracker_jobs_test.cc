// What tuners tell a tracker about their runs, and what a tracker publishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using testing::HasSubstr;

rpc::JobReport RunOf(const std::string& run, int64_t trials, const std::string& state = rpc::job_state::kRunning) {
  return {.run = run, .client_name = "ann@lab:7", .network = "resnet", .state = state, .trials = trials};
}
rpc::From Member(const std::string& name) {
  return {.peer = "at " + name, .identity = "key of " + name, .name = name, .roles = {rpc::Role::kClient}};
}

TEST(TrackerJobs, TheLatestReportOfARunCounts) {
  TrackerWorld w;
  w.Say("tuner", RunOf("r1", 8));
  w.Pass(5000);
  w.Say("tuner", RunOf("r1", 16));
  w.Say("other", RunOf("r2", 1));
  EXPECT_FALSE(w.last.contains("tuner")) << "nobody answers it";
  w.Pass(1000);
  const std::vector<FarmJob> jobs = w.tracker.Snapshot(w.now).jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].report.trials, 16);
  EXPECT_EQ(jobs[0].began_ms, 6000);
  EXPECT_EQ(jobs[0].heard_ms, 1000);
  w.Say("tuner", RunOf("", 8));
  EXPECT_THAT(w.RefusalOf("tuner"), HasSubstr("malformed"));
  w.Pass(25 * 3600 * 1000);
  EXPECT_TRUE(w.tracker.Snapshot(w.now).jobs.empty()) << "old ones are forgotten";
}

TEST(TrackerJobs, ARunBelongsToTheMemberWhoReportedIt) {
  TrackerWorld w;
  const rpc::From alice = Member("alice"), eve = Member("eve");
  w.Take(w.tracker.On(alice, {"", RunOf("r1", 8), {}}, 0));
  w.Take(w.tracker.On(eve, {"x", RunOf("r1", 99), {}}, 0));
  EXPECT_THAT(w.RefusalOf("at eve"), HasSubstr("forbidden"));
  w.Take(w.tracker.On(alice, {"", RunOf("r1", 9), {}}, 0));
  const std::vector<FarmJob> jobs = w.tracker.Snapshot(0).jobs;
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].report.trials, 9);
  EXPECT_EQ(jobs[0].report.client_name, "alice (ann@lab:7)");
}

TEST(TrackerJobs, AddressesThatABrowserShouldNotOpenAreDropped) {
  TrackerWorld w;
  rpc::JobReport report = RunOf("r1", 8);
  report.page = "http://127.0.0.1:4321/";
  report.report = "javascript:alert(1)";
  w.Say("tuner", report);
  rpc::From far = Member("alice");
  far.address = "10.0.0.7";
  std::swap(report.page, report.report);
  report.run = "r2";
  w.Take(w.tracker.On(far, {"", report, {}}, 0));
  const auto jobs = w.tracker.Snapshot(w.now).jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].report.page, "http://127.0.0.1:4321/");
  EXPECT_EQ(jobs[0].report.report, "");
  EXPECT_TRUE(jobs[0].here);
  EXPECT_EQ(jobs[1].report.page, "");
  EXPECT_EQ(jobs[1].report.report, "http://127.0.0.1:4321/");
  EXPECT_FALSE(jobs[1].here);
}

TEST(JobReport, TakesAddressesOfTheWebAlone) {
  for (const char* url :
       {"http://lab/", "https://lab.example:8443/a/b.html?x=1&y=%20#top", "http://[::1]:80", "http://127.0.0.1:1/"})
    EXPECT_TRUE(rpc::IsWebUrl(url)) << url;
  EXPECT_TRUE(rpc::IsWebUrl("http://x/" + std::string(991, 'y')));
  EXPECT_FALSE(rpc::IsWebUrl("http://x/" + std::string(992, 'y')));
  for (const char* url : {"", "lab", "http://", "https:///x", "ftp://lab/", "javascript:alert(1)",
                          "JAVASCRIPT://x/%0aalert(1)", "file:///etc/passwd", "http://good.example@evil.example/",
                          "http://a b/", "http://a/\"onload=x", "http://a/<script>", "http://a/\n", "http://a\\b/",
                          "http://\xd7\xa9/", " http://a/", "data:text/html,x", "//a/"})
    EXPECT_FALSE(rpc::IsWebUrl(url)) << url;
}

TEST(TrackerJobs, ServersReportNone) {
  TrackerWorld w;
  const rpc::From board{.peer = "at board", .identity = "key of board", .name = "board", .roles = {rpc::Role::kServer}};
  w.Take(w.tracker.On(board, {"x", RunOf("r1", 8), {}}, 0));
  EXPECT_THAT(w.RefusalOf("at board"), HasSubstr("forbidden"));
  EXPECT_TRUE(w.tracker.Snapshot(0).jobs.empty());
}

TEST(TrackerJobs, OfTooManyTheEndedOnesAreForgottenFirst) {
  TrackerWorld w;
  w.Say("tuner", RunOf("first", 1));
  for (int i = 0; i < 150; ++i) w.Say("tuner", RunOf("done" + std::to_string(i), 1, rpc::job_state::kDone));
  for (int i = 0; i < 199; ++i) w.Say("tuner", RunOf("run" + std::to_string(i), 1));
  const auto has_first = [&] {
    const auto jobs = w.tracker.Snapshot(w.now).jobs;
    return std::ranges::any_of(jobs, [](const FarmJob& job) { return job.report.run == "first"; });
  };
  EXPECT_EQ(w.tracker.Snapshot(w.now).jobs.size(), 200u);
  EXPECT_TRUE(has_first());
  w.Pass(1000);
  for (int i = 0; i < 199; ++i) w.Say("tuner", RunOf("run" + std::to_string(i), 2));
  w.Say("tuner", RunOf("one more", 1));
  EXPECT_FALSE(has_first()) << "it has been silent for longest";
}

TEST(TrackerSnapshot, TellsWhyRequestsWaitAndForHowLongTheyDid) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Ask("c1", "cpu", "r1");
  w.Ask("c2", "cpu", "r2");
  FarmSnapshot before = w.tracker.Snapshot(w.now);
  EXPECT_EQ(before.waits["cpu"], "1 of 1 devices `cpu` busy");
  EXPECT_EQ(before.lease_waits.counts[0], 1);
  w.Pass(2000, {"s1"});
  w.Say("c1", rpc::LeaseRelease{w.Last<rpc::LeaseGranted>("c1")->lease, ""});
  FarmSnapshot after = w.tracker.Snapshot(w.now);
  EXPECT_TRUE(after.waits.empty());
  EXPECT_EQ(after.lease_waits.counts[3], 1) << "of 1 to 5 s";
  EXPECT_EQ(after.lease_waits.sum_ms, 2000);
  EXPECT_EQ(after.status.devices.size(), 1u);
  w.Pass(60000);
  EXPECT_THAT(w.tracker.Snapshot(w.now).faults.back().second, HasSubstr("the server is silent"));
}

}  // namespace
}  // namespace autotune
