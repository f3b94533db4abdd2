// Whole farms of real processes and sockets: trackers, servers, runners and clients, killed in turn.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "rpc/client.h"
#include "rpc/transport.h"
#include "support/clock.h"
#include "support/hash.h"
#include "support/host_lock.h"
#include "support/loop.h"
#include "support/subprocess.h"
#include "tests/runtime/c_artifact.h"
#include "tracker/local_farm.h"

namespace autotune {
namespace {

using rpc::Blob;
using rpc::Candidate;
using rpc::FarmClient;
using rpc::MeasureJob;
using rpc::TrialResult;
using testing::HasSubstr;

const std::string kTools = std::string(AUTOTUNE_BINARY_DIR) + "/tools";

// y = 2x over 64 floats, unless `body` says otherwise.
constexpr char kDouble[] = "for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];";

Blob Compile(const std::string& body, const std::string& top = "") {
  std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"k","params":[
    {"name":"x","dtype":"f32","shape":[64],"kind":"input"},{"name":"w","dtype":"f32","shape":[256],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[64],"kind":"output"}]}]})";
  std::string source = top +
                       "\nint32_t raw(AtContext* c, void* const* a) ENTRY(\"k.raw\");\n"
                       "int32_t raw(AtContext* c, void* const* a) { float *x = a[0], *w = a[1], *y = a[2]; " +
                       body +
                       " return 0; }\n"
                       "int32_t k(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
                       "  void* p[3] = {a[0]->data, a[1]->data, a[2]->data}; return raw(c, p); }\n";
  return std::make_shared<const std::string>(CompileArtifact(metadata, source));
}

MeasureJob JobOf(std::vector<Blob> artifacts) {
  MeasureJob job;
  job.task.id = "double";
  job.task.seed = 7;
  job.task.reference_kernel = "k";
  job.reference = Compile(kDouble);
  for (size_t i = 0; i < artifacts.size(); ++i) {
    Candidate c;
    c.id = std::to_string(i);
    c.kernel = "k";
    c.blob = static_cast<int>(i);
    c.repeats = 2;
    c.min_repeat_ms = 0.1;
    c.threads = 1;
    c.cold_weights = false;
    job.candidates.push_back(c);
  }
  job.artifacts = std::move(artifacts);
  return job;
}

std::vector<TrialStatus> StatusesOf(const std::vector<TrialResult>& results) {
  std::vector<TrialStatus> statuses;
  for (const TrialResult& r : results) statuses.push_back(r.status);
  return statuses;
}

// Alive, zombies not counted.
bool Alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}
template <class F>
bool Soon(F condition, int seconds = 30) {
  for (int i = 0; i < seconds * 100; ++i) {
    if (condition()) return true;
    usleep(10000);
  }
  return condition();
}
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string number, name, state;
    pid_t ppid = 0;
    if (stat >> number >> name >> state >> ppid && ppid == parent && state != "Z") pids.push_back(std::stoi(number));
  }
  return pids;
}

class FarmTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("AUTOTUNE_LIBEXEC", kTools.c_str(), 1);
    lock_ = testing::TempDir() + "farm-lock-" + std::to_string(getpid());
    setenv("AUTOTUNE_HOST_LOCK", lock_.c_str(), 1);
    folder_ = testing::TempDir() + "farm-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unlink(lock_.c_str());
  }

  Subprocess Run(std::vector<std::string> argv) {
    auto child = Subprocess::Spawn({.argv = std::move(argv)});
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().Text());
    return std::move(child).value();
  }
  Subprocess StartTracker() {
    UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    auto child =
        Subprocess::Spawn({.argv = {kTools + "/rpc_tracker", "--host", Endpoint(), "--state", folder_ + "/state.json"},
                           .fds = {{1, null.get()}}});
    EXPECT_TRUE(child.ok());
    return std::move(child).value();
  }
  Subprocess StartServer(const std::string& key, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {kTools + "/rpc_server", "--tracker", Endpoint(), "--key", key};
    argv.insert(argv.end(), more.begin(), more.end());
    return Run(argv);
  }
  std::string Endpoint() const { return endpoint_.empty() ? folder_ + "/tracker" : endpoint_; }

  // This executable once more, as the process that runs FarmTest.<test> and is meant to be killed. Its output goes to a
  // descriptor. (No fork: the sockets' threads would be missing.)
  Subprocess RunSelf(const std::string& test, int output) {
    auto child = Subprocess::Spawn({.argv = {"/proc/self/exe", "--gtest_filter=FarmTest." + test},
                                    .fds = {{1, output}},
                                    .environment = {"AUTOTUNE_TEST_CHILD=" + Endpoint()}});
    EXPECT_TRUE(child.ok());
    return std::move(child).value();
  }
  static std::string ReadLine(int fd) {
    std::string line;
    for (char c; read(fd, &c, 1) == 1;) {
      line = c == '\n' ? "" : line + c;
      if (line.ends_with(" !end")) break;
    }
    return line;
  }

  // How many devices of a key are in a state ("" counts all that are reachable).
  int Count(const std::string& key, const std::string& state = "free") {
    auto status = rpc::QueryStatus("ipc://" + Endpoint(), key, 1);
    if (!status) return -1;
    int n = 0;
    for (const auto& device : status->devices)
      n += state.empty() ? device.state != "unreachable" : device.state == state;
    return n;
  }
  std::unique_ptr<FarmClient> Client(const std::string& key, double wait_seconds = 60) {
    rpc::FarmOptions options;
    options.tracker = Endpoint();
    options.key = key;
    options.wait_seconds = wait_seconds;
    options.connect_seconds = 20;
    auto client = FarmClient::Connect(options);
    EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().Text());
    return client.ok() ? std::move(*client) : nullptr;
  }

  std::string folder_, lock_, endpoint_;
};

std::unique_ptr<LocalFarm> StartLocal(LocalFarmOptions options = {}) {
  auto farm = LocalFarm::Start(options);
  EXPECT_TRUE(farm.ok()) << (farm.ok() ? "" : farm.error().Text());
  return farm.ok() ? std::move(*farm) : nullptr;
}
std::unique_ptr<FarmClient> ClientOf(const LocalFarm& farm) {
  rpc::FarmOptions options;
  options.tracker = farm.tracker();
  options.key = farm.key();
  auto client = FarmClient::Connect(options);
  EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().Text());
  return std::move(client).value();
}

TEST_F(FarmTest, TunesForEver) {
  if (!std::getenv("AUTOTUNE_TEST_CHILD")) GTEST_SKIP() << "the child of another test";
  EndWithParent();
  auto farm = StartLocal();
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile("for (volatile int forever = 1; forever;);")});
  job.candidates[0].run_seconds = 1000;
  std::thread measuring([&] { (void)client->Measure(job); });
  usleep(300000);
  dprintf(1, "\n%d %s !end", farm->server_pid(), farm->tracker().c_str());
  measuring.join();
}

TEST_F(FarmTest, HoldsADevice) {
  const char* endpoint = std::getenv("AUTOTUNE_TEST_CHILD");
  if (!endpoint) GTEST_SKIP() << "the child of another test";
  EndWithParent();
  endpoint_ = endpoint;
  auto client = Client("cpu");
  (void)client->Measure(JobOf({Compile(kDouble)}));
  pause();
}

TEST_F(FarmTest, MeasuresAndChecksABatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile("for (int i = 63; i >= 0; --i) y[i] = x[i] + x[i];")});
  std::vector<std::string> order;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult& r) { order.push_back(r.candidate); }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  ASSERT_EQ(results->size(), 2u);
  for (const TrialResult& r : *results) {
    EXPECT_EQ(r.status, TrialStatus::kOk) << r.error;
    EXPECT_EQ(r.times.size(), 2u);
    for (double t : r.times) EXPECT_GT(t, 0);
    EXPECT_TRUE(r.checked);
    EXPECT_EQ(r.worst_error, 0);
    EXPECT_THAT(r.device, HasSubstr("local/"));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"0", "1"}));
}

