// CUDA devices on the fake driver of tests/runtime/fake_cuda/, which checks accesses as strictly as a GPU and fails on
// request.
#include "runtime/cuda/device.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/runtime/cuda.h"

namespace autotune {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(Cuda, LimitsAreTheDriversAndMakeNoContext) {
  const std::vector<DeviceEntry> devices = CudaDevices().value();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "Fake GPU A");
  const DeviceLimits limits = device_->limits();
  EXPECT_EQ(limits.memory_bytes, 1 << 30);
  EXPECT_EQ(limits.shared_bytes, 227 << 10);
  EXPECT_EQ(limits.threads_per_block, 1024);
  EXPECT_EQ(limits.units, 132);
  EXPECT_EQ(limits.l2_bytes, 50 << 20);
  EXPECT_EQ(limits.architecture, "sm_90");
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRetain"), 0) << "an unused device must not take memory";
  ASSERT_TRUE(device_->Synchronize().ok());
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRetain"), 1);
  device_.reset();
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRelease_v2"), 1);
}

TEST_F(Cuda, MemoryAndCopies) {
  for (const char* words : {"", "pools=0"}) {
    Restart(words);
    Tensor host = Ramp({1000});
    Tensor far = ToDevice(host, device_).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(far.data()) % 256, 0u);
    Tensor twin = ToDevice(Ramp({1000}, 7), device_).value();
    ASSERT_TRUE(CopyTensor(far, twin).ok());
    far = Tensor();  // freed by the device after the copy
    EXPECT_EQ(ToHost(twin).value().bytes(), host.bytes());
    ASSERT_TRUE(device_->Zero(static_cast<float*>(twin.data()) + 10, 40).ok());
    Tensor back = ToHost(twin).value();
    EXPECT_EQ(back.Data<float>()[9], 9);
    EXPECT_EQ(back.Data<float>()[10], 0);
    EXPECT_EQ(back.Data<float>()[20], 20);
    EXPECT_NE(device_->Allocate(0).value(), nullptr);
    const bool pools = *words == '\0';
    EXPECT_EQ(Calls("cuMemAllocAsync"), pools ? 3 : 0);
    EXPECT_EQ(Calls("cuMemFree_v2"), pools ? 0 : 2);
    EXPECT_EQ(Calls("cuMemPoolSetAttribute 4 18446744073709551615"), pools ? 1 : 0) << "freed memory stays mapped";
  }
}

// The pool's setting is for speed only.
TEST_F(Cuda, ADriverThatRefusesThePoolsSettingIsFit) {
  for (const char* words : {"fail=cuDeviceGetDefaultMemPool:801", "fail=cuMemPoolSetAttribute:801"}) {
    Restart(words);
    EXPECT_EQ(ToHost(ToDevice(Ramp({8}), device_).value()).value().bytes(), Ramp({8}).bytes()) << words;
  }
}

TEST_F(Cuda, AddressesOfTheHostAreRefusedButNotFinal) {
  Tensor far = ToDevice(Ramp({8}), device_).value();
  float host[8];
  EXPECT_THAT(device_->CopyWithin(far.data(), host, 32).error().Text(),
              HasSubstr("cuda(0): a copy failed: CUDA_ERROR_INVALID_VALUE (1)"));
  EXPECT_FALSE(device_->CopyIn(host, host, 32).ok());
  EXPECT_FALSE(device_->CopyIn(far.data(), far.data(), 32).ok());
  EXPECT_FALSE(device_->CopyOut(host, static_cast<char*>(far.data()) + 256, 4).ok());
  EXPECT_FALSE(device_->Zero(host, 4).ok());
  EXPECT_TRUE(device_->LastError().ok());
  EXPECT_EQ(ToHost(far).value().bytes(), Ramp({8}).bytes());
}

TEST_F(Cuda, FunctionsOfAModule) {
  for (const auto& [image, format] : {std::pair{kPtx, "ptx"}, std::pair{"CUBIN sm_90 .entry shift", "cubin"}}) {
    Module module = MakeDeviceModule("cuda", Code(image, format));
    Tensor x = ToDevice(Ramp({256}), device_).value(), p = ToDevice(Ramp({256}, 1), device_).value();
    Tensor y = ToDevice(Ramp({256}, 50), device_).value();
    auto done = module->GetFunction("shift").value()(x, p, y, 8, 32);
    ASSERT_TRUE(done.ok()) << done.error().Text();
    EXPECT_EQ(ToHost(y).value().Data<float>()[255], 255 + 256);
  }
}

