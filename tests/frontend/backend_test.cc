// Runs ONNX's own backend tests (Debian's libonnx-testdata) through the importer and the reference evaluator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "graph/to_te.h"
#include "tests/graph/interpreted.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

namespace fs = std::filesystem;
constexpr const char* kNodeTests = "/usr/share/libonnx-testdata/data/node";

std::vector<NamedTensor> ReadAll(const fs::path& folder, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; fs::exists(folder / (prefix + std::to_string(i) + ".pb")); ++i) {
    auto tensor = ReadTensorPb((folder / (prefix + std::to_string(i) + ".pb")).string());
    if (!tensor.ok()) return {};
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

Result<std::vector<TensorValue>> EvaluateByReference(const Graph& g) {
  std::vector<TensorValue> out;
  for (const auto& t : reference::Evaluate(g, {})) out.push_back(reference::ToValue(t));
  return out;
}

// Returns zeros for every output of a graph, in place of its values. For tests in which constants may have any value.
Result<std::vector<TensorValue>> EvaluateToZeros(const Graph& g) {
  std::vector<TensorValue> out;
  for (ValueId v : g.outputs) {
    char* data = nullptr;
    SharedBytes bytes = SharedBytes::Allocate(g.Spec(v).Bytes(), &data);
    std::fill_n(data, bytes.size(), 0);
    out.push_back({g.Spec(v), bytes});
  }
  return out;
}

// The cases that must be imported. Other cases may be refused, but every imported case must give the right outputs.
const char* const kMustPass[] = {
    "test_add",
    "test_add_bcast",
    "test_averagepool_1d_default",
    "test_averagepool_2d_ceil",
    "test_averagepool_2d_default",
    "test_averagepool_2d_pads",
    "test_averagepool_2d_pads_count_include_pad",
    "test_averagepool_2d_precomputed_pads",
    "test_averagepool_2d_precomputed_pads_count_include_pad",
    "test_averagepool_2d_precomputed_same_upper",
    "test_averagepool_2d_precomputed_strides",
    "test_averagepool_2d_same_lower",
    "test_averagepool_2d_same_upper",
    "test_averagepool_2d_strides",
    "test_basic_conv_with_padding",
    "test_basic_conv_without_padding",
    "test_batchnorm_epsilon",
    "test_batchnorm_example",
    "test_concat_2d_axis_1",
    "test_concat_3d_axis_negative_3",
    "test_conv_with_autopad_same",
    "test_conv_with_strides_and_asymmetric_padding",
    "test_conv_with_strides_no_padding",
    "test_conv_with_strides_padding",
    "test_div",
    "test_div_bcast",
    "test_dropout_default",
    "test_dropout_default_old",
    "test_dropout_random_old",
    "test_flatten_axis0",
    "test_flatten_axis3",
    "test_flatten_negative_axis2",
    "test_gemm_all_attributes",
    "test_gemm_alpha",
    "test_gemm_beta",
    "test_gemm_default_matrix_bias",
    "test_gemm_default_no_bias",
    "test_gemm_default_scalar_bias",
    "test_gemm_transposeA",
    "test_gemm_transposeB",
    "test_identity",
    "test_lrn",
    "test_lrn_default",
    "test_matmul_2d",
    "test_matmul_3d",
    "test_matmul_4d",
    "test_maxpool_1d_default",
    "test_maxpool_2d_ceil",
    "test_maxpool_2d_default",
    "test_maxpool_2d_dilations",
    "test_maxpool_2d_pads",
    "test_maxpool_2d_precomputed_same_upper",
    "test_maxpool_2d_same_lower",
    "test_maxpool_2d_strides",
    "test_mul",
    "test_mul_bcast",
    "test_relu",
    "test_sigmoid",
    "test_softmax_axis_0",
    "test_softmax_axis_1",
    "test_softmax_default_axis",
    "test_softmax_large_number",
    "test_sqrt",
    "test_sub",
    "test_sub_bcast",
    "test_sum_example",
    "test_sum_one_input",
    "test_transpose_all_permutations_4",
    "test_transpose_default",
};

constexpr double kHalfOfFourthDecimal = 5e-5;

TEST(Backend, OnnxNodeTests) {
  if (!fs::exists(kNodeTests)) GTEST_SKIP() << "package libonnx-testdata is not installed";
  std::map<std::string, std::string> outcome;
  int passed = 0, refused = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kNodeTests)) {
    std::string name = entry.path().filename().string();
    auto imported = ImportOnnx((entry.path() / "model.onnx").string());
    if (!imported.ok()) {
      outcome[name] = imported.error().Text();
      ++refused;
      EXPECT_EQ(imported.error().Text().find('\n'), std::string::npos) << name;
      continue;
    }
    std::vector<NamedTensor> in = ReadAll(entry.path() / "test_data_set_0", "input_"),
                             want = ReadAll(entry.path() / "test_data_set_0", "output_");
    const Graph& g = imported->module.main();
    ASSERT_GE(in.size(), g.inputs.size()) << name;
    ASSERT_EQ(want.size(), g.outputs.size()) << name;
    std::vector<reference::Tensor> inputs;
    // The files store the bits of bf16 as u16.
    auto declare = [](TensorValue& value, const TensorSpec& spec) {
      if (spec.dtype == DType::BFloat16() && value.spec.dtype == DType::UInt(16)) value.spec.dtype = spec.dtype;
    };
    for (size_t i = 0; i < g.outputs.size(); ++i) declare(want[i].value, g.Spec(g.outputs[i]));
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      declare(in[i].value, g.Spec(g.inputs[i]));
      // CastLike uses only the type of its second operand, and the file's operand may have another shape than the
      // model's.
      if (const TensorSpec& spec = g.Spec(g.inputs[i]);
          name.starts_with("test_castlike") && in[i].value.spec.shape != spec.shape) {
        in[i].value = TensorValue::FromNumbers(in[i].value.spec.dtype, spec.shape,
                                               std::vector<double>(static_cast<size_t>(spec.NumElements())));
      }
      ASSERT_EQ(in[i].value.spec, g.Spec(g.inputs[i])) << name;
      inputs.push_back(reference::FromValue(in[i].value));
    }
    auto got = reference::Evaluate(g, inputs);
    // The reference computes in doubles. Near a tie, Round may give another integer than for the model's floats.
    bool rounds = std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op == Op::kRound; });
    // The outputs of the fused graph are compared as well, and so are the loops of each of its tasks.
    Graph fused = Optimize(imported->module, {.evaluate = EvaluateByReference})->main();
    auto got_fused = reference::Evaluate(fused, inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      const TensorSpec& spec = want[i].value.spec;
      double bound = rounds && spec.dtype.IsInt() ? 1 : 0;
      // The files give these expected values to four decimals.
      if (name.starts_with("test_roialign") || name.starts_with("test_gridsample")) bound = kHalfOfFourthDecimal;
      const reference::Tensor expected = reference::FromValue(want[i].value);
      EXPECT_EQ(reference::Mismatch(got[i], expected, reference::kOfGraphs, bound), "") << name;
      EXPECT_EQ(reference::Mismatch(got_fused[i], expected, reference::kOfGraphs, bound), "") << name << "\n"
                                                                                              << GraphText(fused);
    }
    for (const Task& task : ExtractTasks(fused)) {
      EXPECT_EQ(reference::LoweredMismatch(*task.subgraph, 1), "") << name << "\n" << task.text;
    }
    outcome[name] = "ok";
    ++passed;
  }
  for (const char* name : kMustPass) EXPECT_EQ(outcome[name], "ok") << name;
  std::printf("%d passed, %d refused\n", passed, refused);
  EXPECT_GE(passed, 715);
}

