// ONNX models. A model is imported or refused; the graph passes and the lowering to programs then accept or refuse it.
#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "graph/to_te.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {
namespace {

// Only small graphs are lowered to programs, so that most of the time goes into the importer.
bool IsSmall(const graph::Graph& graph) {
  double elements = 0;
  for (const auto& value : graph.values) elements += static_cast<double>(value.spec.NumElements());
  return graph.nodes.size() <= 10 && elements < 1e5;
}

}  // namespace

FUZZ_TARGET(onnx) {
  auto imported = ImportOnnxBytes(input, "fuzz");
  if (!imported.ok()) imported = ImportOnnxBytes(input, "fuzz", {.lenient = true});  // goes on behind simple faults
  if (!imported.ok() || !IsSmall(imported->module.main())) return;
  auto optimized = graph::Optimize(imported->module);
  if (!optimized.ok()) return;
  static const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2").value();
  for (const graph::Task& task : graph::ExtractTasks(optimized->main()))
    (void)graph::LowerSubgraph(*task.subgraph, target);
}

}  // namespace autotune
