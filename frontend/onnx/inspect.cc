#include "frontend/onnx/inspect.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/to_te.h"

namespace autotune {
namespace {

using namespace graph;

// Returns, for each node, whether it must run: an output needs it, and it depends on an input.
std::vector<bool> RunningNodes(const Graph& g) {
  std::vector<bool> varies(g.values.size(), false), needed(g.values.size(), false), runs(g.nodes.size());
  for (ValueId v : g.inputs) varies[v] = true;
  for (ValueId v : g.outputs) needed[v] = true;
  for (const Node& node : g.nodes) {
    varies[node.output] =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return static_cast<bool>(varies[v]); });
  }
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (!needed[g.nodes[i].output]) continue;
    for (ValueId v : g.nodes[i].inputs) needed[v] = true;
    runs[i] = varies[g.nodes[i].output];
  }
  return runs;
}

// Counts the FLOPs of single nodes. Keeps the counts, since a network repeats most nodes.
class NodeFlops {
 public:
  explicit NodeFlops(const Target& target) : target_(target) {}

  Result<double> Of(const Graph& g, const Node& node) {
    GraphBuilder builder;
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(builder.Input("", g.Spec(v)));
    ValueId out = builder.Again(node, g.Spec(node.output), std::move(inputs));
    builder.SetName(out, "");
    builder.Output(out, "");
    const Graph single = builder.Finish();
    auto [known, is_new] = known_.try_emplace(GraphText(single), 0);
    if (is_new) known->second = TRY(FlopsOf(single, target_));
    return known->second;
  }

 private:
  const Target& target_;
  std::map<std::string, double> known_;
};

// Returns the number of bytes of value `v` that a node reads. A node that only moves elements reads no more than it
// writes: a gather of one row does not read the whole table.
double BytesRead(const Graph& g, const Node& node, ValueId v) {
  const int64_t all = g.Spec(v).Bytes();
  const bool moves = KindOf(node.op) == OpKind::kInjective;
  return static_cast<double>(moves ? std::min(all, g.Spec(node.output).Bytes()) : all);
}

// Returns the bytes that a node of the model reads and writes. `nodes` are the graph's nodes into which it was
// imported. Intermediate values, which only these nodes compute and use, are not counted.
double BytesOf(const Graph& g, const std::vector<size_t>& nodes, const std::vector<int>& uses) {
  std::map<ValueId, int> uses_inside;
  std::map<ValueId, double> moved;
  std::set<ValueId> own;
  for (size_t i : nodes) own.insert(g.nodes[i].output);
  for (size_t i : nodes) {
    for (ValueId v : g.nodes[i].inputs) {
      if (own.count(v)) {
        ++uses_inside[v];
      } else {
        moved[v] = std::max(moved[v], BytesRead(g, g.nodes[i], v));
      }
    }
  }
  for (ValueId v : own) {
    if (uses[v] > uses_inside[v]) moved[v] = static_cast<double>(g.Spec(v).Bytes());
  }
  double bytes = 0;
  for (const auto& [v, some] : moved) bytes += some;
  return bytes;
}

Status CountWork(const Graph& g, const ImportFacts& facts, const Target& target,
                 std::map<std::string, OperatorUse>& uses) {
  const std::vector<bool> runs = RunningNodes(g);
  std::map<int32_t, std::vector<size_t>> by_origin;
  NodeFlops flops(target);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!runs[i]) continue;
    by_origin[facts.origins[i]].push_back(i);
    uses[facts.nodes[facts.origins[i]]].flops += TRY(flops.Of(g, g.nodes[i]));
  }
  const std::vector<int> use_counts = g.UseCounts();
  for (const auto& [origin, nodes] : by_origin) uses[facts.nodes[origin]].bytes += BytesOf(g, nodes, use_counts);
  return {};
}

}  // namespace

Result<ModelReport> InspectOnnx(const std::string& path, ImportOptions options, const Target& target) {
  ModelReport report;
  options.facts = &report.facts;
  Result<ImportedModel> imported = ImportOnnx(path, options);
  if (!imported.ok() && report.facts.problems.empty()) return imported.error();
  std::map<std::string, OperatorUse> uses;
  for (const std::string& op : report.facts.nodes) ++uses[op].nodes;
  report.inputs = report.facts.inputs;
  report.outputs = report.facts.outputs;
  if (imported.ok()) {
    const Graph& g = imported->module.main();
    report.inputs.clear();
    report.outputs.clear();
    for (ValueId v : g.inputs) report.inputs.push_back({g.values[v].name, g.Spec(v).Text()});
    for (size_t i = 0; i < g.outputs.size(); ++i)
      report.outputs.push_back({g.output_names[i], g.Spec(g.outputs[i]).Text()});
    report.notes = std::move(imported->notes);
    TRY_NOTE(CountWork(g, report.facts, target, uses), "while counting the work of " + path);
  }
  for (auto& [op, use] : uses) {
    use.op = op;
    report.operators.push_back(use);
  }
  std::stable_sort(report.operators.begin(), report.operators.end(), [](const OperatorUse& a, const OperatorUse& b) {
    return std::tuple(a.flops, a.bytes, a.nodes) > std::tuple(b.flops, b.bytes, b.nodes);
  });
  return report;
}

}  // namespace autotune