TEST_F(Cuda, ImagesAreRefusedInOneLine) {
  EXPECT_THAT(ErrorOf(Code(".version 8.0\n.target sm_80\nbroken"), "twice"),
              AllOf(HasSubstr("the driver's compiler refuses the PTX: CUDA_ERROR_INVALID_PTX (218)"),
                    HasSubstr("Parsing error near 'broken'"), Not(HasSubstr("\n")), Not(HasSubstr("aborted"))));
  EXPECT_THAT(ErrorOf(Code(".version 9.0\n.target sm_80\n.entry twice"), "twice"),
              AllOf(HasSubstr("the driver of cuda(0), for CUDA 12.4, is too old for this PTX: update NVIDIA's driver"),
                    Not(HasSubstr("\n"))));
  EXPECT_THAT(ErrorOf(Code(".version 8.0\n.target sm_100\n.entry twice"), "twice"),
              HasSubstr("this ptx is not for sm_90, which cuda(0) is: CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
  EXPECT_THAT(ErrorOf(Code("CUBIN sm_80 .entry twice", "cubin"), "twice"), HasSubstr("this cubin is not for sm_90"));
  EXPECT_THAT(ErrorOf(Code(), "nowhere"), HasSubstr("the image has no kernel 'nowhere'"));
  EXPECT_THAT(ErrorOf(Code(kPtx, "cl"), "twice"), HasSubstr("takes PTX (ptx) and machine code (cubin), not cl"));
  EXPECT_TRUE(device_->LastError().ok());
  EXPECT_EQ(ErrorOf(Code(), "twice"), "");
}

TEST_F(Cuda, SharedMemoryBeyondTheDefaultIsAskedForOnce) {
  auto image = device_->LoadImage("ptx", kPtx).value();
  const void* entry = image->Entry("reversed").value();
  Tensor x = ToDevice(Ramp({8}), device_).value(), y = ToDevice(Ramp({8}), device_).value();
  void* args[] = {x.data(), y.data()};
  for (int64_t bytes : {200 << 10, 100 << 10, 200 << 10})
    ASSERT_TRUE(device_->Launch(entry, {.block = {8, 1, 1}, .shared_bytes = bytes}, args).ok());
  EXPECT_EQ(Calls("cuFuncSetAttribute 8 204800"), 1);
  EXPECT_EQ(Calls("cuFuncSetAttribute"), 1);
  EXPECT_EQ(ToHost(y).value().Data<float>()[0], 7);
  EXPECT_FALSE(device_->Launch(entry, {.block = {8, 1, 1}, .shared_bytes = 228 << 10}, args).ok());
  EXPECT_FALSE(device_->Launch(entry, {.block = {2048, 1, 1}, .shared_bytes = 32}, args).ok());
  EXPECT_FALSE(device_->Launch(entry, {.grid = {1LL << 32, 1, 1}}, args).ok());
  EXPECT_TRUE(device_->LastError().ok());
}

TEST_F(Cuda, NoMemoryIsNotFinal) {
  Result<std::shared_ptr<void>> much = device_->Allocate(int64_t{1} << 40);
  EXPECT_EQ(much.error().kind, ErrorKind::kOutOfMemory);
  std::shared_ptr<void> most = device_->Allocate(1000 << 20).value();
  Result<std::shared_ptr<void>> more = device_->Allocate(100 << 20);
  EXPECT_EQ(more.error().kind, ErrorKind::kOutOfMemory);
  EXPECT_THAT(more.error().Text(), HasSubstr("no 104857600 bytes free on cuda(0)"));
  most.reset();
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_TRUE(device_->Allocate(100 << 20).ok());
  Restart("fail=cuLaunchKernel:2:1");
  Status launched = Call(Code(), "twice");
  EXPECT_EQ(launched.error().kind, ErrorKind::kOutOfMemory);
  EXPECT_EQ(ErrorOf(Code(), "twice"), "");
}

TEST_F(Cuda, FaultsAreFinal) {
  struct Fault {
    const char *words, *kernel, *text;
    bool lost;
  };
  const Fault faults[] = {
      {"", "illegal", "a command failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)", false},
      {"", "unknown", "a command failed: CUDA_ERROR_UNKNOWN (999)", false},
      {"", "bit_flip", "a command failed: CUDA_ERROR_ECC_UNCORRECTABLE (214)", true},
      {"fail=cuLaunchKernel:719", "twice", "a launch failed: CUDA error 719", false},
      {"fail=cuDevicePrimaryCtxRetain:46", "twice", "making a context failed: CUDA error 46", true}};
  for (const Fault& fault : faults) {
    Restart(fault.words);
    EXPECT_THAT(ErrorOf(Code(), fault.kernel), HasSubstr(fault.text));
    EXPECT_THAT(device_->LastError().error().Text(), HasSubstr(fault.text));
    EXPECT_EQ(device_->IsLost(), fault.lost) << fault.text;
    for (const Status& later : {device_->Synchronize(), Call(Code(), "twice"), device_->Zero(nullptr, 0)})
      EXPECT_THAT(later.error().Text(), HasSubstr(fault.text));
    EXPECT_FALSE(device_->Allocate(8).ok());
    EXPECT_FALSE(device_->LoadImage("ptx", kPtx).ok());
    EXPECT_NE(OpenDevice({kDLCUDA, 0}).value(), device_);
  }
}

TEST_F(Cuda, TheSecondOfTwo) {
  Restart("gpus=2");
  DevicePtr second = OpenChosenDevice(DeviceChoiceFromText("cuda:1").value()).value();
  EXPECT_EQ(OpenDevice({kDLCUDA, 1}).value(), second);
  EXPECT_EQ(DeviceText(second->dl()), "cuda(1)");
  EXPECT_EQ(CudaDevices().value().at(1).name, "Fake GPU B");
  Tensor far = ToDevice(Ramp({8}), second).value();
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRetain 1"), 1);
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRetain 0"), 0);
  Tensor first = ToDevice(far, device_).value();
  EXPECT_EQ(ToHost(first).value().bytes(), Ramp({8}).bytes());
  float host[8];
  EXPECT_FALSE(device_->CopyOut(host, far.data(), 32).ok()) << "the address belongs to another device";
  DevicePtr broken = device_;
  EXPECT_NE(ErrorOf(Code(), "illegal"), "");
  EXPECT_TRUE(second->Synchronize().ok());
  EXPECT_THAT(OpenDevice({kDLCUDA, 2}).error().Text(),
              HasSubstr("there is no CUDA device '2'; this machine has 0 (Fake GPU A, GPU-a0112233-4455-6677-8899-"
                        "aabbccddeeff), 1 (Fake GPU B, GPU-a1112233-4455-6677-8899-aabbccddeeff)"));
}

TEST_F(Cuda, ADeviceIsChosenByNumberUuidOrName) {
  Restart("gpus=2");
  auto number = [](const std::string& text) -> std::string {
    const Result<DevicePtr> device = OpenChosenDevice(DeviceChoiceFromText(text).value());
    return device.ok() ? std::to_string((*device)->dl().device_id) : device.error().Text();
  };
  EXPECT_EQ(number("cuda"), "0");
  EXPECT_EQ(number("cuda:0"), "0");
  EXPECT_EQ(number("cuda:1"), "1");
  EXPECT_EQ(number("cuda:GPU-a1112233-4455-6677-8899-aabbccddeeff"), "1");
  EXPECT_EQ(number("cuda:GPU-a0"), "0");
  EXPECT_EQ(number("cuda:Fake GPU B"), "1");
  for (const std::string none : {"2", "-1", "1x", "GPU-b", "gpu-a1", "Fake GPU C"}) {
    EXPECT_THAT(number("cuda:" + none), AllOf(HasSubstr("there is no CUDA device '" + none + "'; this machine has 0 ("),
                                              HasSubstr("1 (Fake GPU B, GPU-a1"), Not(HasSubstr("\n"))));
  }
  EXPECT_THAT(number("cuda:GPU-a"), HasSubstr("there is more than one CUDA device 'GPU-a'; this machine has 0 (Fake"));
  EXPECT_THAT(number("cpu:big"), HasSubstr("devices of kind cpu are chosen by number"));
  EXPECT_FALSE(DeviceChoiceFromText("cuda:").ok());
  EXPECT_FALSE(DeviceChoiceFromText("gpu:1").ok());
  for (const std::string text : {"1", "cuda:1"}) {
    EXPECT_EQ(DeviceText(DeviceChoiceOf(kDLCUDA, text).value()), "cuda:1");
  }
}

TEST_F(Cuda, TheIdentityIsTheUuid) {
  Restart("gpus=2");
  EXPECT_EQ(device_->Identity(), "GPU-a0112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(OpenDevice({kDLCUDA, 1}).value()->Identity(), "GPU-a1112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(Calls("cuDevicePrimaryCtxRetain"), 0);
  Restart("fail=cuDeviceGetUuid:801");
  EXPECT_EQ(device_->Identity(), "cuda(0)") << "a driver that tells no UUID";
}

TEST_F(Cuda, DriversThatDoNotStart) {
  auto open = [&](const std::string& words) {
    setenv("FAKE_CUDA", words.c_str(), 1);
    return OpenDevice({kDLCUDA, 0}).error().Text();
  };
  EXPECT_THAT(open("gpus=0"), HasSubstr("the CUDA driver finds no GPU"));
  EXPECT_THAT(open("fail=cuInit:100"), HasSubstr("the CUDA driver finds no GPU"));
  EXPECT_THAT(open("fail=cuInit:34"), HasSubstr("a stub of the toolkit"));
  EXPECT_THAT(open("fail=cuInit:803"), HasSubstr("does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
}

TEST(CudaMissing, IsSaidInOneLine) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("AUTOTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
        std::fprintf(stderr, "%s", CudaDevices().error().Text().c_str());
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^this machine has no CUDA driver: /nowhere/libcuda.so.1 is missing; it comes with NVIDIA's driver[^\n]*$");
}

TEST_F(Cuda, CallsOfSeveralThreads) {
  auto image = device_->LoadImage("ptx", kPtx).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Tensor x = ToDevice(Ramp({8}, static_cast<float>(t)), device_).value(), y = ToDevice(x, device_).value();
      y = ToDevice(Ramp({8}), device_).value();
      void* args[] = {x.data(), y.data()};
      EXPECT_TRUE(device_->Launch(image->Entry("twice").value(), {.block = {8, 1, 1}}, args).ok());
      EXPECT_EQ(ToHost(y).value().Data<float>()[7], 2 * (7 + t));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Cuda, AGraphReplaysWhatWasRecorded) {
  auto image = device_->LoadImage("ptx", kPtx).value();
  const void* twice = image->Entry("twice").value();
  Tensor x = ToDevice(Ramp({8}), device_).value(), y = ToDevice(Ramp({8}), device_).value();
  auto record = [&]() -> Status {
    void* args[] = {x.data(), y.data()};
    TRY(device_->Launch(twice, {.block = {8, 1, 1}}, args));
    return device_->CopyWithin(x.data(), y.data(), 32);
  };
  std::shared_ptr<DeviceGraph> graph = device_->Capture(record).value();
  ASSERT_TRUE(graph);
  EXPECT_EQ(ToHost(x).value().Data<float>()[7], 7) << "the capture must record the launch without running it";
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(graph->Launch().ok());
  EXPECT_EQ(ToHost(x).value().Data<float>()[7], 7 * 8);
  EXPECT_EQ(Calls("cuLaunchKernel"), 1);
  EXPECT_EQ(Calls("cuGraphLaunch"), 3);
  graph.reset();
  EXPECT_EQ(Calls("cuGraphExecDestroy"), 1);
  EXPECT_EQ(Calls("cuGraphDestroy"), 1);
}

TEST_F(Cuda, WhatAGraphCannotRecord) {
  Tensor x = ToDevice(Ramp({8}), device_).value();
  float host[8] = {};
  const std::function<Status()> forbidden[] = {
      [&]() -> Status { return device_->CopyIn(x.data(), host, 32); },
      [&]() -> Status { return device_->CopyOut(host, x.data(), 32); },
      [&]() -> Status { return device_->Synchronize(); },
      [&]() -> Status { return TRY(device_->Allocate(8)), Status(); },
      [&]() -> Status { return TRY(device_->LoadImage("ptx", kPtx)), Status(); },
      [&]() -> Status { return TRY(device_->Capture([] { return Status(); })), Status(); },
      [&]() -> Status { return Err("the caller's own"); }};
  for (const auto& record : forbidden) {
    EXPECT_THAT(device_->Capture(record).error().Text(),
                testing::AnyOf(HasSubstr("cannot be part of a graph of cuda(0)"), HasSubstr("the caller's own")));
    ASSERT_TRUE(device_->Synchronize().ok());
  }
  // Memory that is freed during the capture is freed once after it, not in each replay.
  auto graph = device_->Capture([&] { return x = Tensor(), Status(); }).value();
  EXPECT_EQ(Calls("cuMemFreeAsync"), 1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(graph->Launch().ok());
  EXPECT_TRUE(device_->Synchronize().ok());
  // This driver fails to end captures.
  Restart("fail=cuStreamEndCapture:901");
  EXPECT_THAT(device_->Capture([] { return Status(); }).error().Text(),
              HasSubstr("a capture failed: CUDA_ERROR_STREAM"));
  EXPECT_TRUE(device_->LastError().ok());
}

}  // namespace
}  // namespace autotune
