// `autotune bench --profile --trace` and `autotune tune --trace`: files of Chrome's trace events with named lanes,
// whose spans nest. The sums of a profile's trace are those of the profile.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "support/task_id.h"
#include "tests/tools/cli.h"
#include "tools/autotune/profile_trace.h"
#include "tools/autotune/tune_trace.h"

namespace autotune::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tools::AddProfile;
using tools::AddRuns;
using tools::ProfileRow;
using tools::TraceFile;

struct Span {
  std::string name;
  double begin = 0, end = 0;  // microseconds
  Json args;
};

// The spans of a trace by lane, "PROCESS / LANE", in the order of their begins, longer ones first.
using Lanes = std::map<std::string, std::vector<Span>>;

Lanes ReadTrace(const std::string& path) {
  const auto file = Json::Parse(ReadAll(path));
  Lanes lanes;
  if (!file.ok()) {
    ADD_FAILURE() << file.error().Text();
    return lanes;
  }
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, std::string> names;
  const auto* events = (*file)["traceEvents"].As<Json::Array>();
  if (!events) return lanes;
  for (const Json& event : *events) {
    const int64_t process = *event["pid"].As<int64_t>(), lane = *event["tid"].As<int64_t>();
    const std::string& name = *event["name"].As<std::string>();
    if (*event["ph"].As<std::string>() == "M") {
      if (name == "process_name") processes[process] = *event["args"]["name"].As<std::string>();
      if (name == "thread_name") {
        names[{process, lane}] = *event["args"]["name"].As<std::string>();
        lanes[processes[process] + " / " + names[{process, lane}]];
      }
      continue;
    }
    EXPECT_EQ(*event["ph"].As<std::string>(), "X");
    const bool named = names.contains({process, lane}) && processes.contains(process);
    EXPECT_TRUE(named) << "a span in a lane without a name: " << event.Dump();
    if (!named) continue;
    const double begin = *event["ts"].Number(), duration = *event["dur"].Number();
    EXPECT_GE(begin, 0);
    EXPECT_GE(duration, 0);
    lanes[processes[process] + " / " + names[{process, lane}]].push_back(
        {name, begin, begin + duration, event["args"]});
  }
  for (auto& [name, spans] : lanes) {
    std::ranges::stable_sort(
        spans, [](const Span& a, const Span& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  }
  return lanes;
}

// Whether each span of a lane lies within the one that it begins in.
bool Nest(const std::vector<Span>& spans) {
  constexpr double kRounding = 1e-3;  // microseconds
  std::vector<double> ends;
  for (const Span& span : spans) {
    while (!ends.empty() && ends.back() <= span.begin + kRounding) ends.pop_back();
    if (!ends.empty() && span.end > ends.back() + kRounding) return false;
    ends.push_back(span.end);
  }
  return true;
}

TEST(TraceFile, SpansThatCrossDoNotNest) {
  EXPECT_TRUE(Nest({{"a", 0, 4, {}}, {"b", 0, 2, {}}, {"c", 2, 4, {}}, {"d", 5, 6, {}}}));
  EXPECT_FALSE(Nest({{"a", 0, 4, {}}, {"b", 2, 5, {}}}));
}

using Trace = CliTest;

TEST_F(Trace, OfAProfileHasItsKernelsRunsAndThreads) {
  const std::string package = File("net.tar"), trace = File("trace.json");
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-q", "-o", package}).code, 0);
  const CliResult bench = Run({"bench", package, "--profile", "--seconds", "0.02", "--wait", "0", "--threads", "2",
                               "--json", "--trace", trace});
  ASSERT_EQ(bench.code, 0) << bench.Text();
  const Json profile = Json::Parse(Lines(bench.out).at(1)).value();
  const auto& kernels = *profile["kernels"].As<Json::Array>();
  const Lanes lanes = ReadTrace(trace);
  const std::string medians = "profile: the median time of each kernel / kernels",
                    runs = "10 runs, kernel by kernel / ";
  std::vector<std::string> names;
  for (const auto& [name, spans] : lanes) {
    names.push_back(name);
    EXPECT_TRUE(Nest(spans)) << name;
  }
  ASSERT_THAT(names, ElementsAre(runs + "network", runs + "thread 0 (calls the kernels)", runs + "thread 1", medians));

  // The first lane is the profile.
  const std::vector<Span>& lane = lanes.at(medians);
  ASSERT_EQ(lane.size(), 1 + kernels.size());
  EXPECT_NEAR(lane[0].end, *profile["kernels_ms"].Number() * 1e3, 1e-6);
  double sum = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(lane[i + 1].name, *kernels[i]["name"].As<std::string>());
    EXPECT_EQ(lane[i + 1].args["task"], kernels[i]["task"]);
    EXPECT_NEAR(lane[i + 1].end - lane[i + 1].begin, *kernels[i]["median_us"].Number(), 1e-6);
    sum += lane[i + 1].end - lane[i + 1].begin;
  }
  EXPECT_NEAR(sum, lane[0].end, 1e-6);

  // Each of ten runs has all kernels in their order.
  const std::vector<Span>& network = lanes.at(runs + "network");
  ASSERT_EQ(network.size(), 10 * (1 + kernels.size()));
  for (size_t i = 0; i < network.size(); ++i) {
    const size_t k = i % (1 + kernels.size());
    const std::string expected = k == 0 ? "run " : *kernels[k - 1]["name"].As<std::string>();
    EXPECT_THAT(network[i].name, StartsWith(expected));
  }
  // Threads work within kernels of their task.
  for (const char* thread : {"thread 0 (calls the kernels)", "thread 1"}) {
    for (const Span& part : lanes.at(runs + thread)) {
      EXPECT_TRUE(std::ranges::any_of(network, [&](const Span& kernel) {
        return kernel.args["task"] == part.args["task"] && kernel.name == part.name && kernel.begin <= part.begin + 1 &&
               part.end <= kernel.end + 1;
      })) << part.name;
      EXPECT_TRUE(IsTaskIdPrefix(*part.args["task"].As<std::string>()));
    }
  }
}

TEST_F(Trace, IsRefusedWhereNothingIsTracedOrWritten) {
  const std::string package = File("net.tar");
  ASSERT_EQ(Run({"compile", "--op", "matmul:16,16,16", "--no-records", "-q", "-o", package}).code, 0);
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"bench", package, "--seconds", "0.01"};
    command.insert(command.end(), more.begin(), more.end());
    const CliResult result = Run(command);
    EXPECT_EQ(result.code, 2) << result.Text();
    return result.err;
  };
  EXPECT_THAT(refused({"--trace", File("t.json")}),
              HasSubstr("only --profile measures kernels, so it excludes --trace"));
  EXPECT_THAT(refused({"--profile", "--trace", File("none") + "/t.json"}),
              HasSubstr("--trace " + File("none") + "/t.json: there is no folder"));
  EXPECT_THAT(refused({"--profile", "--trace", package}), HasSubstr("which would be lost"));
  EXPECT_THAT(refused({"--profile", "--key", "here", "--trace", File("t.json")}), HasSubstr("so it excludes --trace"));
  EXPECT_FALSE(std::filesystem::exists(File("t.json")));
}

