#include "tools/live/farm_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/merge_patch.h"
#include "tests/http/metrics_parser.h"

namespace autotune::tools {
namespace {

constexpr int64_t kBegin = int64_t{1796000000000} / (120 * 30000) * (120 * 30000);  // a slot of index 0

rpc::DeviceStatus Device(const std::string& server, const std::string& key, const std::string& state) {
  return {.server = server, .key = key, .state = state};
}
FarmSnapshot At(int64_t ms, std::vector<rpc::DeviceStatus> devices) {
  FarmSnapshot snapshot{.at = kBegin + ms};
  snapshot.status.uptime_ms = ms;
  snapshot.status.devices = std::move(devices);
  return snapshot;
}
rpc::DeviceStatus Busy(int64_t since_ms, const std::string& lease = "1a2b3c4d5e6f") {
  rpc::DeviceStatus device = Device("aaaaaaaa", "zen4", "busy");
  device.client_name = "alice (al@lab:12)";
  device.lease = lease;
  device.since_ms = since_ms;
  return device;
}

TEST(HourStrip, EachHalfMinuteHasTheStateOfMostOfIt) {
  HourStrip strip;
  for (int64_t t = 0; t < 20000; t += 1000) strip.Add('b', kBegin + t);
  for (int64_t t = 20000; t < 30000; t += 1000) strip.Add('f', kBegin + t);
  for (int64_t t = 30000; t < 60000; t += 1000) strip.Add(t == 50000 ? 'x' : 'f', kBegin + t);
  strip.Add('h', kBegin + 60000);
  EXPECT_EQ(strip.text().substr(0, 4), "bxh.");
  strip.Add('b', kBegin + 150000);  // nothing is known of the time between
  EXPECT_EQ(strip.text().substr(0, 7), "bxh..b.");
  strip.Add('f', kBegin + 3600000 + 30000);  // an hour later, the same places are used again
  EXPECT_EQ(strip.text().substr(0, 7), ".fh..b.");
  strip.Add('f', kBegin + 9 * 3600000);
  EXPECT_EQ(strip.text(), "f" + std::string(119, '.'));
  strip.Add('b', kBegin);  // the clock was set back
  EXPECT_EQ(strip.text(), "f" + std::string(119, '.'));
}

TEST(FarmView, NothingChangesWhileNothingHappens) {
  FarmView view("1.2");
  FarmSnapshot first = At(1000, {Busy(500), Device("bbbbbbbb", "rpi4", "unreachable")}),
               second = At(2000, {Busy(1501), Device("bbbbbbbb", "rpi4", "unreachable")});
  for (FarmSnapshot* snapshot : {&first, &second}) {
    snapshot->status.devices[1].last_seen_ms = snapshot->at - kBegin + 7000;
    snapshot->status.queue = {{"zen4", "bob", "", "", 1, snapshot->at - kBegin - 300}};
    snapshot->waits["zen4"] = "1 of 1 devices busy";
    snapshot->faults = {{snapshot->at - kBegin, "it broke"}};
    snapshot->status.holds = {{"rpi*", "drain", 100000 - (snapshot->at - kBegin), "fans", "ann"}};
    snapshot->status.absent_keys["old"] = snapshot->at - kBegin + 5000;
  }
  const Json before = view.Take(first), after = view.Take(second);
  EXPECT_EQ(http::MergePatch(before, after).Dump(), "{\"now\":" + std::to_string(kBegin + 2000) + "}");
  EXPECT_EQ(before["devices"]["aaaaaaaa"]["since"], Json(kBegin + 500));
  EXPECT_EQ(before["devices"]["aaaaaaaa"]["lease"], Json("1a2b3c4d"));
  EXPECT_EQ(before["queue"]["zen4/0000001"]["why"], Json("1 of 1 devices busy"));
  EXPECT_EQ(before["queue"]["zen4/0000001"]["since"], Json(kBegin + 300));
}

TEST(FarmView, WhatHappensIsSeen) {
  FarmView view("1.2");
  const Json before = view.Take(At(1000, {Busy(500)}));
  const Json after = view.Take(At(2000, {Busy(100, "another")}));
  const Json patch = http::MergePatch(before, after);
  EXPECT_EQ(patch["devices"]["aaaaaaaa"]["since"], Json(kBegin + 1900));
  EXPECT_EQ(patch["devices"]["aaaaaaaa"]["lease"], Json("another"));
  const Json gone = http::MergePatch(after, view.Take(At(3000, {})));
  EXPECT_TRUE(gone["devices"].As<Json::Object>()->contains("aaaaaaaa"));
  EXPECT_TRUE(gone["devices"]["aaaaaaaa"].IsNull());
}

TEST(FarmView, TrialsCountOnWhenServersStartAnewOrLeave) {
  FarmView view("1.2");
  const auto with = [](int64_t ok) {
    rpc::DeviceStatus device = Device("aaaaaaaa", "zen4", "free");
    device.trials = {{"ok", ok}};
    return device;
  };
  const auto total = [&] {
    return http::MetricsParser::Parse(view.Metrics())
        .samples["autotune_trials_total{status=\"ok\",device_key=\"zen4\"}"];
  };
  view.Take(At(1000, {with(5)}));
  EXPECT_EQ(total(), 5);
  view.Take(At(2000, {with(8)}));
  EXPECT_EQ(total(), 8);
  view.Take(At(3000, {with(2)}));  // started anew
  EXPECT_EQ(total(), 10);
  view.Take(At(4000, {}));
  EXPECT_EQ(total(), 10);
}

TEST(Curve, KeepsImprovementsTheLatestPointAndNotTooMany) {
  Curve curve;
  curve.Add(0, 0);  // nothing is measured yet
  curve.Add(8, 5.5);
  curve.Add(16, 4);
  curve.Add(24, 4);
  curve.Add(32, 4);
  EXPECT_EQ(curve.State().Dump(), R"({"16":4.0,"32":4.0,"8":5.5})");
  curve.Add(40, 3);
  EXPECT_EQ(curve.State().Dump(), R"({"16":4.0,"40":3.0,"8":5.5})");
  for (int i = 1; i < 5000; ++i) curve.Add(40 + i, 3 - i * 1e-4);
  const Json state = curve.State();
  const auto& points = *state.As<Json::Object>();
  EXPECT_LE(points.size(), Curve::kMost);
  EXPECT_GE(points.size(), Curve::kMost / 2);
  EXPECT_TRUE(points.contains("8") && points.contains("5039"));
}

TEST(FarmView, RunsHaveCurvesAndSilentOnesSaySo) {
  FarmView view("1.2");
  FarmSnapshot snapshot = At(1000, {});
  snapshot.jobs = {
      {.report = {.run = "r", .network = "resnet", .state = "running", .trials = 8, .best_ms = 5}, .began_ms = 900}};
  Json state = view.Take(snapshot)["jobs"]["r"];
  EXPECT_EQ(state["curve"].Dump(), R"({"8":5.0})");
  EXPECT_EQ(state["began"], Json(kBegin + 100));
  snapshot.at += 30000;
  snapshot.jobs[0].report.trials = 16;
  snapshot.jobs[0].report.best_ms = 4;
  snapshot.jobs[0].began_ms += 30000;
  state = view.Take(snapshot)["jobs"]["r"];
  EXPECT_EQ(state["curve"].Dump(), R"({"16":4.0,"8":5.0})");
  EXPECT_TRUE(state["silent"].IsNull());
  snapshot.jobs[0].heard_ms = 6000;
  EXPECT_TRUE(view.Take(snapshot)["jobs"]["r"]["silent"].IsNull()) << "one report of every three seconds is lost";
  snapshot.jobs[0].heard_ms = 9000;
  EXPECT_EQ(view.Take(snapshot)["jobs"]["r"]["silent"], Json(kBegin + 31000 - 9000));
  snapshot.jobs[0].report.state = "done";
  state = view.Take(snapshot)["jobs"]["r"];
  EXPECT_TRUE(state["silent"].IsNull());
  EXPECT_EQ(state["ended"], Json(kBegin + 31000 - 9000));
}

TEST(FarmView, MetricsAreValidWhateverPeersSay) {
  FarmView view("1.2");
  FarmSnapshot snapshot = At(1000, {Busy(1), Device("b", "rpi4", "free"), Device("b", "rpi4", "free")});
  snapshot.status.devices[0].trials = {{"o\"k\\\n} 7", 3}, {"__proto__", 1}};
  snapshot.status.queue = {{"zen4", "<script>", "", "", 1, 5}};
  snapshot.status.grants = 4;
  for (const int64_t ms : {0, 100, 101, 5000, 10000000}) snapshot.lease_waits.Add(ms);
  view.Take(snapshot);
  const http::Metrics read = http::MetricsParser::Parse(view.Metrics());
  EXPECT_EQ(read.fault, "") << view.Metrics();
  EXPECT_EQ(read.samples.at("autotune_build_info{version=\"1.2\"}"), 1);
  EXPECT_EQ(read.samples.at("autotune_devices{key=\"rpi4\",state=\"free\"}"), 2);
  EXPECT_EQ(read.samples.at("autotune_queue_requests{key=\"rpi4\"}"), 0);
  EXPECT_EQ(read.samples.at("autotune_queue_requests{key=\"zen4\"}"), 1);
  EXPECT_EQ(read.samples.at("autotune_lease_wait_seconds_bucket{le=\"0.1\"}"), 2);
  EXPECT_EQ(read.samples.at("autotune_lease_wait_seconds_bucket{le=\"5.0\"}"), 4);
  EXPECT_EQ(read.samples.at("autotune_lease_wait_seconds_bucket{le=\"+Inf\"}"), 5);
  EXPECT_EQ(read.samples.at("autotune_leases_granted_total"), 4);
  EXPECT_EQ(view.Take(snapshot)["devices"].As<Json::Object>()->size(), 3u) << "two ids that begin alike";
}

}  // namespace
}  // namespace autotune::tools