// Each of these is one failed trial with its own status; the next candidate is measured as if nothing had happened.
TEST_F(FarmTest, EveryKindOfFailureIsOneFailedTrial) {
  auto farm = StartLocal({.server_arguments = {"--memory-limit", "0.25"}});
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  Blob good = Compile(kDouble);
  std::vector<Blob> artifacts = {
      good,
      Compile("*(volatile int*)0 = 1;"),  // segfault
      good,
      Compile("for (volatile int forever = 1; forever;);"),  // hang
      good,
      Compile("for (int i = 0; i < 64; ++i) y[i] = 2.01f * x[i];"),  // wrong
      Compile("for (int i = 0; i < 63; ++i) y[i] = 2 * x[i];"),      // forgets one
      Compile(std::string(kDouble) + " y[64] = 1;"),                 // writes past the end
      Compile(std::string(kDouble) + " x[0] = 3;"),                  // writes to its input
      Compile("__builtin_trap();"),                                  // illegal instruction
      Compile("c->set_error(c, \"tile 3 is empty\"); return 5;"),    // says so itself
      std::make_shared<const std::string>("this is no shared object"),
      Compile(kDouble, "__attribute__((constructor)) void f(void) { volatile int* volatile p = 0; *p = 1; }"),
      Compile("static volatile int n; if (n++ > 3) y[0] = 9; else " + std::string(kDouble)),  // right only at first
      Compile("for (;;) if (!c->workspace_alloc(c, 1 << 24)) { c->set_error(c, \"out of memory\"); return 1; }"),
      good,
  };
  MeasureJob job = JobOf(artifacts);
  job.candidates[3].run_seconds = 0.5;
  using enum TrialStatus;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  std::vector<TrialStatus> expected = {kOk,         kRunCrashed,         kOk,          kRunTimedOut,
                                       kOk,         kWrongAnswer,        kWrongAnswer, kWrongAnswer,
                                       kRunCrashed, kIllegalInstruction, kRunCrashed,  kLoadFailed,
                                       kLoadFailed, kWrongAnswer,        kOutOfMemory, kOk};
  EXPECT_EQ(StatusesOf(*results), expected);
  for (size_t i = 0; i < results->size(); ++i) {
    const TrialResult& r = (*results)[i];
    EXPECT_EQ(r.candidate, std::to_string(i));
    EXPECT_EQ(r.error.empty(), r.status == kOk) << i << ": " << r.error;
    EXPECT_EQ(r.times.empty(), r.status != kOk) << i;
  }
  EXPECT_THAT((*results)[1].error, HasSubstr("signal 11"));
  EXPECT_THAT((*results)[3].error, HasSubstr("ran longer than 0.5 s"));
  EXPECT_THAT((*results)[7].error, HasSubstr("past the buffer's last"));
  EXPECT_THAT((*results)[10].error, HasSubstr("tile 3 is empty"));
  EXPECT_THAT((*results)[13].error, HasSubstr("calls"));
}

TEST_F(FarmTest, ProcessesThatACandidateLeavesBehindAreKilled) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  // fork and setsid by number: artifacts have no undefined symbols. The grandchild leaves the runner's group.
  std::string fork =
      "static long call(long n) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(0), \"S\"(0) : "
      "\"rcx\", \"r11\", \"memory\"); return r; }";
#if defined(__x86_64__)
  Blob forks = Compile("if (call(57) == 0) { call(112); for (;;) call(34); } *(volatile int*)0 = 1;", fork);
  auto results = client->Measure(JobOf({forks, Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), (std::vector{TrialStatus::kRunCrashed, TrialStatus::kOk}));
  // Only the two runners are left.
  EXPECT_TRUE(Soon([&] { return ChildrenOf(farm->server_pid()).size() == 2; }));
#endif
}

TEST_F(FarmTest, ABrokenReferenceIsNobodysFault) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile(kDouble), Compile(kDouble)});
  job.reference = Compile("*(volatile int*)0 = 1;");
  job.candidates[2].check = false;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results),
            (std::vector{TrialStatus::kInfrastructure, TrialStatus::kInfrastructure, TrialStatus::kOk}));
  EXPECT_THAT((*results)[0].error, HasSubstr("the reference kernel failed"));
}

TEST_F(FarmTest, OversizedAndInvalidCandidatesFailAlone) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({std::make_shared<const std::string>(rpc::kMaxBlobBytes + 1, 'x'), Compile(kDouble)});
  job.candidates.push_back(job.candidates[1]);
  job.candidates.back().id = "none";
  job.candidates.back().blob = 9;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results),
            (std::vector{TrialStatus::kUploadFailed, TrialStatus::kOk, TrialStatus::kUploadFailed}));
  job.candidates[1].id = job.candidates[0].id;
  EXPECT_FALSE(client->Measure(job).ok());
}

