// A network's module, and the options that callers may give to the passes of compilation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "compiler/compile.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "support/file.h"
#include "tests/close.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kResNet = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20.onnx";
const std::vector<PassTable> kAllTables = {graph::GraphPassTable(), NetworkPassTable(), LoweringPassTable(),
                                           GpuPassTable()};

class NetworkPasses : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    builder_ = MakeBuildWorkers(
                   {.workers = 2, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                   .value()
                   .release();
  }
  static void TearDownTestSuite() { delete builder_; }

  static Network Load(const PassContext& passes = {}) {
    return LoadNetwork(kResNet, {}, Host(), *builder_, passes).value();
  }
  static Target Host() { return Target::Parse("cpu").value(); }
  static Package Build(const PassContext& passes = {}) {
    return Compile(Load(passes), Host(), nullptr, *builder_, passes).value().package;
  }
  // Returns the network's output for random inputs.
  static std::vector<float> Outputs(Package package) {
    LoadedModel model = LoadModel(std::move(package), 2).value();
    FillRandom(model.executor->Input(0), 3);
    EXPECT_TRUE(model.executor->Run().ok());
    Tensor out = model.executor->Output(0);
    return {out.Data<float>(), out.Data<float>() + out.num_elements()};
  }

  static Builder* builder_;
};
Builder* NetworkPasses::builder_ = nullptr;

TEST_F(NetworkPasses, TheModuleHoldsMainAndTheFunctionsOfItsTasks) {
  const Network network = Load();
  EXPECT_TRUE(CheckModule(network.module).ok());
  std::set<std::string> expected = {"main"};
  for (const NetworkTask& task : network.tasks) {
    expected.insert(task.function);
    const graph::Graph* function = network.module.FindGraph(task.function);
    ASSERT_NE(function, nullptr) << task.function;
    EXPECT_EQ(HashBytes128(graph::CanonicalText(*function)).Hex(), task.hash.Hex()) << task.function;
    for (const std::string& alternative : task.alternatives) {
      const std::string name = task.function + "_" + alternative;
      expected.insert(name);
      const PrimFunc* program = network.module.FindPrimFunc(name);
      ASSERT_NE(program, nullptr) << name;
      EXPECT_EQ(program->name.str(), name);
      EXPECT_THAT(ToText(ProgramOf(network, task, alternative)), StartsWith("func kernel("));
    }
  }
  std::set<std::string> names;
  for (const auto& [name, function] : network.module.functions()) names.insert(name);
  EXPECT_EQ(names, expected);
  EXPECT_EQ(network.module.functions()[0].first, "main");
  EXPECT_THAT(network.tasks[0].function, StartsWith("k0_conv2d"));

  std::vector<int> calls(network.tasks.size());
  const std::vector<int> task_of_node = TaskOfNodes(network);
  ASSERT_EQ(task_of_node.size(), network.main().nodes.size());
  for (size_t i = 0; i < task_of_node.size(); ++i) {
    const graph::Node& node = network.main().nodes[i];
    ASSERT_EQ(task_of_node[i] < 0, node.op == graph::Op::kReshape);
    if (task_of_node[i] < 0) continue;
    ++calls[task_of_node[i]];
    EXPECT_EQ(std::get<graph::CallAttrs>(node.attrs).function, network.tasks[task_of_node[i]].function);
  }
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], network.tasks[i].weight);
  EXPECT_TRUE(network.module == Load().module);
  EXPECT_THAT(Build().graph_text, HasSubstr("call @k0_conv2d"));
}

TEST_F(NetworkPasses, NamesAreUniqueOverAllPipelines) {
  std::set<std::string_view> passes, options;
  for (const PassTable& table : kAllTables) {
    for (const PassRow& row : table.passes) EXPECT_TRUE(passes.insert(row.name).second) << row.name;
    for (const PassOption& option : table.options) EXPECT_TRUE(options.insert(NameOf(option)).second) << NameOf(option);
  }
  EXPECT_GE(passes.size(), 26u);
  EXPECT_GE(options.size(), 3u);
}

