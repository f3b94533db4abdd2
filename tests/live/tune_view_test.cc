#include "tools/live/tune_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "http/merge_patch.h"
#include "tests/http/client.h"
#include "tests/http/metrics_parser.h"
#include "tools/live/run_report.h"
#include "tools/live/tune_page.h"

namespace autotune::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

event::Round Round(int64_t trials, double best_ms, double seconds, const std::string& hash = "aa") {
  return {.trials = trials,
          .planned_trials = 64,
          .records = trials + 2,
          .outcomes = {{"ok", trials}, {"rejected", 2}},
          .seconds = seconds,
          .trials_per_second = 2,
          .tasks = 3,
          .tasks_measured = 1,
          .best_ms = best_ms,
          .task = "conv of " + hash,
          .hash = hash,
          .task_best_ms = best_ms / 2};
}

TEST(TuneView, CurvesFollowTheRounds) {
  TuneView view("1.2");
  view.Take(event::Begin{.model = "net", .trials = 64}, 1000);
  view.Take(Round(8, 4, 2), 2000);
  view.Take(Round(16, 3, 4, "bb"), 3000);
  view.Take(Round(24, 3, 10), 4000);
  const Json state = view.State(5000);
  EXPECT_EQ(state["curve"].Dump(), R"({"16":3.0,"24":3.0,"8":4.0})");
  EXPECT_EQ(state["tasks"]["aa"]["curve"].Dump(), R"({"24":1.5,"8":2.0})");
  EXPECT_EQ(state["tasks"]["bb"]["label"], Json("conv of bb"));
  EXPECT_EQ(state["speeds"].Dump(), R"({"10":2.0,"2":4.0})") << "16 trials in 8 s";
  EXPECT_EQ(state["round"]["outcomes"].Dump(), R"({"ok":24,"rejected":2})");
  EXPECT_EQ(state["phase"], Json("searching"));
  EXPECT_EQ(state["began"], Json(1000));
  EXPECT_EQ(http::MergePatch(state, view.State(6000)).Dump(), R"({"now":6000})");
}

TEST(TuneView, WaitsEndAndTheEndIsKept) {
  TuneView view("1.2");
  view.Take(event::Waiting{"a device", "1 of 1 busy", 3}, 10000);
  EXPECT_EQ(view.State(1)["waits"].Dump(), R"({"a device":{"reason":"1 of 1 busy","since":7000}})");
  view.Take(event::Waiting{"a device", "", 3}, 11000);
  EXPECT_EQ(view.State(1)["waits"].Dump(), "{}");
  view.Take(event::Choosing{0.5}, 12000);
  EXPECT_EQ(view.State(1)["done"], Json(0.5));
  view.Take(event::Note{"<script>"}, 12000);
  view.Take(event::Saved{.gain = "twice as fast"}, 13000);
  const Json state = view.State(1);
  EXPECT_EQ(state["ended"], Json(13000));
  EXPECT_EQ(state["saved"]["gain"], Json("twice as fast"));
  EXPECT_EQ(state["notes"].Dump(), R"(["<script>"])");
}

TEST(RunReport, TellsWhatTheEventsSay) {
  RunReport run("id", "ann@lab:7");
  run.Take(event::Begin{.model = "net", .key = "pi", .trials = 64});
  run.Take(event::Waiting{"a device", "busy", 1});
  EXPECT_EQ(run.report().phase, "waiting for a device");
  run.Take(Round(8, 4, 2));
  const rpc::JobReport& report = run.report();
  EXPECT_EQ(report.network, "net");
  EXPECT_EQ(report.key, "pi");
  EXPECT_EQ(report.trials, 8);
  EXPECT_EQ(report.planned_trials, 64);
  EXPECT_EQ(report.best_ms, 4);
  EXPECT_EQ(report.outcomes.at("rejected"), 2);
  EXPECT_EQ(report.phase, "");
  EXPECT_EQ(report.state, rpc::job_state::kRunning);
  run.Take(event::Choosing{0.25});
  EXPECT_EQ(report.phase, "comparing whole networks: 25 %");
  run.Take(event::Saved{.gain = "twice as fast"});
  EXPECT_EQ(report.state, rpc::job_state::kDone);
  EXPECT_EQ(report.result, "twice as fast");
  RunReport other("id", "");
  other.Take(event::Interrupted{.trials = 5});
  EXPECT_EQ(other.report().state, rpc::job_state::kStopped);
}