TEST_F(Trace, OfATuningRunHasItsPhasesAndALaneForEachDevice) {
  const std::string trace = File("trace.json");
  const CliResult tuned =
      Run({"tune", "--op", "matmul:64,64,64", "--trials", "4", "-o", File("m.tar"), "--trace", trace});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.out, HasSubstr("wrote " + trace));
  const Lanes lanes = ReadTrace(trace);
  for (const auto& [name, spans] : lanes) EXPECT_TRUE(Nest(spans)) << name;
  const auto names = [&](const std::string& lane) {
    std::vector<std::string> found;
    for (const Span& span : lanes.contains(lane) ? lanes.at(lane) : std::vector<Span>()) found.push_back(span.name);
    return found;
  };
  const std::vector<std::string> phases = names("autotune tune / run");
  ASSERT_GE(phases.size(), 3u);
  EXPECT_EQ(phases[0] + " " + phases[1] + " " + phases.back(), "prepare search write");
  EXPECT_THAT(names("autotune tune / search"), ::testing::Each("search"));
  EXPECT_THAT(names("autotune tune / build"), ::testing::Contains(StartsWith("build ")));
  int devices = 0, measured = 0;
  for (const auto& [name, spans] : lanes) {
    if (!name.starts_with("devices / ")) continue;
    ++devices;
    for (const Span& span : spans) {
      EXPECT_TRUE(IsTaskIdPrefix(*span.args["task"].As<std::string>()));
      measured += span.args["status"] == Json("ok");
      // Each candidate is measured while the run searches or compares.
      EXPECT_GE(span.begin, lanes.at("autotune tune / run")[1].begin);
    }
  }
  EXPECT_EQ(devices, 1);
  EXPECT_GE(measured, 1);
}