TEST_F(FarmTest, ALargeJobIsCutIntoBatches) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::string good = *Compile(kDouble);
  std::vector<Blob> artifacts;
  for (int i = 0; i < 150; ++i) {
    // Bytes after the sections are of no interest to the loader.
    artifacts.push_back(std::make_shared<const std::string>(good + std::string(i % 2 ? 200000 : 10, 'x')));
  }
  auto results = client->Measure(JobOf(artifacts));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(150, TrialStatus::kOk));
}

TEST_F(FarmTest, MeasuringWaitsUntilTheHostIsQuiet) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::optional<HostLock> build = std::move(HostLock::Acquire(HostLock::Mode::kShared)).value();
  std::atomic<int> count = 0;
  auto measured = std::async(std::launch::async, [&] {
    return client->Measure(JobOf({Compile(kDouble)}), {.on_result = [&](const TrialResult&) { ++count; }});
  });
  usleep(300000);
  EXPECT_EQ(count, 0);
  build.reset();
  EXPECT_TRUE(measured.get().ok());
  EXPECT_EQ(count, 1);
  // And it is given back after the batch.
  EXPECT_TRUE(Soon([] { return std::move(HostLock::TryAcquire(HostLock::Mode::kShared)).value().has_value(); }));
}

TEST_F(FarmTest, TheRunnerMayBeWrapped) {
  auto farm = StartLocal({.server_arguments = {"--runner-prefix", "env WRAPPED=1"}});
  ASSERT_TRUE(farm);
  auto results = ClientOf(*farm)->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->front().status, TrialStatus::kOk) << results->front().error;
  // One that does not work is the device's fault, and the farm says why it does not come up.
  auto broken = LocalFarm::Start({.server_arguments = {"--runner-prefix", "/no/such/emulator"}, .start_seconds = 2});
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().Text(), HasSubstr("/no/such/emulator"));
}

TEST_F(FarmTest, SeveralJobsAtOnceTakeSeveralDevices) {
  Subprocess tracker = StartTracker();
  auto first = StartServer("cpu", {"--shared-host"}), second = StartServer("cpu", {"--shared-host"});
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 2; }));
  auto client = Client("cpu");
  Blob artifact = Compile(kDouble);
  std::vector<std::future<Result<std::vector<TrialResult>>>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(std::async(std::launch::async, [&] {
      MeasureJob job = JobOf(std::vector<Blob>(10, artifact));
      for (auto& c : job.candidates) c.min_repeat_ms = 50;
      return client->Measure(job);
    }));
  }
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 2; }));
  std::set<std::string> devices;
  for (auto& job : jobs) {
    auto results = job.get();
    ASSERT_TRUE(results.ok()) << results.error().Text();
    EXPECT_EQ(StatusesOf(*results), std::vector(10, TrialStatus::kOk));
    devices.insert(results->front().device);
  }
  EXPECT_EQ(devices.size(), 2u);
}

TEST_F(FarmTest, CancelEndsAtTheNextCandidate) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(40, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 100;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) { client->Cancel(); }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
  EXPECT_EQ(results->back().status, TrialStatus::kCancelled);
  // The next job is measured again.
  results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
}

