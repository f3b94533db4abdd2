// Graph JSON of packages. A graph that parses must print, and the text must parse to an equal graph. An executor runs
// the graph or refuses it; without kernels, it can only run reshapes.
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "runtime/graph_json.h"
#include "runtime/tensor.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(graph_json) {
  auto graph = Graph::Parse(input);
  if (!graph.ok()) return;
  auto again = Graph::Parse(graph->ToText());
  CHECK(again.ok()) << again.error().Text();
  CHECK(*graph == *again);
  double bytes = 0;
  for (const GraphNode& node : graph->nodes) {
    for (const GraphEntry& entry : node.outputs) {
      bytes += static_cast<double>(ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value());
    }
  }
  if (bytes > (1 << 20)) return;  // legal, but the executor would allocate this memory
  static const auto cpu = std::make_shared<CpuDevice>(1);
  auto executor = GraphExecutor::Create(std::move(*graph), {}, {}, {cpu});
  if (executor.ok()) CHECK((*executor)->Run().ok());
}

}  // namespace autotune
