#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace autotune::graph {

MemoryPlan PlanMemory(const Graph& graph) {
  constexpr int64_t kAlignment = 64;
  size_t n = graph.values.size();
  // The value whose storage each value lives in.
  std::vector<ValueId> root(n);
  std::iota(root.begin(), root.end(), 0);
  for (const Node& node : graph.nodes) {
    if (KindOf(node.op) == OpKind::kAlias) root[node.output] = root[node.inputs[0]];
  }
  std::vector<bool> pinned(n, false);
  for (ValueId v : graph.inputs) pinned[v] = true;
  for (const Constant& c : graph.constants) pinned[c.value] = true;
  for (ValueId v : graph.outputs) pinned[root[v]] = true;
  std::vector<int> last_use(n, -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    last_use[root[graph.nodes[i].output]] = static_cast<int>(i);  // even if nobody reads it
    for (ValueId v : graph.nodes[i].inputs) last_use[root[v]] = static_cast<int>(i);
  }

  MemoryPlan plan;
  plan.storage_id.assign(n, -1);
  std::vector<int> free;
  auto bytes_of = [&](ValueId v) {
    return (std::max<int64_t>(graph.Spec(v).Bytes(), 1) + kAlignment - 1) / kAlignment * kAlignment;
  };
  auto new_storage = [&](int64_t bytes) {
    plan.storage_bytes.push_back(bytes);
    return static_cast<int>(plan.storage_bytes.size()) - 1;
  };
  auto take = [&](int64_t bytes) {
    if (free.empty()) return new_storage(bytes);
    // The smallest that is large enough; failing that, the largest.
    auto better = [&](int a, int b) {
      int64_t x = plan.storage_bytes[a], y = plan.storage_bytes[b];
      bool fits_x = x >= bytes, fits_y = y >= bytes;
      return fits_x != fits_y ? fits_x : fits_x ? x < y : x > y;
    };
    auto best = std::min_element(free.begin(), free.end(), better);
    int id = *best;
    free.erase(best);
    plan.storage_bytes[id] = std::max(plan.storage_bytes[id], bytes);
    return id;
  };
  for (ValueId v : graph.inputs) plan.storage_id[v] = new_storage(bytes_of(v));
  for (const Constant& c : graph.constants) plan.storage_id[c.value] = new_storage(bytes_of(c.value));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    ValueId r = root[node.output];
    if (r == node.output) plan.storage_id[r] = pinned[r] ? new_storage(bytes_of(r)) : take(bytes_of(r));
    plan.storage_id[node.output] = plan.storage_id[r];
    std::vector<ValueId> ended;
    for (ValueId v : node.inputs) ended.push_back(root[v]);
    ended.push_back(r);
    std::sort(ended.begin(), ended.end());
    ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
    for (ValueId v : ended) {
      if (!pinned[v] && last_use[v] == static_cast<int>(i)) free.push_back(plan.storage_id[v]);
    }
  }
  // Each shared storage is free now: nothing outlives the last node but what is pinned.
  for (int id : free) plan.workspace_bytes += plan.storage_bytes[id];
  return plan;
}

}  // namespace autotune::graph
