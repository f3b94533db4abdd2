#include "graph/pass/group_body.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace autotune::graph {
namespace {

// Appends the views through which the group reads `v` in place, each after the views that it reads.
void AddViews(const Graph& graph, const NodeGroup& group, ValueId v, std::set<ValueId>& inner,
              std::vector<Node>& ordered) {
  const Node* view = graph.Producer(v);
  if (!view || !group.read_in_place[graph.values[v].index] || !inner.insert(v).second) return;
  AddViews(graph, group, view->inputs[0], inner, ordered);
  ordered.push_back(*view);
}

// Returns the order of an operand of the node: values of the group first, then those that it has absorbed, then other
// activations, then constants. Absorbed corrections of a product come before all: programs compute operands in this
// order, and the loops of the product can include only readers whose other operands are there.
int Rank(const Graph& graph, const NodeGroup& group, const Node& node, ValueId v, const std::set<ValueId>& inner) {
  if (!inner.count(v)) return graph.FindConstant(v) ? 3 : 2;
  if (!graph.Producer(v) || !group.is_absorbed[graph.values[v].index]) return 0;
  return graph.Spec(v).shape == graph.Spec(node.output).shape ? 1 : -1;
}

bool IsLiteral(const Graph& graph, ValueId v, const Constant& c, const std::vector<Node>& nodes) {
  if (!c.data || graph.Spec(v).NumElements() != 1) return false;
  if (std::abs(graph.ConstantValue(c).Number(0)) >= 0x1p53 && graph.Spec(v).dtype.IsInt()) return false;
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node& n) {
    return std::find(n.inputs.begin(), n.inputs.end(), v) == n.inputs.end() || KindOf(n.op) == OpKind::kElementwise;
  });
}

}  // namespace

bool IsComputedProduct(const Graph& graph, const Node& node) {
  return (node.op == Op::kMatmul || node.op == Op::kBatchMatmul) && !graph.FindConstant(node.inputs[1]) &&
         graph.Spec(node.output).dtype.IsFloat() && graph.Spec(node.output).shape.back() > 1;
}

void EmitGroup(const Graph& graph, const NodeGroup& group, Rewriter& rewriter) {
  std::set<ValueId> inner;
  for (int n : group.nodes) inner.insert(graph.nodes[n].output);
  // Brings operands into a canonical order, so that equal kernels become equal tasks.
  std::vector<Node> ordered;
  for (int n : group.nodes) {
    for (ValueId v : graph.nodes[n].inputs) AddViews(graph, group, v, inner, ordered);
    ordered.push_back(graph.nodes[n]);
    auto& in = ordered.back().inputs;
    const auto rank = [&](size_t i) { return Rank(graph, group, ordered.back(), in[i], inner); };
    if (GetOpInfo(ordered.back().op).commutative && rank(1) < rank(0)) std::swap(in[0], in[1]);
  }
  GraphBuilder body;
  std::map<ValueId, ValueId> map, viewed;  // viewed: the parameter that a view reads, by the view's value
  std::vector<ValueId> arguments, constants;
  // The operands of a product are separate parameters, even if they are pieces of one tensor: a schedule copies an
  // operand by its parameter.
  const auto is_product = [&](int n) { return KindOf(graph.nodes[n].op) == OpKind::kAnchor; };
  const bool apart = IsComputedProduct(graph, graph.nodes[group.nodes.front()]) ||
                     std::ranges::count_if(group.nodes, is_product) > 1;  // attention of bytes
  for (const Node& node : ordered) {
    for (ValueId v : node.inputs) {
      if (apart && !inner.count(v) && !graph.FindConstant(v) && group.read_in_place[graph.values[node.output].index]) {
        viewed[node.output] = body.Input("", graph.Spec(v));
        arguments.push_back(v);
      }
      if (inner.count(v) || map.count(v) || viewed.count(node.output)) continue;
      const Constant* c = graph.FindConstant(v);
      if (!c) {
        map[v] = body.Input("", graph.Spec(v));
        arguments.push_back(v);
      } else if (IsLiteral(graph, v, *c, ordered)) {
        map[v] = body.AddConstant("", graph.ConstantValue(*c));
      } else {
        map[v] = body.ConstantParameter("", graph.Spec(v));
        constants.push_back(v);
      }
    }
  }
  for (const Node& node : ordered) {
    std::vector<ValueId> in;
    auto own = viewed.find(node.output);
    for (ValueId v : node.inputs) in.push_back(own == viewed.end() ? map.at(v) : own->second);
    map[node.output] = body.Must(node.op, in, node.attrs);
  }
  ValueId output = ordered.back().output;
  body.Output(map.at(output), "");
  arguments.insert(arguments.end(), constants.begin(), constants.end());
  rewriter.Set(output, rewriter.builder.Call(std::make_shared<const Graph>(body.Finish()), rewriter.MapAll(arguments),
                                             ordered.front().name));
}

}  // namespace autotune::graph
