// Networks on CUDA devices, on the fake driver of tests/runtime/fake_cuda/.
#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "support/json.h"
#include "tests/runtime/cuda.h"

namespace autotune {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A network whose middle runs on the GPU: two kernels, the second with shared memory.
class CudaNetwork : public Cuda {
 protected:
  static Module Library() {
    Json json = Json::Parse(SampleMetadata()).value();
    Json::Array& kernels = *json["kernels"].As<Json::Array>();
    auto add = [&](size_t of, const char* name, const char* launches, const char* prepare) {
      Json kernel = kernels[of];
      kernel["name"] = name;
      kernel["device"] = "cuda";
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
        R"([{"entry":"reversed","grid":[1],"block":[8],"shared_bytes":65536,"args":[{"kind":"param","index":0},
            {"kind":"param","index":1}]}])",
        "[]");
    add(2, "far_twice",
        R"([{"entry":"twice","grid":[1],"block":[8],"args":[{"kind":"param","index":0},{"kind":"param","index":1}]}])",
        "[]");
    add(2, "far_twice_twice",
        R"([{"entry":"twice","grid":[1],"block":[8],"args":[{"kind":"param","index":0},{"kind":"param","index":1}]},
            {"entry":"twice","grid":[1],"block":[8],"args":[{"kind":"param","index":0},{"kind":"param","index":1}]}])",
        "[]");
    Module root = MakeLibraryModule(Artifact::FromBytes(CompileArtifact(json.Dump(), SampleBody())).value(),
                                    std::make_shared<KernelContext>(1));
    CHECK(root->Import(MakeDeviceModule("cuda", Code())).ok());
    return root;
  }

  static GraphNode Node(std::string name, std::string function, std::vector<GraphRef> inputs, int64_t storage,
                        int64_t device) {
    GraphNode made{.name = std::move(name), .func_name = std::move(function), .inputs = std::move(inputs)};
    made.outputs = {{"f32", {2, 4}, storage, device}};
    return made;
  }

  std::unique_ptr<GraphExecutor> Executor(const GraphExecutorOptions& options = {}) {
    Graph graph;
    graph.nodes = {Node("x", "", {}, 0, kDLCPU),
                   Node("w", "", {}, 1, kDLCUDA),
                   Node("x_copy", "__copy", {{0, 0}}, 2, kDLCUDA),
                   Node("shifted", "far_shift", {{2, 0}, {1, 0}}, 3, kDLCUDA),
                   Node("turned", "far_reversed", {{3, 0}}, 4, kDLCUDA),
                   Node("back", "__copy", {{4, 0}}, 5, kDLCPU),
                   Node("y", "copy", {{5, 0}}, 6, kDLCPU)};
    graph.nodes[1].outputs[0].shape = {8};
    graph.heads = {{6, 0}};
    auto made = GraphExecutor::Create(graph, Library(), {{"w", Ramp({8}, 1)}},
                                      {std::make_shared<CpuDevice>(1), device_}, options);
    CHECK(made.ok()) << made.error().Text();
    return std::move(made).value();
  }
};

TEST_F(CudaNetwork, IsRightAndReplayedFromItsSecondRunOn) {
  auto executor = Executor();
  const int before = Calls("cuLaunchKernel");
  for (float start : {0.0f, 100.0f, 200.0f, 300.0f}) {
    ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4}, start)).ok());
    Status run = executor->Run();
    ASSERT_TRUE(run.ok()) << run.error().Text();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(executor->Output(0).Data<float>()[i], start + 7 - i + 2 * (8 - i)) << start;
  }
  // The first run launches both kernels; the second run records them in a graph.
  EXPECT_EQ(Calls("cuLaunchKernel") - before, 4);
  EXPECT_EQ(Calls("cuGraphLaunch"), 3);
}

