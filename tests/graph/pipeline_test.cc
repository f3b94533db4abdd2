#include "graph/pipeline.h"

#include <gtest/gtest.h>

#include "graph/extract.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

TEST(Pipeline, ResidualNetwork) {
  Counting counting;
  Graph g = ExpectKept(Residual(12), Pipeline(), counting.context);
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
  counting.context.disabled = {"convert_layout"};
  Graph g = ExpectKept(Residual(13), Pipeline(), counting.context);
  EXPECT_EQ(counting.context.times_ms.count("convert_layout"), 0u);
  EXPECT_EQ(counting.context.times_ms.count("fuse"), 1u);
  EXPECT_NE(GraphText(g).find("layout=NCHW"), std::string::npos);
}

}  // namespace
}  // namespace autotune::graph
