// Runs ONNX's own test cases (Debian's libonnx-testdata, if installed) through `autotune verify`: import, compilation
// with default schedules, a run, and a comparison with the expected outputs. Every refused case must have a reason that
// is listed here.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/opencl/device.h"
#include "support/subprocess.h"
#include "tests/draws.h"
#include "tests/read.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kCases = "/usr/share/libonnx-testdata/data";

struct Outcome {
  int exit_code = -1;
  int passed = -1, failed = -1, unsupported = -1;  // the counts of the closing line
  std::string failures;                            // the lines of cases that failed
  std::string notes;
  std::string unplaced;               // log lines about tasks without a complete sketch
  std::vector<std::string> refusals;  // the lines of cases that are unsupported
  std::string totals;                 // the lines that count a folder's cases
  std::string last_line;
};

// Runs `autotune verify` on folders of cases, with an empty database.
Outcome Verify(const std::vector<fs::path>& folders, const std::string& target = "cpu") {
  auto [out, in] = std::move(MakePipe()).value();
  std::vector<std::string> command = {
      AUTOTUNE_BINARY_DIR "/tools/autotune", "verify", "--db", ":memory:", "--target", target, "--data"};
  command.insert(command.end(), folders.begin(), folders.end());
  auto autotune = std::move(Subprocess::Spawn({.argv = std::move(command),
                                               .fds = {{1, in.get()}, {2, in.get()}},
                                               .environment = {"AUTOTUNE_LOG=debug"}}))
                      .value();
  in.Reset();
  Outcome outcome;
  std::string output;
  char buffer[4096];
  for (ssize_t n; (n = read(out.get(), buffer, sizeof buffer)) > 0;) output.append(buffer, static_cast<size_t>(n));
  if (auto status = autotune.Wait(10000); status && status->signal == 0) outcome.exit_code = status->code;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("FAILED")) outcome.failures += line + "\n";
    if (line.starts_with("note: ")) outcome.notes += line + "\n";
    if (line.find("no rule places") != std::string::npos) outcome.unplaced += line + "\n";
    if (line.starts_with("unsupported ")) outcome.refusals.push_back(line);
    if (line.starts_with("/") && line.ends_with(" unsupported")) outcome.totals += line + "\n";
    outcome.last_line = line;
  }
  std::smatch counts;
  static const std::regex kClosing(R"((\d+) passed, (\d+) failed, (\d+) unsupported)");
  if (std::regex_match(outcome.last_line, counts, kClosing)) {
    outcome.passed = std::stoi(counts[1]);
    outcome.failed = std::stoi(counts[2]);
    outcome.unsupported = std::stoi(counts[3]);
  }
  return outcome;
}

