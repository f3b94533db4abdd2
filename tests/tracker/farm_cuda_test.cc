// A device server whose runner has a GPU on the fake driver of tests/runtime/fake_cuda/: kernels that misbehave, their
// statuses, and the kernels after them.
#include <algorithm>
#include <chrono>
#include <future>

#include "rpc/runner_pool.h"
#include "rpc/system_calls.h"
#include "runtime/device_module.h"
#include "support/host_lock.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum TrialStatus;

// Returns an artifact whose kernel launches the fake driver's kernel `entry` with x and y. The driver refuses damaged
// or newer PTX, and a workspace (in bytes) that exceeds its memory.
Blob GpuKernel(const std::string& entry, const std::string& ptx = ".version 8.0\n.target sm_80\n",
               int64_t workspace = 0) {
  const std::string metadata =
      R"({"abi_version":1,"target":"test","kernels":[{"name":"k","device":"cuda","workspace_bytes":)" +
      std::to_string(workspace) + R"(,"params":[
    {"name":"x","dtype":"f32","shape":[64],"kind":"input"},{"name":"w","dtype":"f32","shape":[256],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[64],"kind":"output"}],"launches":[{"entry":")" +
      entry + R"(","grid":[2],"block":[32],"args":[{"kind":"param","index":0},{"kind":"param","index":2}]}]}]})";
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  DeviceCode code{.format = "ptx", .image = ptx + ".entry " + entry + "\n"};
  code.functions[entry] = {{kAddress, kAddress}, {}};
  return ArtifactOf(metadata, MakeDeviceModule("cuda", std::move(code)));
}

class FarmCuda : public FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    setenv("AUTOTUNE_LIBCUDA", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libcuda.so.1", 1);
  }
  void TearDown() override {
    unsetenv("FAKE_CUDA");
    unsetenv("AUTOTUNE_LIBCUDA");
    FarmTest::TearDown();
  }
  // Starts a farm whose server offers `device`, on a driver with the settings `words` and the log Log().
  std::unique_ptr<LocalFarm> Start(const std::string& words = "", const std::string& device = "cuda") {
    setenv("FAKE_CUDA", ("log=" + folder_ + "/log " + words).c_str(), 1);
    return StartLocal({.server_arguments = {"--device", device}});
  }
  std::string Log() const { return test::ReadAll(folder_ + "/log"); }
};

