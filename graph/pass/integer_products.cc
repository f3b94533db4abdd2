// Products of i32 whose operands are small integers minus zero points become products of bytes, which processors add in
// groups (ir/dot.h):
//
//   (x - z) w  ->  x w - z (sum of each column of w)
//
// x has 8 bits, and w is a constant whose numbers fit 8 bits with a sign. x with a sign becomes x + 128 without one,
// and z becomes z + 128, since the instructions of x86 take the first operand without a sign. The padding of a
// convolution, which stood for x - z = 0, holds z. Rows of x and w whose terms are no whole number of groups get zeros
// behind them. Results stay equal, bit for bit.
//
// w may also be computed, as in attention, and have a zero point u; products of a constant with what is computed, and
// batches of constants, stay as they are. If w has no sign, w becomes w - 128, and u
// becomes u - 128. With K terms:
//
//   (x - z) (w - u)  ->  x w - z (sum of each column of w) - u (sum of each row of x) + K z u
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"
#include "graph/pass/unsigned_bytes.h"

namespace autotune::graph {
namespace {

constexpr DType kIntegers = DType::Int(32), kBytes = DType::UInt(8);
constexpr int64_t kSignOffset = 128;

class IntegerProductsPass {
 public:
  explicit IntegerProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph.UseCounts()) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node) && !RewriteComputed(node) && !JoinOffset(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  // Returns the numbers of a constant if they fit 8 bits with a sign.
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

  // Returns the bytes of the tensor `centered`, described by `known`, as numbers without a sign (x + 128 if they have
  // one), with zeros that make the last dimension a whole number of groups.
  ValueId Unsigned(ValueId centered, const Centered& known) {
    const auto [it, is_new] = unsigned_.try_emplace(centered, -1);
    if (!is_new) return it->second;
    ValueId x = Moved(known.bytes, kSignOffset, kBytes);
    for (const Node* view : known.views) x = Must(view->op, {x}, view->attrs);
    return it->second = InWholeGroups(x, 1);
  }

  // Returns a tensor with zeros that make a dimension a whole number of groups; `from_back`: 1 for the last dimension.
  ValueId InWholeGroups(ValueId x, size_t from_back) {
    const Shape shape = rewriter_.builder.Spec(x).shape;
    const int64_t zeros = ZerosBehind(shape[shape.size() - from_back], kByteGroup);
    if (zeros == 0) return x;
    PadAttrs pad{Shape(shape.size(), 0), Shape(shape.size(), 0), Shape(shape.size(), 0), PadMode::kConstant, 0};
    pad.after[shape.size() - from_back] = zeros;
    return Must(Op::kPad, {x}, pad);
  }

  // Returns bytes plus a number as bytes of this type. Returns bytes that have the type as they are. The sum comes
  // before views of the bytes, so that it can join the kernel that makes them.
  ValueId Moved(ValueId bytes, int64_t by, DType type) {
    if (graph_.Spec(bytes).dtype == type) return rewriter_.Map(bytes);
    const Node* view = graph_.Producer(bytes);
    if (view && (view->op == Op::kReshape || view->op == Op::kTranspose || view->op == Op::kBroadcastTo))
      return Must(view->op, {Moved(view->inputs[0], by, type)}, view->attrs);
    const ValueId sum = Must(Op::kAdd, {Must(Op::kCast, {rewriter_.Map(bytes)}, CastAttrs{kIntegers}), Number(by)});
    return Must(Op::kCast, {sum}, CastAttrs{type});
  }

  ValueId Number(int64_t number) {
    return rewriter_.builder.AddConstant("", TensorValue::FromNumbers(kIntegers, {}, {static_cast<double>(number)}));
  }
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  // Returns whether a zero point is the same for all terms of a sum.
  bool IsOfRows(const Node& node, const Centered& x) const {
    if (x.zero < 0) return true;
    const TensorSpec& zeros = graph_.Spec(x.zero);
    if (node.op != Op::kMatmul) return zeros.NumElements() == 1;
    return zeros.rank() <= 2 && (zeros.rank() == 0 || zeros.shape.back() == 1);
  }

  // Returns the attributes of the product of bytes. Returns nothing if the padding of a convolution would have to hold
  // what is known at run time only, or no byte.
  std::optional<Attrs> AttrsFor(const Node& node, const Centered& x) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if (!conv || std::ranges::all_of(conv->pads, [](int64_t pad) { return pad == 0; })) return node.attrs;
    double zero = IsSigned(x) ? kSignOffset : 0;
    if (x.zero >= 0) {
      const Constant* c = graph_.FindConstant(x.zero);
      if (!c || !c->data) return std::nullopt;
      zero += graph_.ConstantValue(*c).Number(0);
    }
    if (zero < 0 || zero > 255) return std::nullopt;
    ConvAttrs padded = *conv;
    padded.pad_value = static_cast<int64_t>(zero);
    return padded;
  }