fs::path ModelsFolder() {
  const char* folder = std::getenv("AUTOTUNE_MODELS");
  return folder ? fs::path(folder) : fs::path(AUTOTUNE_SOURCE_DIR) / "../shared/models";
}

struct Network {
  const char* folder;
  size_t convolutions;
  double gflop_low, gflop_high;
};

TEST(Backend, RealNetworksImport) {
  if (!fs::exists(ModelsFolder())) GTEST_SKIP() << "no models: set AUTOTUNE_MODELS to their folder";
  for (const Network& net : {Network{"light_squeezenet", 26, 0.65, 0.8}, Network{"light_resnet50", 53, 8.0, 8.4},
                             Network{"light_inception_v2", 69, 4.0, 4.2}, Network{"light_bvlc_alexnet", 5, 1.2, 1.5}}) {
    auto imported = ImportOnnx((ModelsFolder() / net.folder / "model.onnx").string());
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    size_t convolutions = 0;
    for (const Node& node : imported->module.main().nodes) convolutions += node.op == Op::kConv2d;
    EXPECT_EQ(convolutions, net.convolutions) << net.folder;
    auto flops = FlopsOf(imported->module.main(), *Target::Parse("cpu"));
    ASSERT_TRUE(flops.ok()) << flops.error().Text();
    double gflop = *flops * 1e-9;
    EXPECT_GT(gflop, net.gflop_low) << net.folder;
    EXPECT_LT(gflop, net.gflop_high) << net.folder;
    EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).NumElements(), 1000);
  }
}

TEST(Backend, RealNetworksBecomeFewKernels) {
  if (!fs::exists(ModelsFolder())) GTEST_SKIP() << "no models: set AUTOTUNE_MODELS to their folder";
  struct Expected {
    const char* folder;
    size_t most_tasks, most_kernels;
  };
  for (const Expected& net : {Expected{"light_squeezenet", 40, 42}, Expected{"light_resnet50", 30, 60},
                              Expected{"light_inception_v2", 70, 95}, Expected{"light_bvlc_alexnet", 16, 16}}) {
    auto imported = ImportOnnx((ModelsFolder() / net.folder / "model.onnx").string());
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    Graph fused = Optimize(imported->module, {.evaluate = EvaluateToZeros})->main();
    std::vector<Task> tasks = ExtractTasks(fused);
    size_t kernels = 0;
    std::string table;
    for (const Task& task : tasks) {
      kernels += task.weight;
      table += std::to_string(task.weight) + " x " + task.Label() + " " +
               task.subgraph->Spec(task.subgraph->outputs[0]).Text() + "\n";
      auto alternatives = LowerSubgraph(*task.subgraph, *Target::Parse("cpu"));
      ASSERT_TRUE(alternatives.ok()) << task.text << alternatives.error().Text();
      EXPECT_EQ(alternatives->front().name, "direct");
    }
    EXPECT_LE(tasks.size(), net.most_tasks) << net.folder << "\n" << table;
    EXPECT_LE(kernels, net.most_kernels) << net.folder << "\n" << table;
    if (std::getenv("AUTOTUNE_PRINT")) {
      std::printf("%s: %zu tasks, %zu kernels\n%s", net.folder, tasks.size(), kernels, table.c_str());
    }
  }
}

}  // namespace
}  // namespace autotune::graph
