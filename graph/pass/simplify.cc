#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "graph/pass/shape_groups.h"

namespace autotune::graph {
namespace {

// Returns c if the node is x / c, where c is one number with a normal reciprocal.
std::optional<float> ConstantDivisor(const Graph& graph, const Node& node) {
  if (node.op != Op::kDiv || graph.FindConstant(node.inputs[0])) return std::nullopt;
  const Constant* c = graph.FindConstant(node.inputs[1]);
  if (!c || !c->data || graph.Spec(c->value).dtype != DType::Float(32) || graph.Spec(c->value).NumElements() != 1)
    return std::nullopt;
  float value = *graph.ConstantValue(*c).As<float>();
  if (!std::isnormal(value) || !std::isnormal(1 / value)) return std::nullopt;
  return value;
}

// Returns v in another shape, by at most one reshape.
ValueId ReshapeOf(GraphBuilder& b, ValueId v, Shape shape, const std::string& name) {
  for (const Node* p = b.graph().Producer(v); p && p->op == Op::kReshape; p = b.graph().Producer(v)) v = p->inputs[0];
  return b.Reshape(v, std::move(shape), name);
}

// Returns for each dimension of `whole` the dimensions of `cut` that it consists of. Returns nothing if a reshape
// between the shapes does more than cut dimensions. Dimensions of one element belong to the first one.
std::optional<std::vector<std::vector<int64_t>>> PartsOf(const Shape& whole, const Shape& cut) {
  if (whole.empty()) return std::nullopt;
  auto longer_than_one = [](const Shape& shape) {
    std::vector<size_t> dims;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) dims.push_back(d);
    }
    return dims;
  };
  auto extents = [](const Shape& shape, const std::vector<size_t>& dims) {
    Shape kept;
    for (size_t d : dims) kept.push_back(shape[d]);
    return kept;
  };
  const std::vector<size_t> of_whole = longer_than_one(whole), of_cut = longer_than_one(cut);
  std::vector<std::vector<int64_t>> parts(whole.size());
  for (size_t d = 0; d < cut.size(); ++d) {
    if (cut[d] == 1) parts[0].push_back(static_cast<int64_t>(d));
  }
  for (const ShapeGroup& g : GroupsOf(extents(whole, of_whole), extents(cut, of_cut))) {
    if (g.i_end - g.i > 1) return std::nullopt;
    for (size_t j = g.j; j < g.j_end; ++j) parts[of_whole[g.i]].push_back(static_cast<int64_t>(of_cut[j]));
  }
  return parts;
}

std::vector<int64_t> Permuted(const std::vector<int64_t>& values, const std::vector<int64_t>& perm) {
  std::vector<int64_t> result;
  for (int64_t axis : perm) result.push_back(values[static_cast<size_t>(axis)]);
  return result;
}