  bool Rewrite(const Node& node) {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if ((node.op != Op::kMatmul && !conv) || graph_.Spec(node.output).dtype != kIntegers) return false;
    if ((conv && conv->layout == Layout::kNCHW) || !SumsInGroups(graph_, node)) return false;
    const Shape& shape = graph_.Spec(node.inputs[1]).shape;
    const std::optional<Centered> x = CenteredOf(graph_, node.inputs[0]);
    if (!x || !IsOfRows(node, *x)) return false;
    const std::optional<Attrs> attrs = AttrsFor(node, *x);
    const std::optional<std::vector<double>> w = attrs ? SmallNumbers(node.inputs[1]) : std::nullopt;
    if (!w) return false;
    std::vector<double> sums(static_cast<size_t>(shape.back()), 0);
    for (size_t i = 0; i < w->size(); ++i) sums[i % sums.size()] += (*w)[i];
    const std::string& name = graph_.values[node.inputs[1]].name;
    const ValueId weights =
        rewriter_.builder.AddConstant(name, WithZerosBehindTerms(DType::Int(8), shape, *w, kByteGroup));
    ValueId y = Must(node.op, {Unsigned(node.inputs[0], *x), weights}, *attrs, node.name);
    if (const ValueId zero = ZeroOfUnsigned(*x); zero >= 0) {
      const ValueId of_columns =
          rewriter_.builder.AddConstant(name, TensorValue::FromNumbers(kIntegers, {shape.back()}, sums));
      y = Must(Op::kSub, {y, Must(Op::kMul, {zero, of_columns})});
      corrected_.insert(node.output);
    }
    rewriter_.Set(node.output, y);
    return true;
  }

  // If the node adds a constant, such as a bias, to a product that has a correction, makes one constant of the two.
  bool JoinOffset(const Node& node) {
    if (node.op != Op::kAdd || graph_.Spec(node.output).dtype != kIntegers) return false;
    for (const size_t i : {0, 1}) {
      const ValueId v = node.inputs[i], offset = node.inputs[1 - i];
      if (!corrected_.contains(v) || uses_[v] != 1 || !graph_.FindConstant(offset)) continue;
      const Node correction = *rewriter_.builder.graph().Producer(rewriter_.Map(v));
      const ValueId joined = Must(Op::kSub, {correction.inputs[1], rewriter_.Map(offset)});
      rewriter_.Set(node.output, Must(Op::kSub, {correction.inputs[0], joined}, {}, node.name));
      return true;
    }
    return false;
  }

  // Returns the bytes of the second operand as numbers with a sign (w - 128 if they have none), with zeros that make
  // the last dimension but one a whole number of groups.
  ValueId Signed(ValueId centered, const Centered& known) {
    const auto [it, is_new] = signed_.try_emplace(centered, -1);
    if (!is_new) return it->second;
    ValueId w = Moved(known.bytes, -kSignOffset, DType::Int(8));
    for (const Node* view : known.views) w = Must(view->op, {w}, view->attrs);
    return it->second = InWholeGroups(w, 2);
  }

  // Returns the zero point plus a number, or -1 if that is 0, as for the zero point of what a Relu made. A zero point
  // for all rows becomes one number.
  ValueId ZeroPlus(const Centered& x, int64_t number) {
    if (x.zero < 0) return number == 0 ? -1 : Number(number);
    const Constant* c = graph_.FindConstant(x.zero);
    const Shape shape = graph_.Spec(x.zero).NumElements() == 1 ? Shape{} : graph_.Spec(x.zero).shape;
    if (c && c->data) {
      const TensorValue value = graph_.ConstantValue(*c);
      std::vector<double> zeros;
      for (int64_t i = 0; i < value.spec.NumElements(); ++i)
        zeros.push_back(static_cast<int32_t>(static_cast<int64_t>(value.Number(i)) + number));  // wraps
      if (std::ranges::all_of(zeros, [](double zero) { return zero == 0; })) return -1;
      return rewriter_.builder.AddConstant("", TensorValue::FromNumbers(kIntegers, shape, zeros));
    }
    const ValueId zero = rewriter_.builder.Reshape(rewriter_.Map(x.zero), shape);
    return number == 0 ? zero : Must(Op::kAdd, {zero, Number(number)});
  }

