// Times on CUDA devices. The fake driver of tests/runtime/fake_cuda/ has a clock of its own, so times are exact: 10 us
// for a kernel, and 4 us before each launch by the host, or 1 us before each launch in a graph.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "runtime/cpu_device.h"
#include "runtime/cuda/device.h"
#include "runtime/device_timing.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTimedPtx = ".version 8.0\n.target sm_80\n.entry twice\n.entry illegal\n";
constexpr double kInGraph = 11e-6, kByHost = 14e-6;  // seconds of a launch

class CudaTiming : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("AUTOTUNE_LIBCUDA", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libcuda.so.1", 1);
    setenv("AUTOTUNE_LIBNVML", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libnvidia-ml.so.1", 1);
    Restart("");
  }
  void Restart(const std::string& words) {
    static int number = 0;
    image_.reset();
    memory_.reset();
    device_.reset();
    log_ = testing::TempDir() + "/cuda_timing" + std::to_string(getpid()) + "_" + std::to_string(++number) + ".log";
    setenv("FAKE_CUDA", ("log=" + log_ + " " + words).c_str(), 1);
    device_ = OpenDevice({kDLCUDA, 0}).value();
    image_ = device_->LoadImage("ptx", kTimedPtx).value();
    twice_ = image_->Entry("twice").value();
    memory_ = device_->Allocate(1024).value();
  }
  int Calls(const std::string& call) const {
    std::ifstream in(log_);
    int count = 0;
    for (std::string line; std::getline(in, line);) count += line == call || line.starts_with(call + " ");
    return count;
  }
  Status Launch(const void* entry) {
    void* args[] = {memory_.get(), memory_.get()};
    return device_->Launch(entry, {.block = {8, 1, 1}}, args);
  }

  std::string log_;
  DevicePtr device_;
  std::shared_ptr<const DeviceImage> image_;
  const void* twice_ = nullptr;
  std::shared_ptr<void> memory_;
};

TEST_F(CudaTiming, ASpanIsBetweenTwoEvents) {
  for (int i = 0; i < 2; ++i) {
    const double seconds = device_
                               ->Time([&]() -> Status {
                                 for (int k = 0; k < 3; ++k) TRY(Launch(twice_));
                                 std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                 return {};
                               })
                               .value();
    EXPECT_NEAR(seconds, 3 * kByHost, 1e-9) << "the host's clock counts";
  }
  EXPECT_EQ(Calls("cuEventCreate"), 2);
  EXPECT_EQ(Calls("cuEventRecord"), 4);
  EXPECT_EQ(Calls("cuEventElapsedTime"), 2);
  EXPECT_THAT(device_->Time([]() -> Status { return Err("the caller's own"); }).error().Text(),
              HasSubstr("the caller's own"));
  const void* illegal = image_->Entry("illegal").value();
  EXPECT_THAT(device_->Time([&] { return Launch(illegal); }).error().Text(), HasSubstr("ILLEGAL_ADDRESS"));
  memory_.reset();
  image_.reset();
  device_.reset();
  EXPECT_EQ(Calls("cuEventDestroy_v2"), 2);
}

TEST_F(CudaTiming, CallsAreTimedInGraphsOfAtLeastTwenty) {
  for (const int launches : {1, 3}) {  // a split sum is charged what its launches cost in a graph
    Restart("");
    auto call = [&](int64_t) -> Status {
      for (int i = 0; i < launches; ++i) TRY(Launch(twice_));
      return {};
    };
    const DeviceTiming timed = TimeOnDevice(*device_, {.repeats = 3, .min_repeat_seconds = 5e-3}, call).value();
    EXPECT_GE(timed.timing.seconds.size(), 3u);
    for (const double seconds : timed.timing.seconds) EXPECT_NEAR(seconds, launches * kInGraph, 1e-8);
    const int graphs = Calls("cuStreamBeginCapture_v2");
    EXPECT_EQ(graphs, 1);
    EXPECT_EQ(Calls("cuGraphUpload"), 1);
    const int recorded = Calls("cuLaunchKernel twice") - launches;  // without the first call
    EXPECT_GE(recorded, 20 * launches);
    EXPECT_EQ(recorded % launches, 0);
    EXPECT_GE(Calls("cuGraphLaunch") * recorded / launches, 5e-3 / (launches * kInGraph));
  }
}

TEST_F(CudaTiming, ASlowKernelIsCalledOnceOrTwice) {
  int calls = 0;
  auto call = [&](int64_t) -> Status {
    ++calls;
    for (int i = 0; i < 2000; ++i) TRY(Launch(twice_));
    return {};
  };
  const TimeOptions options{.repeats = 3, .min_repeat_seconds = 5e-3, .cutoff_seconds = 1e-4};
  EXPECT_TRUE(TimeOnDevice(*device_, options, call)->timing.cut_off);
  EXPECT_LE(calls, 2);
}