std::string OperatorsPage() { return test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/operators.md"); }

// Patterns of messages: the only ones by which a case may be refused although the importer supports its operators. The
// comments give the reasons. docs/operators.md counts the refused cases by reason.
constexpr const char* kOtherInputs =  // input types that the language does not have
    R"(: input '.*' is (string|int2|no tensor); floats of 16, 32 and 64 bits, integers and bools are supported)";
constexpr const char* kOtherCasts =  // types of a Cast's result that the language does not have
    R"(: Cast \(node .*\): element type (string|float8[a-z0-9]*) is not supported)";
constexpr const char* kOtherData =  // damaged files, and inputs of another shape than the model's
    R"((has \d+ bytes where|of the case is .*, but the model expects another type))";
constexpr const char* kModOfDoubles =  // the quotients and products would need more bits than f64 has
    R"(: Mod \(node .*\): is supported on f32 and integers, not on f64)";
constexpr const char* kRandom =  // the outputs of a package depend on its inputs only
    R"(: Dropout \(node .*\): drops elements at random in training mode unless its ratio is a constant 0)";

constexpr const char* kDataDependent =  // all shapes must be known before a network runs
    R"(: (NonZero|Unique) \(node .*\): has a result whose shape depends on values that are computed at run time)";

constexpr const char* kBoxes =  // the number of boxes must be known before a network runs, too
    R"(: NonMaxSuppression \(node .*\): selects a number of boxes that is known only at run time)";

// Checks that each refused case needs an operator that the importer lacks, or is refused for one of `reasons`, and that
// each of these reasons occurs.
void ExpectReasons(const Outcome& outcome, const std::vector<const char*>& reasons) {
  EXPECT_EQ(static_cast<int>(outcome.refusals.size()), outcome.unsupported) << outcome.last_line;
  static const std::regex kUnknown(R"((?:imported: |; )(?:[a-z.]+\.)?([A-Za-z0-9]+) \(node [^)]*\) is not supported)");
  const std::string page = OperatorsPage();
  std::vector<bool> met(reasons.size());
  for (const std::string& line : outcome.refusals) {
    std::smatch unknown;
    bool explained = std::regex_search(line, unknown, kUnknown);
    if (explained) {
      EXPECT_THAT(page, Not(HasSubstr("`" + unknown[1].str() + "`")))
          << "docs/operators.md lists this operator as supported, but\n"
          << line;
    }
    for (size_t i = 0; i < reasons.size(); ++i) {
      if (!std::regex_search(line, std::regex(reasons[i]))) continue;
      explained = met[i] = true;
    }
    EXPECT_TRUE(explained) << line;
  }
  for (size_t i = 0; i < reasons.size(); ++i) EXPECT_TRUE(met[i]) << "no case is refused for " << reasons[i];
}

// Checks the numbers of passed and refused cases against docs/operators.md. A lost operator moves cases from passed to
// unsupported, so it shows here; a new operator needs its row on the page. `least`: the number of cases that passed
// in an earlier version, which may only grow.
void ExpectConformance(const std::string& folder, int least, const std::vector<const char*>& reasons,
                       const std::string& target = "cpu") {
  if (!fs::exists(fs::path(kCases) / folder)) GTEST_SKIP() << "libonnx-testdata is not installed";
  Outcome outcome = Verify({fs::path(kCases) / folder}, target);
  EXPECT_EQ(outcome.failed, 0) << outcome.failures << outcome.last_line;
  const std::string page = OperatorsPage();
  std::smatch row;
  ASSERT_TRUE(std::regex_search(page, row, std::regex(R"(\| `)" + folder + R"(` \| (\d+) \| (\d+)\b)")));
  EXPECT_EQ(outcome.passed, std::stoi(row[1])) << outcome.last_line;
  EXPECT_EQ(outcome.unsupported, std::stoi(row[2])) << outcome.last_line;
  EXPECT_GE(outcome.passed, least);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.notes, Not(HasSubstr("without a schedule")));
  EXPECT_EQ(outcome.unplaced, "");  // every operator has a sketch
  ExpectReasons(outcome, reasons);
}

TEST(Conformance, NodeCases) {
  ExpectConformance("node", 861,
                    {kOtherInputs, kOtherCasts, kRandom, kModOfDoubles, kDataDependent, kBoxes, kOtherData});
}
TEST(Conformance, SimpleModels) { ExpectConformance("simple", 7, {kOtherInputs}); }
TEST(Conformance, OperatorsOfPyTorch) { ExpectConformance("pytorch-operator", 35, {}); }

// Cases of operator sets 18 to 28, which Debian's package does not have. AUTOTUNE_NEWER_CASES names their folder. Some
// need operators that are not supported. Models that can be imported must give the right outputs.
TEST(Conformance, NewerNodeCases) {
  constexpr int kLeast = 311;  // of 341 cases; the number that passed in an earlier version
  const char* folder = std::getenv("AUTOTUNE_NEWER_CASES");
  const fs::path cases = folder ? fs::path(folder) : fs::path(AUTOTUNE_SOURCE_DIR) / "../shared/onnx-newer";
  if (!fs::exists(cases)) GTEST_SKIP() << "no newer cases: set AUTOTUNE_NEWER_CASES to their folder";
  Outcome outcome = Verify({cases});
  EXPECT_EQ(outcome.failed, 0) << outcome.failures << outcome.last_line;
  EXPECT_GE(outcome.passed, kLeast);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.unplaced, "");
  ExpectReasons(outcome, {kOtherInputs, kOtherCasts, kRandom, kOtherData});
}

