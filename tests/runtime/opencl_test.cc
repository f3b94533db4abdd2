// OpenCL devices, on any OpenCL that the machine has: Debian's PoCL runs kernels on the CPU.
#include "runtime/opencl/device.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/cpu_device.h"
#include "runtime/device_module.h"
#include "runtime/graph_executor.h"
#include "runtime/opencl/api.h"
#include "support/json.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/ramp.h"

namespace autotune {
namespace {

using testing::HasSubstr;

constexpr const char* kSource = R"(
kernel void shift_prepare(global const float* w, global float* p) { p[get_global_id(0)] = 2 * w[get_global_id(0)]; }
kernel void shift(global const float* x, global const float* p, global float* y) {
  y[get_global_id(0)] = x[get_global_id(0)] + p[get_global_id(0)];
}
kernel void reversed(global const float* x, global float* y, local float* tile) {
  tile[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = tile[get_local_size(0) - 1 - get_local_id(0)];
}
)";

DeviceCode Code(std::string source = kSource) {
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  DeviceCode code{.format = "cl", .image = std::move(source)};
  code.functions["shift_prepare"] = {{kAddress, kAddress}, {"blockIdx.x", "threadIdx.x"}};
  code.functions["shift"] = {{kAddress, kAddress, kAddress}, {"blockIdx.x", "threadIdx.x"}};
  code.functions["reversed"] = {{kAddress, kAddress}, {}};
  return code;
}

TEST(OpenClErrors, OnlyALostDeviceIsLost) {
  EXPECT_TRUE(opencl::IsLoss(CL_DEVICE_NOT_AVAILABLE));
  for (cl_int code : {CL_SUCCESS, CL_OUT_OF_RESOURCES, CL_INVALID_COMMAND_QUEUE, CL_OUT_OF_HOST_MEMORY})
    EXPECT_FALSE(opencl::IsLoss(code)) << opencl::ErrorName(code);
}

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("POCL_CACHE_DIR", TempDir().c_str(), 1);  // a fresh cache, which is removed at the end
    Result<DevicePtr> opened = OpenDevice({kDLOpenCL, 0});
    if (!opened.ok()) GTEST_SKIP() << opened.error().Text();
    device_ = *opened;
  }
  DevicePtr device_;
};

TEST_F(OpenCl, ItsDevicesHaveNames) {
  const std::string name = OpenClDevices().value().at(0).name;
  EXPECT_FALSE(name.empty());
  EXPECT_THAT(OpenOpenClDevice(99).error().Text(), HasSubstr("there is no OpenCL device '99'; this machine has 0 ("));
  EXPECT_EQ(OpenChosenDevice(DeviceChoice{kDLOpenCL, name}).value(), device_);
  EXPECT_THAT(OpenChosenDevice(DeviceChoice{kDLOpenCL, "no such"}).error().Text(), HasSubstr(name));
  EXPECT_THAT(device_->Identity(), HasSubstr(name)) << "all processes must lock the device by the same name";
  EXPECT_GT(device_->limits().memory_bytes, 1 << 20);
  EXPECT_GE(device_->limits().threads_per_block, 1);
}

TEST_F(OpenCl, MemoryAndCopies) {
  Tensor host = Ramp({1000});
  Tensor far = ToDevice(host, device_).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(far.data()) % 64, 0u);
  Tensor twin = ToDevice(Ramp({1000}, 7), device_).value();
  ASSERT_TRUE(CopyTensor(far, twin).ok());
  far = Tensor();  // freed by the device after the copy
  EXPECT_EQ(ToHost(twin).value().bytes(), host.bytes());
  ASSERT_TRUE(device_->Zero(static_cast<float*>(twin.data()) + 10, 40).ok());
  Tensor back = ToHost(twin).value();
  EXPECT_EQ(back.Data<float>()[9], 9);
  EXPECT_EQ(back.Data<float>()[10], 0);
  EXPECT_EQ(back.Data<float>()[20], 20);
}

TEST_F(OpenCl, FunctionsOfAModule) {
  Module module = MakeDeviceModule("opencl", Code());
  Tensor x = ToDevice(Ramp({256}), device_).value(), p = ToDevice(Ramp({256}, 1), device_).value();
  Tensor y = ToDevice(Ramp({256}, 50), device_).value();
  auto done = module->GetFunction("shift").value()(x, p, y, 8, 32);
  ASSERT_TRUE(done.ok()) << done.error().Text();
  EXPECT_EQ(ToHost(y).value().Data<float>()[255], 255 + 256);
}