TEST_F(FarmCuda, EveryKindOfFailureIsOneFailedTrial) {
  auto farm = Start("bytes=1048576");
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const Blob good = GpuKernel("twice");
  MeasureJob job = JobOf(
      {good, GpuKernel("illegal"), good, GpuKernel("hang"), good, GpuKernel("thrice"),
       GpuKernel("twice", ".version 8.0\n.target sm_80\nbroken\n"), GpuKernel("twice", ".version 9.9\n.target sm_80\n"),
       GpuKernel("twice", ".version 8.0\n.target sm_80\n", 2 << 20), GpuKernel("unknown"), GpuKernel("is_not_there"),
       Compile(kDouble),  // a kernel for the CPU, which the runner has, too
       good});
  job.candidates[3].run_seconds = 0.5;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  const std::vector<TrialStatus> expected = {kOk,          kRunCrashed, kOk,         kRunTimedOut, kOk,
                                             kWrongAnswer, kRunCrashed, kRunCrashed, kOutOfMemory, kRunCrashed,
                                             kRunCrashed,  kOk,         kOk};
  EXPECT_EQ(StatusesOf(*results), expected);
  for (const TrialResult& r : *results) EXPECT_EQ(r.error.empty(), r.status == kOk) << r.candidate << ": " << r.error;
  EXPECT_THAT((*results)[1].error, HasSubstr("cuda(0): a command failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT((*results)[3].error, HasSubstr("ran longer than 0.5 s"));
  EXPECT_THAT((*results)[6].error, HasSubstr("Parsing error near 'broken'"));
  EXPECT_THAT((*results)[7].error, HasSubstr("too old for this PTX"));
  EXPECT_THAT((*results)[8].error, HasSubstr("no 2097152 bytes on cuda(0)"));
  EXPECT_THAT((*results)[9].error, HasSubstr("CUDA_ERROR_UNKNOWN (999)"));
  EXPECT_THAT((*results)[10].error, HasSubstr("the image has no kernel 'is_not_there'"));
  for (const size_t i : {0, 2, 4, 12}) EXPECT_TRUE((*results)[i].checked) << i;
}

TEST_F(FarmCuda, ARunnerIsReplacedOnlyAfterAFinalError) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const Blob good = GpuKernel("twice");
  const auto contexts = [&] {
    const std::string log = Log();
    size_t count = 0;
    for (size_t at = 0; (at = log.find("cuDevicePrimaryCtxRetain 0", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(contexts(), 0u) << "runners without work must not take memory of the GPU";
  ASSERT_TRUE(client->Measure(JobOf({good, GpuKernel("thrice"), GpuKernel("twice", "broken"), good})).ok());
  EXPECT_EQ(contexts(), 3u) << "one for all, and one for each repetition; spare runners must not have a context";
  auto results = client->Measure(JobOf({GpuKernel("illegal"), good, good}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(StatusesOf(*results), (std::vector<TrialStatus>{kRunCrashed, kOk, kOk}));
  EXPECT_EQ(contexts(), 5u) << "one after the final error, and one for the repetition";
}

constexpr char kPtx[] = ".version 8.0\n.target sm_80\n";

// While a candidate is checked, the driver translates the next ones; their translations end before its time is taken.
TEST_F(FarmCuda, TheNextCandidatesAreTranslatedBesideTheChecksOfOne) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const Blob next = GpuKernel("twice", std::string(kPtx) + "slow\n");
  auto results = client->Measure(JobOf({GpuKernel("twice"), next}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), (std::vector<TrialStatus>{kOk, kOk})) << (*results)[0].error << (*results)[1].error;
  const std::string log = Log();
  const size_t translated = log.find("translated\n"), timed = log.find("cuStreamBeginCapture_v2");
  ASSERT_NE(translated, std::string::npos);
  ASSERT_NE(timed, std::string::npos);
  EXPECT_LT(translated, timed) << "the first candidate was timed before or beside the translation of the second";
  EXPECT_LT(log.find("cuLaunchKernel"), translated) << "the first candidate was not checked beside it";
  EXPECT_EQ(log.find("translated\n", translated + 1), std::string::npos) << "it was translated twice";
}

// Each candidate fails in its own turn, with its own error, whatever its translation did to the one before.
TEST_F(FarmCuda, ATranslationThatFailsHarmsNoOtherCandidate) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const Blob good = GpuKernel("twice");
  const auto measured = [&](const std::string& word, double seconds) {
    MeasureJob job = JobOf({good, GpuKernel("twice", kPtx + word + "\n"), good});
    for (Candidate& candidate : job.candidates) candidate.load_seconds = candidate.run_seconds = seconds;
    return client->Measure(job).value();
  };
  auto results = measured("broken", 10);
  EXPECT_EQ(StatusesOf(results), (std::vector<TrialStatus>{kOk, kRunCrashed, kOk}));
  EXPECT_THAT(results[1].error, HasSubstr("Parsing error near 'broken'"));
  results = measured("deadly", 10);
  EXPECT_EQ(StatusesOf(results), (std::vector<TrialStatus>{kOk, kRunCrashed, kOk})) << results[0].error;
  EXPECT_THAT(results[1].error, HasSubstr("the runner was ended by signal 11"));
  results = measured("endless", 1);
  EXPECT_EQ(StatusesOf(results), (std::vector<TrialStatus>{kOk, kRunTimedOut, kOk})) << results[0].error;
  EXPECT_THAT(results[1].error, HasSubstr("ran longer than 1 s"));
}

// An uncorrectable error of the GPU's memory ends the context, but a new context works. The kernel is not to blame, so
// the candidate is measured again, but not a third time.
TEST_F(FarmCuda, ADeviceThatFailsIsNoKernelsFault) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  auto results = client->Measure(JobOf({GpuKernel("twice"), GpuKernel("bit_flip")}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ((*results)[0].status, kOk) << (*results)[0].error;
  EXPECT_EQ((*results)[1].status, kDeviceError);
  EXPECT_THAT((*results)[1].error, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
  // The device is quarantined until a probe succeeds.
  rpc::DeviceStatus shown;
  EXPECT_TRUE(Soon([&] {
    shown = rpc::QueryStatus(farm->tracker(), farm->key(), 1).value().devices.at(0);
    return shown.state == "quarantined";
  }));
  EXPECT_THAT(shown.why, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
  auto after = client->Measure(JobOf({GpuKernel("twice")}));
  ASSERT_TRUE(after.ok()) << after.error().Text();
  EXPECT_EQ((*after)[0].status, kOk) << (*after)[0].error;
}

TEST_F(FarmCuda, WithoutTheGpuTheDeviceIsUnavailable) {
  Subprocess tracker = StartTracker();
  setenv("FAKE_CUDA", ("lost=" + folder_ + "/lost").c_str(), 1);
  Subprocess server = StartServer("gpu", {"--device", "cuda"});
  ASSERT_TRUE(Soon([&] { return Count("gpu") == 1; }));
  auto client = Client("gpu", 2);
  const Blob good = GpuKernel("twice");
  auto results = client->Measure(JobOf({good, GpuKernel("falls_off_the_bus"), good}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ((*results)[0].status, kOk);
  EXPECT_EQ((*results)[1].status, kInfrastructure) << "there is no device to repeat it on, so it is not charged";
  EXPECT_EQ((*results)[2].status, kInfrastructure);
  EXPECT_THAT((*results)[2].error, HasSubstr("no device became free in time"));
  EXPECT_TRUE(Soon([&] {
    auto status = rpc::QueryStatus("ipc://" + Endpoint(), "gpu", 1);
    return status.ok() && status->devices.at(0).last_error.find("the CUDA driver finds no GPU") != std::string::npos;
  })) << "the status must show the cause";
}

TEST_F(FarmCuda, TheSecondOfTwo) {
  auto farm = Start("gpus=2", "cuda:1");
  ASSERT_TRUE(farm);
  auto results = ClientOf(*farm)->Measure(JobOf({GpuKernel("twice")}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].status, kOk) << (*results)[0].error;
  EXPECT_THAT(Log(), AllOf(HasSubstr("cuDevicePrimaryCtxRetain 1"), Not(HasSubstr("cuDevicePrimaryCtxRetain 0"))));
}

// Two servers, each with a tuner whose candidates sleep on the GPU.
class FarmOfTwoGpus : public FarmCuda {
 protected:
  // Returns the seconds in which both servers have measured as many candidates each; with one server, the seconds of
  // this server alone.
  double Seconds(const std::vector<std::string>& devices) {
    setenv("FAKE_CUDA", "gpus=2", 1);
    std::filesystem::remove(folder_ +
                            "/state/state.json");  // a restarted tracker waits 10 s for leases of the time before
    Subprocess tracker = StartTracker();
    std::vector<Subprocess> servers;
    std::vector<std::unique_ptr<FarmClient>> clients;
    for (size_t i = 0; i < devices.size(); ++i) {
      const std::string key = "gpu" + std::to_string(i);
      servers.push_back(StartServer(key, {"--device", devices[i]}));
      EXPECT_TRUE(Soon([&] { return Count(key) == 1; }));
      clients.push_back(Client(key));
    }
    MeasureJob job = JobOf(std::vector<Blob>(8, GpuKernel("naps")));
    for (Candidate& candidate : job.candidates) candidate.check = false;
    for (auto& client : clients) EXPECT_TRUE(client->Measure(JobOf({GpuKernel("twice")})).ok());
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::future<Result<std::vector<TrialResult>>>> jobs;
    for (auto& client : clients) jobs.push_back(std::async(std::launch::async, [&] { return client->Measure(job); }));
    for (auto& measured : jobs) {
      const auto results = measured.get();
      EXPECT_TRUE(results.ok());
      for (const TrialResult& r : results.value()) EXPECT_EQ(r.status, kOk) << r.error;
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

TEST_F(FarmOfTwoGpus, MeasuresOnBothAtOnceButOnOneInTurns) {
  const double alone = Seconds({"cuda:0"});
  const auto runs_on_both = [&] { return Seconds({"cuda:0", "cuda:1"}) < 2 * alone / 1.5; };
  EXPECT_TRUE(runs_on_both() || runs_on_both() || runs_on_both()) << "other load of this host may delay some runs";
  EXPECT_GT(Seconds({"cuda:1", "cuda:1"}), 1.5 * alone) << "kernels of two servers must not run beside each other";
}

// The fake driver's clock makes times exact: 11 us for a launch in a graph.
TEST_F(FarmCuda, TimesAreTheGpusAndItsClockIsTold) {
  setenv("AUTOTUNE_LIBNVML", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libnvidia-ml.so.1", 1);
  setenv("FAKE_NVML", "clock=1200 reasons=4", 1);
  auto farm = Start("ramp=3");
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({GpuKernel("twice")});
  job.candidates[0].min_repeat_ms = 2;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok());
  ASSERT_EQ((*results)[0].status, kOk) << (*results)[0].error;
  for (const double seconds : (*results)[0].times) EXPECT_NEAR(seconds, 11e-6, 1e-8);
  const DeviceState& state = (*results)[0].state;
  EXPECT_EQ(state.clock_mhz, 1200);
  EXPECT_THAT(state.throttled, testing::ElementsAre("power cap"));
  EXPECT_NEAR(state.reference_seconds, 514e-6, 1e-9);
  EXPECT_TRUE(state.steady);
  unsetenv("FAKE_NVML");
  unsetenv("AUTOTUNE_LIBNVML");
}

// Its 1 KiB of weights would need 100,000 copies to fill twice the L2 cache of 50 MB; there are at most 1024.
TEST_F(FarmCuda, WeightsAreColdIfTheNetworkLeavesThemCold) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({GpuKernel("twice")});
  auto copies = [&] {
    EXPECT_EQ(client->Measure(job).value().at(0).status, kOk);
    const std::string log = Log();
    size_t count = 0;
    for (size_t at = 0; (at = log.find("cuMemcpyDtoDAsync_v2 1024\n", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(copies(), 0u);
  job.candidates[0].cold_weights = true;
  job.candidates[0].cold_bytes = 10'512;  // 512 bytes of inputs and outputs, and ten copies of 1 KiB
  EXPECT_EQ(copies(), 9u);
  job.candidates[0].cold_bytes = -1;
  EXPECT_EQ(copies(), 9u + 1023u);
}

// As on hosts of eight GPUs, where it takes up to 20 s.
TEST_F(FarmCuda, ADriverMayTakeItsTimeToStart) {
  EXPECT_TRUE(Start("init_ms=500"));
  const auto late = LocalFarm::Start({.server_arguments = {"--device", "cuda"}, .start_seconds = 0.2});
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().Text(), HasSubstr("was not ready within 0.2 s"));
  EXPECT_GE(LocalFarmOptions().start_seconds, 25);
  EXPECT_GE(rpc::RunnerPool::Options().start_ms, 25000);
}

TEST_F(FarmCuda, BuildsGoOnBesideAMeasurement) {
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::optional<HostLock> build = std::move(HostLock::Acquire(HostLock::Mode::kShared)).value();
  const auto begin = std::chrono::steady_clock::now();
  auto results = client->Measure(JobOf({GpuKernel("twice")}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].status, kOk) << (*results)[0].error;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "it waited for the host's lock";
  // A second server of the GPU, whatever its number there, waits for the lock of this name.
  const std::string lock = lock_ + ".GPU-a0112233-4455-6677-8899-aabbccddeeff";
  EXPECT_TRUE(std::filesystem::exists(lock));
}

TEST_F(FarmCuda, TheDriverMakesNoProcessesOnceItHasStarted) {
  if (!rpc::CanRestrictSystemCalls()) GTEST_SKIP() << "this build cannot restrict system calls";
  auto farm = Start();
  ASSERT_TRUE(farm);
  auto results = ClientOf(*farm)->Measure(JobOf({GpuKernel("forks"), GpuKernel("twice")}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(StatusesOf(*results), (std::vector<TrialStatus>{kOk, kOk})) << (*results)[0].error;
  std::vector<std::string> filters;
  for (pid_t runner : ChildrenOf(farm->server_pid())) {
    const std::string status = test::ReadAll("/proc/" + std::to_string(runner) + "/status");
    filters.push_back(status.substr(status.find("Seccomp:\t"), 10));
  }
  EXPECT_THAT(filters, testing::UnorderedElementsAre("Seccomp:\t2", "Seccomp:\t0"))
      << "the active runner must be filtered, the spare not yet";
}

TEST_F(FarmCuda, AServerOfADeviceThatDoesNotExistEndsWithOneLine) {
  Subprocess tracker = StartTracker();
  setenv("FAKE_CUDA", "gpus=2", 1);
  for (const std::string none : {"cuda:2", "cuda:GPU-f"}) {
    UniqueFd err(open((folder_ + "/err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    auto server =
        Subprocess::Spawn({.argv = {kTools + "/rpc_server", "--tracker", Endpoint(), "--key", "gpu", "--device", none},
                           .fds = {{2, err.get()}}});
    ASSERT_TRUE(server.ok());
    const std::optional<ExitStatus> status = server->Wait(20000);
    ASSERT_TRUE(status);
    EXPECT_EQ(status->code, 1);
    const std::string text = test::ReadAll(folder_ + "/err");
    EXPECT_THAT(text,
                AllOf(HasSubstr("error: --device " + none + ": "),
                      HasSubstr("there is no CUDA device '" + none.substr(5) + "'; this machine has 0 (Fake GPU A"),
                      HasSubstr("1 (Fake GPU B, GPU-a1")));
    EXPECT_THAT(text, Not(HasSubstr("a runner could not be started"))) << "the error says it once";
    EXPECT_EQ(std::ranges::count(text.substr(text.find("error: ")), '\n'), 1) << text;
  }
  Subprocess right = StartServer("gpu", {"--device", "cuda:GPU-a1"});
  EXPECT_TRUE(Soon([&] { return Count("gpu") == 1; }));
}

TEST_F(FarmCuda, AServerWithoutADriverSaysSo) {
  setenv("AUTOTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  auto farm = LocalFarm::Start({.server_arguments = {"--device", "cuda"}, .start_seconds = 5});
  ASSERT_FALSE(farm.ok());
  EXPECT_THAT(farm.error().Text(), HasSubstr("this machine has no CUDA driver: /nowhere/libcuda.so.1 is missing"));
}

}  // namespace
}  // namespace autotune
