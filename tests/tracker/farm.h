// Shared by the tests of whole farms: artifacts, jobs, processes, and a fixture that starts trackers, servers and
// clients in a folder of its own. For tests only; one test at a time.
#pragma once
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "rpc/client.h"
#include "support/clock.h"
#include "support/subprocess.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/module_blob.h"
#include "tracker/local_farm.h"

namespace autotune {

using rpc::Blob;
using rpc::Candidate;
using rpc::FarmClient;
using rpc::MeasureJob;
using rpc::TrialResult;

inline const std::string kTools = std::string(AUTOTUNE_BINARY_DIR) + "/tools";

// The default body of an artifact: y = 2x over 64 floats.
inline constexpr char kDouble[] = "for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];";

// Returns the name of a kernel of CompileKernels.
inline std::string KernelName(size_t i) { return i == 0 ? "k" : "k" + std::to_string(i); }

// Compiles an artifact with a kernel for each body.
inline Blob CompileKernels(const std::vector<std::string>& bodies, const std::string& top = "") {
  std::string kernels, source = top + "\n";
  for (size_t i = 0; i < bodies.size(); ++i) {
    const std::string name = KernelName(i);
    kernels += (i == 0 ? "" : ",") + ("{\"name\":\"" + name) + R"(","params":[
    {"name":"x","dtype":"f32","shape":[64],"kind":"input"},{"name":"w","dtype":"f32","shape":[256],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[64],"kind":"output"}]})";
    source += "int32_t " + name + "_raw(AtContext* c, void* const* a) ENTRY(\"" + name +
              ".raw\");\n"
              "int32_t " +
              name + "_raw(AtContext* c, void* const* a) { float *x = a[0], *w = a[1], *y = a[2]; " + bodies[i] +
              " return 0; }\n"
              "int32_t " +
              name +
              "(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
              "  void* p[3] = {a[0]->data, a[1]->data, a[2]->data}; return " +
              name + "_raw(c, p); }\n";
  }
  const std::string metadata = R"({"abi_version":1,"target":"test","kernels":[)" + kernels + "]}";
  return rpc::MakeBlob(CompileArtifact(metadata, source));
}
// Returns an artifact whose kernels launch functions of `code`, a module for a device other than the CPU.
inline Blob ArtifactOf(const std::string& metadata, Module code) {
  Module library = MakeUnlinkedLibrary();
  CHECK(library->Import(std::move(code)).ok());
  std::string body = "extern const unsigned char tree[] ENTRY(\"" + std::string(kModuleBlobSymbol) +
                     "\");\nconst unsigned char tree[] = {";
  for (unsigned char byte : test::ModuleBlobSymbol(test::ModuleBlob(library).value()))
    body += std::to_string(byte) + ",";
  return rpc::MakeBlob(CompileArtifact(metadata, body + "};\n"));
}
inline Blob Compile(const std::string& body, const std::string& top = "") { return CompileKernels({body}, top); }

inline MeasureJob JobOf(std::vector<Blob> artifacts) {
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

inline std::vector<TrialStatus> StatusesOf(const std::vector<TrialResult>& results) {
  std::vector<TrialStatus> statuses;
  for (const TrialResult& r : results) statuses.push_back(r.status);
  return statuses;
}

// Returns whether a process is alive. Zombies do not count.
inline bool Alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}
template <class F>
bool Soon(F condition, int seconds = 30) {
  for (const int64_t end = BootMillis() + int64_t{1000} * seconds; BootMillis() < end; usleep(10000)) {
    if (condition()) return true;
  }
  return condition();
}
inline std::vector<pid_t> ChildrenOf(pid_t parent) {
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
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    // The lock of the host, and those of its devices.
    const std::filesystem::path lock(lock_);
    for (const auto& entry : std::filesystem::directory_iterator(lock.parent_path())) {
      if (entry.path().filename().string().starts_with(lock.filename().string())) std::filesystem::remove(entry.path());
    }
  }

  Subprocess Run(std::vector<std::string> argv) {
    auto child = Subprocess::Spawn({.argv = std::move(argv)});
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().Text());
    return std::move(child).value();
  }
  Subprocess StartTracker() {
    UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    auto child =
        Subprocess::Spawn({.argv = {kTools + "/rpc_tracker", "--listen", Endpoint(), "--state", folder_ + "/state"},
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
  virtual rpc::Address TrackerAddress() const { return Endpoint(); }  // for clients

  // Starts this executable again to run <suite>.<test> in a process that the test may kill. Its output goes to a
  // descriptor; its files are in this fixture's folder and are removed with it. (A fork would lack the sockets'
  // threads.)
  Subprocess RunSelf(const std::string& test, int output) {
    auto child =
        Subprocess::Spawn({.argv = {"/proc/self/exe", "--gtest_filter=" + test},
                           .fds = {{1, output}},
                           .environment = {"AUTOTUNE_TEST_CHILD=" + Endpoint(), "TEST_TMPDIR=" + folder_ + "/"}});
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

  // Returns the number of devices of a key in a state; "" counts all reachable ones.
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
    options.tracker = TrackerAddress();
    options.key = key;
    options.wait_seconds = wait_seconds;
    options.connect_seconds = 20;
    auto client = FarmClient::Connect(options);
    EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().Text());
    return client.ok() ? std::move(*client) : nullptr;
  }

  std::string folder_, lock_, endpoint_;
};

inline std::unique_ptr<LocalFarm> StartLocal(LocalFarmOptions options = {}) {
  auto farm = LocalFarm::Start(options);
  EXPECT_TRUE(farm.ok()) << (farm.ok() ? "" : farm.error().Text());
  return farm.ok() ? std::move(*farm) : nullptr;
}
inline std::unique_ptr<FarmClient> ClientOf(const LocalFarm& farm) {
  rpc::FarmOptions options;
  options.tracker = farm.tracker();
  options.key = farm.key();
  auto client = FarmClient::Connect(options);
  EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().Text());
  return std::move(client).value();
}

}  // namespace autotune
