#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "graph/infer.h"

namespace autotune::graph {

Status NeedRank(const TensorSpec& spec, int rank, const char* what) {
  if (spec.rank() != rank) return Err(what, " must have rank ", rank, ", not ", spec.Text());
  return {};
}

Status SameDType(const Specs& in) {
  for (const TensorSpec& spec : in) {
    if (spec.dtype != in[0].dtype) return Err("element types differ: ", in[0].Text(), " and ", spec.Text());
  }
  return {};
}

namespace {

constexpr int64_t kMaxElements = int64_t{1} << 36;

Status NeedFloat(const TensorSpec& spec) {
  if (!spec.dtype.IsFloat()) return Err("is for floats, not ", spec.Text());
  return {};
}
Status NeedNumber(const TensorSpec& spec) {
  if (spec.dtype.IsBool()) return Err("is for numbers, not ", spec.Text());
  return {};
}
Status NeedBool(const TensorSpec& spec) {
  if (!spec.dtype.IsBool()) return Err("is for bools, not ", spec.Text());
  return {};
}
Status NeedInteger(const TensorSpec& spec) {
  if (!spec.dtype.IsInt()) return Err("must be integers, not ", spec.Text());
  return {};
}

Status CheckAxis(int64_t axis, const TensorSpec& spec) {
  if (axis < 0 || axis >= spec.rank()) return Err("axis ", axis, " is outside ", spec.Text());
  return {};
}

Result<TensorSpec> InferMatmul(const Attrs&, const Specs& in) {
  TRY(NeedRank(in[0], 2, "left operand"));
  TRY(NeedRank(in[1], 2, "right operand"));
  TRY(SameDType(in));
  if (in[0].shape[1] != in[1].shape[0]) return Err("cannot multiply ", in[0].Text(), " by ", in[1].Text());
  return TensorSpec{in[0].dtype, {in[0].shape[0], in[1].shape[1]}};
}

Result<TensorSpec> InferBatchMatmul(const Attrs&, const Specs& in) {
  TRY(SameDType(in));
  int rank = in[0].rank();
  if (rank < 3 || in[1].rank() != rank)
    return Err("operands must have one rank of 3 or more: ", in[0].Text(), ", ", in[1].Text());
  const Shape &a = in[0].shape, &b = in[1].shape;
  if (a[rank - 1] != b[rank - 2]) return Err("cannot multiply ", in[0].Text(), " by ", in[1].Text());
  Shape shape = TRY(BroadcastShapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  shape.push_back(a[rank - 2]);
  shape.push_back(b[rank - 1]);
  return TensorSpec{in[0].dtype, shape};
}

Result<TensorSpec> InferBatchNorm(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<BatchNormAttrs>(attrs).axis;
  TRY(NeedFloat(in[0]));
  TRY(SameDType(in));
  TRY(CheckAxis(axis, in[0]));
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].shape != Shape{in[0].shape[axis]})
      return Err("statistics must have shape [", in[0].shape[axis], "], not ", in[i].Text());
  }
  return in[0];
}

Result<TensorSpec> InferFloat(const Attrs&, const Specs& in) {
  TRY(NeedFloat(in[0]));
  return in[0];
}

Result<TensorSpec> InferNumber(const Attrs&, const Specs& in) {
  TRY(NeedNumber(in[0]));
  return in[0];
}

Result<TensorSpec> InferIsNan(const Attrs&, const Specs& in) {
  TRY(NeedFloat(in[0]));
  return TensorSpec{DType::Bool(), in[0].shape};
}

Result<TensorSpec> InferNot(const Attrs&, const Specs& in) {
  TRY(NeedBool(in[0]));
  return in[0];
}

Result<TensorSpec> InferCast(const Attrs& attrs, const Specs& in) {
  return TensorSpec{std::get<CastAttrs>(attrs).to, in[0].shape};
}

template <Status (*need)(const TensorSpec&)>
Result<TensorSpec> InferBinary(const Attrs&, const Specs& in) {
  TRY(SameDType(in));
  TRY(need(in[0]));
  Shape shape = TRY(BroadcastShapes(in[0].shape, in[1].shape));
  return TensorSpec{in[0].dtype, std::move(shape)};
}

Result<TensorSpec> InferComparison(const Attrs&, const Specs& in) {
  TRY(SameDType(in));
  Shape shape = TRY(BroadcastShapes(in[0].shape, in[1].shape));
  return TensorSpec{DType::Bool(), std::move(shape)};
}

Result<TensorSpec> InferWhere(const Attrs&, const Specs& in) {
  TRY(NeedBool(in[0]));
  TRY(SameDType({in[1], in[2]}));
  Shape values = TRY(BroadcastShapes(in[1].shape, in[2].shape));
  Shape shape = TRY(BroadcastShapes(in[0].shape, values));
  return TensorSpec{in[1].dtype, std::move(shape)};
}

