// ONNX's own test cases, where Debian's libonnx-testdata is installed, through `autotune verify`: imported, compiled
// with default schedules, run, and compared with the expected outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>

#include "support/subprocess.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kCases = "/usr/share/libonnx-testdata/data";

struct Outcome {
  int exit_code = -1;
  int passed = -1, failed = -1, unsupported = -1;  // of the closing line
  std::string failures;                            // the lines of cases that failed
  std::string notes;
  std::string last_line;
};

// Runs `autotune verify` on a folder of cases; records play no part.
Outcome Verify(const fs::path& folder) {
  auto [out, in] = std::move(MakePipe()).value();
  auto autotune = std::move(Subprocess::Spawn({.argv = {AUTOTUNE_BINARY_DIR "/tools/autotune", "verify", "--db",
                                                        ":memory:", "--data", folder},
                                               .fds = {{1, in.get()}, {2, in.get()}}}))
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

// `at_least` is what passed when it was last raised: an operator that is lost shows here, for it would only move from
// passed to unsupported.
void ExpectConformance(const std::string& folder, int at_least) {
  if (!fs::exists(fs::path(kCases) / folder)) GTEST_SKIP() << "libonnx-testdata is not installed";
  Outcome outcome = Verify(fs::path(kCases) / folder);
  EXPECT_EQ(outcome.failed, 0) << outcome.failures << outcome.last_line;
  EXPECT_GE(outcome.passed, at_least) << outcome.last_line;
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.notes, Not(HasSubstr("without a schedule")));
}

TEST(Conformance, NodeCases) { ExpectConformance("node", 712); }
TEST(Conformance, SimpleModels) { ExpectConformance("simple", 7); }
TEST(Conformance, OperatorsOfPyTorch) { ExpectConformance("pytorch-operator", 35); }
TEST(Conformance, ConvertedFromPyTorch) { ExpectConformance("pytorch-converted", 69); }

TEST(Conformance, AWrongOutputIsNoticed) {
  fs::path relu = fs::path(kCases) / "node" / "test_relu";
  if (!fs::exists(relu)) GTEST_SKIP() << "libonnx-testdata is not installed";
  fs::path folder = fs::path(testing::TempDir()) / ("conformance_" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::copy(relu, folder / "right", fs::copy_options::recursive);
  fs::copy(relu, folder / "wrong", fs::copy_options::recursive);
  fs::path data = folder / "wrong" / "test_data_set_0";
  fs::copy_file(data / "input_0.pb", data / "output_0.pb",
                fs::copy_options::overwrite_existing);  // has negative values
  Outcome outcome = Verify(folder);
  fs::remove_all(folder);
  EXPECT_EQ(outcome.last_line, "1 passed, 1 failed, 0 unsupported");
  EXPECT_THAT(outcome.failures, HasSubstr("FAILED wrong: "));
  EXPECT_EQ(outcome.exit_code, 3);
}

TEST(Conformance, AnUnsupportedTypeIsNoFailure) {
  fs::path folder = fs::path(kCases) / "node" / "test_max_float16";
  if (!fs::exists(folder)) GTEST_SKIP() << "libonnx-testdata is not installed";
  Outcome outcome = Verify(folder);
  EXPECT_EQ(outcome.last_line, "0 passed, 0 failed, 1 unsupported");
  EXPECT_EQ(outcome.exit_code, 0);
}

}  // namespace
}  // namespace autotune