  bool IsSigned(const Centered& x) const { return graph_.Spec(x.bytes).dtype.IsSigned(); }
  // Returns the zero point of the numbers that Unsigned or Signed makes of bytes; -1: it is 0.
  ValueId ZeroOfUnsigned(const Centered& x) { return ZeroPlus(x, IsSigned(x) ? kSignOffset : 0); }
  ValueId ZeroOfSigned(const Centered& x) { return ZeroPlus(x, IsSigned(x) ? 0 : -kSignOffset); }

  // Returns `offset` minus the sum of the bytes of each column (axis_from_back = 2) or row (1) of matrices, times
  // `factor`. Columns of transposed matrices are summed as the rows that they are in memory.
  ValueId CorrectionBy(ValueId bytes, int64_t axis_from_back, ValueId offset, ValueId factor) {
    const Graph& now = rewriter_.builder.graph();
    Shape shape = now.Spec(bytes).shape;
    auto axis = static_cast<int64_t>(shape.size()) - axis_from_back;
    shape[static_cast<size_t>(axis)] = 1;
    if (const Node* view = ProducerOf(now, bytes, Op::kTranspose); view && axis_from_back == 2) {
      std::vector<int64_t> perm = std::get<TransposeAttrs>(view->attrs).perm;
      std::swap(perm.back(), perm.end()[-2]);
      if (perm.back() == axis + 1) {
        const ValueId from = view->inputs[0];
        bytes = std::ranges::is_sorted(perm) ? from : Must(Op::kTranspose, {from}, TransposeAttrs{perm});
        ++axis;
      }
    }
    ValueId sums = Must(Op::kReduceSum, {Must(Op::kCast, {bytes}, CastAttrs{kIntegers})}, AxesAttrs{{axis}});
    sums = Must(Op::kMul, {Must(Op::kSub, {offset, sums}), factor});
    return rewriter_.builder.Spec(sums).shape == shape ? sums : Must(Op::kReshape, {sums}, ReshapeAttrs{shape});
  }

  // Rewrites the product of two computed matrices.
  bool RewriteComputed(const Node& node) {
    if (!IsComputedProductOfGroups(graph_, node) || graph_.Spec(node.output).dtype != kIntegers) return false;
    const std::optional<Centered> x = CenteredOf(graph_, node.inputs[0]), w = CenteredOf(graph_, node.inputs[1]);
    const auto is_one = [&](ValueId zero) { return zero < 0 || graph_.Spec(zero).NumElements() == 1; };
    if (!x || !w || !is_one(x->zero) || !is_one(w->zero)) return false;
    const ValueId a = Unsigned(node.inputs[0], *x), b = Signed(node.inputs[1], *w);
    const ValueId z = ZeroOfUnsigned(*x), u = ZeroOfSigned(*w);
    ValueId y = Must(node.op, {a, b}, node.attrs, node.name);
    if (z >= 0) y = Must(Op::kAdd, {y, CorrectionBy(b, 2, Number(0), z)});
    if (u >= 0) {
      const ValueId offset = z >= 0 ? Must(Op::kMul, {z, Number(TermsOf(graph_, node))}) : Number(0);
      y = Must(Op::kAdd, {y, CorrectionBy(a, 1, offset, u)});
    }
    rewriter_.Set(node.output, y);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  const std::vector<int> uses_;
  std::set<ValueId> corrected_;          // products of constants in graph_ that have become differences
  std::map<ValueId, ValueId> signed_;    // by the tensor of i32 in graph_
  std::map<ValueId, ValueId> unsigned_;  // by the tensor of i32 in graph_
};

}  // namespace

Result<Graph> IntegerProducts(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_bytes) return graph;
  const Graph products = TRY(DropDeadCode(IntegerProductsPass(graph).Run(), env));
  return FoldConstants(TRY(DropDeadCode(ReadUnsigned(products), env)), env);
}

}  // namespace autotune::graph