// Returns the transpose of x. If x is a transpose, possibly with cut or joined dimensions, one transpose does the work
// of both. For example, a shuffle of channels cuts the channels into groups, exchanges groups and channels, and joins
// them. ConvertLayout puts a change of layout before and after it. The three transposes become one.
// `across_reshapes`: false if the first transpose has other readers. Then its result exists anyway, and a transpose of
// it may be cheaper than one of its source, or may be read in place.
ValueId TransposeOf(GraphBuilder& b, ValueId x, const std::vector<int64_t>& perm, bool across_reshapes,
                    const std::string& name) {
  const Node* reshape = b.graph().Producer(x);
  if (reshape && reshape->op != Op::kReshape) reshape = nullptr;
  if (reshape && !across_reshapes) return b.Transpose(x, perm, name);
  const ValueId transposed = reshape ? reshape->inputs[0] : x;
  const Node* first = b.graph().Producer(transposed);
  if (!first || first->op != Op::kTranspose) return b.Transpose(x, perm, name);
  const ValueId source = first->inputs[0];
  const std::vector<int64_t> first_perm = std::get<TransposeAttrs>(first->attrs).perm;
  if (!reshape) return b.Transpose(source, Permuted(first_perm, perm), name);
  const Shape before = b.Spec(transposed).shape, after = b.Spec(x).shape;
  if (const auto parts = PartsOf(before, after)) {  // cut the source instead, whose dimensions have another order
    std::vector<int64_t> place(after.size());
    Shape shape;
    for (size_t axis = 0; axis < before.size(); ++axis) {
      const auto d = std::ranges::find(first_perm, static_cast<int64_t>(axis)) - first_perm.begin();
      for (int64_t part : (*parts)[static_cast<size_t>(d)]) {
        place[static_cast<size_t>(part)] = static_cast<int64_t>(shape.size());
        shape.push_back(after[static_cast<size_t>(part)]);
      }
    }
    return b.Transpose(ReshapeOf(b, source, shape, name), Permuted(place, perm), name);
  }
  if (const auto parts = PartsOf(after, before)) {  // join the dimensions of the result instead
    std::vector<int64_t> order;
    for (int64_t axis : perm) {
      for (int64_t part : (*parts)[static_cast<size_t>(axis)]) order.push_back(first_perm[static_cast<size_t>(part)]);
    }
    return b.Reshape(b.Transpose(source, order, name), Permuted(after, perm), name);
  }
  return b.Transpose(x, perm, name);
}

}  // namespace

Result<Graph> SimplifyGraph(const Graph& graph, const PassEnv& env) {
  Rewriter rewriter(graph);
  GraphBuilder& b = rewriter.builder;
  // Marks the values that an operator with steps, such as floor, depends on: a rounding error could change its result
  // by a whole step. The inverse functions have an end at 1: behind it they are NaN, or infinitely steep at it. In
  // networks that quantize, all values are marked, so that equal layers before and behind the last step stay equal.
  const bool quantizes = std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::kRound; });
  std::vector<bool> exact(graph.values.size(), quantizes);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    constexpr Op kSteps[] = {Op::kFloor,     Op::kCeil, Op::kRound, Op::kCast, Op::kEqual, Op::kLess,
                             Op::kLessEqual, Op::kMod,  Op::kAsin,  Op::kAcos, Op::kAcosh, Op::kAtanh};
    bool step = std::find(std::begin(kSteps), std::end(kSteps), node->op) != std::end(kSteps);
    if (!step && !exact[node->output]) continue;
    for (ValueId v : node->inputs) exact[v] = true;
  }
  const std::vector<int> uses = graph.UseCounts();
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kReshape) {
      rewriter.Set(node.output, ReshapeOf(b, rewriter.Map(node.inputs[0]), graph.Spec(node.output).shape, node.name));
    } else if (node.op == Op::kTranspose) {
      const std::vector<int64_t>& perm = std::get<TransposeAttrs>(node.attrs).perm;
      ValueId source = node.inputs[0];
      bool alone = uses[source] == 1;
      for (const Node* p = graph.Producer(source); p && p->op == Op::kReshape; p = graph.Producer(source)) {
        source = p->inputs[0];
        alone = alone && uses[source] == 1;
      }
      rewriter.Set(node.output, TransposeOf(b, rewriter.Map(node.inputs[0]), perm, alone, node.name));
    } else if (auto divisor = ConstantDivisor(graph, node); divisor && !exact[node.output]) {
      // A multiplication takes a fraction of the time of a division, but rounds once more.
      ValueId factor = b.AddConstant("", TensorValue::Scalar(1 / *divisor));
      factor = b.Reshape(factor, graph.Spec(node.inputs[1]).shape);
      rewriter.Set(node.output, b.Must(Op::kMul, {rewriter.Map(node.inputs[0]), factor}, {}, node.name));
    } else {
      rewriter.Copy(node);
    }
  }
  // Bypassed nodes may be dead now.
  return DropDeadCode(rewriter.Finish(), env);
}

}  // namespace autotune::graph
