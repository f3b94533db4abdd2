// One kernel finds the largest and the least element of a tensor, as for dynamic quantization. Kernels that read one of
// them take it from the result:
//
//   quantize(x, max(x), min(x))  ->  quantize(x, e[0], e[1])  with e = concat(max(x), min(x))
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

class JointExtremaPass {
 public:
  explicit JointExtremaPass(const Graph& graph) : graph_(graph), rewriter_(graph), extrema_(graph.values.size()) {
    FindExtrema();
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      const auto is_joint = [&](ValueId v) { return extrema_[v] && pairs_.contains(extrema_[v]->of); };
      if (is_joint(node.output)) continue;  // its readers take another value
      if (node.op == Op::kFused && std::ranges::any_of(node.inputs, is_joint)) {
        rewriter_.Set(node.output, Rewritten(node));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // An extremum of all elements of the tensor `of`, perhaps in another shape.
  struct Extremum {
    ValueId of = -1;
    bool least = false;
  };

  // Returns the extremum that a call computes.
  std::optional<Extremum> ExtremumOf(const Node& call) const {
    if (call.op != Op::kFused || call.body->nodes.size() != 1) return std::nullopt;
    const Node& node = call.body->nodes.front();
    const bool least = node.op == Op::kReduceMin;
    if ((!least && node.op != Op::kReduceMax) || !graph_.Spec(call.inputs[0]).dtype.IsFloat()) return std::nullopt;
    if (graph_.Spec(call.output).NumElements() != 1) return std::nullopt;
    ValueId of = call.inputs[0];
    while (const Node* reshape = ProducerOf(graph_, of, Op::kReshape)) of = reshape->inputs[0];
    return Extremum{of, least};
  }

  // Finds the extrema, their reshapes, and the tensors both of whose extrema only kernels read.
  void FindExtrema() {
    std::map<ValueId, std::set<bool>> found;
    std::set<ValueId> others;  // an extremum has other readers
    for (const Node& node : graph_.nodes) {
      if (const std::optional<Extremum> extremum = ExtremumOf(node)) {
        extrema_[node.output] = extremum;
        found[extremum->of].insert(extremum->least);
      } else if (node.op == Op::kReshape) {
        extrema_[node.output] = extrema_[node.inputs[0]];
      } else if (node.op != Op::kFused) {
        for (const ValueId v : node.inputs)
          if (extrema_[v]) others.insert(extrema_[v]->of);
      }
    }
    for (const ValueId v : graph_.outputs)
      if (extrema_[v]) others.insert(extrema_[v]->of);
    for (const auto& [of, which] : found)
      if (which.size() == 2 && !others.contains(of)) pairs_[of] = -1;
  }

  // Returns the result of the kernel of both extrema: [largest, least].
  ValueId Both(ValueId of) {
    ValueId& both = pairs_.at(of);
    if (both >= 0) return both;
    const TensorSpec& spec = graph_.Spec(of);
    const Shape flat = {spec.NumElements()};
    GraphBuilder body;
    const ValueId x = body.Input("", {spec.dtype, flat});
    const ValueId largest = body.Must(Op::kReduceMax, {x}, AxesAttrs{{0}}),
                  least = body.Must(Op::kReduceMin, {x}, AxesAttrs{{0}});
    body.Output(body.Must(Op::kConcat, {largest, least}, AxisAttrs{0}), "");
    const ValueId vector = rewriter_.builder.Reshape(rewriter_.Map(of), flat);
    return both =
               rewriter_.builder.Call(std::make_shared<const Graph>(body.Finish()), {vector}, graph_.values[of].name);
  }

  // Returns a call whose kernel takes extrema from the results of the joint kernels, as tensors [1], which any shape
  // of numbers can be combined with.
  ValueId Rewritten(const Node& call) {
    const Graph& from = *call.body;
    GraphBuilder body;
    std::map<ValueId, ValueId> now, both;  // parameters of the old body; results of joint kernels in the new one
    std::vector<ValueId> operands, constants;
    size_t at = 0;
    for (const ValueId parameter : from.inputs) {
      const ValueId v = call.inputs[at++];
      const std::optional<Extremum>& extremum = extrema_[v];
      if (!extremum || !pairs_.contains(extremum->of)) {
        now[parameter] = body.Input("", from.Spec(parameter));
        operands.push_back(rewriter_.Map(v));
        continue;
      }
      const auto [it, is_new] = both.try_emplace(extremum->of, -1);
      if (is_new) {
        operands.push_back(Both(extremum->of));
        it->second = body.Input("", rewriter_.builder.Spec(operands.back()));
      }
      now[parameter] = body.Must(Op::kSlice, {it->second}, SliceAttrs{{extremum->least ? 1 : 0}, {1}, {1}});
    }
    for (const Constant& c : from.constants) {
      now[c.value] =
          c.data ? body.AddConstant("", from.ConstantValue(c)) : body.ConstantParameter("", from.Spec(c.value));
      if (!c.data) constants.push_back(rewriter_.Map(call.inputs[at++]));
    }
    for (const Node& node : from.nodes) {
      std::vector<ValueId> inputs;
      for (const ValueId v : node.inputs) inputs.push_back(now.at(v));
      now[node.output] = body.Must(node.op, std::move(inputs), node.attrs);
    }
    body.Output(now.at(from.outputs[0]), "");
    operands.insert(operands.end(), constants.begin(), constants.end());
    const ValueId result = rewriter_.builder.Call(std::make_shared<const Graph>(body.Finish()), operands, call.name);
    return rewriter_.builder.Reshape(result, graph_.Spec(call.output).shape);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::optional<Extremum>> extrema_;  // by value: the extremum that it is
  std::map<ValueId, ValueId> pairs_;              // tensors whose extrema one kernel finds -> its result; -1: not made
};

}  // namespace

Result<Graph> JointExtrema(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(JointExtremaPass(graph).Run(), env);
}

}  // namespace autotune::graph
