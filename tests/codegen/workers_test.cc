#include <signal.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/builder.h"
#include "codegen/frame.h"
#include "support/host_lock.h"
#include "support/subprocess.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

std::string Self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::unique_ptr<Builder> Workers(const std::string& mode, int count, double timeout = 20, int64_t jobs = 500) {
  BuildWorkersOptions options;
  options.command = {Self(), mode};
  options.workers = count;
  options.timeout_seconds = timeout;
  options.jobs_per_worker = jobs;
  auto workers = MakeBuildWorkers(options);
  EXPECT_TRUE(workers.ok()) << workers.error().Text();
  return std::move(*workers);
}

BuildRequest Scale(int64_t id, const std::string& kernel, int factor) {
  BuildRequest request;
  request.id = id;
  request.func = "func scale(a: f32[8] input, b: f32[8] output) { for i in 8 { block x(v: S 8 = i) { b[v] = a[v] * " +
                 std::to_string(factor) + ".0 } } }";
  request.kernel = kernel;
  request.target = Cpu().Text();
  return request;
}

float FirstOutput(const Json::Bytes& elf, const std::string& kernel) {
  auto artifact = Artifact::FromBytes(elf.data);
  EXPECT_TRUE(artifact.ok()) << artifact.error().Text();
  const Kernel* k = (*artifact)->Find(kernel).value();
  KernelContext context(1);
  std::vector<Tensor> args = AllocateArgs(k->metadata).value();
  for (int i = 0; i < 8; ++i) args[0].Data<float>()[i] = 1;
  EXPECT_TRUE(CallKernel(*k, context, args, {}).ok());
  return args[1].Data<float>()[0];
}

TEST(BuildWorkers, ResultsComeInTheOrderOfTheRequests) {
  auto workers = Workers("--build-worker", 2);
  std::vector<BuildRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(Scale(100 + i, "k" + std::to_string(i), i + 2));
  requests[3].func = "func nonsense(";
  std::vector<int64_t> seen;
  auto results = workers->Build(requests, [&](const BuildResult& r) { seen.push_back(r.id); });
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(seen.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(results[i].id, 100 + i);
    if (i == 3) {
      EXPECT_EQ(results[i].status, TrialStatus::kBuildFailed);
      EXPECT_NE(results[i].text.find("PrimFunc"), std::string::npos) << results[i].text;
    } else {
      ASSERT_EQ(results[i].status, TrialStatus::kOk) << results[i].text;
      EXPECT_EQ(FirstOutput(results[i].artifact, "k" + std::to_string(i)), i + 2);
      EXPECT_TRUE(results[i].facts.times_ms.contains("link"));
    }
  }
}

TEST(BuildWorkers, WornWorkersAreReplaced) {
  auto workers = Workers("--build-worker", 1, 20, 2);
  std::vector<BuildRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(Scale(i, "k", 3));
  for (const BuildResult& r : workers->Build(requests)) EXPECT_EQ(r.status, TrialStatus::kOk) << r.text;
}

TEST(BuildWorkers, AHangingWorkerIsKilledAndTheCandidateTimedOut) {
  auto workers = Workers("--hanging-worker", 1, 0.2);
  auto results = workers->Build({Scale(7, "k", 2), Scale(8, "k", 2)});
  for (const BuildResult& r : results) EXPECT_EQ(r.status, TrialStatus::kBuildTimedOut);
  EXPECT_EQ(results[1].id, 8);
}

TEST(BuildWorkers, AWorkerThatReadsNothingIsReplaced) {
  auto workers = Workers("--hanging-worker", 1, 0.2);
  BuildRequest large = Scale(7, "k", 2);
  large.func += std::string(16 << 20, ' ');  // more than a socket's buffer holds
  BuildResult result = workers->Build({large})[0];
  EXPECT_EQ(result.status, TrialStatus::kBuildFailed);
  EXPECT_NE(result.text.find("takes no job, 2 times"), std::string::npos) << result.text;
}

