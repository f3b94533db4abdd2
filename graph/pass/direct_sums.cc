#include <algorithm>
#include <span>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "topi/winograd.h"

namespace autotune::graph {
namespace {

// Returns true if a target may compute the convolution by Winograd's algorithm, but its guard would refuse all tiles
// because of the weights.
bool HasWildWeights(const Graph& graph, const Node& node) {
  const auto* attrs = std::get_if<ConvAttrs>(&node.attrs);
  if (!attrs || attrs->layout != Layout::kNHWC || attrs->groups != 1) return false;
  const Constant* weight = graph.FindConstant(node.inputs[1]);
  const TensorSpec& spec = graph.Spec(node.inputs[1]);
  if (!weight || !weight->data || spec.dtype != DType::Float(32)) return false;
  if (spec.shape.size() != 4 || spec.shape[0] != 3 || spec.shape[1] != 3) return false;
  if (std::min(spec.shape[2], spec.shape[3]) < topi::kFewestWinogradChannels) return false;
  const std::vector<int64_t> ones = {1, 1};
  if (attrs->strides != ones || attrs->dilations != ones) return false;
  const TensorValue value = graph.ConstantValue(*weight);
  return !topi::AreTameWeights({value.As<float>(), static_cast<size_t>(spec.NumElements())}, spec.shape[3]);
}

}  // namespace

Result<Graph> DirectSums(const Graph& graph, const PassEnv&) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    Node same = node;
    if (HasWildWeights(graph, node)) std::get<ConvAttrs>(same.attrs).exact = true;
    rewriter.Copy(same);
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
