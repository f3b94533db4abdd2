// Compares the memory plan of random execution plans with a slow check of which values may share memory.
#include "compiler/storage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/tensor.h"
#include "support/rng.h"

namespace autotune {
namespace {

int64_t Bytes(const GraphEntry& entry) {
  return ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value();
}

GraphNode Node(std::string function, std::vector<GraphRef> inputs, std::vector<int64_t> shape, int64_t device = 1) {
  GraphNode node{.func_name = std::move(function), .inputs = std::move(inputs)};
  node.outputs = {{.dtype = "f32", .shape = std::move(shape), .device = device}};
  return node;
}

// Returns a random graph. Each node has one output. Except for inputs, it reads the last value of its device, and
// sometimes a second value of this device.
Graph RandomGraph(Rng& rng, int nodes, int devices) {
  Graph graph;
  for (int i = 0; i < nodes; ++i) {
    const int64_t device = 1 + static_cast<int64_t>(rng.Below(devices));
    std::vector<GraphRef> here;  // values on this device
    for (int j = 0; j < i; ++j) {
      if (graph.nodes[j].outputs[0].device == device) here.push_back({j, 0});
    }
    if (here.empty() || i < 2) {
      graph.nodes.push_back(Node("", {}, {static_cast<int64_t>(1 + rng.Below(500))}, device));
    } else if (GraphRef last = here.back(); rng.Below(5) == 0) {
      graph.nodes.push_back(Node("__nop", {last}, {Bytes(graph.Entry(last)) / 4, 1}, device));
    } else {
      std::vector<GraphRef> inputs = {last};
      if (rng.Below(2)) inputs.push_back(here[rng.Below(here.size())]);
      graph.nodes.push_back(Node("k", inputs, {static_cast<int64_t>(1 + rng.Below(500))}, device));
    }
  }
  for (int i = 0; i < 1 + static_cast<int>(rng.Below(3)); ++i)
    graph.heads.push_back({static_cast<int64_t>(rng.Below(graph.nodes.size())), 0});
  return graph;
}

// Checks that no two values that live at the same time share bytes.
void CheckPlan(const Graph& graph, const StoragePlan& plan) {
  const int64_t n = static_cast<int64_t>(graph.nodes.size());
  std::vector<int64_t> root(n), dies(n);
  for (int64_t i = 0; i < n; ++i) {
    const GraphNode& node = graph.nodes[i];
    root[i] = node.func_name == "__nop" ? root[node.inputs[0].node] : i;
    dies[i] = node.IsVariable() ? n : i;
    for (GraphRef input : node.inputs) dies[input.node] = std::max(dies[input.node], i);
  }
  for (GraphRef head : graph.heads) dies[head.node] = n;
  std::map<int64_t, int64_t> workspace;
  for (int64_t id = 0; id < static_cast<int64_t>(plan.bytes.size()); ++id) {
    bool kept = false;
    int64_t device = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (graph.nodes[i].outputs[0].storage_id != id) continue;
      device = graph.nodes[i].outputs[0].device;
      kept |= dies[i] == n;
    }
    if (!kept) workspace[device] += plan.bytes[id];
  }
  EXPECT_EQ(plan.workspace_bytes, workspace);
  for (int64_t a = 0; a < n; ++a) {
    const GraphEntry& x = graph.nodes[a].outputs[0];
    EXPECT_GE(plan.bytes[x.storage_id], Bytes(x));
    for (int64_t b = 0; b < a; ++b) {
      const GraphEntry& y = graph.nodes[b].outputs[0];
      if (root[a] == root[b]) {
        EXPECT_EQ(x.storage_id, y.storage_id);
      } else if (x.device != y.device || a <= dies[b]) {
        EXPECT_NE(x.storage_id, y.storage_id) << a << " " << b;
      }
    }
  }
}

TEST(Storage, SharesAndNeverOverlaps) {
  Rng rng(7);
  size_t shared = 0;
  for (int i = 0; i < 200; ++i) {
    Graph graph = RandomGraph(rng, 20, 1 + i % 3);
    StoragePlan plan = AssignStorage(graph);
    CheckPlan(graph, plan);
    shared += plan.bytes.size() < graph.nodes.size();
  }
  EXPECT_GT(shared, 100u);
}

// A chain needs two buffers besides its input and its output.
TEST(Storage, AChainTakesTurns) {
  Graph graph;
  graph.nodes.push_back(Node("", {}, {1000}));
  for (int64_t i = 0; i < 10; ++i) graph.nodes.push_back(Node("relu", {{i, 0}}, {1000}));
  graph.heads = {{10, 0}};
  StoragePlan plan = AssignStorage(graph);
  CheckPlan(graph, plan);
  EXPECT_EQ(plan.bytes.size(), 4u);
  EXPECT_EQ(plan.workspace_bytes[1], 2 * 4032);  // 4000 rounded up to 64
}

TEST(Storage, AliasesOfOutputsAndInputs) {
  Graph graph;
  graph.nodes = {Node("", {}, {2, 3}),           Node("relu", {{0, 0}}, {2, 3}), Node("__nop", {{1, 0}}, {6}),
                 Node("relu", {{1, 0}}, {2, 3}), Node("relu", {{3, 0}}, {2, 3}), Node("relu", {{4, 0}}, {2, 3}),
                 Node("__nop", {{0, 0}}, {3, 2})};
  graph.heads = {{2, 0}, {5, 0}, {6, 0}};
  StoragePlan plan = AssignStorage(graph);
  CheckPlan(graph, plan);
  EXPECT_EQ(plan.workspace_bytes[1], 2 * 64);  // for nodes 3 and 4; nodes 1 and 5 hold outputs
}

}  // namespace
}  // namespace autotune