TEST(BuildWorkers, AJobThatKillsTwoWorkersFails) {
  auto workers = Workers("--dying-worker", 1);
  auto results = workers->Build({Scale(7, "k", 2)});
  EXPECT_EQ(results[0].status, TrialStatus::kBuildFailed);
  EXPECT_NE(results[0].text.find("signal 9 (Killed), 2 times"), std::string::npos) << results[0].text;
  auto library = workers->BuildLibrary({Scale(7, "k", 2)});
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.error().Text().find("signal 9 (Killed), 5 times"), std::string::npos) << library.error().Text();
}

std::vector<pid_t> Children() {
  std::vector<pid_t> pids;
  std::ifstream file("/proc/self/task/" + std::to_string(gettid()) + "/children");
  for (pid_t pid; file >> pid;) pids.push_back(pid);
  return pids;
}

TEST(BuildWorkers, AWorkerKilledBetweenJobsCostsNothing) {
  auto workers = Workers("--build-worker", 1);
  ASSERT_EQ(workers->Build({Scale(1, "k", 2)})[0].status, TrialStatus::kOk);
  for (int round = 0; round < 3; ++round) {
    for (pid_t pid : Children()) kill(pid, SIGKILL);
    auto results = workers->Build({Scale(1, "k", 2), Scale(2, "k", 3)});
    for (const BuildResult& r : results) EXPECT_EQ(r.status, TrialStatus::kOk) << r.text;
  }
}

// The limit is one of CPU time, so a worker that gets none for longer than that is not late.
TEST(BuildWorkers, AWorkerWithoutCpuTimeIsWaitedFor) {
  constexpr double kLimit = 1, kStopped = 1.5;
  auto workers = Workers("--build-worker", 1, kSanitized ? 10 * kLimit : kLimit);
  const std::vector<pid_t> worker = Children();
  ASSERT_EQ(worker.size(), 1u);
  kill(worker[0], SIGSTOP);
  std::thread wakes([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(kStopped));
    kill(worker[0], SIGCONT);
  });
  const BuildResult result = workers->Build({Scale(1, "k", 2)})[0];
  wakes.join();
  EXPECT_EQ(result.status, TrialStatus::kOk) << result.text;
}

TEST(BuildWorkers, NoWorkerOutlivesItsBuilder) {
  {
    auto workers = Workers("--build-worker", 2);
    EXPECT_EQ(Children().size(), 2u);
  }
  EXPECT_TRUE(Children().empty());
}

TEST(BuildWorkers, ALibraryOfManyKernels) {
  auto workers = Workers("--build-worker", 2);
  auto library = workers->BuildLibrary({Scale(1, "twice", 2), Scale(2, "thrice", 3)});
  ASSERT_TRUE(library.ok()) << library.error().Text();
  EXPECT_EQ(library->kernels.size(), 2u);
  EXPECT_EQ(FirstOutput(library->artifact, "twice"), 2);
  EXPECT_EQ(FirstOutput(library->artifact, "thrice"), 3);
}

TEST(BuildWorkers, ALibraryHasMoreTimeThanACandidate) {
  auto workers = Workers("--build-worker", 1, 1e-4);
  EXPECT_EQ(workers->Build({Scale(1, "k", 3)})[0].status, TrialStatus::kBuildTimedOut);
  auto library = workers->BuildLibrary({Scale(0, "a", 2), Scale(0, "b", 3)});
  ASSERT_TRUE(library.ok()) << library.error().Text();
  EXPECT_EQ(FirstOutput(library->artifact, "b"), 3);
}

TEST(BuildWorkers, ALibraryWithABadKernelNamesIt) {
  auto workers = Workers("--build-worker", 1);
  BuildRequest bad = Scale(2, "thrice", 3);
  bad.func = "func f(a: f32[2] output) { a[0] = b[0] }";
  auto library = workers->BuildLibrary({Scale(1, "twice", 2), bad});
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.error().Text().find("thrice"), std::string::npos) << library.error().Text();
  auto twins = workers->BuildLibrary({Scale(1, "twin", 2), Scale(2, "twin", 2)});
  ASSERT_FALSE(twins.ok());
  EXPECT_NE(twins.error().Text().find("twin"), std::string::npos) << twins.error().Text();
}