// Phases follow one another, and a wait that has not ended ends with the trace.
TEST_F(Trace, OfEventsHasPhasesAndWaits) {
  tools::TuneTrace trace;
  trace.Add(event::Any(event::Waiting{.what = "a device", .reason = "busy", .seconds = 0}));
  trace.Add(event::Any(event::Waiting{.what = "a device", .reason = "still busy", .seconds = 1}));
  trace.Add(event::Any(event::Begin{}));
  trace.Add(event::Any(event::Waiting{.what = "a device"}));
  trace.Add(event::Any(event::Waiting{.what = "a device"}));
  trace.Add(event::Any(event::Waiting{.what = "this host", .reason = "a build"}));
  ASSERT_TRUE(trace.Write(File("t.json")).ok());
  const Lanes lanes = ReadTrace(File("t.json"));
  ASSERT_EQ(lanes.size(), 5u);
  EXPECT_TRUE(lanes.at("autotune tune / search").empty() && lanes.at("autotune tune / build").empty());
  const auto& run = lanes.at("autotune tune / run");
  ASSERT_EQ(run.size(), 2u);
  EXPECT_EQ(run[0].name + run[1].name, "preparesearch");
  EXPECT_NEAR(run[0].end, run[1].begin, 1e-3);
  const auto& device = lanes.at("autotune tune / waiting for a device");
  ASSERT_EQ(device.size(), 1u);
  EXPECT_EQ(device[0].name, "busy");
  EXPECT_EQ(lanes.at("autotune tune / waiting for this host").size(), 1u);
}

// A thread's part belongs to the kernel that ran when it began.
TEST_F(Trace, FindsTheKernelOfAThreadsPart) {
  const std::vector<ProfileRow> rows = {{.node = "a", .task = "11111111"}, {.node = "b", .task = "22222222"}};
  const RunTrace run{.seconds = 3, .kernels = {{0, 1}, {1, 2}}, .threads = {{{0.5, 0.25}}, {{1, 1}, {2.5, 0.5}}}};
  TraceFile file;
  AddRuns(rows, {run}, file);
  AddRuns(rows, {}, file);
  ASSERT_TRUE(file.Write(File("t.json")).ok());
  const Lanes lanes = ReadTrace(File("t.json"));
  ASSERT_EQ(lanes.size(), 3u);
  const auto& of_thread = lanes.at("1 run, kernel by kernel / thread 1");
  ASSERT_EQ(of_thread.size(), 2u);
  EXPECT_EQ(of_thread[0].name + of_thread[1].name, "bb");
  EXPECT_EQ(lanes.at("1 run, kernel by kernel / thread 0 (calls the kernels)")[0].name, "a");
  EXPECT_FALSE(file.Write(File("none") + "/t.json").ok());
}

}  // namespace
}  // namespace autotune::test