TEST_F(NetworkPasses, LoweringInWorkersIsTimedAndCounted) {
  const PassContext passes(PassConfig{.time = true});
  const Network network = Load(passes);
  PassTimes loaded = passes.Times();
  EXPECT_EQ(loaded["fuse"].runs, 1);
  EXPECT_EQ(loaded["make_kernels"].runs, 2) << "folding constants runs it a second time";
  EXPECT_GT(loaded["unroll"].runs, 0) << "constants are folded by kernels";
  ASSERT_TRUE(Compile(network, Host(), nullptr, *builder_, passes).ok());
  PassTimes times = passes.Times();
  const auto kernels = static_cast<int64_t>(network.tasks.size());
  EXPECT_GE(times["split_prepare"].runs, loaded["split_prepare"].runs + kernels);
  EXPECT_GE(times["unroll"].runs, loaded["unroll"].runs + kernels);
  EXPECT_GT(times["unroll"].ms, loaded["unroll"].ms);
  const PassContext unobserved;
  ASSERT_TRUE(Compile(network, Host(), nullptr, *builder_, unobserved).ok());
  EXPECT_TRUE(unobserved.Times().empty());
}

// Each case sets an option or disables a pass, of the graph or of lowering, and states whether the library and the
// graph stay the same. The outputs always stay the same, up to rounding.
TEST_F(NetworkPasses, OptionsAndDisabledPassesReachTheWorkers) {
  const Package plain = Build();
  EXPECT_TRUE(Build(PassContext(PassConfig{.time = true, .verify = true})).library == plain.library);
  const std::vector<float> want = Outputs(plain);
  struct Case {
    PassConfig config;
    bool same_library, same_graph;
  };
  for (const Case& c :
       std::vector<Case>{{{.disabled = {"overlap_rows"}}, true, true},  // no schedule here needs this pass
                         {{.disabled = {"partition_loops"}}, false, true},
                         {{.options = {{"unroll_limit", "64"}}}, false, true},
                         {{.options = {{"fuse_groups", "none"}}}, false, false}}) {
    SCOPED_TRACE(c.config.CodeKey());
    const Package package = Build(PassContext(c.config));
    EXPECT_EQ(package.library == plain.library, c.same_library);
    EXPECT_EQ(package.graph_text == plain.graph_text, c.same_graph);
    const std::vector<float> got = Outputs(package);
    EXPECT_EQ(test::Difference({got.begin(), got.end()}, {want.begin(), want.end()}), "");
  }
}

TEST_F(NetworkPasses, WorkersDumpTheirKernels) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("passes_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const PassContext passes(PassConfig{.dump = folder.string()});
  const Network network = Load(passes);
  ASSERT_TRUE(Compile(network, Host(), nullptr, *builder_, passes).ok());
  // Each pass that runs writes one file, whose name begins with the pass's number. The first pass of a kernel splits
  // off `prepare`, which has a folder of its own.
  const std::string tasks = std::to_string(graph::Pipeline().size() + 1) + "_make_kernels.txt";
  const size_t lowering = LoweringPassTable().passes.size();
  const std::string last = "_" + std::string(LoweringPassTable().passes.back().name) + ".txt";
  EXPECT_THAT(ReadFile((folder / tasks).string()).value(), StartsWith("graph main {"));
  EXPECT_TRUE(fs::exists(folder / "fold_constants" / "01_make_kernels.txt"));
  for (const NetworkTask& task : network.tasks) {
    const fs::path kernel = folder / task.function;
    EXPECT_THAT(ReadFile((kernel / "00_input.txt").string()).value(), StartsWith("func " + task.function + "("));
    EXPECT_TRUE(fs::exists(kernel / (std::to_string(lowering) + last))) << task.function;
  }
  EXPECT_TRUE(fs::exists(folder / network.tasks[0].function / "prepare" / (std::to_string(lowering - 1) + last)));
  fs::remove_all(folder);
}

// A dump that cannot be written is an error that names the path.
TEST_F(NetworkPasses, AFullDumpEndsTheBuild) {
  const PassContext passes(PassConfig{.dump = kResNet + "/dump"});
  Result<Network> network = LoadNetwork(kResNet, {}, Host(), *builder_, passes);
  ASSERT_FALSE(network.ok());
  EXPECT_THAT(network.error().Text(), HasSubstr("cannot write the programs to " + kResNet + "/dump"));
}

}  // namespace
}  // namespace autotune
