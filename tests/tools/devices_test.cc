// The commands `autotune devices` and `autotune doctor`.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fcntl.h>
#include <map>
#include <regex>
#include <sstream>

#include "support/host_lock.h"
#include "target/machine.h"
#include "tests/tools/cli.h"
#include "tools/autotune/probe.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using test::Soon;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Devices : public test::CliTest {
 protected:
  void SetUp() override {
    test::CliTest::SetUp();
    setenv("POCL_CACHE_DIR", File("pocl").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("AUTOTUNE_LIBCUDA");
    unsetenv("FAKE_CUDA");
    test::CliTest::TearDown();
  }
  // Uses the fake driver of tests/runtime/fake_cuda/ with the settings `words`.
  static void InstallCuda(const std::string& words) {
    setenv("AUTOTUNE_LIBCUDA", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libcuda.so.1", 1);
    setenv("FAKE_CUDA", words.c_str(), 1);
  }
};
using Doctor = Devices;  // a suite of its own, since its tests measure the machine

TEST_F(Devices, OfThisMachineAndOfAFarm) {
  CliResult local = Run({"devices"});
  EXPECT_EQ(local.code, 0) << local.Text();
  EXPECT_THAT(local.out, AllOf(HasSubstr("this machine: "), HasSubstr("llvm -mtriple=")));
  auto json = Json::Parse(Run({"devices", "--json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_GE(*(*json)["cores"].As<int64_t>(), 1);

  UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::string socket = File("tracker");
  auto tracker =
      Subprocess::Spawn({.argv = {test::kTools + "/rpc_tracker", "--listen", socket, "--state", File("state")},
                         .fds = {{1, null.get()}}});
  auto server = Subprocess::Spawn({.argv = {test::kTools + "/rpc_server", "--tracker", socket, "--key", "pi"}});
  ASSERT_TRUE(tracker.ok() && server.ok());
  EXPECT_TRUE(Soon([&] { return Run({"devices", "--tracker", socket}).out.find("free") != std::string::npos; }, 20));
  CliResult farm = Run({"devices", "--tracker", socket});
  EXPECT_EQ(farm.code, 0) << farm.Text();
  EXPECT_THAT(farm.out, AllOf(HasSubstr("tracker: epoch"), HasSubstr("pi "), Not(HasSubstr("this machine"))));
  EXPECT_THAT(Run({"devices", "--tracker", socket, "--key", "other"}).out, HasSubstr("no devices"));
  CliResult nobody = Run({"devices", "--tracker", "10.0.0.1:9190"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, AllOf(HasSubstr("over TCP with a join file only\nhint: "), HasSubstr("--join FILE")));
}

TEST_F(Devices, AServerSaysThatItWaitsForItsTracker) {
  const std::string socket = File("tracker");
  UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  auto serve = [&](const std::string& words) {
    UniqueFd err(open(File(words).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return Subprocess::Spawn({.argv = {test::kTools + "/rpc_server", "--tracker", socket, "--key", "pi"},
                              .fds = {{1, null.get()}, {2, err.get()}}});
  };
  auto track = [&] {
    return Subprocess::Spawn({.argv = {test::kTools + "/rpc_tracker", "--listen", socket, "--state", File("state")},
                              .fds = {{1, null.get()}, {2, null.get()}}});
  };
  auto early = serve("early");
  ASSERT_TRUE(early.ok());
  EXPECT_TRUE(Soon([&] { return Lines(test::ReadAll(File("early"))).size() == 1; }, 20));
  EXPECT_THAT(test::ReadAll(File("early")), HasSubstr("waiting for the tracker at ipc://" + socket + " since "));
  auto tracker = track();
  ASSERT_TRUE(tracker.ok());
  EXPECT_TRUE(Soon([&] { return Lines(test::ReadAll(File("early"))).size() == 2; }, 20));
  EXPECT_THAT(test::ReadAll(File("early")),
              HasSubstr("registered at the tracker at ipc://" + socket + " as `pi` (server "));

  // A server that finds its tracker at once does not say that it waits.
  auto late = serve("late");
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE(Soon(
      [&] {
        const std::string status = Run({"devices", "--tracker", socket}).out;
        return status.find("free") != status.rfind("free");
      },
      20));
  EXPECT_THAT(Lines(test::ReadAll(File("late"))), ElementsAre(HasSubstr("registered")));

  // A tracker that is lost is waited for like one that was never there.
  tracker->Kill();
  EXPECT_TRUE(Soon([&] { return Lines(test::ReadAll(File("late"))).size() == 2; }, 20));
  EXPECT_THAT(test::ReadAll(File("late")), HasSubstr("waiting for the tracker"));
}

TEST_F(Devices, GpusOfThisMachine) {
  InstallCuda("gpus=2 sm=80 bytes=85000000000 log=" + File("log"));
  CliResult two = Run({"devices"});
  EXPECT_EQ(two.code, 0) << two.Text();
  EXPECT_THAT(
      two.out,
      AllOf(HasSubstr("cuda:0: Fake GPU A, sm_80, 132 units, 85.0 GB, GPU-a0112233-4455-6677-8899-aabbccddeeff\n"
                      "  --target 'cuda -arch=sm_80'\n"),
            HasSubstr("cuda:1: Fake GPU B"), Not(HasSubstr("CUDA driver"))));
  EXPECT_THAT(test::ReadAll(File("log")), Not(HasSubstr("cuDevicePrimaryCtxRetain")))
      << "listing devices must not take memory of a GPU";
  auto json = Json::Parse(Run({"devices", "--json"}).out);
  ASSERT_TRUE(json.ok());
  const Json::Array& gpus = *(*json)["gpus"].As<Json::Array>();
  ASSERT_GE(gpus.size(), 2u);
  EXPECT_EQ(*gpus[1]["device"].As<std::string>(), "cuda:1");
  EXPECT_EQ(*gpus[1]["uuid"].As<std::string>(), "GPU-a1112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(*gpus[1]["memory_bytes"].As<int64_t>(), 85000000000);

  InstallCuda("fail=cuInit:100");
  EXPECT_THAT(Run({"devices"}).out, HasSubstr("\nthe CUDA driver finds no GPU; "));
  setenv("AUTOTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  CliResult none = Run({"devices"});
  EXPECT_EQ(none.code, 0) << none.Text();
  EXPECT_THAT(none.out, AllOf(HasSubstr("\nthis machine has no CUDA driver: /nowhere/libcuda.so.1 is missing; "),
                              Not(HasSubstr("cuda:0"))));
}

// The fake driver runs no generated code, so a command that runs a kernel on a GPU fails there; the log of its calls
// shows on which one.
TEST_F(Devices, OneOfSeveralIsChosen) {
  const std::string words = "gpus=2 log=" + File("log");
  InstallCuda(words);
  const std::vector<std::string> model = {"--op", "matmul:16,16,16", "--db", ":memory:"};
  auto run = [&](std::vector<std::string> argv, const std::vector<std::string>& more) {
    argv.insert(argv.end(), more.begin(), more.end());
    std::filesystem::remove(File("log"));
    return Run(argv);
  };
  const std::vector<std::string> to_package = {"-o", File("m.tar")};
  auto compile = [&](std::vector<std::string> more) {
    more.insert(more.end(), model.begin(), model.end());
    more.insert(more.end(), to_package.begin(), to_package.end());
    return run({"compile"}, more);
  };
  for (const char* which : {"1", "GPU-a1", "cuda:1", "Fake GPU B"}) {
    const CliResult compiled = compile({"--target", "cuda", "--device", which});
    ASSERT_EQ(compiled.code, 0) << which << compiled.Text();
    for (const char* command : {"run", "bench"}) {
      run({command, File("m.tar"), "--device", which}, {});
      EXPECT_THAT(test::ReadAll(File("log")),
                  AllOf(HasSubstr("cuDevicePrimaryCtxRetain 1"), Not(HasSubstr("cuDevicePrimaryCtxRetain 0"))))
          << command << " " << which;
    }
    std::vector<std::string> tune = {"tune", "--trials", "1", "--target", "cuda", "--device", which};
    run(tune, model);
    EXPECT_THAT(test::ReadAll(File("log")),
                AllOf(HasSubstr("cuDevicePrimaryCtxRetain 1"), Not(HasSubstr("cuDevicePrimaryCtxRetain 0"))))
        << which;
  }
  const std::string list =
      "'; this machine has 0 (Fake GPU A, GPU-a0112233-4455-6677-8899-aabbccddeeff), 1 (Fake GPU B";
  for (const std::string none : {"2", "GPU-f", "Fake GPU C"}) {
    for (const CliResult& refused :
         {compile({"--target", "cuda", "--device", none}), run({"run", File("m.tar"), "--device", none}, {}),
          run({"bench", File("m.tar"), "--device", none}, {}),
          run({"tune", "--trials", "1", "--target", "cuda", "--device", none}, model)}) {
      EXPECT_EQ(refused.code, 1) << refused.Text();
      EXPECT_THAT(Lines(refused.err), SizeIs(1)) << refused.Text();
      EXPECT_THAT(refused.err, HasSubstr("there is no CUDA device '" + none + list));
    }
  }
  EXPECT_THAT(compile({"--device", "1"}).err, HasSubstr("--device 1 has no effect"));
  EXPECT_THAT(compile({"--target", "cuda -arch=sm_80", "--device", "1"}).err, HasSubstr("--device 1 has no effect"));
  EXPECT_THAT(run({"tune", "--device", "1"}, model).err, HasSubstr("--device 1 goes with --target cuda"));
  ASSERT_EQ(compile({}).code, 0);
  EXPECT_THAT(run({"run", File("m.tar"), "--device", "1"}, {}).err, HasSubstr("--device 1: it runs on the CPU only"));
}

// Two devices of one OpenCL platform that have equal names, as PoCL offers them.
TEST_F(Devices, OpenClDevicesOfEqualNamesAreChosenByNumber) {
  setenv("POCL_DEVICES", "pthread pthread", 1);
  const CliResult two = Run({"devices"});
  if (two.out.find("opencl:1: ") == std::string::npos) {
    unsetenv("POCL_DEVICES");
    GTEST_SKIP() << "no PoCL";
  }
  const std::vector<std::string> compile = {
      "compile", "--op", "matmul:16,16,16", "--db", ":memory:", "-o", File("m.tar"), "--target", "opencl"};
  ASSERT_EQ(Run(compile).code, 0);
  EXPECT_EQ(Run({"run", File("m.tar"), "--device", "1"}).code, 0);
  const std::string line = two.out.substr(two.out.find("opencl:1: ") + 10);
  const CliResult several = Run({"run", File("m.tar"), "--device", line.substr(0, line.find(','))});
  EXPECT_EQ(Run({"run", File("m.tar"), "--device", "2"}).code, 1);
  EXPECT_EQ(several.code, 1);
  EXPECT_THAT(several.err, HasSubstr("there is more than one OpenCL device '"));
  unsetenv("POCL_DEVICES");
}

// Each target that is printed compiles, as does the kind alone; else the line says why there is none.
TEST_F(Devices, NoTargetIsPrintedThatIsRefused) {
  for (const char* sm : {"60", "70", "75", "87", "90", "100", "103", "120", "121", "999"}) {
    InstallCuda("sm=" + std::string(sm));
    const CliResult listed = Run({"devices"});
    const std::string target = "cuda -arch=sm_" + std::string(sm);
    const bool old = std::string_view(sm) == "60";
    EXPECT_EQ(listed.out.find("--target '" + target + "'") == std::string::npos, old) << listed.out;
    EXPECT_EQ(listed.out.find("no code for this GPU: -arch: 'sm_60'") != std::string::npos, old) << listed.out;
    for (const std::string& each : {target, std::string("cuda")}) {
      const CliResult compiled =
          Run({"compile", "--op", "matmul:16,16,16", "--target", each, "--db", ":memory:", "-o", File("m.tar")});
      EXPECT_EQ(compiled.code == 0, !old) << each << compiled.Text();
    }
  }
}

TEST_F(Doctor, FindsThisMachineFit) {
  InstallCuda("");
  CliResult fit = Run({"doctor"});
  EXPECT_EQ(fit.code, 0) << fit.Text();
  for (const char* word :
       {"cores", "L1 ", "GFLOPS", "GB/s", "repeats of one loop", ": free", "MiB", "core dumps 0 bytes", "namespaces",
        "seccomp", "gpu        cuda:0: Fake GPU A, sm_90", "does not exist yet", "with a write-ahead log", "GB free"})
    EXPECT_THAT(fit.out, HasSubstr(word));
  EXPECT_THAT(fit.out, Not(HasSubstr("PROBLEM")));
  EXPECT_THAT(Lines(fit.out).back(), MatchesRegex("verdict +this machine is fit for tuning"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("doctor"))) << "a temporary file was left behind";
}

TEST_F(Doctor, SaysWhoMayDisturbItsMeasurements) {
  std::optional<HostLock> build = std::move(HostLock::TryAcquire(HostLock::Mode::kShared)).value();
  ASSERT_TRUE(build);
  CliResult disturbed = Run({"doctor"});
  EXPECT_THAT(disturbed.out, HasSubstr("lock       " + HostLock::HeldText() + ", which may disturb these speeds"));
  EXPECT_THAT(disturbed.out, Not(HasSubstr(": free")));
}

// The printed row has every number of the table's rows, in the table's syntax, with plausible values.
TEST_F(Doctor, ProbesARowOfTheTableOfMachines) {
  CliResult probed = Run({"doctor", "--probe"});
  ASSERT_EQ(probed.code, 0) << probed.Text();
  EXPECT_THAT(
      probed.out,
      MatchesRegex("[{]\\.family = \"[^\"]+\",\n \\.cpus = [{]\"[^\"]+\"[}],\n \\.machine = [{](.|\n)*[}][}],\n"));
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> sources;
  const std::regex field("\\.([a-z_0-9]+) = ([0-9.e+]+),  // \\[([a-z].*)\\]");
  std::istringstream lines(probed.out);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, field)) continue;
    numbers[match[1]] = std::stod(match[2]);
    sources[match[1]] = match[3];
  }
  Machine machine;
  ForEachField(machine, [&](std::string_view name, auto&) {
    ASSERT_TRUE(numbers.contains(std::string(name))) << name << " is missing in\n" << probed.out;
    EXPECT_GT(numbers[std::string(name)], 0) << name;
  });
  EXPECT_EQ(numbers.size(), FieldNames<Machine>().size()) << probed.out;
  // Checks orders of magnitude, which hold on a busy machine, too.
  EXPECT_GT(numbers["hz"], 1e8);
  EXPECT_LT(numbers["hz"], 1e10);
  for (const char* name : {"multiply_add_ports", "load_ports", "multiply_add_latency"}) {
    EXPECT_GT(numbers[name], 0.05) << name;
    EXPECT_LT(numbers[name], 100) << name;
  }
  EXPECT_EQ(static_cast<int64_t>(numbers["page_bytes"]), sysconf(_SC_PAGESIZE));
  EXPECT_EQ(sources["hz"], "probe");
  EXPECT_THAT(sources["task_cycles"], StartsWith("as of the row '"));
  const Target target = Target::Parse("cpu").value();
  for (const char* name : {"fork_cycles", "other_core_bytes_per_cycle"}) {
    EXPECT_EQ(sources[name] == "probe", target.num_cores > 1) << probed.out;
  }
  EXPECT_EQ(sources["l2_bytes_per_cycle"] == "probe", target.l2_bytes > 0) << probed.out;
  EXPECT_EQ(sources["l3_bytes_per_cycle"] == "probe", target.l3_bytes > 0) << probed.out;
}

// A number of the printed row has the source "probe" only if it was measured.
TEST(MachineRowText, TellsMeasuredNumbersFromCopiedOnes) {
  const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1").value();
  tools::ProbedMachine probed{MachineOf(target), {"fork_cycles", "l1_ways"}};
  const std::string text = tools::MachineRowText(target, probed);
  const std::string copied = "// [as of the row '" + std::string(MachineRowOf("haswell").family) + "']\n";
  EXPECT_THAT(text, HasSubstr(".fork_cycles = 2200,  " + copied));
  EXPECT_THAT(text, HasSubstr(".l1_ways = 8,  " + copied));
  EXPECT_THAT(text, HasSubstr(".task_cycles = 120,  // [probe]\n"));
  EXPECT_THAT(text, HasSubstr(".page_bytes = 4096,  // [the kernel]\n"));
  probed.copied.clear();
  const std::string measured = tools::MachineRowText(target, probed);
  EXPECT_THAT(measured, HasSubstr(".fork_cycles = 2200,  // [probe]\n"));
  EXPECT_THAT(measured, HasSubstr(".l1_ways = 8,  // [the kernel]\n"));
  EXPECT_THAT(measured, Not(HasSubstr("as of the row")));
}

TEST_F(Doctor, ProbesNothingWhereItCannotMeasure) {
  setenv("AUTOTUNE_HOST_LOCK", "/no/such/lock", 1);
  CliResult refused = Run({"doctor", "--probe"});
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_EQ(refused.out, "") << "a refused probe must print no row";
  EXPECT_THAT(refused.err, HasSubstr("cannot open the host lock /no/such/lock"));
}

TEST_F(Doctor, NamesWhatIsWrong) {
  Write("records.db", std::string(5000, 'x'));
  setenv("AUTOTUNE_LIBEXEC", folder_.c_str(), 1);
  std::filesystem::permissions(Write("rpc_server", "#!/bin/sh\nexit 42\n"), std::filesystem::perms::owner_all);
  setenv("AUTOTUNE_HOST_LOCK", "/no/such/lock", 1);
  setenv("AUTOTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  CliResult sick = Run({"doctor"});
  EXPECT_EQ(sick.code, 1) << sick.Text();
  EXPECT_THAT(sick.out,
              AllOf(HasSubstr("PROBLEM: " + db_ + " is not a record database"), HasSubstr("speed      PROBLEM: "),
                    HasSubstr("cannot open the host lock /no/such/lock"), HasSubstr("runner     PROBLEM: "),
                    HasSubstr("exited with code 42"), HasSubstr("gpu        this machine has no CUDA driver")));
  EXPECT_THAT(sick.err, HasSubstr("3 problems found"));
  EXPECT_THAT(sick.out, Not(HasSubstr("verdict")));
}

}  // namespace
}  // namespace autotune
