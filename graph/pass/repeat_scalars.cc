// Numbers that follow from a few other numbers are computed again by each kernel that reads them, instead of by kernels
// of their own:
//
//   s = f(max), z = g(min, s), y = quantize(x, s, z)  ->  y = quantize(x, f(max), g(min, f(max)))
//
// Dynamic quantization has such numbers: the scale and the zero point follow from the range of a tensor, and their
// products with constants scale and correct the columns of a product. A kernel needs a few nanoseconds for them, less
// than a kernel of their own needs to start. Results stay equal, bit for bit.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr size_t kMostWork = 32;  // nodes that a kernel computes again for one operand [chosen]
// Most rows of a result whose columns have numbers that are computed again for each tile. With 64 and 128 rows, that
// takes as long as one more kernel for the columns. [measured]
constexpr int64_t kMostRows = 128;

// Returns the parameters of a body, in the order of a call's operands.
std::vector<ValueId> ParametersOf(const Graph& body) {
  std::vector<ValueId> parameters = body.inputs;
  for (const Constant& c : body.constants)
    if (!c.data) parameters.push_back(c.value);
  return parameters;
}

bool IsAmong(Op op, std::initializer_list<Op> ops) { return std::ranges::find(ops, op) != ops.end(); }

// Returns whether kernels may apply the operator to one number again. Functions that are polynomials are computed once.
bool IsCheap(Op op) {
  using enum Op;
  return IsAmong(op, {kAdd, kSub, kMul, kDiv,   kFma,  kMax,   kMin,  kAbs,   kNeg,  kRelu,      kClip, kSqrt,
                      kNot, kAnd, kOr,  kFloor, kCeil, kRound, kCast, kEqual, kLess, kLessEqual, kWhere});
}
// Returns whether kernels may apply the operator to the numbers of columns again for each row.
bool IsCheapForRows(Op op) {
  using enum Op;
  return IsAmong(op, {kAdd, kSub, kMul, kCast});
}

// Returns whether schedules of the kernel allow for numbers that are computed first: it is element by element, or a
// product or convolution with what follows it.
bool MayComputeNumbers(const Graph& body) {
  return std::ranges::all_of(body.nodes, [&](const Node& n) {
    return KindOf(n.op) == OpKind::kElementwise || (KindOf(n.op) == OpKind::kAnchor && &n == &body.nodes.front());
  });
}

class RepeatScalarsPass {
 public:
  explicit RepeatScalarsPass(const Graph& graph) : graph_(graph), rewriter_(graph), work_(graph.values.size(), 0) {
    for (const Node& node : graph.nodes) work_[node.output] = WorkOf(node);
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::kFused && TakesInAny(node)) {
        rewriter_.Set(node.output, Rewritten(node));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // A kernel that is made anew.
  struct Kernel {
    GraphBuilder body;
    std::vector<ValueId> operands, constants;  // of graph_
    std::map<ValueId, ValueId> known;          // values of the body that kernels compute again, or read for that
  };

  bool IsOne(ValueId v) const { return graph_.Spec(v).NumElements() == 1; }

  // Returns the number of nodes that compute the value of a call again from single numbers and constants; 0: kernels
  // read the value instead.
  size_t WorkOf(const Node& node) const {
    if (node.op != Op::kFused) return 0;
    size_t work = node.body->nodes.size();
    const bool is_one = IsOne(node.output);
    for (const Node& n : node.body->nodes)
      if (is_one ? !IsCheap(n.op) : !IsCheapForRows(n.op)) return 0;
    for (const ValueId v : node.inputs) {
      if (!IsOne(v) && !graph_.FindConstant(v)) return 0;
      work += work_[v];
    }
    return work <= kMostWork ? work : 0;
  }

  // Returns whether the kernel of a call can compute an operand, which only element-wise nodes may read.
  bool TakesIn(const Node& call, size_t operand) const {
    if (work_[call.inputs[operand]] == 0 || !MayComputeNumbers(*call.body)) return false;
    const ValueId parameter = ParametersOf(*call.body)[operand];
    const int64_t count = graph_.Spec(call.inputs[operand]).NumElements();
    return std::ranges::all_of(call.body->nodes, [&](const Node& n) {
      if (std::ranges::find(n.inputs, parameter) == n.inputs.end()) return true;
      const int64_t repeats = call.body->Spec(n.output).NumElements() / count;
      return KindOf(n.op) == OpKind::kElementwise && (count == 1 || repeats <= kMostRows);
    });
  }
  bool TakesInAny(const Node& call) const {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (TakesIn(call, i)) return true;
    return false;
  }

  ValueId Rewritten(const Node& call) {
    Kernel kernel;
    const ValueId result = Append(kernel, call, [&](size_t operand) {
      const ValueId v = call.inputs[operand];
      return TakesIn(call, operand) || IsOne(v) ? Known(kernel, v) : Parameter(kernel, v);
    });
    kernel.body.Output(result, "");
    kernel.operands.insert(kernel.operands.end(), kernel.constants.begin(), kernel.constants.end());
    return rewriter_.builder.Call(std::make_shared<const Graph>(kernel.body.Finish()),
                                  rewriter_.MapAll(kernel.operands), call.name);
  }

  // Appends the nodes of a call's body to the kernel, each behind the parameters that it reads first. Returns the
  // result.
  ValueId Append(Kernel& kernel, const Node& call, const std::function<ValueId(size_t)>& value_of) {
    const Graph& from = *call.body;
    const std::vector<ValueId> parameters = ParametersOf(from);
    std::map<ValueId, ValueId> now;
    for (const Node& node : from.nodes) {
      std::vector<ValueId> inputs;
      for (const ValueId v : node.inputs) {
        const Constant* c = from.FindConstant(v);
        if (!now.contains(v))
          now[v] = c && c->data ? kernel.body.AddConstant("", from.ConstantValue(*c))
                                : value_of(static_cast<size_t>(std::ranges::find(parameters, v) - parameters.begin()));
        inputs.push_back(now[v]);
      }
      now[node.output] = kernel.body.Must(node.op, std::move(inputs), node.attrs);
    }
    return now.at(from.outputs[0]);
  }

  // Returns the value in the kernel for a value of graph_ that it computes again, or reads for that.
  ValueId Known(Kernel& kernel, ValueId v) {
    if (const auto known = kernel.known.find(v); known != kernel.known.end()) return known->second;
    const Node* call = graph_.Producer(v);
    const ValueId now =
        work_[v] == 0 ? Parameter(kernel, v)
                      : Append(kernel, *call, [&](size_t operand) { return Known(kernel, call->inputs[operand]); });
    return kernel.known[v] = now;
  }

  ValueId Parameter(Kernel& kernel, ValueId v) {
    const bool is_constant = graph_.FindConstant(v) != nullptr;
    (is_constant ? kernel.constants : kernel.operands).push_back(v);
    return is_constant ? kernel.body.ConstantParameter("", graph_.Spec(v)) : kernel.body.Input("", graph_.Spec(v));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<size_t> work_;  // by value: WorkOf its call
};

}  // namespace

Result<Graph> RepeatScalars(const Graph& graph, const PassEnv& env) {
  if (!env.repeats_scalars || env.context.Get(kFuseGroups) == kFuseNone) return graph;
  return DropDeadCode(RepeatScalarsPass(graph).Run(), env);
}

}  // namespace autotune::graph