// A network whose launch on the device uses shared memory and a barrier.
TEST_F(OpenCl, ANetworkIsSplit) {
  Json json = Json::Parse(SampleMetadata()).value();
  Json::Array& kernels = *json["kernels"].As<Json::Array>();
  auto add = [&](size_t of, const char* name, const char* launches, const char* prepare) {
    Json kernel = kernels[of];
    kernel["name"] = name;
    kernel["device"] = "opencl";
    kernel["launches"] = Json::Parse(launches).value();
    kernel["prepare"] = Json::Parse(prepare).value();
    kernels.push_back(std::move(kernel));
  };
  add(0, "far_shift",
      R"([{"entry":"shift","grid":[2],"block":[4],"args":[{"kind":"param","index":0},{"kind":"prepared","index":0},
          {"kind":"param","index":2}]}])",
      R"([{"entry":"shift_prepare","grid":[8],"block":[1],"args":[{"kind":"param","index":0},
          {"kind":"prepared","index":0}]}])");
  add(2, "far_reversed",
      R"([{"entry":"reversed","grid":[1],"block":[8],"shared_bytes":32,"args":[{"kind":"param","index":0},
          {"kind":"param","index":1}]}])",
      "[]");
  Module root = MakeLibraryModule(Artifact::FromBytes(CompileArtifact(json.Dump(), SampleBody())).value(),
                                  std::make_shared<KernelContext>(1));
  ASSERT_TRUE(root->Import(MakeDeviceModule("opencl", Code())).ok());

  auto node = [](std::string name, std::string function, std::vector<GraphRef> inputs, int64_t storage,
                 int64_t device) {
    GraphNode made{.name = std::move(name), .func_name = std::move(function), .inputs = std::move(inputs)};
    made.outputs = {{"f32", {2, 4}, storage, device}};
    return made;
  };
  Graph graph;
  graph.nodes = {node("x", "", {}, 0, kDLCPU),
                 node("w", "", {}, 1, kDLOpenCL),
                 node("x_copy", "__copy", {{0, 0}}, 2, kDLOpenCL),
                 node("shifted", "far_shift", {{2, 0}, {1, 0}}, 3, kDLOpenCL),
                 node("turned", "far_reversed", {{3, 0}}, 4, kDLOpenCL),
                 node("back", "__copy", {{4, 0}}, 5, kDLCPU),
                 node("y", "copy", {{5, 0}}, 6, kDLCPU)};
  graph.nodes[1].outputs[0].shape = {8};
  graph.heads = {{6, 0}};
  auto made = GraphExecutor::Create(graph, root, {{"w", Ramp({8}, 1)}}, {std::make_shared<CpuDevice>(1), device_});
  ASSERT_TRUE(made.ok()) << made.error().Text();
  for (float start : {0.0f, 100.0f}) {
    ASSERT_TRUE((*made)->SetInput(0, Ramp({2, 4}, start)).ok());
    Status run = (*made)->Run();
    ASSERT_TRUE(run.ok()) << run.error().Text();
    for (int i = 0; i < 8; ++i) EXPECT_EQ((*made)->Output(0).Data<float>()[i], start + 7 - i + 2 * (8 - i));
  }
}

TEST_F(OpenCl, ErrorsAreOneLineAndFinal) {
  Tensor x = ToDevice(Ramp({8}), device_).value();
  auto call = [&](DeviceCode code, const char* function, auto... extents) {
    auto done = MakeDeviceModule("opencl", std::move(code))->GetFunction(function).value()(x, x, x, extents...);
    return done.ok() ? "" : done.error().Text();
  };
  std::string text = call(Code("kernel void shift(global float* x) { x[0] = nothing; }"), "shift", 1, 1);
  EXPECT_THAT(text, HasSubstr("OpenCL's compiler refuses the program"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(call(Code("kernel void other(global float* x) { x[0] = 1; }"), "shift", 1, 1),
              HasSubstr("the image has no kernel 'shift'"));
  DeviceCode ptx = Code();
  ptx.format = "ptx";
  EXPECT_THAT(call(ptx, "shift", 1, 1), HasSubstr("takes OpenCL C (cl), not ptx"));
  EXPECT_TRUE(device_->LastError().ok());
  EXPECT_THAT(call(Code(), "shift", 1, 1 << 30), HasSubstr("opencl(0): a launch failed: CL_INVALID_WORK"));
  EXPECT_FALSE(device_->LastError().ok());
  EXPECT_FALSE(ToDevice(Ramp({8}), device_).ok());
  EXPECT_FALSE(device_->Synchronize().ok());
}

}  // namespace
}  // namespace autotune
