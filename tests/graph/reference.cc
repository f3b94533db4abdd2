#include "tests/graph/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/graph/reference_select.h"

namespace autotune::reference {

Tensor EvaluateNode(const Graph& graph, const Node& node, const std::vector<const Tensor*>& in) {
  const Shape& shape = graph.Spec(node.output).shape;
  auto map = [&](const std::function<double(double)>& f) {
    Tensor y{shape, {}};
    for (double v : in[0]->data) y.data.push_back(f(v));
    return y;
  };
  auto zip = [&](const std::function<double(double, double)>& f) {
    Tensor y{shape, {}};
    y.data.reserve(Count(shape));
    ForEachIndex(shape, [&](const Shape& o) { y.data.push_back(f(AtBroadcast(*in[0], o), AtBroadcast(*in[1], o))); });
    return y;
  };
  const bool bits = graph.Spec(node.output).dtype.IsInt();  // integers, not bools
  auto zip_bits = [&](const std::function<uint64_t(uint64_t, uint64_t)>& f) {
    const DType dtype = graph.Spec(node.output).dtype;
    return zip([&](double a, double b) { return FromBits(f(ToBits(a), ToBits(b)), dtype); });
  };
  // Image operators are defined for NCHW, so NHWC images are transposed to NCHW and back; NDHWC images likewise.
  const bool solid = shape.size() == 5;
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const auto to_nchw = solid ? std::vector<int64_t>{0, 4, 1, 2, 3} : std::vector<int64_t>{0, 3, 1, 2};
  const auto to_nhwc = solid ? std::vector<int64_t>{0, 2, 3, 4, 1} : std::vector<int64_t>{0, 2, 3, 1};
  const auto hwio_to_oihw = solid ? std::vector<int64_t>{4, 3, 0, 1, 2} : std::vector<int64_t>{3, 2, 0, 1};
  auto nchw_shape = [&](Layout layout) {
    Shape first = shape;
    if (layout == Layout::kNHWC) std::rotate(first.begin() + 1, first.begin() + last, first.end());
    return first;
  };
  auto image = [&](Layout layout, const std::function<Tensor(const Tensor&)>& f) {
    return layout == Layout::kNCHW ? f(*in[0]) : Transposed(f(Transposed(*in[0], to_nchw)), to_nhwc);
  };
  switch (node.op) {
    case Op::kConv2d:
    case Op::kConv3d: {
      const auto& a = std::get<ConvAttrs>(node.attrs);
      Tensor w = a.layout == Layout::kNCHW ? *in[1] : Transposed(*in[1], hwio_to_oihw);
      return image(a.layout, [&](const Tensor& x) { return Conv(x, w, a, nchw_shape(a.layout)); });
    }
    case Op::kMatmul:
    case Op::kBatchMatmul:
      return Matmul(*in[0], *in[1], shape);
    case Op::kBlockMatmul: {
      const DType x = graph.Spec(node.inputs[0]).dtype, w = graph.Spec(node.inputs[1]).dtype;
      return BlockMatmul(in, {.of_integers = x.IsInt(), .of_words = w == DType::Int(32)}, shape);
    }
    case Op::kBatchNorm:
      return BatchNorm(in, std::get<BatchNormAttrs>(node.attrs));
    case Op::kRelu:
      return map([](double v) { return v < 0 ? 0 : v; });
    case Op::kClip: {
      ClipAttrs a = std::get<ClipAttrs>(node.attrs);
      return map([&](double v) { return std::min<double>(std::max<double>(v, a.min), a.max); });
    }
    case Op::kSigmoid:
      return map([](double v) { return 1 / (1 + std::exp(-v)); });
    case Op::kSqrt:
      return map([](double v) { return std::sqrt(v); });
    case Op::kTanh:
      return map([](double v) { return std::tanh(v); });
    case Op::kErf:
      return map([](double v) { return std::erf(v); });
    case Op::kExp:
      return map([](double v) { return std::exp(v); });
    case Op::kLog:
      return map([](double v) { return std::log(v); });
    case Op::kAbs:
      return map([](double v) { return std::abs(v); });
    case Op::kNeg:
      return map([](double v) { return -v; });
    case Op::kFloor:
      return map([](double v) { return std::floor(v); });
    case Op::kCeil:
      return map([](double v) { return std::ceil(v); });
    case Op::kRound:
      return map([](double v) { return std::nearbyint(v); });
    case Op::kSin:
      return map([](double v) { return std::sin(v); });
    case Op::kCos:
      return map([](double v) { return std::cos(v); });
    case Op::kTan:
      return map([](double v) { return std::tan(v); });
    case Op::kAsin:
      return map([](double v) { return std::asin(v); });
    case Op::kAcos:
      return map([](double v) { return std::acos(v); });
    case Op::kAtan:
      return map([](double v) { return std::atan(v); });
    case Op::kSinh:
      return map([](double v) { return std::sinh(v); });
    case Op::kCosh:
      return map([](double v) { return std::cosh(v); });
    case Op::kAsinh:
      return map([](double v) { return std::asinh(v); });
    case Op::kAcosh:
      return map([](double v) { return std::acosh(v); });
    case Op::kAtanh:
      return map([](double v) { return std::atanh(v); });
    case Op::kLeakyRelu:
      return map([&](double v) { return v < 0 ? v * std::get<AlphaAttrs>(node.attrs).alpha : v; });
    case Op::kIsNan:
      return map([](double v) { return std::isnan(v); });
    case Op::kNot:
      if (bits) return map([&](double v) { return FromBits(~ToBits(v), graph.Spec(node.output).dtype); });
      return map([](double v) { return v == 0; });
    case Op::kCast:
      return map([&](double v) { return ToType(v, std::get<CastAttrs>(node.attrs).to); });
    case Op::kBitCast:
      return BitCast(*in[0], std::get<CastAttrs>(node.attrs).to);
    case Op::kMod:
      return zip([](double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; });
    case Op::kPow:
      return zip([](double a, double b) { return std::pow(a, b); });
    case Op::kMax:
      return zip([](double a, double b) { return a > b ? a : b; });
    case Op::kMin:
      return zip([](double a, double b) { return a < b ? a : b; });
    case Op::kEqual:
      return zip([](double a, double b) { return a == b; });
    case Op::kLess:
      return zip([](double a, double b) { return a < b; });
    case Op::kLessEqual:
      return zip([](double a, double b) { return a <= b; });
    case Op::kAnd:
      if (bits) return zip_bits([](uint64_t a, uint64_t b) { return a & b; });
      return zip([](double a, double b) { return a != 0 && b != 0; });
    case Op::kOr:
      if (bits) return zip_bits([](uint64_t a, uint64_t b) { return a | b; });
      return zip([](double a, double b) { return a != 0 || b != 0; });
    case Op::kShiftLeft:
      return zip_bits([](uint64_t a, uint64_t b) { return b < 64 ? a << b : 0; });
    case Op::kShiftRight:
      return zip_bits([](uint64_t a, uint64_t b) { return b < 64 ? a >> b : 0; });
    case Op::kXor:
      if (bits) return zip_bits([](uint64_t a, uint64_t b) { return a ^ b; });
      return zip([](double a, double b) { return (a != 0) != (b != 0); });
    case Op::kWhere: {
      Tensor y{shape, {}};
      ForEachIndex(shape,
                   [&](const Shape& o) { y.data.push_back(AtBroadcast(*in[AtBroadcast(*in[0], o) != 0 ? 1 : 2], o)); });
      return y;
    }
    case Op::kFma: {
      Tensor y{shape, {}};
      ForEachIndex(shape, [&](const Shape& o) {
        y.data.push_back(AtBroadcast(*in[0], o) * AtBroadcast(*in[1], o) + AtBroadcast(*in[2], o));
      });
      return y;
    }
    case Op::kLookUp:
      return map([&](double v) { return in[1]->data[ToBits(v) & 255]; });
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kReduceMax:
    case Op::kReduceMin:
      return Reduce(*in[0], std::get<AxesAttrs>(node.attrs).axes, node.op, shape);
    case Op::kArgReduce:
      return ArgReduce(*in[0], std::get<ArgAttrs>(node.attrs), shape);
    case Op::kGather:
      return Gather(*in[0], *in[1], std::get<AxisAttrs>(node.attrs).axis, shape);
    case Op::kGatherElements: {
      int64_t axis = std::get<AxisAttrs>(node.attrs).axis;
      Tensor y{shape, {}};
      ForEachIndex(shape, [&](const Shape& o) {
        Shape i = o;
        i[axis] = Subscript(At(*in[1], o), in[0]->shape[axis]);
        y.data.push_back(At(*in[0], i));
      });
      return y;
    }
    case Op::kScatter:
      return Scatter(*in[0], *in[1], *in[2], std::get<ScatterAttrs>(node.attrs), graph.Spec(node.output).dtype);
    case Op::kCumulate:
      return Cumulate(*in[0], std::get<CumulateAttrs>(node.attrs), graph.Spec(node.output).dtype);
    case Op::kTopK:
      return TopK(*in[0], std::get<TopKAttrs>(node.attrs), shape);
    case Op::kSelectBoxes:
      return SelectBoxes(*in[0], *in[1], *in[2], std::get<BoxesAttrs>(node.attrs));
    case Op::kGatherSum: {
      Tensor y{shape, {}};
      const int64_t taps = in[1]->shape[2], rows = in[0]->shape[1];
      ForEachIndex(shape, [&](const Shape& o) {
        double sum = 0;
        for (int64_t t = 0; t < taps; ++t) {
          const auto row = std::clamp<int64_t>(static_cast<int64_t>(At(*in[2], {o[0], o[1], t})), 0, rows - 1);
          sum += At(*in[1], {o[0], o[1], t}) * At(*in[0], {o[0], row, o[2]});
        }
        y.data.push_back(sum);
      });
      return y;
    }
    case Op::kDet:
      return Determinants(*in[0], shape);
    case Op::kSlice: {
      const auto& a = std::get<SliceAttrs>(node.attrs);
      Tensor y{shape, {}};
      ForEachIndex(shape, [&](const Shape& o) {
        Shape i = o;
        for (size_t d = 0; d < o.size(); ++d) i[d] = a.begin[d] + o[d] * a.step[d];
        y.data.push_back(At(*in[0], i));
      });
      return y;
    }
    case Op::kPad:
      return Pad(*in[0], std::get<PadAttrs>(node.attrs), shape);
    case Op::kBroadcastTo: {
      Tensor y{shape, {}};
      ForEachIndex(shape, [&](const Shape& o) { y.data.push_back(AtBroadcast(*in[0], o)); });
      return y;
    }
    case Op::kAdd:
      return zip([](double a, double b) { return a + b; });
    case Op::kSub:
      return zip([](double a, double b) { return a - b; });
    case Op::kMul:
      return zip([](double a, double b) { return a * b; });
    case Op::kDiv:
      if (graph.Spec(node.output).dtype.IsFloat()) return zip([](double a, double b) { return a / b; });
      return zip([](double a, double b) { return b == 0 ? a : std::trunc(a / b); });
    case Op::kMaxPool2d:
    case Op::kMaxPool3d:
    case Op::kAvgPool2d:
    case Op::kAvgPool3d:
    case Op::kArgMaxPool: {
      const auto& a = std::get<PoolAttrs>(node.attrs);
      bool largest = node.op == Op::kMaxPool2d || node.op == Op::kMaxPool3d;
      PoolOf what = node.op == Op::kArgMaxPool ? PoolOf::kPlace : largest ? PoolOf::kMax : PoolOf::kAverage;
      return image(a.layout, [&](const Tensor& x) { return Pool(x, a, what, nchw_shape(a.layout)); });
    }
    case Op::kGlobalAvgPool:
    case Op::kGlobalMaxPool:
      return image(std::get<ImageAttrs>(node.attrs).layout, [&](const Tensor& x) {
        PoolAttrs whole;
        whole.kernel = {x.shape[2], x.shape[3]};
        PoolOf what = node.op == Op::kGlobalAvgPool ? PoolOf::kAverage : PoolOf::kMax;
        return Pool(x, whole, what, {x.shape[0], x.shape[1], 1, 1});
      });
    case Op::kLrn:
      return Lrn(*in[0], std::get<LrnAttrs>(node.attrs));
    case Op::kSoftmax:
      return Softmax(*in[0], std::get<AxisAttrs>(node.attrs).axis);
    case Op::kConcat:
      return Concat(in, std::get<AxisAttrs>(node.attrs).axis, shape);
    case Op::kReshape:
      return {shape, in[0]->data};
    case Op::kTranspose:
      return Transposed(*in[0], std::get<TransposeAttrs>(node.attrs).perm);
    case Op::kFused: {
      std::vector<Tensor> arguments;
      for (const Tensor* t : in) arguments.push_back(*t);
      return Evaluate(*node.body, arguments)[0];
    }
    case Op::kCall:  // the called function is in the module, not in the graph
      break;
  }
  UNREACHABLE();
  return {};
}

std::vector<Tensor> Evaluate(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.values.size());
  size_t next = 0;
  for (ValueId v : graph.inputs) values[v] = inputs.at(next++);
  for (const Constant& c : graph.constants)
    values[c.value] = c.data ? FromValue(graph.ConstantValue(c)) : inputs.at(next++);
  std::vector<int> uses = graph.UseCounts();
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor*> in;
    for (ValueId v : node.inputs) in.push_back(&values[v]);
    values[node.output] = EvaluateNode(graph, node, in);
    DType dtype = values[node.output].dtype = graph.Spec(node.output).dtype;
    if (dtype.IsInt()) {
      for (double& v : values[node.output].data) v = ToType(v, dtype);
    }
    CHECK(values[node.output].shape == graph.Spec(node.output).shape);
    CHECK(static_cast<int64_t>(values[node.output].data.size()) == Count(values[node.output].shape)) << ToText(node.op);
    for (ValueId v : node.inputs) {
      if (--uses[v] == 0) values[v] = {};
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId v : graph.outputs) outputs.push_back(values[v]);
  return outputs;
}

std::string Mismatch(const Tensor& got, const Tensor& want, const Tolerance& tolerance, double bound) {
  if (got.shape != want.shape) return "the shapes differ";
  return test::Difference(got.data, want.data, tolerance, want.dtype, bound);
}

}  // namespace autotune::reference