// A sample, since all cases take ten minutes. All have passed as C, with and without vector types (docs/operators.md).
TEST(Conformance, SomeAsC) {
  ExpectConformance("simple", 7, {kOtherInputs}, "c");
  size_t number = 0;
  for (const char* target : {"c", "c -vectors=none"}) {
    if (test::IsDrawn(number++, 2)) ExpectConformance("pytorch-operator", 35, {}, target);
  }
}
// A sample of the cases on an OpenCL device, which AUTOTUNE_SCHEDULE_SEED draws; scripts/verify_gpu.sh runs all.
TEST(Conformance, SomeOnAnOpenClDevice) {
  constexpr size_t kEach = 54;  // one of these; some 17 in all, since PoCL's compiler needs most of a second for each
  if (auto devices = OpenClDevices(); !devices.ok()) GTEST_SKIP() << devices.error().Text();
  const fs::path node = fs::path(kCases) / "node";
  if (!fs::exists(node)) GTEST_SKIP() << "libonnx-testdata is not installed";
  std::vector<fs::path> all, some;
  for (const fs::directory_entry& entry : fs::directory_iterator(node)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  for (size_t i = test::DrawSeed() % kEach; i < all.size(); i += kEach) some.push_back(all[i]);
  const std::string cache = testing::TempDir() + "pocl_" + std::to_string(getpid());
  setenv("POCL_CACHE_DIR", cache.c_str(), 1);  // a fresh cache: no programs of other processes, and none left behind
  const Outcome there = Verify(some, "opencl"), here = Verify(some);
  fs::remove_all(cache);
  EXPECT_EQ(there.failed, 0) << there.failures << there.last_line;
  EXPECT_EQ(there.passed, here.passed) << there.last_line << " instead of " << here.last_line;
  EXPECT_GT(there.passed, 8);
}
TEST(Conformance, ConvertedFromPyTorch) { ExpectConformance("pytorch-converted", 82, {}); }

// Tests the check of reasons itself.
TEST(Conformance, AnUnexplainedRefusalIsNoticed) {
  auto check = [](const std::string& text, const std::vector<const char*>& reasons) {
    ExpectReasons({.unsupported = 1, .refusals = {"unsupported test_x: a/model.onnx cannot be imported: " + text}},
                  reasons);
  };
  const std::string mod = "Mod (node #0): is supported on f32 and integers, not on f64[4]";
  check("NoSuchOperator (node 'n') is not supported", {});
  check("Relu (node #0): is odd; ai.training.NoSuchOperator (node #1) is not supported", {});
  check(mod, {kModOfDoubles});
  EXPECT_NONFATAL_FAILURE(check("Relu (node #0): is odd", {}), "Relu (node #0): is odd");
  EXPECT_NONFATAL_FAILURE(check("Relu (node #0) is not supported", {}), "lists this operator as supported");
  EXPECT_NONFATAL_FAILURE(check(mod, {}), "not on f64");
  EXPECT_NONFATAL_FAILURE(check("NoSuchOperator (node #0) is not supported", {kModOfDoubles}),
                          "no case is refused for");
}

TEST(Conformance, AWrongOutputIsNoticed) {
  fs::path relu = fs::path(kCases) / "node" / "test_relu";
  if (!fs::exists(relu)) GTEST_SKIP() << "libonnx-testdata is not installed";
  fs::path folder = fs::path(testing::TempDir()) / ("conformance_" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::copy(relu, folder / "right", fs::copy_options::recursive);
  fs::copy(relu, folder / "wrong", fs::copy_options::recursive);
  fs::path data = folder / "wrong" / "test_data_set_0";
  // The input has negative values, so it is a wrong output of relu.
  fs::copy_file(data / "input_0.pb", data / "output_0.pb", fs::copy_options::overwrite_existing);
  Outcome outcome = Verify({folder});
  Outcome apart = Verify({folder / "right", folder / "wrong"});
  fs::remove_all(folder);
  EXPECT_EQ(outcome.last_line, "1 passed, 1 failed, 0 unsupported");
  EXPECT_THAT(outcome.failures, HasSubstr("FAILED wrong: "));
  EXPECT_EQ(outcome.exit_code, 3);
  // Cases are counted for each folder and in total.
  EXPECT_EQ(apart.last_line, "1 passed, 1 failed, 0 unsupported");
  EXPECT_EQ(apart.totals, (folder / "right").string() + ": 1 passed, 0 failed, 0 unsupported\n" +
                              (folder / "wrong").string() + ": 0 passed, 1 failed, 0 unsupported\n");
  EXPECT_EQ(apart.exit_code, 3);
}

TEST(Conformance, AnUnsupportedTypeIsNoFailure) {
  fs::path folder = fs::path(kCases) / "node" / "test_cast_STRING_to_FLOAT";
  if (!fs::exists(folder)) GTEST_SKIP() << "libonnx-testdata is not installed";
  Outcome outcome = Verify({folder});
  EXPECT_EQ(outcome.last_line, "0 passed, 0 failed, 1 unsupported");
  EXPECT_EQ(outcome.exit_code, 0);
}

}  // namespace
}  // namespace autotune