Result<TensorSpec> InferReduce(const Attrs& attrs, const Specs& in) {
  const auto& axes = std::get<AxesAttrs>(attrs).axes;
  TRY(NeedNumber(in[0]));
  if (axes.empty()) return Err("names no axis");
  TensorSpec out = in[0];
  for (size_t i = 0; i < axes.size(); ++i) {
    TRY(CheckAxis(axes[i], in[0]));
    if (i > 0 && axes[i] <= axes[i - 1]) return Err("axes ", ShapeText(axes), " must ascend");
    out.shape[axes[i]] = 1;
  }
  return out;
}

Result<TensorSpec> InferArgReduce(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<ArgAttrs>(attrs).axis;
  TRY(NeedNumber(in[0]));
  TRY(CheckAxis(axis, in[0]));
  TensorSpec out{DType::Int(64), in[0].shape};
  out.shape[axis] = 1;
  return out;
}

Result<TensorSpec> InferLrn(const Attrs& attrs, const Specs& in) {
  TRY(NeedFloat(in[0]));
  const auto& a = std::get<LrnAttrs>(attrs);
  TRY(CheckAxis(a.axis, in[0]));
  if (a.size < 1) return Err("size must be positive");
  return in[0];
}

Result<TensorSpec> InferSoftmax(const Attrs& attrs, const Specs& in) {
  TRY(NeedFloat(in[0]));
  TRY(CheckAxis(std::get<AxisAttrs>(attrs).axis, in[0]));
  return in[0];
}

Result<TensorSpec> InferConcat(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<AxisAttrs>(attrs).axis;
  TRY(SameDType(in));
  TRY(CheckAxis(axis, in[0]));
  TensorSpec out = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    Shape shape = in[i].shape;
    if (shape.size() == out.shape.size()) shape[axis] = out.shape[axis];
    if (shape != out.shape)
      return Err("cannot concatenate ", in[0].Text(), " and ", in[i].Text(), " along axis ", axis);
    out.shape[axis] += in[i].shape[axis];
  }
  return out;
}

Result<TensorSpec> InferGather(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<AxisAttrs>(attrs).axis;
  TRY(CheckAxis(axis, in[0]));
  TRY_NOTE(NeedInteger(in[1]), "of the indices");
  const Shape& data = in[0].shape;
  TensorSpec out{in[0].dtype, {data.begin(), data.begin() + axis}};
  out.shape.insert(out.shape.end(), in[1].shape.begin(), in[1].shape.end());
  out.shape.insert(out.shape.end(), data.begin() + axis + 1, data.end());
  return out;
}

Result<TensorSpec> InferGatherElements(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<AxisAttrs>(attrs).axis;
  TRY(CheckAxis(axis, in[0]));
  TRY_NOTE(NeedInteger(in[1]), "of the indices");
  TRY(NeedRank(in[1], in[0].rank(), "indices"));
  for (int d = 0; d < in[0].rank(); ++d) {
    if (d != axis && in[1].shape[d] > in[0].shape[d])
      return Err("indices ", in[1].Text(), " reach beyond ", in[0].Text());
  }
  return TensorSpec{in[0].dtype, in[1].shape};
}

Result<TensorSpec> InferSlice(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<SliceAttrs>(attrs);
  size_t rank = in[0].shape.size();
  if (a.begin.size() != rank || a.extent.size() != rank || a.step.size() != rank)
    return Err("needs a begin, an extent and a step for each dimension of ", in[0].Text());
  for (size_t d = 0; d < rank; ++d) {
    int64_t last = a.begin[d] + (a.extent[d] - 1) * a.step[d], n = in[0].shape[d];
    if (a.extent[d] == 0) continue;
    if (a.extent[d] < 0 || a.begin[d] < 0 || a.begin[d] >= n || last < 0 || last >= n) {
      return Err("cuts ", a.extent[d], " elements from ", a.begin[d], " by ", a.step[d], " out of dimension ", d,
                 " of ", in[0].Text());
    }
  }
  return TensorSpec{in[0].dtype, a.extent};
}