TEST_F(CudaTiming, CallsRotateAmongAllCopies) {
  for (const int64_t rotation : {1, 3, 300, 1000}) {
    Restart("");
    std::map<int64_t, int> taken;
    auto call = [&](int64_t copy) {
      ++taken[copy];
      return Launch(twice_);
    };
    ASSERT_TRUE(TimeOnDevice(*device_, {.repeats = 8, .min_repeat_seconds = 5e-3}, call, rotation).ok());
    EXPECT_EQ(static_cast<int64_t>(taken.size()), rotation) << "each copy has a place in the graphs";
    EXPECT_EQ(taken.rbegin()->first, rotation - 1);
  }
}

TEST_F(CudaTiming, TheReferenceKernelRunsUntilTheClockIsSteady) {
  Restart("ramp=5");
  Device::Reading reading = device_->Settle().value();
  EXPECT_TRUE(reading.steady);
  EXPECT_NEAR(reading.seconds, 514e-6, 1e-9);
  EXPECT_EQ(Calls("cuLaunchKernel autotune_reference"), 8) << "two readings while the clock rises, two that agree";
  EXPECT_EQ(Calls("cuModuleLoadDataEx"), 2);
  ASSERT_TRUE(device_->Settle().ok());
  EXPECT_EQ(Calls("cuLaunchKernel autotune_reference"), 12) << "two readings, each after a launch that is not timed";
  EXPECT_EQ(Calls("cuModuleLoadDataEx"), 2) << "it is loaded once";

  Restart("wobble=2");  // no two successive times agree
  reading = device_->Settle().value();
  EXPECT_FALSE(reading.steady);
  EXPECT_LE(Calls("cuLaunchKernel autotune_reference") / 2 * 514e-6, Device::kMostSettleSeconds + 0.1);
}

TEST_F(CudaTiming, WithoutAReferenceKernelThereAreTimesYet) {
  Restart("fail=cuModuleLoadDataEx:221:2");
  const DeviceTiming timed = TimeOnDevice(*device_, {.repeats = 1, .min_repeat_seconds = 1e-3}, [&](int64_t) {
                               return Launch(twice_);
                             }).value();
  EXPECT_NEAR(timed.timing.seconds.at(0), kInGraph, 1e-8);
  EXPECT_EQ(timed.state.reference_seconds, 0);
  EXPECT_TRUE(timed.state.steady);
}

TEST_F(CudaTiming, AChangedClockIsMeasuredAgain) {
  const TimeOptions options{.repeats = 1, .min_repeat_seconds = 1e-3};
  auto measure = [&] { return TimeOnDevice(*device_, options, [&](int64_t) { return Launch(twice_); }).value(); };
  Restart("");
  EXPECT_TRUE(measure().state.steady);
  EXPECT_EQ(Calls("cuLaunchKernel autotune_reference"), 8);
  // The clock changes after the second, fourth... reading: before each measurement it is another one than after it.
  Restart("wobble=4");
  EXPECT_FALSE(measure().state.steady);
  EXPECT_EQ(Calls("cuLaunchKernel autotune_reference"), 24) << "three attempts";
  // It changes once, in the first measurement.
  Restart("step=4");
  EXPECT_TRUE(measure().state.steady);
  EXPECT_EQ(Calls("cuLaunchKernel autotune_reference"), 16) << "two attempts";
}

TEST_F(CudaTiming, ADeviceWithoutItsOwnClockHasTheHosts) {
  CpuDevice cpu(1);
  int64_t calls = 0;
  const DeviceTiming timed = TimeOnDevice(
                                 cpu, {.number = 3, .repeats = 2},
                                 [&](int64_t copy) -> Status {
                                   EXPECT_EQ(copy, calls++ % 2);
                                   std::this_thread::sleep_for(std::chrono::milliseconds(2));
                                   return {};
                                 },
                                 2)
                                 .value();
  EXPECT_EQ(calls, 7);
  for (const double seconds : timed.timing.seconds) EXPECT_GT(seconds, 2e-3);
  EXPECT_FALSE(timed.state.IsKnown());
}

// NVML is loaded once per process, so each of these runs in a process of its own.
void PrintState(const char* library, const char* settings) {
  setenv("AUTOTUNE_LIBCUDA", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libcuda.so.1", 1);
  setenv("AUTOTUNE_LIBNVML", library, 1);
  setenv("FAKE_NVML", settings, 1);
  setenv("FAKE_CUDA", "gpus=2", 1);
  const DeviceState state = OpenDevice({kDLCUDA, 1}).value()->State();
  std::string text = std::to_string(state.clock_mhz) + " " + std::to_string(state.memory_clock_mhz);
  for (const std::string& reason : state.throttled) text += ", " + reason;
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(0);
}

TEST(CudaClocks, AreThoseOfTheManagementLibrary) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  constexpr const char* kLibrary = AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libnvidia-ml.so.1";
  const auto ok = testing::ExitedWithCode(0);
  EXPECT_EXIT(PrintState(kLibrary, ""), ok, "^1980 2619\n$");
  EXPECT_EXIT(PrintState(kLibrary, "clock=345 memory=405 reasons=37"), ok, "^345 405, power cap, heat\n$");
  EXPECT_EXIT(PrintState(kLibrary, "init=9"), ok, "^0 0\n$");
  EXPECT_EXIT(PrintState("/nowhere/libnvidia-ml.so.1", ""), ok, "^0 0\n$");
}

}  // namespace
}  // namespace autotune
