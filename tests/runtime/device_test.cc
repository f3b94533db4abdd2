// Devices other than the CPU, tested on one that differs from the CPU as a GPU does (tests/runtime/test_device.h).
#include "runtime/device.h"

#include <gmock/gmock.h>

#include "runtime/cpu_device.h"
#include "runtime/device_module.h"
#include "runtime/graph_executor.h"
#include "support/json.h"
#include "support/sanitized.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/ramp.h"
#include "tests/runtime/test_device.h"

namespace autotune {
namespace {

using test::GetTestDevice;
using test::TestDevice;
using testing::HasSubstr;

// Returns the sample's metadata with more kernels: "far_shift", "far_copy" and "far_fails" launch the sample's
// functions on the test device; "staged_copy" copies twice, through scratch memory.
std::string FarMetadata() {
  Json json = Json::Parse(SampleMetadata()).value();
  Json::Array& kernels = *json["kernels"].As<Json::Array>();
  auto far = [&](size_t of, const std::string& name, const std::string& launches, const std::string& prepare) {
    Json kernel = kernels[of];
    kernel["name"] = name;
    kernel["device"] = "ext_dev";
    kernel["workspace_bytes"] = 64;
    kernel["launches"] = Json::Parse(launches).value();
    kernel["prepare"] = Json::Parse(prepare).value();
    kernels.push_back(std::move(kernel));
  };
  auto launch = [](const std::string& entry, const std::string& args) {
    return R"({"entry":")" + entry + R"(","grid":[1],"block":[1],"args":[)" + args + "]}";
  };
  auto arg = [](const std::string& kind, int index) {
    return R"({"kind":")" + kind + R"(","index":)" + std::to_string(index) + "}";
  };
  const std::string x = arg("param", 0), y = arg("param", 1);
  far(0, "far_shift", "[" + launch("shift.raw", x + "," + y + "," + arg("param", 2) + "," + arg("prepared", 0)) + "]",
      "[" + launch("shift.prepare", x + "," + arg("prepared", 0)) + "]");
  far(2, "far_copy", "[" + launch("copy.raw", x + "," + y) + "]", "[]");
  far(3, "far_fails", "[" + launch("fails.raw", x + "," + y) + "]", "[]");
  far(2, "staged_copy",
      "[" + launch("copy.raw", x + "," + arg("workspace", 0)) + "," +
          launch("copy.raw", arg("workspace", 0) + "," + y) + "]",
      "[]");
  far(2, "far_gone", "[" + launch("gone.raw", x + "," + y) + "]", "[]");
  return json.Dump();
}

DeviceCode SampleCode() {
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  DeviceCode code{.format = "elf", .image = SampleArtifact()};
  code.functions["shift.raw"] = {std::vector<DLDataType>(4, kAddress), {}};
  code.functions["shift.prepare"] = {std::vector<DLDataType>(2, kAddress), {}};
  code.functions["copy.raw"] = {std::vector<DLDataType>(2, kAddress), {"blockIdx.x"}};
  code.functions["fails.raw"] = {std::vector<DLDataType>(2, kAddress), {}};
  return code;
}

Module FarLibrary() {
  Module library = MakeLibraryModule(Artifact::FromBytes(CompileArtifact(FarMetadata(), SampleBody())).value(),
                                     std::make_shared<KernelContext>(1));
  CHECK(library->Import(MakeDeviceModule("ext_dev", SampleCode())).ok());
  return library;
}

GraphNode Node(std::string name, std::string function, std::vector<GraphRef> inputs, int64_t storage, int64_t device) {
  GraphNode node{.name = std::move(name), .func_name = std::move(function), .inputs = std::move(inputs)};
  node.outputs = {{"f32", {2, 4}, storage, device}};
  return node;
}

// Computes y = x + 2w + 2w, the first sum on the test device and the second on the CPU.
Graph SplitGraph() {
  Graph graph;
  graph.nodes = {Node("x", "", {}, 0, kDLCPU),
                 Node("w_far", "", {}, 1, kDLExtDev),
                 Node("w", "", {}, 2, kDLCPU),
                 Node("x_copy", "__copy", {{0, 0}}, 3, kDLExtDev),
                 Node("first", "far_shift", {{3, 0}, {1, 0}}, 4, kDLExtDev),
                 Node("back", "__copy", {{4, 0}}, 5, kDLCPU),
                 Node("second", "shift", {{5, 0}, {2, 0}}, 6, kDLCPU)};
  for (int variable : {1, 2}) graph.nodes[variable].outputs[0].shape = {8};
  graph.heads = {{6, 0}};
  return graph;
}

Params TwoParams() { return {{"w", Ramp({8}, 1)}, {"w_far", Ramp({8}, 1)}}; }

std::vector<DevicePtr> Both(std::shared_ptr<TestDevice> device) {
  return {std::make_shared<CpuDevice>(1), std::move(device)};
}

TEST(Device, NamesAndRegistry) {
  EXPECT_EQ(DeviceText({kDLCUDA, 1}), "cuda(1)");
  EXPECT_EQ(DeviceTypeFromName("opencl").value(), kDLOpenCL);
  EXPECT_THAT(DeviceTypeFromName("abacus").error().Text(), HasSubstr("'abacus'; known are cpu, cuda"));
  EXPECT_TRUE(OpenDevice({kDLCPU, 0}).value()->IsHost());
  EXPECT_FALSE(OpenDevice({kDLCPU, 1}).ok());
  EXPECT_EQ(OpenDevice({kDLMetal, 0}).error().Text(), "this runtime has no device metal(0)");
  test::RegisterTestDevices();
  EXPECT_EQ(OpenDevice({kDLExtDev, 3}).value()->dl().device_id, 3);
}

TEST(Device, TensorsLieInItsMemory) {
  auto device = std::make_shared<TestDevice>();
  Tensor host = Ramp({2, 4});
  Tensor far = ToDevice(host, device).value();
  EXPECT_EQ(far.device(), device.get());
  EXPECT_EQ(far.dl()->device.device_type, kDLExtDev);
  EXPECT_EQ(ToHost(far).value().bytes(), host.bytes());
  EXPECT_TRUE(ToHost(host).value().SameHandle(host));
  EXPECT_TRUE(ToDevice(far, device).value().SameHandle(far));
  EXPECT_EQ(far.Reshape({8}).value().device(), device.get());
  auto other = std::make_shared<TestDevice>(1);
  EXPECT_EQ(ToHost(ToDevice(far, other).value()).value().bytes(), host.bytes());
  EXPECT_EQ(CopyTensor(host, Ramp({8})).error().Text(), "cannot copy f32[2, 4] into f32[8]");
  Tensor twin = ToDevice(Ramp({2, 4}, 9), device).value();
  ASSERT_TRUE(CopyTensor(far, twin).ok());
  EXPECT_EQ(ToHost(twin).value().bytes(), host.bytes());
  EXPECT_EQ(device->counts().copies_within, 1);
}

TEST(Device, TheHostCannotTouchItsMemory) {
  auto device = std::make_shared<TestDevice>();
  Tensor far = ToDevice(Ramp({8}), device).value();
  if (!kSanitized) {  // sanitizers report the deliberate access
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(std::printf("%f", static_cast<float*>(far.data())[0]), "");
  }
  EXPECT_THROW((void)far.bytes(), std::exception);
  EXPECT_THROW((void)far.Data<float>(), std::exception);
  float host[8];
  EXPECT_THAT(device->CopyWithin(far.data(), host, 32).error().Text(), HasSubstr("not an address of ext_dev(0)"));
  EXPECT_THAT(device->CopyIn(host, host, 32).error().Text(), HasSubstr("not an address"));
  EXPECT_FALSE(device->CopyOut(host, static_cast<char*>(far.data()) + 256, 4).ok());
}

TEST(Device, CommandsRunLaterAndInOrder) {
  auto device = std::make_shared<TestDevice>();
  Tensor a = ToDevice(Ramp({8}), device).value(), b = ToDevice(Ramp({8}, 5), device).value();
  ASSERT_TRUE(device->Synchronize().ok());
  device->Hold(true);
  Tensor host = Ramp({8}, 100);
  ASSERT_TRUE(CopyTensor(host, a).ok());
  host.Data<float>()[0] = -1;  // the copy must not see this write
  ASSERT_TRUE(CopyTensor(a, b).ok());
  a = Tensor();  // freed by the device after the copies
  device->Hold(false);
  EXPECT_EQ(ToHost(b).value().Data<float>()[0], 100);
}

TEST(Device, DLPack) {
  test::RegisterTestDevices();
  DLManagedTensor* managed = ToDevice(Ramp({2, 4}), GetTestDevice()).value().ToDLPack();
  int64_t strides[] = {4, 1};
  managed->dl_tensor.strides = strides;
  Tensor same = Tensor::FromDLPack(managed).value();
  EXPECT_EQ(same.device(), GetTestDevice().get());
  EXPECT_EQ(ToHost(same).value().bytes(), Ramp({2, 4}).bytes());
  managed = same.ToDLPack();
  int64_t transposed[] = {1, 2};
  managed->dl_tensor.strides = transposed;
  EXPECT_THAT(Tensor::FromDLPack(managed).error().Text(), HasSubstr("ext_dev(0) must be compact"));
}

TEST(Device, ANetworkIsSplit) {
  auto device = std::make_shared<TestDevice>();
  auto made = GraphExecutor::Create(SplitGraph(), FarLibrary(), TwoParams(), Both(device));
  ASSERT_TRUE(made.ok()) << made.error().Text();
  GraphExecutor& executor = **made;
  EXPECT_EQ(executor.Input(0).device(), nullptr);
  const TestDevice::Counts before = device->counts();
  for (float start : {0.0f, 100.0f}) {
    ASSERT_TRUE(executor.SetInput(0, Ramp({2, 4}, start)).ok());
    Status run = executor.Run();
    ASSERT_TRUE(run.ok()) << run.error().Text();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(executor.Output(0).Data<float>()[i], start + i + 4 * (i + 1));
  }
  EXPECT_EQ(device->counts().copies_in - before.copies_in, 2) << "each run copies one input to the device";
  EXPECT_EQ(device->counts().copies_out - before.copies_out, 2);
  EXPECT_EQ(device->counts().launches - before.launches, 2);
  EXPECT_EQ(device->counts().images, 1);
  EXPECT_EQ(executor.Profile(2).value().size(), 4u);
}

TEST(Device, ANetworkOnOneDeviceCopiesNothing) {
  auto device = std::make_shared<TestDevice>();
  Graph graph;
  graph.nodes = {Node("x", "", {}, 0, kDLExtDev), Node("w", "", {}, 1, kDLExtDev),
                 Node("flat", "__nop", {{0, 0}}, 0, kDLExtDev), Node("y", "far_shift", {{0, 0}, {1, 0}}, 2, kDLExtDev),
                 Node("z", "staged_copy", {{3, 0}}, 3, kDLExtDev)};
  graph.nodes[1].outputs[0].shape = {8};
  graph.nodes[2].outputs[0].shape = {8};
  graph.heads = {{4, 0}};
  auto executor = GraphExecutor::Create(graph, FarLibrary(), {{"w", Ramp({8}, 1)}}, {device}).value();
  Tensor far = ToDevice(Ramp({2, 4}), device).value();
  ASSERT_TRUE(executor->BindInput(0, far).ok());
  const TestDevice::Counts before = device->counts();
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(device->counts().copies_in, before.copies_in);
  EXPECT_EQ(device->counts().copies_out, before.copies_out);
  EXPECT_EQ(device->counts().copies_within, before.copies_within);
  EXPECT_EQ(executor->Output(0).device(), device.get());
  EXPECT_EQ(ToHost(executor->Output(0)).value().Data<float>()[7], 7 + 2 * 8);
  EXPECT_THAT(executor->BindInput(0, Ramp({2, 4})).error().Text(),
              HasSubstr("lies on ext_dev(0), and the tensor on cpu(0)"));
}

TEST(Device, AnErrorOfAKernelIsFinal) {
  auto device = std::make_shared<TestDevice>();
  Graph graph = SplitGraph();
  graph.nodes[4].func_name = "far_fails";
  graph.nodes[4].inputs.pop_back();
  auto made = GraphExecutor::Create(graph, FarLibrary(), TwoParams(), Both(device));
  ASSERT_TRUE(made.ok()) << made.error().Text();
  Status run = (*made)->Run();
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().Text(), HasSubstr("a launch on ext_dev(0) failed: division by zero in tile 3"));
  EXPECT_FALSE(device->LastError().ok());
  EXPECT_FALSE((*made)->Run().ok());
  EXPECT_FALSE(ToDevice(Ramp({8}), device).ok());
}

TEST(Device, PlansThatDoNotFitAreRefused) {
  struct Case {
    const char* error;
    std::function<void(Graph&)> change;
    bool device = true;
  };
  for (const Case& c : {
           Case{"lies on a device of kind ext_dev, but the executor was given none", [](Graph&) {}, false},
           Case{"kernel far_shift runs on ext_dev(0), but node 0 'x' lies on cpu",
                [](Graph& g) {
                  g.nodes[4].inputs[0] = {0, 0};
                }},
           Case{"the library has no kernel 'far_copy' for cpu(0)", [](Graph& g) { g.nodes[6].func_name = "far_copy"; }},
           Case{"the library has no kernel 'shift' for ext_dev(0)", [](Graph& g) { g.nodes[4].func_name = "shift"; }},
           Case{"no imported module of type ext_dev has its function 'gone.raw'",
                [](Graph& g) { g.nodes[4].func_name = "far_gone"; }},
           Case{"a reshape from cpu(0) to ext_dev(0); __copy copies", [](Graph& g) { g.nodes[3].func_name = "__nop"; }},
           Case{"storage 0 lies on devices of type 1 and 12", [](Graph& g) { g.nodes[3].outputs[0].storage_id = 0; }},
           Case{"device type 0", [](Graph& g) { g.nodes[3].outputs[0].device = 0; }},
           Case{"copy of f32[2, 4] to f32[9]", [](Graph& g) { g.nodes[3].outputs[0].shape = {9}; }},
       }) {
    Graph graph = SplitGraph();
    c.change(graph);
    auto device = std::make_shared<TestDevice>();
    auto made = GraphExecutor::Create(graph, FarLibrary(), TwoParams(),
                                      c.device ? Both(device) : std::vector<DevicePtr>{std::make_shared<CpuDevice>(1)});
    ASSERT_FALSE(made.ok()) << c.error;
    EXPECT_THAT(made.error().Text(), HasSubstr(c.error));
  }
}

TEST(DeviceModule, ItsFunctionsAreCalled) {
  Module module = MakeDeviceModule("ext_dev", SampleCode());
  EXPECT_EQ(module->TypeKey(), "ext_dev");
  auto device = std::make_shared<TestDevice>();
  Tensor from = ToDevice(Ramp({2, 4}), device).value(), to = ToDevice(Ramp({2, 4}, 50), device).value();
  PackedFunc copy = module->GetFunction("copy.raw").value();
  auto done = copy(from, to, 1);
  ASSERT_TRUE(done.ok()) << done.error().Text();
  EXPECT_EQ(ToHost(to).value().bytes(), Ramp({2, 4}).bytes());
  EXPECT_EQ(copy(from, to).error().Text(), "copy.raw takes 2 tensors and 1 extents, got 2 arguments");
  EXPECT_EQ(copy(from, to, 0).error().Text(), "extent 0 of blockIdx.x is below 1");
  EXPECT_THAT(copy(from, Ramp({2, 4}), 1).error().Text(), HasSubstr("is no tensor of a device of kind ext_dev"));
  EXPECT_THAT(copy(from, ToDevice(Ramp({2, 4}), GetTestDevice(7)).value(), 1).error().Text(),
              HasSubstr("lie on different devices"));
  DeviceCode wrong = SampleCode();
  wrong.format = "ptx";
  EXPECT_THAT(MakeDeviceModule("ext_dev", wrong)->GetFunction("copy.raw").value()(from, to, 1).error().Text(),
              HasSubstr("takes images of format elf, not ptx"));
}

TEST(DeviceModule, LaunchesThatNameNothingAreRefused) {
  struct Case {
    const char *from, *to, *error;
  };
  for (const Case& c : {
           Case{R"("grid":[1])", R"("grid":[0])", "one to three extents"},
           Case{R"("grid":[1])", R"("grid":[1,1,1,1])", "one to three extents"},
           Case{R"("index":0,"kind":"prepared")", R"("index":1,"kind":"prepared")", "there is no prepared 1"},
           Case{R"("index":0,"kind":"workspace")", R"("index":65,"kind":"workspace")", "there is no workspace 65"},
           Case{R"("workspace_bytes":64)", R"("workspace_bytes":-1)", "the scratch memory cannot have -1 bytes"},
           Case{R"("device":"ext_dev")", R"("device":"")", "a kernel for the CPU must not have launches"},
       }) {
    std::string metadata = FarMetadata();
    size_t at = metadata.find(c.from);
    ASSERT_NE(at, std::string::npos) << metadata;
    metadata.replace(at, std::string(c.from).size(), c.to);
    auto artifact = Artifact::FromBytes(CompileArtifact(metadata, SampleBody()));
    ASSERT_FALSE(artifact.ok()) << c.error;
    EXPECT_THAT(artifact.error().Text(), HasSubstr(c.error));
  }
}

}  // namespace
}  // namespace autotune
