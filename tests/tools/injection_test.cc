// Tests the path from the search to the database with bad candidates. A candidate that gives wrong results, crashes,
// hangs or exhausts memory becomes a failed trial with the matching status, and never the best one, however fast it is.
// A candidate that tries to fork or to write a file is denied both.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "records/open.h"
#include "rpc/system_calls.h"
#include "tests/runtime/c_artifact.h"
#include "tests/tools/cli.h"
#include "tests/tools/forwarding_builder.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;

// Returns an artifact with the signature of Dense(16, 96, 64) that runs `body`.
std::string Impostor(const std::string& body) {
  std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"kernel","params":[
    {"name":"a","dtype":"f32","shape":[16,64],"kind":"input"},{"name":"b","dtype":"f32","shape":[64,96],"kind":"constant"},
    {"name":"dense","dtype":"f32","shape":[16,96],"kind":"output"}]}]})";
  return CompileArtifact(metadata,
                         "int32_t raw(AtContext* c, void* const* a) ENTRY(\"kernel.raw\");\n"
                         "int32_t raw(AtContext* c, void* const* a) { float *x = a[0], *w = a[1], *y = a[2]; " +
                             body +
                             " return 0; }\n"
                             "int32_t kernel(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
                             "  void* p[3] = {a[0]->data, a[1]->data, a[2]->data}; return raw(c, p); }\n");
}

// A body that computes the right result.
constexpr char kRight[] =
    "for (int i = 0; i < 16; ++i) for (int j = 0; j < 96; ++j) { float s = 0;"
    " for (int k = 0; k < 64; ++k) s += x[i * 64 + k] * w[k * 96 + j]; y[i * 96 + j] = s; }";

// Builds as requested, but replaces the artifacts of chosen candidates.
class Swapping : public test::ForwardingBuilder {
 public:
  using ForwardingBuilder::ForwardingBuilder;
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    std::vector<BuildResult> results = ForwardingBuilder::Build(requests, on_result);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].kernel != "kernel" || results[i].status != TrialStatus::kOk) continue;
      auto swap = bodies.find(built_++);
      if (swap == bodies.end()) continue;
      std::string bytes = Impostor(swap->second.first);
      results[i].artifact.data = bytes;
      swapped[requests[i].trace] = swap->second.second;
    }
    return results;
  }

  std::map<int, std::pair<std::string, TrialStatus>> bodies;  // candidate's number -> its body and the expected status
  std::map<std::string, TrialStatus> swapped;                 // trace -> expected status

 private:
  int built_ = 0;
};

// Returns a body that opens a file for writing and then computes the right result, and its status: the sandbox ends it.
std::pair<std::string, TrialStatus> Escaping(const std::string& file) {
#if defined(__x86_64__)
  if (rpc::CanRestrictSystemCalls()) {
    return {"long r, n = 2; const char* p = \"" + file +
                "\"; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(p), \"S\"(0101), \"d\"(0600) : "
                "\"rcx\", \"r11\", \"memory\"); " +
                kRight,
            TrialStatus::kRunCrashed};
  }
#endif
  return {kRight, TrialStatus::kOk};
}

class Injection : public test::CliTest {};

TEST_F(Injection, BadCandidatesAreFailedTrialsAndNeverBest) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  auto farm = LocalFarm::Start({.server_arguments = {"--memory-limit", "0.25"}});
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  Swapping builder(**workers);
  std::string zero = "for (int i = 0; i < 16 * 96; ++i) y[i] = 0;";
  using enum TrialStatus;
  builder.bodies = {
      {1, {"(void)x;", kWrongAnswer}},                                // the fastest possible body
      {2, {zero, kWrongAnswer}},                                      // all results are 0
      {3, {std::string(kRight) + " y[95] *= 1.05f;", kWrongAnswer}},  // a relative error of 5 % in one element
      // Only the first three calls are right. This candidate is in the first batch, since slow candidates of later
      // batches are cut off after few calls.
      {4, {std::string("static volatile int n; if (n++ > 2) y[0] = 9; else ") + kRight, kWrongAnswer}},
      {0, {std::string("static volatile int n; if (n++ == 0) ") + kRight, kWrongAnswer}},  // works once
      {5, {"*(volatile int*)0 = 1;", kRunCrashed}},                                        // a null pointer
      {6, {"for (volatile int forever = 1; forever;);", kRunTimedOut}},                    // an endless loop
      {7, {kRight, kOk}},                                                                  // right, so it must pass
      {8,
       {"for (;;) if (!c->workspace_alloc(c, 1 << 24)) { c->set_error(c, \"out of memory\"); return 1; }",
        kOutOfMemory}},
      {9, Escaping(File("filler"))},
  };
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();

  std::vector<TuneTask> tasks = {MakeTask("dense", Dense(16, 96, 64))};
  Target target = Target::Parse("cpu").value();
  auto store = OpenStore(db_).value();
  TuneOptions options{.trials = 16, .batch = 8, .seed = 3, .search = SearchKind::kRandom, .run = "r", .confirm = false};
  options.measure = {.repeats = 2, .min_repeat_ms = 1};
  auto report = Tune(tasks, target, options, *store, **measurer);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_EQ(report->trials, 16);
  EXPECT_FALSE(std::filesystem::exists(File("filler")));
  ASSERT_EQ(builder.swapped.size(), 10u);

  RecordPage page = store->Scan({}, 0, 1000).value();
  std::set<std::string> judged;  // traces: a disturbed candidate has been measured again
  size_t good = 0;
  for (const Record& record : page.records) {
    auto swapped = builder.swapped.find(record.trace);
    if (swapped != builder.swapped.end()) {
      judged.insert(record.trace);
      EXPECT_EQ(record.status, swapped->second)
          << ToText(swapped->second) << ", not " << ToText(record.status) << ": " << record.error;
    }
    EXPECT_EQ(record.error.empty(), record.status == kOk) << record.error;
    EXPECT_EQ(IsRanked(record), record.status == kOk);
    good += record.status == kOk && swapped == builder.swapped.end();
  }
  EXPECT_EQ(judged.size(), 10u);
  EXPECT_GE(good, 1u);

  std::string task = tasks[0].hash.Hex();
  const std::vector<Record> top = store->Top(task, target.Text(), 100).value();
  for (const Record& record : top) {
    EXPECT_EQ(record.status, kOk);
    auto swapped = builder.swapped.find(record.trace);
    EXPECT_TRUE(swapped == builder.swapped.end() || swapped->second == kOk);
  }
  auto best = store->Best(task, target.Text()).value();
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->trace, report->tasks[0].best_trace);
  EXPECT_EQ(report->tasks[0].failures[kWrongAnswer], 5);
  EXPECT_EQ(report->tasks[0].failures[kRunCrashed], Escaping("").second == kRunCrashed ? 2 : 1);
  EXPECT_EQ(report->tasks[0].failures[kRunTimedOut], 1);
  EXPECT_EQ(report->tasks[0].failures[kOutOfMemory], 1);
}

}  // namespace
}  // namespace autotune