TEST_F(FarmTest, TheServerIsKilledInMidBatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(10, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  std::set<pid_t> runners;
  int count = 0;
  pid_t first = farm->server_pid();
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   if (++count != 3) return;
                                   for (pid_t p : ChildrenOf(first)) runners.insert(p);
                                   kill(first, SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(10, TrialStatus::kOk));
  EXPECT_EQ(count, 10);  // each accepted once
  EXPECT_NE(farm->server_pid(), first);
  EXPECT_EQ(runners.size(), 2u);
  for (pid_t runner : runners) EXPECT_TRUE(Soon([&] { return !Alive(runner); }));
  EXPECT_TRUE(farm->Health().ok());
}

TEST_F(FarmTest, TheRunnerIsKilledInMidBatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  std::vector<Blob> artifacts(6, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  int count = 0;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   if (++count != 2) return;
                                   for (pid_t p : ChildrenOf(farm->server_pid())) kill(p, SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  // Killed from outside: not the candidate's fault, measured once more.
  EXPECT_EQ(StatusesOf(*results), std::vector(6, TrialStatus::kOk));
}

TEST_F(FarmTest, AServerThatAlwaysDiesIsGivenUpWithTheCause) {
  std::string path = folder_ + "/rpc_server";
  std::ofstream(path) << "#!/bin/sh\nexit 42\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto farm = LocalFarm::Start({.server_path = path});
  ASSERT_FALSE(farm.ok());
  EXPECT_THAT(farm.error().Text(), HasSubstr("exited with code 42; it was restarted 5 times"));

  auto good = StartLocal({.max_restarts = 1});
  ASSERT_TRUE(good);
  auto client = ClientOf(*good);
  std::vector<Blob> artifacts(40, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 30;
  int kills = 0;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult&) {
                                   ++kills;
                                   kill(good->server_pid(), SIGKILL);
                                 }});
  ASSERT_TRUE(results.ok());  // something was measured
  EXPECT_EQ(results->back().status, TrialStatus::kInfrastructure);
  EXPECT_THAT(results->back().error, HasSubstr("given up"));
  EXPECT_FALSE(good->Health().ok());
}

TEST_F(FarmTest, NothingIsLeftWhenTheTunerIsKilled) {
  auto [out, in] = std::move(MakePipe()).value();
  Subprocess tuner = RunSelf("TunesForEver", in.get());
  in.Reset();
  std::string line = ReadLine(out.get());
  pid_t server = std::atoi(line.c_str());
  size_t slash = line.find('/');
  ASSERT_NE(slash, std::string::npos) << line;
  std::string folder = std::filesystem::path(line.substr(slash + 2)).parent_path();
  std::vector<pid_t> runners = ChildrenOf(server);
  ASSERT_EQ(runners.size(), 2u);
  ASSERT_TRUE(std::filesystem::exists(folder));
  tuner.Kill();
  ASSERT_TRUE(tuner.Wait(10000));
  EXPECT_TRUE(Soon([&] { return !Alive(server) && !Alive(runners[0]) && !Alive(runners[1]); }));
  // The next farm sweeps what the dead one left, and leaves its own place clean.
  std::string own;
  {
    auto farm = StartLocal();
    own = std::filesystem::path(farm->tracker().substr(6)).parent_path();
    EXPECT_FALSE(std::filesystem::exists(folder));
    EXPECT_TRUE(std::filesystem::exists(own));
  }
  EXPECT_FALSE(std::filesystem::exists(own));
}

TEST_F(FarmTest, RegisteringAndCounting) {
  Subprocess tracker = StartTracker();
  auto first = StartServer("pi:4"), second = StartServer("pi:4");
  ASSERT_TRUE(Soon([&] { return Count("pi:4") == 2; }));
  auto client = Client("pi:4");
  ASSERT_TRUE(client);
  auto results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(Count("pi:4"), 1);  // the client keeps its device for its next job
  EXPECT_EQ(Count("pi:4", "busy"), 1);
  client->ReleaseDevices();
  EXPECT_TRUE(Soon([&] { return Count("pi:4") == 2; }));
  second.Kill();
  EXPECT_TRUE(Soon([&] { return Count("pi:4", "") == 1; }));
  first.Kill(SIGTERM);
  auto ended = first.Wait(10000);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->ok()) << ended->Text();
  EXPECT_TRUE(Soon([&] { return Count("pi:4", "") == 0; }));
}

TEST_F(FarmTest, UnknownKeysAreRefusedWithNearMisses) {
  Subprocess tracker = StartTracker();
  auto server = StartServer("rpi4");
  ASSERT_TRUE(Soon([&] { return Count("rpi4") == 1; }));
  usleep(3000000);  // for the grace after the tracker's start to be over
  auto client = Client("rp4");
  auto results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_FALSE(results.ok());
  EXPECT_THAT(results.error().Text(), HasSubstr("no device has the key `rp4`; did you mean `rpi4` (1 free)?"));
}

TEST_F(FarmTest, ManyClientsShareTheDevicesAndAKilledOnesLeaseExpires) {
  Subprocess tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  Subprocess holder = RunSelf("HoldsADevice", 1);
  ASSERT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }));
  // A short wait is answered in time, with the reason.
  auto impatient = Client("cpu", 0.2)->Measure(JobOf({Compile(kDouble)}));
  ASSERT_FALSE(impatient.ok());
  EXPECT_THAT(impatient.error().Text(), HasSubstr("1 of 1 devices `cpu` busy"));
  holder.Kill();
  ASSERT_TRUE(holder.Wait(10000));
  auto results = Client("cpu")->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
}