TEST(RunReport, NamesPagesOnlyWhileTheyAreThere) {
  RunReport run("id", "",
                {.page = "http://127.0.0.1:4321/", .report = "https://lab/r.html", .database = "/home/ann/t.db"});
  run.Take(event::Begin{.model = "net"});
  run.Take(Round(8, 4, 2));
  EXPECT_EQ(run.report().page, "http://127.0.0.1:4321/");
  EXPECT_EQ(run.report().report, "") << "it is not finished";
  EXPECT_EQ(run.report().database, "/home/ann/t.db");
  run.Take(event::End{.seconds = 90});
  EXPECT_EQ(run.report().seconds, 90);
  RunReport other = run;
  run.Take(event::Saved{});
  other.Take(event::Interrupted{});
  for (const RunReport* ended : {&run, &other}) {
    EXPECT_EQ(ended->report().page, "") << "it ends with the run";
    EXPECT_EQ(ended->report().report, "https://lab/r.html");
  }
}

int PortOf(const TunePage& page) {
  const std::string url = page.Url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

TEST(TunePage, MakesTheReportForAllWhoAsk) {
  std::atomic<int> made = 0;
  std::atomic<bool> waits = true;
  auto page = TunePage::Start({.address = "127.0.0.1:0",
                               .version = "1.2",
                               .report = [&]() -> Result<std::string> {
                                 while (waits) usleep(1000);
                                 if (++made == 2) return Err("the database is busy");
                                 return "<p>report " + std::to_string(made);
                               },
                               .report_command = "autotune report --db F"});
  ASSERT_TRUE(page.ok()) << page.error().Text();
  const int port = PortOf(**page);
  http::RawClient first(port), second(port);
  for (http::RawClient* client : {&first, &second}) client->Send("GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(http::StatusIn(http::Fetch(port, "GET", "/healthz")), 200) << "the page does not wait for it";
  EXPECT_THAT(http::Fetch(port, "GET", "/status.json"), HasSubstr("autotune report --db F"));
  waits = false;
  EXPECT_THAT(first.ReadUntil("report 1"), HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(second.ReadUntil("report 1"), Not(HasSubstr("script-src"))) << "the report says which scripts may run";
  const std::string failed = http::Fetch(port, "GET", "/report");
  EXPECT_EQ(http::StatusIn(failed), 503);
  EXPECT_THAT(failed, HasSubstr("no report yet: the database is busy"));
  EXPECT_THAT(failed, HasSubstr("script-src 'self'"));
  EXPECT_EQ(http::StatusIn(
                http::Fetch(port, "GET", "/report", "Origin: http://evil.example\r\nX-Forwarded-For: 1.2.3.4\r\n")),
            401);
  EXPECT_THAT(http::Fetch(port, "GET", "/report"), HasSubstr("report 3"));
  // An asker who does not wait does not hold the page's end up.
  waits = true;
  http::RawClient last(port);
  last.Send("GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n");
  last.ReadUntil("\r\n", 100);
  waits = false;
  page->reset();
}

TEST(TunePage, WithoutADatabaseThereIsNoReport) {
  auto page = TunePage::Start({.address = "127.0.0.1:0", .version = "1.2"});
  ASSERT_TRUE(page.ok()) << page.error().Text();
  EXPECT_EQ(http::StatusIn(http::Fetch(PortOf(**page), "GET", "/report")), 404);
}

TEST(TunePage, ServesTheEventsOfARunOnThisHost) {
  auto page = TunePage::Start({.address = "127.0.0.1:0", .version = "1.2"});
  ASSERT_TRUE(page.ok()) << page.error().Text();
  const int port = PortOf(**page);
  (*page)->Take(event::Begin{.model = "net \"<b>", .trials = 64});
  (*page)->Take(Round(8, 4, 2));
  http::RawClient reader(port);
  reader.Send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reader.ReadUntil("conv of aa"), HasSubstr("net \\\"<b>"));
  EXPECT_THAT(http::Fetch(port, "GET", "/"), HasSubstr("/tune.js"));
  EXPECT_EQ(http::StatusIn(http::Fetch(port, "POST", "/act", "", "{}")), 405);
  const http::Metrics read = http::MetricsParser::Parse(http::BodyIn(http::Fetch(port, "GET", "/metrics")));
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.samples.at("autotune_trials_total{status=\"rejected\"}"), 2);
  EXPECT_EQ(read.samples.at("autotune_records_total"), 10);
  EXPECT_FALSE(TunePage::Start({.address = "0.0.0.0:0", .version = "1.2"}).ok());
}

}  // namespace
}  // namespace autotune::tools
