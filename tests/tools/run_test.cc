// `autotune run` and `autotune bench`: the packages that they refuse, and the times that they report.
#include <gmock/gmock.h>

#include "support/cpus.h"
#include "tests/tools/cli.h"

namespace autotune::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class RunPackage : public CliTest {
 protected:
  std::string Compile(const std::string& target) {
    std::string package = File("net.tar");
    CliResult compiled = Run({"compile", "--model", kExample, "--no-records", "--target", target, "-o", package});
    EXPECT_EQ(compiled.code, 0) << compiled.Text();
    return package;
  }
  // Expects that both commands refuse the package in one line, before any of its code runs.
  void ExpectRefused(const std::string& package, const std::vector<std::string>& words) {
    for (const char* command : {"run", "bench"}) {
      CliResult refused = Run({command, package});
      EXPECT_EQ(refused.code, 1) << refused.Text();
      EXPECT_THAT(Lines(refused.err), SizeIs(1)) << refused.Text();
      EXPECT_EQ(refused.out, "");
      for (const std::string& word : words) EXPECT_THAT(refused.err, HasSubstr(word));
    }
  }
};

TEST_F(RunPackage, RefusesOneThatNeedsOtherInstructions) {
  // No current CPU has FMA4 and XOP: AMD dropped them with Zen.
  std::string package = Compile("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=+fma4,+xop -num-cores=1");
  ExpectRefused(package, {package, "fma4", "which this CPU lacks", "for this machine: --target cpu"});
  ExpectRefused(Compile("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=1"), {"AArch64", "x86-64"});
}

TEST_F(RunPackage, TellsTheFirstRunApart) {
  std::string package = Compile("cpu");
  CliResult once = Run({"run", package});
  EXPECT_EQ(once.code, 0) << once.Text();
  EXPECT_THAT(once.out, AllOf(HasSubstr("first run: "), HasSubstr("cold caches; for the latency: autotune bench")));
  EXPECT_THAT(once.out, Not(HasSubstr("median")));
  CliResult often = Run({"run", package, "--repeat", "4"});
  EXPECT_THAT(often.out, AllOf(HasSubstr("first run: "), HasSubstr("; 3 more: min ")));
}

TEST_F(RunPackage, BenchReportsTheNumberOfThreads) {
  const std::string package = Compile("cpu");
  for (const auto& [threads, reported] : {std::pair<std::string, int64_t>{"0", AvailableCpus()}, {"1", 1}, {"3", 3}}) {
    CliResult bench = Run({"bench", package, "--threads", threads, "--seconds", "0.02", "--wait", "0", "--json"});
    ASSERT_EQ(bench.code, 0) << bench.Text();
    EXPECT_EQ(*Json::Parse(bench.out).value()["threads"].As<int64_t>(), reported) << bench.out;
  }
}

TEST_F(RunPackage, ProfileLeadsFromKernelsToTasks) {
  std::string package = Compile("cpu");
  CliResult profile = Run({"bench", package, "--profile", "--json", "--seconds", "0.1", "--threads", "1"});
  ASSERT_EQ(profile.code, 0) << profile.Text();
  ASSERT_THAT(Lines(profile.out), SizeIs(2)) << "one line for the latency, one for the kernels";
  Json line = Json::Parse(Lines(profile.out)[1]).value();
  const Json::Array* kernels = line["kernels"].As<Json::Array>();
  ASSERT_TRUE(kernels);
  std::set<std::string> tasks;
  double sum = 0;
  for (const Json& kernel : *kernels) {
    tasks.insert(*kernel["task"].As<std::string>());
    sum += *kernel["median_us"].As<double>();
    EXPECT_GT(*kernel["roof_us"].As<double>(), 0);
    EXPECT_GT(*kernel["bytes"].As<double>(), 0);
    EXPECT_FALSE(kernel["label"].As<std::string>()->empty());
  }
  EXPECT_EQ(tasks.count(""), 0u);
  EXPECT_GT(kernels->size(), tasks.size()) << "several layers must share a task";
  EXPECT_NEAR(*line["kernels_ms"].As<double>() * 1e3, sum, 1e-3 * sum);
  EXPECT_NEAR(*line["network_ms"].As<double>(), *Json::Parse(Lines(profile.out)[0]).value()["median_ms"].As<double>(),
              1e-9)
      << "both outputs must have the same latency";
  EXPECT_EQ(*line["agree"].As<bool>(), line["explanation"].As<std::string>()->starts_with("they agree"));

  CliResult table = Run({"bench", package, "--profile", "--seconds", "0.1"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("% roof"), HasSubstr(*tasks.begin()), HasSubstr("all kernels; the network")));
}

}  // namespace
}  // namespace autotune::test