// One kernel with two launches is recorded, too.
TEST_F(CudaNetwork, AKernelOfTwoLaunchesIsReplayed) {
  Graph graph;
  graph.nodes = {Node("x", "", {}, 0, kDLCPU), Node("x_copy", "__copy", {{0, 0}}, 1, kDLCUDA),
                 Node("y", "far_twice_twice", {{1, 0}}, 2, kDLCUDA), Node("back", "__copy", {{2, 0}}, 3, kDLCPU)};
  graph.heads = {{3, 0}};
  for (const char* kernel : {"far_twice_twice", "far_twice"}) {
    graph.nodes[2].func_name = kernel;
    auto executor = GraphExecutor::Create(graph, Library(), {}, {std::make_shared<CpuDevice>(1), device_}).value();
    ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4})).ok());
    const int before = Calls("cuGraphLaunch");
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(executor->Run().ok());
      EXPECT_EQ(executor->Output(0).Data<float>()[7], 14);
    }
    EXPECT_EQ(Calls("cuGraphLaunch") - before, graph.nodes[2].func_name == "far_twice" ? 0 : 2) << kernel;
  }
}

TEST_F(CudaNetwork, ItsKernelsAreTimedByTheGpu) {
  auto executor = Executor();
  ASSERT_TRUE(executor->Run().ok());
  const std::optional<DeviceTiming> timed = executor->TimeDevice({.repeats = 2, .min_repeat_seconds = 1e-3}).value();
  ASSERT_TRUE(timed);
  for (const double seconds : timed->timing.seconds) EXPECT_NEAR(seconds, 22e-6, 1e-8);  // two kernels in a graph
  ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4}, 50)).ok());
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(executor->Output(0).Data<float>()[0], 50 + 7 + 16) << "runs go on as before";
  // A profile launches kernels one by one: 4 us before each.
  const std::vector<NodeTime> profile = executor->Profile(3).value();
  for (const NodeTime& node : profile) {
    if (!node.func_name.starts_with("far_")) continue;
    EXPECT_NEAR(node.seconds, 14e-6, 1e-9) << node.name;
  }
  EXPECT_EQ(std::ranges::count_if(profile, [](const NodeTime& n) { return n.func_name.starts_with("far_"); }), 2);
}

TEST_F(CudaNetwork, AGraphThatTheDriverRefusesIsAnError) {
  Restart("fail=cuGraphLaunch:801");
  auto executor = Executor();
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_THAT(executor->Run().error().Text(),
              AllOf(HasSubstr("the launch of a graph failed"), HasSubstr("'shifted' and those after it")));
}

TEST_F(CudaNetwork, AReplacedKernelOrInputIsRecordedAnew) {
  auto executor = Executor({.replaceable = true});
  auto expect = [&](float start, bool reversed) {
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(executor->Run().ok());
      for (int i = 0; i < 8; ++i) {
        const int j = 7 - i;
        const float shifted =
            start + static_cast<float>(reversed ? j : i) + 2.0f * static_cast<float>((reversed ? j : i) + 1);
        EXPECT_EQ(executor->Output(0).Data<float>()[i], reversed ? shifted : 2 * shifted);
      }
    }
  };
  ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4}, 10)).ok());
  expect(10, true);
  ASSERT_TRUE(executor->ReplaceKernel(4, "far_twice").ok());
  expect(10, false);
  ASSERT_TRUE(executor->BindInput(0, Ramp({2, 4}, 50)).ok());
  expect(50, false);
  EXPECT_EQ(Calls("cuStreamBeginCapture_v2"), 3);
}

TEST_F(CudaNetwork, AFaultNamesTheDeviceAndIsFinal) {
  Restart("fail=cuLaunchKernel:700:3");
  auto executor = Executor();
  EXPECT_THAT(executor->Run().error().Text(),
              AllOf(HasSubstr("a launch failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"), HasSubstr("'turned'")));
  EXPECT_FALSE(executor->Run().ok());
}

}  // namespace
}  // namespace autotune