// A measurement holds the host's lock exclusively. Builds wait for its end and then go on.
TEST(BuildWorkers, BuildsWaitForMeasurements) {
  std::string path = ::testing::TempDir() + "build-lock-" + std::to_string(getpid());
  setenv("AUTOTUNE_HOST_LOCK", path.c_str(), 1);
  auto workers = Workers("--build-worker", 1);
  auto build = [&] { return workers->Build({Scale(1, "k", 2)})[0].status; };
  auto library = [&] { return workers->BuildLibrary({Scale(1, "k", 2)}).ok(); };
  std::optional<HostLock> measurement = HostLock::Acquire(HostLock::Mode::kExclusive).value();
  std::atomic<int> finished = 0;
  std::thread waiting([&] {
    EXPECT_EQ(build(), TrialStatus::kOk);
    ++finished;
    EXPECT_TRUE(library());
    ++finished;
  });
  usleep(200000);
  EXPECT_EQ(finished, 0);
  measurement.reset();
  waiting.join();
  EXPECT_EQ(finished, 2);
  // Builds take the lock in shared mode, so they do not wait for each other, and release it at their end.
  std::optional<HostLock> other = HostLock::Acquire(HostLock::Mode::kShared).value();
  EXPECT_EQ(build(), TrialStatus::kOk);
  other.reset();
  EXPECT_TRUE(HostLock::TryAcquire(HostLock::Mode::kExclusive).value().has_value());
  setenv("AUTOTUNE_HOST_LOCK", "/no/such/lock", 1);
  EXPECT_EQ(build(), TrialStatus::kInfrastructure);
  EXPECT_FALSE(library());
  unsetenv("AUTOTUNE_HOST_LOCK");
  unlink(path.c_str());
}

TEST(BuildWorkers, AStopEndsTheWaitForMeasurements) {
  std::string path = ::testing::TempDir() + "stop-lock-" + std::to_string(getpid());
  setenv("AUTOTUNE_HOST_LOCK", path.c_str(), 1);
  std::atomic<bool> stop = false;
  BuildWorkersOptions options;
  options.command = {Self(), "--build-worker"};
  options.workers = 1;
  options.stop = &stop;
  std::unique_ptr<Builder> workers = MakeBuildWorkers(options).value();
  std::optional<HostLock> measurement = HostLock::Acquire(HostLock::Mode::kExclusive).value();
  std::thread stopper([&] {
    usleep(200000);
    stop = true;
  });
  BuildResult built = workers->Build({Scale(7, "k", 2)})[0];
  stopper.join();
  EXPECT_EQ(built.id, 7);
  EXPECT_EQ(built.status, TrialStatus::kCancelled) << built.text;
  CompiledKernel compiled = workers->Compile({Scale(8, "k", 2)}, Patience::kNeeded)[0];
  EXPECT_EQ(compiled.status, TrialStatus::kCancelled) << compiled.text;
  Result<BuiltLibrary> linked = workers->Link({&compiled.object}, Cpu().Text());
  ASSERT_FALSE(linked.ok());
  EXPECT_EQ(linked.error().kind, ErrorKind::kStopped);
  // Builds that need not wait are made.
  measurement.reset();
  EXPECT_EQ(workers->Build({Scale(7, "k", 2)})[0].status, TrialStatus::kOk);
  unsetenv("AUTOTUNE_HOST_LOCK");
  unlink(path.c_str());
}

TEST(BuildWorkers, AMissingExecutableIsAnError) {
  BuildWorkersOptions options;
  options.command = {"/nonexistent/autotune", "--build-worker"};
  EXPECT_FALSE(MakeBuildWorkers(options).ok());
}

TEST(Frame, DamageIsAnErrorNotACrash) {
  auto [a, b] = MakeSocketPair().value();
  ASSERT_EQ(write(a.get(), "\xff\xff\xff\xff", 4), 4);
  EXPECT_FALSE(ReadFrame(b.get()).ok());
  auto [c, d] = MakeSocketPair().value();
  ASSERT_EQ(write(c.get(), "\x08\0\0\0abc", 7), 7);
  c.Reset();
  EXPECT_FALSE(ReadFrame(d.get()).ok());
}

}  // namespace
}  // namespace autotune
