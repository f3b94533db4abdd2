// A compiler with a bug: after lowering, some candidates are changed into programs that compute something else. Each is
// one wrong answer (or a crash), none is ever best, and the books agree with the database.
#include <gtest/gtest.h>

#include <regex>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "records/memory_store.h"
#include "schedule/replay.h"
#include "tests/tools/cli.h"
#include "tests/tuner/programs.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;

enum class Bug { kNone, kStartsAtOne, kLosesLastIteration, kLosesAnUpdate };

// A wrong pass. Works on the text, which is the program.
std::optional<PrimFunc> Miscompiled(const PrimFunc& func, Bug bug) {
  std::string text = ToText(func), before = text;
  std::smatch match;
  switch (bug) {
    case Bug::kNone:
      break;
    case Bug::kStartsAtOne:  // accumulators
      text = std::regex_replace(text, std::regex(R"(= broadcast\(0\.0)"), "= broadcast(1.0");
      text = std::regex_replace(text, std::regex(R"(= 0\.0\n)"), "= 1.0\n");
      break;
    case Bug::kLosesLastIteration:  // of the outermost loop
      if (std::regex_search(text, match, std::regex(R"(for \w+ in (\d+))")) && match[1].str() != "1") {
        text.replace(static_cast<size_t>(match.position(1)), match[1].str().size(),
                     std::to_string(std::stoi(match[1].str()) - 1));
      }
      break;
    case Bug::kLosesAnUpdate:  // a[i] = fma(..., a[i]) becomes a[i] = a[i]
      text = std::regex_replace(text, std::regex(R"((\n *)(\S[^\n]*) = fma\([^\n]*)"), "$1$2 = $2",
                                std::regex_constants::format_first_only);
      break;
  }
  if (text == before) return std::nullopt;
  Result<PrimFunc> changed = ParsePrimFunc(text);
  EXPECT_TRUE(changed.ok()) << changed.error().Text() << "\n" << text;
  return changed.ok() ? std::optional<PrimFunc>(*changed) : std::nullopt;
}

// Builds in this process; every second candidate with a bug.
class BuggyBuilder : public Builder {
 public:
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    std::vector<BuildResult> results;
    for (const BuildRequest& request : requests) {
      Bug bug = Bug::kNone;
      if (++candidates_ % 2 == 0) bug = static_cast<Bug>(1 + candidates_ / 2 % 3);
      Result<Json::Bytes> bytes = BuildOne(request, bug);
      results.push_back({.id = request.id});
      if (bytes.ok()) {
        results.back().artifact = std::move(*bytes);
        if (bug != Bug::kNone && applied_) ++bugs[bug], buggy.insert(request.trace);
      } else {
        results.back().status = TrialStatus::kRejected;
        results.back().text = bytes.error().Text();
      }
      if (on_result) on_result(results.back());
    }
    return results;
  }
  // The reference, which is right.
  Result<BuiltLibrary> BuildLibrary(const std::vector<BuildRequest>& requests) override {
    if (requests.size() != 1) return Err("one kernel to a library here");
    BuiltLibrary library;
    library.artifact = TRY(BuildOne(requests[0], Bug::kNone));
    return library;
  }

  std::map<Bug, int> bugs;      // how many candidates have it
  std::set<std::string> buggy;  // traces

 private:
  Result<Json::Bytes> BuildOne(const BuildRequest& request, Bug bug) {
    Target target = TRY(Target::Parse(request.target));
    PrimFunc func = TRY(ParsePrimFunc(request.func));
    func.name = request.kernel;
    if (!request.trace.empty()) func = TRY(Replay(func, TRY(ParseTrace(request.trace)))).func();
    PassContext context;
    LoweredKernel lowered = TRY(Lower(func, target, context));
    std::optional<PrimFunc> changed = Miscompiled(lowered.run, bug);
    applied_ = changed.has_value();
    if (changed) lowered.run = std::move(*changed);
    KernelObject object = TRY(CompileKernel(lowered, target, {.keep_spills = true}));
    if (!object.rejected.empty()) return Err(object.rejected);
    return LinkKernels({&object}, target);
  }
  int candidates_ = 0;
  bool applied_ = false;
};

class Miscompiles : public test::CliTest {};

TEST_F(Miscompiles, AreWrongAnswersAndNeverBest) {
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  BuggyBuilder builder;
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();
  std::vector<TuneTask> tasks = {MakeTask("dense", Dense(48, 96, 64))};
  Target target = Target::Parse("cpu").value();
  auto store = NewMemoryStore();
  TuneOptions options{.trials = 40, .seed = 5, .search = SearchKind::kRandom, .run = "r", .confirm = false};
  options.measure = {.repeats = 2, .min_repeat_ms = 1};
  auto report = Tune(tasks, target, options, *store, **measurer);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  for (Bug bug : {Bug::kStartsAtOne, Bug::kLosesLastIteration, Bug::kLosesAnUpdate})
    EXPECT_GE(builder.bugs[bug], 2) << "kind " << static_cast<int>(bug);

  std::map<TrialStatus, int> failures;
  int trials = 0, right = 0;
  RecordPage page = store->Scan({}, 0, 1000).value();
  for (const Record& record : page.records) {
    trials += WasExecuted(record.status);
    if (record.status != TrialStatus::kOk) ++failures[record.status];
    if (builder.buggy.count(record.trace)) {
      EXPECT_TRUE(record.status == TrialStatus::kWrongAnswer || record.status == TrialStatus::kRunCrashed)
          << ToText(record.status) << " for\n"
          << record.trace;
    } else {  // the negative twin: without the bug all is right
      EXPECT_TRUE(record.status == TrialStatus::kOk || record.status == TrialStatus::kRejected) << record.error;
      right += record.status == TrialStatus::kOk;
    }
    EXPECT_EQ(IsRanked(record), record.status == TrialStatus::kOk);
  }
  EXPECT_GE(right, 10);
  const std::vector<Record> top = store->Top(tasks[0].hash.Hex(), target.Text(), 1000).value();
  for (const Record& record : top) EXPECT_FALSE(builder.buggy.count(record.trace)) << record.trace;
  EXPECT_FALSE(builder.buggy.count(report->tasks[0].best_trace));

  // What the report says is what the database has.
  EXPECT_EQ(report->trials, trials);
  EXPECT_EQ(report->records, static_cast<int>(page.records.size()));
  EXPECT_EQ(report->tasks[0].trials, trials);
  EXPECT_EQ(report->tasks[0].failures, failures);
}

}  // namespace
}  // namespace autotune
