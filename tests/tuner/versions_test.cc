// Notices that the search proposes other candidates, or that the code generator makes other code, under an old version
// number. The fingerprints of a few small tasks are in versions.txt, beside the version that made them. The task
// scheduler has no fingerprint.
//   AUTOTUNE_UPDATE_GOLDENS=1 build/tests/test_tuner --gtest_filter='Versions.*'   after raising a version
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "codegen/codegen.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "support/hash.h"
#include "tests/read.h"
#include "tests/tuner/programs.h"
#include "tuner/defaults.h"
#include "tuner/search.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::TestTarget;

const char* const kGolden = AUTOTUNE_SOURCE_DIR "/tests/tuner/versions.txt";

struct Fingerprint {
  int version = 0;
  std::string hash;
};

// Returns what to do about a fingerprint; "" if it is that of the golden file.
std::string Complaint(const std::string& what, const Fingerprint& golden, const Fingerprint& now) {
  if (now.version < golden.version) return what + ": the version has become smaller";
  if (now.version == golden.version && now.hash != golden.hash) return what + " has changed: raise its version";
  if (now.version > golden.version) return what + " has a new version: run this test with AUTOTUNE_UPDATE_GOLDENS=1";
  return "";
}

std::vector<TaskSpace> Spaces(const std::vector<TuneTask>& tasks) {
  std::vector<TaskSpace> spaces;
  for (const TuneTask& task : tasks) spaces.push_back(TaskSpace::Make(task, TestTarget()).value());
  return spaces;
}

std::vector<TuneTask> GoldenTasks() {
  return {test::MakeTask("conv", test::ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}})),
          test::MakeTask("skip_padding", test::ConvBiasRelu(5, 5, 16, 16, 3, {.pad = {1, 1, 1, 1}}, "skip_padding")),
          test::MakeTask("depthwise", test::ConvBiasRelu(9, 9, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16})),
          test::MakeTask("dense", test::Dense(4, 96, 64))};
}

// The default candidates and four rounds of proposals, whose times are made up from their traces.
std::string ProposalsOf(const TaskSpace& space) {
  std::string text;
  for (const Proposal& proposal : DefaultCandidates(space)) text += ToText(proposal.trace) + "\n";
  std::unique_ptr<SearchStrategy> search = MakeEvolutionarySearch(space, nullptr, 1);
  for (int round = 0; round < 4; ++round) {
    for (const Proposal& proposal : search->Propose(8).value()) {
      text += ToText(proposal.trace) + "\n";
      search->Observe(proposal, 1e-6 * static_cast<double>(1 + HashBytes128(ToText(proposal.trace)).Hex()[0]));
    }
  }
  return text;
}

// The assembly of the first default candidate.
std::string CodeOf(const TaskSpace& space) {
  const Proposal proposal = DefaultCandidates(space).front();
  const PrimFunc& func = space.FuncOf(space.sketches[static_cast<size_t>(proposal.sketch)]);
  const Schedule schedule = Replay(func, proposal.trace).value();
  const LoweredKernel kernel = Lower(schedule.func(), space.target).value();
  return CompileKernel(kernel, space.target, {.keep_assembly = true}).value().assembly;
}

std::map<std::string, Fingerprint> Now() {
  const std::vector<TuneTask> tasks = GoldenTasks();
  std::string proposals, code;
  for (const TaskSpace& space : Spaces(tasks)) {
    proposals += ProposalsOf(space);
    code += CodeOf(space);
  }
  EXPECT_GT(code.size(), 1000u);
  return {{"kSearchVersion (tuner/search.h)", {kSearchVersion, HashBytes128(proposals).Hex()}},
          {"kCodeGeneratorVersion (tuner/tune.h)", {kCodeGeneratorVersion, HashBytes128(code).Hex()}}};
}

// Each line of the file is "VERSION HASH NAME".
std::map<std::string, Fingerprint> ReadGolden(const std::string& text) {
  std::map<std::string, Fingerprint> golden;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Fingerprint print;
    std::string name;
    words >> print.version >> print.hash >> std::ws;
    std::getline(words, name);
    golden[name] = print;
  }
  return golden;
}

TEST(Versions, AreRaisedWithWhatTheyStandFor) {
  std::map<std::string, Fingerprint> golden = ReadGolden(test::ReadAll(kGolden)), now = Now();
  ASSERT_EQ(golden.size(), now.size());
  const bool update = std::getenv("AUTOTUNE_UPDATE_GOLDENS") != nullptr;
  for (auto& [what, print] : golden) {
    ASSERT_TRUE(now.contains(what)) << what;
    if (update && now[what].version > print.version) print = now[what];
    EXPECT_EQ(Complaint(what, print, now[what]), "") << "docs/adding.md, \"Versions\", says when and how";
  }
  if (!update) return;
  std::ofstream file(kGolden);
  for (const auto& [what, print] : golden) file << print.version << " " << print.hash << " " << what << "\n";
}

TEST(Versions, AChangeWithoutANewVersionIsNoticed) {
  EXPECT_EQ(Complaint("x", {3, "a"}, {3, "a"}), "");
  EXPECT_EQ(Complaint("x", {3, "a"}, {3, "b"}), "x has changed: raise its version");
  EXPECT_EQ(Complaint("x", {3, "a"}, {2, "a"}), "x: the version has become smaller");
  EXPECT_NE(Complaint("x", {3, "a"}, {4, "b"}), "");
}

}  // namespace
}  // namespace autotune