TEST_F(FarmTest, TheTrackerIsRestartedInMidJob) {
  std::optional<Subprocess> tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  auto client = Client("cpu");
  std::vector<Blob> artifacts(30, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 50;
  std::atomic<int> count = 0;
  auto measured = std::async(std::launch::async,
                             [&] { return client->Measure(job, {.on_result = [&](const TrialResult&) { ++count; }}); });
  ASSERT_TRUE(Soon([&] { return count > 2; }));
  tracker->Kill();
  tracker->Wait(10000);
  tracker = StartTracker();
  // The lease lives on: the server reports it, and the new tracker knows who holds the device.
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }));
  auto results = measured.get();
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(30, TrialStatus::kOk));
  EXPECT_EQ(count, 30);
  auto status = client->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->epoch, 2);
  // A new request is granted once the recovery is over.
  client.reset();
  results = Client("cpu")->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
}

TEST_F(FarmTest, TheServerOutlivesTheTracker) {
  std::optional<Subprocess> tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  tracker->Kill();
  tracker->Wait(10000);
  std::filesystem::remove(folder_ + "/state.json");
  usleep(1500000);
  tracker = StartTracker();
  EXPECT_TRUE(Soon([&] { return Count("cpu", "") == 1; }));
}

TEST_F(FarmTest, OutOfDescriptorsTheTrackerNeitherSpinsNorDies) {
  auto [out, in] = std::move(MakePipe()).value();
  std::string command = "ulimit -n 48; exec " + kTools + "/rpc_tracker --port 0 --state " + folder_ + "/state.json";
  auto tracker = std::move(Subprocess::Spawn({.argv = {"/bin/sh", "-c", command}, .fds = {{1, in.get()}}})).value();
  in.Reset();
  std::string line;
  for (char c; read(out.get(), &c, 1) == 1 && c != '\n';) line += c;
  size_t at = line.find("tcp://");
  ASSERT_NE(at, std::string::npos) << line;
  std::string endpoint = line.substr(at, line.find(';') - at);
  ASSERT_TRUE(rpc::QueryStatus(endpoint).ok());
  auto cpu_ticks = [&] {
    std::ifstream stat("/proc/" + std::to_string(tracker.pid()) + "/stat");
    std::string word;
    long ticks = 0;
    for (int field = 1; stat >> word; ++field) ticks += field == 14 || field == 15 ? std::stol(word) : 0;
    return ticks;
  };
  std::vector<UniqueFd> strangers;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 100; ++i) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  usleep(200000);
  long before = cpu_ticks();
  usleep(2000000);
  EXPECT_LT(cpu_ticks() - before, 100);  // of 200: a spinning io thread would take them all
  strangers.clear();
  EXPECT_TRUE(Soon([&] { return rpc::QueryStatus(endpoint, "", 1).ok(); }));
}

TEST_F(FarmTest, EndpointsBeyondThisHostAreRefused) {
  auto [out, in] = std::move(MakePipe()).value();
  auto spawn = [&](std::vector<std::string> argv) {
    return std::move(Subprocess::Spawn({.argv = std::move(argv), .fds = {{2, in.get()}}})).value();
  };
  EXPECT_EQ(spawn({kTools + "/rpc_tracker", "--host", "0.0.0.0"}).Wait(10000), (ExitStatus{1, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--tracker", "10.0.0.1:9190", "--key", "x"}).Wait(10000),
            (ExitStatus{1, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--key", "x"}).Wait(10000), (ExitStatus{2, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--no-such-option"}).Wait(10000), (ExitStatus{2, 0}));
  in.Reset();
  std::string text;
  char bytes[512];
  for (ssize_t n; (n = read(out.get(), bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
  EXPECT_THAT(text, HasSubstr("0.0.0.0:9190: refused, since connections are not authenticated"));
  EXPECT_THAT(text, HasSubstr("10.0.0.1:9190: refused"));
  EXPECT_FALSE(FarmClient::Connect({.tracker = "example.org:1", .key = "x"}).ok());
  auto silent = FarmClient::Connect({.tracker = Endpoint(), .key = "x", .connect_seconds = 0.2});
  ASSERT_FALSE(silent.ok());
  EXPECT_THAT(silent.error().Text(), HasSubstr("no tracker answers"));
}

}  // namespace
}  // namespace autotune
