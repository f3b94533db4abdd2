// Measures the overhead of the graph executor: nanoseconds per node of a network whose kernels do nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/bound_kernel.h"
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

class Nothing final : public BoundKernel {
 public:
  explicit Nothing(const KernelMetadata& metadata) : BoundKernel(metadata) {}
  Status Run(void* const*) override { return {}; }
  Status Prepare(void* const*) override { return {}; }
};

struct NothingModule : ModuleNode {
  KernelMetadata metadata{.name = "nothing",
                          .params = {{"x", "f32", {16}, ParamKind::kInput}, {"y", "f32", {16}, ParamKind::kOutput}}};
  std::string_view TypeKey() const override { return "nothing"; }
  PackedFunc GetOwnFunction(std::string_view, const Module&) override { return {}; }
  Result<std::shared_ptr<BoundKernel>> BindOwnKernel(std::string_view, const DevicePtr&) override {
    return std::shared_ptr<BoundKernel>(std::make_shared<Nothing>(metadata));
  }
};

Graph Chain(int64_t nodes) {
  Graph graph;
  for (int64_t i = 0; i <= nodes; ++i) {
    GraphNode node{.name = "n" + std::to_string(i)};
    if (i > 0) {
      node.func_name = "nothing";
      node.inputs = {{i - 1, 0}};
    }
    node.outputs = {{"f32", {16}, i % 2 + (i > 0 ? 1 : 0) * 2}};
    graph.nodes.push_back(std::move(node));
  }
  graph.heads = {{nodes, 0}};
  return graph;
}

int Main() {
  constexpr int64_t kNodes = 1000;
  constexpr int kRuns = 1000;
  auto executor =
      GraphExecutor::Create(Chain(kNodes), std::make_shared<NothingModule>(), {}, {std::make_shared<CpuDevice>(1)})
          .value();
  std::vector<double> nanoseconds;
  for (int run = 0; run < kRuns; ++run) {
    Clock::time_point begin = Clock::now();
    if (!executor->Run().ok()) return 1;
    nanoseconds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kNodes);
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  std::printf("ns per node: least %.1f, median %.1f, 99th percentile %.1f\n", nanoseconds.front(),
              nanoseconds[kRuns / 2], nanoseconds[kRuns * 99 / 100]);
  return 0;
}

}  // namespace
}  // namespace autotune

int main() { return autotune::Main(); }
