#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include "graph/pipeline.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

// No two values live at the same time share bytes; checked by the slow definition.
void CheckPlan(const Graph& g, const MemoryPlan& plan) {
  size_t n = g.nodes.size();
  auto born = [&](ValueId v) { return g.Producer(v) ? g.values[v].index : -1; };
  std::vector<int> dies(g.values.size(), -1);
  for (size_t i = 0; i < n; ++i) {
    dies[g.nodes[i].output] = std::max(dies[g.nodes[i].output], static_cast<int>(i));
    for (ValueId v : g.nodes[i].inputs) dies[v] = static_cast<int>(i);
  }
  for (ValueId v : g.outputs) dies[v] = static_cast<int>(n);
  for (const Constant& c : g.constants) dies[c.value] = static_cast<int>(n);
  for (ValueId v : g.inputs) dies[v] = static_cast<int>(n);
  auto alias_of = [&](ValueId v) {
    while (g.Producer(v) && g.Producer(v)->op == Op::kReshape) v = g.Producer(v)->inputs[0];
    return v;
  };
  for (ValueId a = 0; a < static_cast<ValueId>(g.values.size()); ++a) {
    EXPECT_GE(plan.storage_bytes[plan.storage_id[a]], g.Spec(a).Bytes());
    for (ValueId b = 0; b < a; ++b) {
      bool overlap = born(a) <= dies[b] && born(b) <= dies[a];
      if (alias_of(a) == alias_of(b)) {
        EXPECT_EQ(plan.storage_id[a], plan.storage_id[b]);
      } else if (overlap) {
        EXPECT_NE(plan.storage_id[a], plan.storage_id[b]) << a << " " << b;
      }
    }
  }
}

TEST(MemoryPlan, SharesAndNeverOverlaps) {
  Counting counting;
  Graph g = *Optimize(Residual(17), counting.context);
  MemoryPlan plan = PlanMemory(g);
  CheckPlan(g, plan);
  EXPECT_LT(plan.storage_bytes.size(), g.values.size());
  // A chain needs two buffers besides its ends.
  GraphBuilder b;
  ValueId x = b.Input("x", F32({1000}));
  for (int i = 0; i < 10; ++i) x = b.Must(Op::kRelu, {x});
  b.Output(x, "y");
  Graph chain = b.Finish();
  plan = PlanMemory(chain);
  CheckPlan(chain, plan);
  EXPECT_EQ(plan.storage_bytes.size(), 4u);
  EXPECT_EQ(plan.workspace_bytes, 2 * 4032);  // 4000 rounded up to 64
}

TEST(MemoryPlan, AliasesOfOutputsAndInputs) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({2, 3}));
  ValueId r = b.Must(Op::kRelu, {x});
  ValueId early = b.Reshape(r, {6});
  b.Output(early, "early");
  ValueId y = b.Must(Op::kRelu, {b.Must(Op::kRelu, {b.Must(Op::kRelu, {r})})});
  b.Output(y, "late");
  b.Output(b.Reshape(x, {3, 2}), "input");
  Graph g = b.Finish();
  MemoryPlan plan = PlanMemory(g);
  CheckPlan(g, plan);
  EXPECT_EQ(plan.workspace_bytes, 2 * 64);  // what lies between the first Relu, an output's, and the last
}

}  // namespace
}  // namespace autotune::graph