Result<TensorSpec> InferPad(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<PadAttrs>(attrs);
  size_t rank = in[0].shape.size();
  if (a.before.size() != rank || a.after.size() != rank || a.interior.size() != rank)
    return Err("needs pads for each dimension of ", in[0].Text());
  TensorSpec out = in[0];
  for (size_t d = 0; d < rank; ++d) {
    int64_t n = in[0].shape[d];
    for (int64_t pad : {a.before[d], a.after[d], a.interior[d]}) {
      if (pad < 0) return Err("pads must not be negative");
      if (pad > kMaxElements) return Err("a pad of ", pad, " elements is too large");
    }
    if (a.mode != PadMode::kConstant && a.interior[d] > 0) return Err("only constants go between elements");
    int64_t most = std::max(a.before[d], a.after[d]);
    if (a.mode == PadMode::kReflect && most > 0 && most >= n)
      return Err("mirrors ", most, " elements of dimension ", d, " of ", in[0].Text());
    if (n > 0 && a.interior[d] > kMaxElements / n) return Err("a pad of ", a.interior[d], " elements is too large");
    out.shape[d] = a.before[d] + (n > 0 ? (n - 1) * (a.interior[d] + 1) + 1 : 0) + a.after[d];
  }
  return out;
}

Result<TensorSpec> InferBroadcastTo(const Attrs& attrs, const Specs& in) {
  const Shape& shape = std::get<ReshapeAttrs>(attrs).shape;
  if (TRY(BroadcastShapes(in[0].shape, shape)) != shape)
    return Err(in[0].Text(), " does not broadcast to ", ShapeText(shape));
  return TensorSpec{in[0].dtype, shape};
}

Result<TensorSpec> InferReshape(const Attrs& attrs, const Specs& in) {
  TensorSpec out{in[0].dtype, std::get<ReshapeAttrs>(attrs).shape};
  TRY(CheckSize(out));
  if (out.NumElements() != in[0].NumElements())
    return Err("cannot reshape ", in[0].Text(), " to ", ShapeText(out.shape));
  return out;
}

Result<TensorSpec> InferTranspose(const Attrs& attrs, const Specs& in) {
  const auto& perm = std::get<TransposeAttrs>(attrs).perm;
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = perm.size() == in[0].shape.size();
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int64_t>(i);
  if (!valid) return Err(ShapeText(perm), " is no permutation of the axes of ", in[0].Text());
  TensorSpec out{in[0].dtype, {}};
  for (int64_t axis : perm) out.shape.push_back(in[0].shape[axis]);
  return out;
}

Result<TensorSpec> InferFused(const Attrs&, const Specs&) { return Err("a fused node's type is its body's"); }

using K = OpKind;
using L = LayoutRule;
// clang-format off
const OpInfo kTable[] = {
    // op               inputs  attributes         kind             layout           commutative  type
    {Op::kConv2d,         2, ConvAttrs{},        K::kAnchor,      L::kImage,       false, InferConv<2>},
    {Op::kConv3d,         2, ConvAttrs{},        K::kAnchor,      L::kImage,       false, InferConv<3>},
    {Op::kMatmul,         2, std::monostate{},   K::kAnchor,      L::kFixed,       false, InferMatmul},
    {Op::kBatchMatmul,    2, std::monostate{},   K::kAnchor,      L::kFixed,       false, InferBatchMatmul},
    {Op::kBatchNorm,      5, BatchNormAttrs{},   K::kElementwise, L::kAxis,        false, InferBatchNorm},
    {Op::kRelu,          1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferNumber},
    {Op::kClip,          1, ClipAttrs{},        K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kSigmoid,       1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kSqrt,          1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kTanh,          1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kErf,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kExp,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kLog,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kAbs,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferNumber},
    {Op::kNeg,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferNumber},
    {Op::kFloor,         1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kCeil,          1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kRound,         1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kLeakyRelu,     1, AlphaAttrs{},       K::kElementwise, L::kElementwise, false, InferFloat},
    {Op::kIsNan,         1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferIsNan},
    {Op::kNot,           1, std::monostate{},   K::kElementwise, L::kElementwise, false, InferNot},
    {Op::kCast,          1, CastAttrs{},        K::kElementwise, L::kElementwise, false, InferCast},
    {Op::kAdd,           2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary<NeedNumber>},
    {Op::kSub,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedNumber>},
    {Op::kMul,           2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary<NeedNumber>},
    {Op::kDiv,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedNumber>},
    {Op::kMod,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedInteger>},
    {Op::kPow,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedFloat>},
    {Op::kMax,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedNumber>},
    {Op::kMin,           2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary<NeedNumber>},
    {Op::kEqual,         2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferComparison},
    {Op::kLess,          2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferComparison},
    {Op::kLessEqual,     2, std::monostate{},   K::kElementwise, L::kElementwise, false, InferComparison},
    {Op::kAnd,           2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary<NeedBool>},
    {Op::kOr,            2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary<NeedBool>},
    {Op::kXor,           2, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary<NeedBool>},
    {Op::kWhere,         3, std::monostate{},   K::kElementwise, L::kElementwise, false, InferWhere},
    {Op::kMaxPool2d,      1, PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<2>},
    {Op::kAvgPool2d,      1, PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<2>},
    {Op::kMaxPool3d,      1, PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<3>},
    {Op::kAvgPool3d,      1, PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<3>},
    {Op::kArgMaxPool,     1, PoolAttrs{},        K::kOpaque,      L::kImage,       false, InferArgMaxPool},
    {Op::kGlobalAvgPool,  1, ImageAttrs{},       K::kReduction,   L::kImage,       false, InferGlobalPool},
    {Op::kGlobalMaxPool,  1, ImageAttrs{},       K::kReduction,   L::kImage,       false, InferGlobalPool},
    {Op::kReduceSum,      1, AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceProd,     1, AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceMax,      1, AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceMin,      1, AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kArgReduce,      1, ArgAttrs{},         K::kOpaque,      L::kAxis,        false, InferArgReduce},
    {Op::kLrn,            1, LrnAttrs{},         K::kOpaque,      L::kAxis,        false, InferLrn},
    {Op::kSoftmax,        1, AxisAttrs{},        K::kOpaque,      L::kAxis,        false, InferSoftmax},
    {Op::kConcat,        -1, AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferConcat},
    {Op::kGather,         2, AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferGather},
    {Op::kGatherElements, 2, AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferGatherElements},
    {Op::kSlice,          1, SliceAttrs{},       K::kInjective,   L::kPerDim,      false, InferSlice},
    {Op::kPad,            1, PadAttrs{},         K::kInjective,   L::kPerDim,      false, InferPad},
    {Op::kBroadcastTo,    1, ReshapeAttrs{},     K::kInjective,   L::kFixed,       false, InferBroadcastTo},
    {Op::kReshape,        1, ReshapeAttrs{},     K::kAlias,       L::kFixed,       false, InferReshape},
    {Op::kTranspose,      1, TransposeAttrs{},   K::kInjective,   L::kFixed,       false, InferTranspose},
    {Op::kFused,         -1, std::monostate{},   K::kOpaque,      L::kFixed,       false, InferFused},
};
// clang-format on
static_assert(std::size(kTable) == kNumOps);
static_assert(std::size(EnumNames<Op>::kNames) == kNumOps);

