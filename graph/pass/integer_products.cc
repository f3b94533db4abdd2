// Products of i32 whose operands are small integers minus zero points become products of bytes, which processors add in
// groups (ir/dot.h):
//
//   (x - z) w  ->  x w - z (sum of each column of w)
//
// x has 8 bits, and w is a constant whose numbers fit 8 bits with a sign. x with a sign becomes x + 128 without one,
// and z becomes z + 128, since the instructions of x86 take the first operand without a sign. Results stay equal, bit
// for bit.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kIntegers = DType::Int(32), kBytes = DType::UInt(8);
constexpr int64_t kSignOffset = 128;

class IntegerProductsPass {
 public:
  explicit IntegerProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  // Returns the numbers of a constant matrix if they fit 8 bits with a sign.
  std::optional<std::vector<double>> SmallNumbers(ValueId v) const {
    const Constant* c = graph_.FindConstant(v);
    if (!c || !c->data) return std::nullopt;
    const TensorValue value = graph_.ConstantValue(*c);
    std::vector<double> numbers(static_cast<size_t>(value.spec.NumElements()));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = value.Number(static_cast<int64_t>(i));
      if (numbers[i] < -128 || numbers[i] > 127) return std::nullopt;
    }
    return numbers;
  }

  // Returns a value with these bytes as numbers without a sign (x + 128 if they have one), in this shape.
  ValueId Unsigned(ValueId bytes, const Shape& shape) {
    const auto [it, is_new] = unsigned_.try_emplace({bytes, shape}, -1);
    if (!is_new) return it->second;
    ValueId x = rewriter_.Map(bytes);
    if (graph_.Spec(bytes).dtype.IsSigned()) {
      const ValueId offset = Number(kSignOffset);
      x = Must(Op::kAdd, {Must(Op::kCast, {x}, CastAttrs{kIntegers}), offset});
      x = Must(Op::kCast, {x}, CastAttrs{kBytes});
    }
    if (graph_.Spec(bytes).shape != shape) x = Must(Op::kReshape, {x}, ReshapeAttrs{shape});
    return it->second = x;
  }
  ValueId Number(int64_t number) {
    return rewriter_.builder.AddConstant("", TensorValue::FromNumbers(kIntegers, {}, {static_cast<double>(number)}));
  }
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  bool Rewrite(const Node& node) {
    if (node.op != Op::kMatmul || graph_.Spec(node.output).dtype != kIntegers) return false;
    const Shape &rows = graph_.Spec(node.inputs[0]).shape, &shape = graph_.Spec(node.inputs[1]).shape;
    if (!SumsInGroups(rows[1])) return false;
    const std::optional<Centered> x = CenteredOf(graph_, node.inputs[0]);
    if (!x) return false;
    // A zero point must be the same for all terms of a sum.
    const Shape zeros = x->zero < 0 ? Shape{} : graph_.Spec(x->zero).shape;
    if (zeros.size() > 2 || (!zeros.empty() && zeros.back() != 1)) return false;
    const std::optional<std::vector<double>> w = SmallNumbers(node.inputs[1]);
    if (!w) return false;
    std::vector<double> sums(static_cast<size_t>(shape[1]), 0);
    for (size_t i = 0; i < w->size(); ++i) sums[i % sums.size()] += (*w)[i];
    const std::string& name = graph_.values[node.inputs[1]].name;
    const ValueId weights = rewriter_.builder.AddConstant(name, TensorValue::FromNumbers(DType::Int(8), shape, *w));
    ValueId y = Must(Op::kMatmul, {Unsigned(x->bytes, rows), weights}, {}, node.name);
    const bool is_signed = graph_.Spec(x->bytes).dtype.IsSigned();
    if (x->zero >= 0 || is_signed) {
      ValueId zero = x->zero >= 0 ? rewriter_.Map(x->zero) : Number(kSignOffset);
      if (x->zero >= 0 && is_signed) zero = Must(Op::kAdd, {zero, Number(kSignOffset)});
      const ValueId of_columns =
          rewriter_.builder.AddConstant(name, TensorValue::FromNumbers(kIntegers, {shape[1]}, sums));
      y = Must(Op::kSub, {y, Must(Op::kMul, {zero, of_columns})});
    }
    rewriter_.Set(node.output, y);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<std::pair<ValueId, Shape>, ValueId> unsigned_;
};

}  // namespace

Result<Graph> IntegerProducts(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bytes) return graph;
  return FoldConstants(TRY(DropDeadCode(IntegerProductsPass(graph).Run(), env)), env);
}

}  // namespace autotune::graph
