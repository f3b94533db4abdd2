// Two device servers on one host, each for one of two OpenCL devices. Needs PoCL, which makes as many devices of this
// host's CPU as POCL_DEVICES names.
#include <algorithm>
#include <chrono>
#include <future>

#include "runtime/device_module.h"
#include "runtime/opencl/device.h"
#include "tests/draws.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

// Sleeps as long as the array `time` says. PoCL links kernels with no function of the C library, so this makes the
// system call `nanosleep` itself. Empty: unknown for this processor.
#if defined(__x86_64__)
const std::string kSleep = R"(
    long call = 35;
    __asm__ volatile("syscall" : "+a"(call) : "D"(time), "S"(0L) : "rcx", "r11", "memory");)";
#elif defined(__aarch64__)
const std::string kSleep = R"(
    register long call __asm__("x8") = 101, first __asm__("x0") = (long)time, second __asm__("x1") = 0;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(call), "r"(second) : "memory");)";
#else
const std::string kSleep;
#endif

// Each call of the kernel sleeps for 100 ms.
const std::string kNaps = R"(
kernel void naps(global const float* x, global float* y) {
  long time[2] = {0, 100000000};
  if (get_global_id(0) == 0) {)" +
                          kSleep +
                          R"(
  }
  y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
)";

Blob Naps() {
  const std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"k","device":"opencl","params":[
    {"name":"x","dtype":"f32","shape":[64],"kind":"input"},{"name":"w","dtype":"f32","shape":[256],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[64],"kind":"output"}],"launches":[{"entry":"naps","grid":[2],"block":[32],
    "args":[{"kind":"param","index":0},{"kind":"param","index":2}]}]}]})";
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  DeviceCode code{.format = "cl", .image = kNaps};
  code.functions["naps"] = {{kAddress, kAddress}, {}};
  return ArtifactOf(metadata, MakeDeviceModule("opencl", std::move(code)));
}

class FarmOfTwoOpenClDevices : public FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    setenv("POCL_DEVICES", "basic basic", 1);
    setenv("POCL_CACHE_DIR", folder_.c_str(), 1);
    const auto devices = OpenClDevices();
    if (!devices.ok()) GTEST_SKIP() << devices.error().Text();
    if (kSleep.empty()) GTEST_SKIP() << "no kernel sleeps on this processor";
    if (devices->size() != 2) GTEST_SKIP() << "PoCL alone makes two devices of one CPU";
  }
  void TearDown() override {
    unsetenv("POCL_DEVICES");
    unsetenv("POCL_CACHE_DIR");
    FarmTest::TearDown();
  }

  // Starts a server for each of `devices`, and for each server a client that measures candidates. Returns the
  // candidates that all servers together measure per second.
  double Rate(const std::vector<std::string>& devices) {
    // A tracker that finds this file waits 10 s for leases of the time before.
    std::filesystem::remove(folder_ + "/state/state.json");
    Subprocess tracker = StartTracker();
    std::vector<Subprocess> servers;
    std::vector<std::unique_ptr<FarmClient>> clients;
    for (size_t i = 0; i < devices.size(); ++i) {
      const std::string key = "device" + std::to_string(i);
      servers.push_back(StartServer(key, {"--device", devices[i]}));
      EXPECT_TRUE(Soon([&] { return Count(key) == 1; }));
      clients.push_back(Client(key));
    }
    const MeasureJob job = JobOf(std::vector<Blob>(4, Naps()));
    // The runners start, and PoCL compiles the kernel.
    for (auto& client : clients) EXPECT_TRUE(client->Measure(JobOf({job.artifacts[0]})).ok());
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::future<Result<std::vector<TrialResult>>>> jobs;
    for (auto& client : clients) jobs.push_back(std::async(std::launch::async, [&] { return client->Measure(job); }));
    size_t measured = 0;
    for (auto& results : jobs) {
      const auto done = results.get();
      EXPECT_TRUE(done.ok());
      for (const TrialResult& r : done.value()) {
        EXPECT_EQ(r.status, TrialStatus::kOk) << r.error;
        ++measured;
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(measured) / seconds.count();
  }
};

// Runs with AUTOTUNE_DRAWS=all only, since it judges times, which needs a host without other load. Other load slows
// some runs even so, so the fastest runs of each kind count.
TEST_F(FarmOfTwoOpenClDevices, MeasureMoreThanOneUnlessTheyShareIt) {
  if (!test::DrawsAll()) GTEST_SKIP() << "AUTOTUNE_DRAWS=all runs it";
  constexpr double kLeast = 1.9;
  double alone = 0, together = 0, shared = 0;
  for (int i = 0; i < 5 && !(alone > 0 && together >= kLeast * alone && shared < 1.3 * alone); ++i) {
    alone = std::max(alone, Rate({"opencl:0"}));
    together = std::max(together, Rate({"opencl:0", "opencl:1"}));
    shared = std::max(shared, Rate({"opencl:1", "opencl:1"}));
  }
  std::printf("%.2f candidates per second; two servers: %.2f; two servers of one device: %.2f\n", alone, together,
              shared);
  EXPECT_GE(together, kLeast * alone);
  EXPECT_LT(shared, 1.3 * alone) << "kernels of two servers must not run beside each other on one device";
}

}  // namespace
}  // namespace autotune
