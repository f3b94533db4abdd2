// `autotune run` and `autotune bench`: the packages that they refuse, and the times that they report.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "support/cpus.h"
#include "support/rng.h"
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
    CliResult compiled = Run({"compile", "--model", SmallModel(), "--no-records", "--target", target, "-o", package});
    EXPECT_EQ(compiled.code, 0) << compiled.Text();
    return package;
  }
  // Expects that both commands refuse the package in one line, before any of its code runs.
  void ExpectRefused(const std::string& package, const std::vector<std::string>& words) {
    for (const char* command : {"run", "bench"}) {
      CliResult refused = Run({command, package});
      EXPECT_EQ(refused.code, 1) << refused.Text();
      EXPECT_THAT(Lines(refused.err),
                  ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
          << refused.Text();
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

// Flips bytes of a package and gives it to the commands. Each refuses it in one line, or does what it does with the
// whole package. AUTOTUNE_FLIPS is the number of flips, AUTOTUNE_FUZZ_SEED their seed.
class FlippedPackage : public CliTest {
 protected:
  static int NumberFrom(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : otherwise;
  }
  CliResult Outputs(const std::string& package, std::string& probabilities) {
    CliResult run = Run({"run", package, "--output-dir", folder_, "--threads", "1"});
    probabilities = ReadAll(File("probabilities.npy"));
    std::filesystem::remove(File("probabilities.npy"));
    return run;
  }
  // Returns true if the command accepts the package. Fails unless it does so or refuses it in one line.
  bool Accepts(const CliResult& result, const std::string& flip) {
    if (result.code == 0) return true;
    EXPECT_EQ(result.code, 1) << flip << result.Text();
    EXPECT_THAT(Lines(result.err),
                ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
        << flip << result.Text();
    EXPECT_THAT(result.err, HasSubstr("flipped")) << flip << "the line names the file";
    EXPECT_EQ(result.out, "") << flip;
    return false;
  }
  void FlipBytesOf(const std::string& name) {
    ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--schedules", "default", "-o", File(name)}).code, 0);
    const std::string whole = ReadAll(File(name)), inspected = Run({"inspect", File(name)}).out;
    std::string expected, probabilities;
    ASSERT_EQ(Outputs(File(name), expected).code, 0);
    ASSERT_NE(expected, "");
    Rng rng(static_cast<uint64_t>(NumberFrom("AUTOTUNE_FUZZ_SEED", 1)));
    int refused = 0;
    for (int i = 0, n = NumberFrom("AUTOTUNE_FLIPS", 16); i < n; ++i) {
      std::string bytes = whole;
      const size_t at = rng.Below(bytes.size()), mask = 1 + rng.Below(255);
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(mask));
      const std::string flipped = Write("flipped-" + name, bytes);
      const std::string flip = name + ": byte " + std::to_string(at) + " ^ " + std::to_string(mask) + "\n";
      const bool runs = Accepts(Outputs(flipped, probabilities), flip);
      EXPECT_EQ(probabilities, runs ? expected : "") << flip;
      const CliResult inspect = Run({"inspect", flipped});
      EXPECT_EQ(inspect.out, Accepts(inspect, flip) ? inspected : "") << flip;
      const bool measured =
          Accepts(Run({"bench", flipped, "--seconds", "0.01", "--wait", "0", "--threads", "1"}), flip);
      EXPECT_EQ(measured, runs) << flip;
      refused += !runs;
    }
    EXPECT_GT(refused, 0) << "most bytes of the package are sealed";
  }
};

TEST_F(FlippedPackage, OfATarIsRefusedOrRunsTheSame) { FlipBytesOf("net.tar"); }

TEST_F(FlippedPackage, OfASharedObjectIsRefusedOrRunsTheSame) { FlipBytesOf("net.so"); }

TEST_F(RunPackage, TwoBuildsOfOneDateAreEqual) {
  for (const std::string name : {"net.tar", "net.so"}) {
    auto build = [&](const std::string& date) {
      setenv("SOURCE_DATE_EPOCH", date.c_str(), 1);
      const CliResult compiled =
          Run({"compile", "--model", SmallModel(), "--schedules", "default", "-o", File(date + name)});
      unsetenv("SOURCE_DATE_EPOCH");
      EXPECT_EQ(compiled.code, 0) << compiled.Text();
      std::string bytes = ReadAll(File(date + name));
      std::filesystem::remove(File(date + name));
      return bytes;
    };
    const std::string first = build("1700000000");
    EXPECT_FALSE(first.empty());
    EXPECT_TRUE(first == build("1700000000")) << name;
    EXPECT_EQ(first == build("1800000000"), name.ends_with(".so")) << name << ": only a tar states the date";
  }
  setenv("SOURCE_DATE_EPOCH", "yesterday", 1);
  const CliResult refused = Run({"compile", "--model", SmallModel(), "--schedules", "default", "-o", File("net.tar")});
  unsetenv("SOURCE_DATE_EPOCH");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("SOURCE_DATE_EPOCH must be a number"));
  EXPECT_FALSE(std::filesystem::exists(File("net.tar")));
}

TEST_F(RunPackage, TellsTheFirstRunApart) {
  std::string package = Compile("cpu");
  CliResult once = Run({"run", package});
  EXPECT_EQ(once.code, 0) << once.Text();
  EXPECT_THAT(once.out, AllOf(HasSubstr("first run: "), HasSubstr("cold caches\nfor the latency: autotune bench")));
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
