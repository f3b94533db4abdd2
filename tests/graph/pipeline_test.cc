#include "graph/pipeline.h"

#include <gtest/gtest.h>

#include "graph/extract.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(Pipeline, ResidualNetwork) {
  Counting counting;
  Graph g = ExpectKept(Residual(12), Pipeline(), counting.env);
  EXPECT_EQ(counting.calls, 1);
  std::vector<Task> tasks = ExtractTasks(g);
  std::string labels;
  int kernels = 0;
  for (const Task& t : tasks) {
    labels += t.Label() + " x" + std::to_string(t.weight) + "\n";
    kernels += t.weight;
  }
  EXPECT_EQ(labels,
            "transpose x1\n"
            "conv2d_add_relu x1\n"
            "max_pool2d x1\n"
            "conv2d_add_relu x1\n"
            "conv2d_add x1\n"
            "conv2d_add_add_relu x2\n"
            "conv2d_add_relu x1\n"
            "global_avg_pool x1\n"
            "matmul_add x1\n"
            "softmax x1\n");
  for (const Node& node : g.nodes) EXPECT_TRUE(node.op == Op::kFused || node.op == Op::kReshape);
}

TEST(Pipeline, DisabledPassIsLeftOut) {
  Counting counting;
  counting.env.context = PassContext({.disabled = {"convert_layout"}, .time = true});
  Graph g = ExpectKept(Residual(13), Pipeline(), counting.env);
  EXPECT_EQ(counting.env.context.Times().count("convert_layout"), 0u);
  EXPECT_EQ(counting.env.context.Times().count("fuse"), 1u);
  EXPECT_NE(GraphText(g).find("layout=NCHW"), std::string::npos);
}

TEST(Pipeline, OptionsReachTheirPasses) {
  Counting counting;
  PassConfig config;
  ASSERT_TRUE(config.SetOption("fuse_groups=none", std::span(&GraphPassTable(), 1)).ok());
  counting.env.context = PassContext(config);
  Graph g = ExpectKept(Residual(14), Pipeline(), counting.env);
  for (const Task& t : ExtractTasks(g)) EXPECT_EQ(t.subgraph->nodes.size(), 1u) << t.Label();

  Maker m(15);
  ValueId x = m.b.Input("x", F32({2}));
  for (int i = 0; i < 2; ++i)
    m.b.Output(m.b.Must(Op::kAdd, {x, m.b.AddConstant("", TensorValue::Of<float>({2}, {1, 2}))}), "");
  const Graph twice = m.b.Finish();
  auto nodes = [&](const char* option) {
    PassConfig some;
    EXPECT_TRUE(some.SetOption(option, std::span(&GraphPassTable(), 1)).ok());
    return ShareCommonSubexpressions(twice, {.context = PassContext(some)})->nodes.size();
  };
  EXPECT_EQ(nodes("shared_constant_elements=2"), 1u);
  EXPECT_EQ(nodes("shared_constant_elements=1"), 2u);
}

// The passes that the table marks as needed cannot be disabled. Disabling any other pass keeps the network's meaning.
TEST(Pipeline, KeepsTheMeaningWithoutAnyPassThatMayBeDisabled) {
  int tried = 0;
  for (const PassRow& row : GraphPassTable().passes) {
    PassConfig config;
    Status disabled = config.Disable(row.name, std::span(&GraphPassTable(), 1));
    EXPECT_EQ(disabled.ok(), row.needed.empty()) << row.name;
    if (!disabled.ok()) continue;
    SCOPED_TRACE(row.name);
    Counting counting;
    counting.env.context = PassContext(config);
    ExpectKept(Residual(16), Pipeline(), counting.env);
    ++tried;
  }
  EXPECT_GE(tried, 5);
}

}  // namespace
}  // namespace autotune::graph
