// Kernels that treat all elements of their tensors alike get them as vectors: element-wise kernels, and those of the
// largest and the least element, as in dynamic quantization.
//
//   max(x), quantize(x, max(x))  ->  max(reshape(x)), reshape(quantize(reshape(x), max(reshape(x))))
//
// So they are equal tasks for all tensors of as many elements. Reshapes take no time.
#include <algorithm>
#include <map>
#include <memory>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

// Returns whether the body computes nothing but the largest or the least element of a tensor of several elements.
bool IsExtremum(const Graph& body) {
  const Node& node = body.nodes.front();
  return body.nodes.size() == 1 && (node.op == Op::kReduceMax || node.op == Op::kReduceMin) &&
         body.Spec(node.output).NumElements() == 1 && body.Spec(node.inputs[0]).NumElements() > 1;
}

// Returns whether the body computes each element of its result from one element of each tensor, at the same place.
bool IsOfElements(const Graph& body) {
  const Shape& shape = body.Spec(body.outputs[0]).shape;
  return std::ranges::all_of(body.values, [&](const Value& v) {
    const bool is_elementwise = v.def != Value::Def::kNode || (KindOf(body.nodes[v.index].op) == OpKind::kElementwise &&
                                                               body.nodes[v.index].op != Op::kBatchNorm);
    return is_elementwise && (v.spec.shape == shape || v.spec.NumElements() == 1);
  });
}

class FlatKernelsPass {
 public:
  explicit FlatKernelsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::kFused && !ReadsConstants(node) && (IsExtremum(*node.body) || IsOfElements(*node.body))) {
        rewriter_.Set(node.output, Flat(node));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // Returns whether the kernel reads a constant of several elements, which other kernels may need in its shape.
  bool ReadsConstants(const Node& call) const {
    return std::ranges::any_of(call.inputs,
                               [&](ValueId v) { return graph_.FindConstant(v) && graph_.Spec(v).NumElements() > 1; });
  }

  static Shape FlatShape(const TensorSpec& spec) {
    return spec.NumElements() == 1 ? Shape{} : Shape{spec.NumElements()};
  }

  // Returns the result of a call with vectors in place of its tensors.
  ValueId Flat(const Node& call) {
    const Graph& from = *call.body;
    GraphBuilder body;
    std::map<ValueId, ValueId> now;
    std::vector<ValueId> operands;
    const auto flat = [&](ValueId v) { return TensorSpec{from.Spec(v).dtype, FlatShape(from.Spec(v))}; };
    for (const ValueId v : from.inputs) now[v] = body.Input("", flat(v));
    for (const Constant& c : from.constants)
      now[c.value] = c.data ? body.AddConstant("", from.ConstantValue(c).Reshaped(flat(c.value).shape))
                            : body.ConstantParameter("", flat(c.value));
    for (const Node& node : from.nodes) {
      std::vector<ValueId> inputs;
      for (const ValueId v : node.inputs) inputs.push_back(now.at(v));
      const bool is_reduction = std::holds_alternative<AxesAttrs>(node.attrs);
      now[node.output] = body.Must(node.op, inputs, is_reduction ? AxesAttrs{{0}} : node.attrs);
    }
    body.Output(now.at(from.outputs[0]), "");
    for (const ValueId v : call.inputs)
      operands.push_back(rewriter_.builder.Reshape(rewriter_.Map(v), FlatShape(graph_.Spec(v))));
    const ValueId result = rewriter_.builder.Call(std::make_shared<const Graph>(body.Finish()), operands, call.name);
    return rewriter_.builder.Reshape(result, graph_.Spec(call.output).shape);
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> FlatKernels(const Graph& graph, const PassEnv& env) {
  if (env.context.Get(kFuseGroups) == kFuseNone) return graph;
  return DropDeadCode(FlatKernelsPass(graph).Run(), env);
}

}  // namespace autotune::graph
