#include <algorithm>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "graph/pass/shape_groups.h"

namespace autotune::graph {
namespace {

// Returns the shape that broadcasts to `inner` as `operand` broadcasts to `outer`; nothing if there is none.
std::optional<Shape> Regrouped(Shape operand, const Shape& outer, const Shape& inner) {
  if (operand.size() > outer.size()) return std::nullopt;
  operand.insert(operand.begin(), outer.size() - operand.size(), 1);
  Shape result(inner.size(), 1);
  for (const ShapeGroup& g : GroupsOf(outer, inner)) {
    bool whole = std::equal(operand.begin() + g.i, operand.begin() + g.i_end, outer.begin() + g.i);
    bool unit = std::all_of(operand.begin() + g.i, operand.begin() + g.i_end, [](int64_t d) { return d == 1; });
    if (whole) {
      std::copy(inner.begin() + g.j, inner.begin() + g.j_end, result.begin() + g.j);
    } else if (!unit) {
      return std::nullopt;
    }
  }
  return result;
}

// Returns the axes of `inner` that together index the same elements as `axes` of `outer`; nothing if there are none.
std::optional<std::vector<int64_t>> RegroupedAxes(const std::vector<int64_t>& axes, const Shape& outer,
                                                  const Shape& inner) {
  std::vector<int64_t> result;
  for (const ShapeGroup& g : GroupsOf(outer, inner)) {
    bool any = false, all = true;
    for (size_t d = g.i; d < g.i_end; ++d) {
      if (outer[d] == 1) continue;
      bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
      any |= named;
      all &= named;
    }
    if (!any) continue;
    if (!all) return std::nullopt;
    for (size_t d = g.j; d < g.j_end; ++d) result.push_back(static_cast<int64_t>(d));
  }
  if (result.empty()) return std::nullopt;
  return result;
}

class Sinker {
 public:
  explicit Sinker(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      std::optional<ValueId> now;
      if (node.op == Op::kReshape) {
        now = As(rewriter_.Map(node.inputs[0]), graph_.Spec(node.output).shape, node.name);
      } else if (node.op != Op::kBatchNorm && KindOf(node.op) == OpKind::kElementwise) {
        now = Elementwise(node);
      } else if (std::holds_alternative<AxesAttrs>(node.attrs)) {
        now = Reduction(node);
      }
      if (now) {
        rewriter_.Set(node.output, *now);
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  GraphBuilder& builder() { return rewriter_.builder; }
  const Shape& ShapeOf(ValueId v) { return builder().Spec(v).shape; }
  const Node* ReshapeOf(ValueId v) {
    const Node* node = builder().graph().Producer(v);
    return node && node->op == Op::kReshape ? node : nullptr;
  }

  // Returns v in another shape, by at most one reshape.
  ValueId As(ValueId v, const Shape& shape, const std::string& name) {
    while (const Node* node = ReshapeOf(v)) v = node->inputs[0];
    return builder().Reshape(v, shape, name);
  }

  // Rewrites f(reshape(x), y) as reshape(f(x, y')) if every operand of the full shape is such a reshape or not
  // computed.
  std::optional<ValueId> Elementwise(const Node& node) {
    const Shape& outer = graph_.Spec(node.output).shape;
    std::vector<ValueId> operands = rewriter_.MapAll(node.inputs);
    const Node* source = nullptr;
    for (ValueId v : operands) {
      if (!source && ShapeOf(v) == outer) source = ReshapeOf(v);
    }
    if (!source) return std::nullopt;
    const Shape inner = ShapeOf(source->inputs[0]);
    std::vector<std::optional<Shape>> shapes;
    for (ValueId v : operands) {
      if (ShapeOf(v) == outer) {
        const Node* reshape = ReshapeOf(v);
        bool computed = builder().graph().Producer(v) != nullptr;
        if (reshape ? ShapeOf(reshape->inputs[0]) != inner : computed) return std::nullopt;
      }
      shapes.push_back(Regrouped(ShapeOf(v), outer, inner));
      if (!shapes.back()) return std::nullopt;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      // A scalar or a row of constants broadcasts as it is.
      const Shape& now = ShapeOf(operands[i]);
      bool as_is = now.size() <= inner.size() && Stripped(now) == Stripped(*shapes[i]);
      if (!as_is) operands[i] = As(operands[i], *shapes[i], node.name);
    }
    return builder().Reshape(builder().Must(node.op, operands, node.attrs, node.name), outer, node.name);
  }

  static Shape Stripped(Shape shape) {
    while (!shape.empty() && shape.front() == 1) shape.erase(shape.begin());
    return shape;
  }

  std::optional<ValueId> Reduction(const Node& node) {
    ValueId x = rewriter_.Map(node.inputs[0]);
    const Node* source = ReshapeOf(x);
    if (!source) return std::nullopt;
    ValueId inner = source->inputs[0];
    auto axes = RegroupedAxes(std::get<AxesAttrs>(node.attrs).axes, ShapeOf(x), ShapeOf(inner));
    if (!axes) return std::nullopt;
    ValueId y = builder().Must(node.op, {inner}, AxesAttrs{*axes}, node.name);
    return builder().Reshape(y, graph_.Spec(node.output).shape, node.name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> SinkReshapes(const Graph& graph, const PassEnv& env) { return DropDeadCode(Sinker(graph).Run(), env); }

}  // namespace autotune::graph