template <class T>
void AppendField(std::string& text, const T& value) {
  if constexpr (HasEnumNames<T>) {
    text += ToText(value);
  } else if constexpr (std::is_same_v<T, DType>) {
    text += value.Text();
  } else if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    text += std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, sizeof(T) == 4 ? "%.9g" : "%.17g", static_cast<double>(value));
    text += buffer;
  } else {
    text += ShapeText(value);
  }
}

}  // namespace

Status CheckSize(const TensorSpec& spec) {
  int64_t n = 1;
  for (int64_t d : spec.shape) {
    if (d < 0) return Err("a tensor of shape ", ShapeText(spec.shape), " is impossible");
    if (d == 0) continue;
    if (n > kMaxElements / d) return Err("a tensor of shape ", ShapeText(spec.shape), " is too large");
    n *= d;
  }
  return {};
}

const OpInfo& GetOpInfo(Op op) {
  const OpInfo& info = kTable[static_cast<int>(op)];
  CHECK(info.op == op) << "the rows of the table are out of order at " << ToText(op);
  return info;
}

Result<TensorSpec> InferType(Op op, const Attrs& attrs, const std::vector<TensorSpec>& inputs) {
  const OpInfo& info = GetOpInfo(op);
  CHECK(attrs.index() == info.defaults.index()) << ToText(op) << " with attributes of another operator";
  size_t n = inputs.size();
  if (info.num_inputs >= 0 ? n != static_cast<size_t>(info.num_inputs) : n == 0) {
    return Err(ToText(op), " takes ", info.num_inputs < 0 ? "one or more" : std::to_string(info.num_inputs),
               " inputs, not ", n);
  }
  std::string where = "in " + std::string(ToText(op));
  TensorSpec out = TRY_NOTE(info.infer(attrs, inputs), where);
  TRY_NOTE(CheckSize(out), where);
  return out;
}

Result<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return Err("shapes ", ShapeText(a), " and ", ShapeText(b), " do not broadcast");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

std::string AttrsText(const Attrs& attrs) {
  std::string text;
  std::visit(
      [&](const auto& a) {
        if constexpr (HasFields<std::remove_cvref_t<decltype(a)>>) {
          ForEachField(a, [&](std::string_view name, const auto& value) {
            if (!text.empty()) text += ", ";
            text += name;
            text += '=';
            AppendField(text, value);
          });
        }
      },
      attrs);
  return text;
}

}  // namespace autotune::graph
