#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdio>

#include "graph/infer.h"
#include "ir/dot.h"
#include "te/index.h"

namespace autotune::graph {

Status NeedRank(const TensorSpec& spec, int rank, const char* what) {
  if (spec.rank() != rank) return Err(what, " must have rank ", rank, ", not ", spec.Text());
  return {};
}

namespace {

constexpr int64_t kMaxElements = int64_t{1} << 36;

struct TypeSet {
  bool (*contains)(DType);
  const char* name;
};
constexpr TypeSet kAnything = {[](DType) { return true; }, "any elements"};
constexpr TypeSet kAnyNumber = {[](DType t) { return !t.IsBool(); }, "numbers"};
constexpr TypeSet kComputable = {[](DType t) { return !t.IsHalf(); }, "any elements"};
constexpr TypeSet kFloat = {[](DType t) { return t.IsFloat() && !t.IsHalf(); }, "floats"};
constexpr TypeSet kNumber = {[](DType t) { return !t.IsBool() && !t.IsHalf(); }, "numbers"};
constexpr TypeSet kSignedNumber = {[](DType t) { return (t.IsFloat() && !t.IsHalf()) || t.code == TypeCode::kInt; },
                                   "signed numbers"};
constexpr TypeSet kInteger = {[](DType t) { return t.IsInt(); }, "integers"};
constexpr TypeSet kBool = {[](DType t) { return t.IsBool(); }, "bools"};
constexpr TypeSet kBit = {[](DType t) { return t.IsBool() || t.IsInt(); }, "bools and integers"};
constexpr TypeSet kUnsignedInteger = {[](DType t) { return t.IsInt() && t.code == TypeCode::kUInt; },
                                      "unsigned integers"};

// Checks that the operands [first, last) share one element type and that the set contains it.
Status NeedTypes(const Specs& in, size_t first, size_t last, const TypeSet& set, const char* verb = "is for ") {
  for (size_t i = first; i < last; ++i) {
    if (in[i].dtype != in[first].dtype) return Err("element types differ: ", in[first].Text(), " and ", in[i].Text());
    const bool contained = set.contains(in[i].dtype);
    if (!contained && in[i].dtype.IsHalf()) return Err("is for wider elements than ", in[i].Text());
    if (!contained) return Err(verb, set.name, ", not ", in[i].Text());
  }
  return {};
}

// Returns whether a product takes these types, which may differ: integers of 8 bits, times each other or f32, and
// floats of 16 bits behind f32.
bool AreFactors(DType a, DType b) {
  const auto fits = [](DType t) { return IsByte(t) || t == DType::Float(32); };
  return fits(a) && (fits(b) || (a == DType::Float(32) && b.IsHalf()));
}

Status CheckTypes(OperandTypes types, const Specs& in) {
  switch (types) {
    case OperandTypes::kAny:
      return NeedTypes(in, 0, in.size(), kAnything);
    case OperandTypes::kOwn:
      return {};
    case OperandTypes::kAnyNumbers:
      return NeedTypes(in, 0, in.size(), kAnyNumber);
    case OperandTypes::kFactors:
      if (in.size() == 2 && AreFactors(in[0].dtype, in[1].dtype)) return {};
      return NeedTypes(in, 0, in.size(), kAnyNumber);
    case OperandTypes::kComputed:
      return NeedTypes(in, 0, in.size(), kComputable);
    case OperandTypes::kFloats:
      return NeedTypes(in, 0, in.size(), kFloat);
    case OperandTypes::kNumbers:
      return NeedTypes(in, 0, in.size(), kNumber);
    case OperandTypes::kSigned:
      return NeedTypes(in, 0, in.size(), kSignedNumber);
    case OperandTypes::kIntegers:
      return NeedTypes(in, 0, in.size(), kInteger);
    case OperandTypes::kBools:
      return NeedTypes(in, 0, in.size(), kBool);
    case OperandTypes::kBits:
      return NeedTypes(in, 0, in.size(), kBit);
    case OperandTypes::kUnsigned:
      return NeedTypes(in, 0, in.size(), kUnsignedInteger);
    case OperandTypes::kSelected:
      TRY(NeedTypes(in, 0, 1, kBool, "takes a condition of "));
      return NeedTypes(in, 1, in.size(), kAnything);
    case OperandTypes::kIndexed:
      return NeedTypes(in, 1, in.size(), kInteger, "takes indices that are ");
    case OperandTypes::kPlaced:
    case OperandTypes::kWeighted:
      TRY(NeedTypes(in, 0, in.size() - 1, types == OperandTypes::kPlaced ? kAnything : kFloat));
      return NeedTypes(in, in.size() - 1, in.size(), kInteger, "takes indices that are ");
  }
  UNREACHABLE();
  return {};
}

Status CheckAxis(int64_t axis, const TensorSpec& spec) {
  if (axis < 0 || axis >= spec.rank()) return Err("axis ", axis, " is outside ", spec.Text());
  return {};
}

Result<TensorSpec> InferMatmul(const Attrs&, const Specs& in) {
  TRY(NeedRank(in[0], 2, "left operand"));
  TRY(NeedRank(in[1], 2, "right operand"));
  if (in[0].shape[1] != in[1].shape[0]) return Err("cannot multiply ", in[0].Text(), " by ", in[1].Text());
  return TensorSpec{SumType(in[0].dtype, in[1].dtype), {in[0].shape[0], in[1].shape[1]}};
}

Result<TensorSpec> InferBatchMatmul(const Attrs&, const Specs& in) {
  int rank = in[0].rank();
  if (rank < 3 || in[1].rank() != rank)
    return Err("operands must have one rank of 3 or more: ", in[0].Text(), ", ", in[1].Text());
  const Shape &a = in[0].shape, &b = in[1].shape;
  if (a[rank - 1] != b[rank - 2]) return Err("cannot multiply ", in[0].Text(), " by ", in[1].Text());
  Shape shape = TRY(BroadcastShapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  shape.push_back(a[rank - 2]);
  shape.push_back(b[rank - 1]);
  return TensorSpec{SumType(in[0].dtype, in[1].dtype), shape};
}

Result<TensorSpec> InferBatchNorm(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<BatchNormAttrs>(attrs).axis;
  TRY(CheckAxis(axis, in[0]));
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].shape != Shape{in[0].shape[axis]})
      return Err("statistics must have shape [", in[0].shape[axis], "], not ", in[i].Text());
  }
  return in[0];
}

Result<TensorSpec> InferSame(const Attrs&, const Specs& in) { return in[0]; }

Result<TensorSpec> InferIsNan(const Attrs&, const Specs& in) { return TensorSpec{DType::Bool(), in[0].shape}; }

Result<TensorSpec> InferCast(const Attrs& attrs, const Specs& in) {
  return TensorSpec{std::get<CastAttrs>(attrs).to, in[0].shape};
}

Result<TensorSpec> InferBitCast(const Attrs& attrs, const Specs& in) {
  const DType to = std::get<CastAttrs>(attrs).to;
  if (to.IsBool() || to.bits != in[0].dtype.bits)
    return Err("takes the bits of ", in[0].Text(), " for numbers of another width, ", to.Text());
  return TensorSpec{to, in[0].shape};
}

Result<TensorSpec> InferBinary(const Attrs&, const Specs& in) {
  Shape shape = TRY(BroadcastShapes(in[0].shape, in[1].shape));
  return TensorSpec{in[0].dtype, std::move(shape)};
}

Result<TensorSpec> InferComparison(const Attrs&, const Specs& in) {
  Shape shape = TRY(BroadcastShapes(in[0].shape, in[1].shape));
  return TensorSpec{DType::Bool(), std::move(shape)};
}

Result<TensorSpec> InferWhere(const Attrs&, const Specs& in) {
  Shape values = TRY(BroadcastShapes(in[1].shape, in[2].shape));
  Shape shape = TRY(BroadcastShapes(in[0].shape, values));
  return TensorSpec{in[1].dtype, std::move(shape)};
}

Result<TensorSpec> InferFma(const Attrs&, const Specs& in) {
  const Shape products = TRY(BroadcastShapes(in[0].shape, in[1].shape));
  Shape shape = TRY(BroadcastShapes(products, in[2].shape));
  return TensorSpec{in[0].dtype, std::move(shape)};
}

Result<TensorSpec> InferReduce(const Attrs& attrs, const Specs& in) {
  const auto& axes = std::get<AxesAttrs>(attrs).axes;
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
  TRY(CheckAxis(axis, in[0]));
  TensorSpec out{DType::Int(64), in[0].shape};
  out.shape[axis] = 1;
  return out;
}

Result<TensorSpec> InferLrn(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<LrnAttrs>(attrs);
  TRY(CheckAxis(a.axis, in[0]));
  constexpr int64_t kMostSize = 1 << 24;  // exceeds any number of channels; bounds the running time of the kernel
  if (a.size < 1 || a.size > kMostSize) return Err("size ", a.size, " is not between 1 and ", kMostSize);
  return in[0];
}

Result<TensorSpec> InferSoftmax(const Attrs& attrs, const Specs& in) {
  TRY(CheckAxis(std::get<AxisAttrs>(attrs).axis, in[0]));
  return in[0];
}

Result<TensorSpec> InferConcat(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<AxisAttrs>(attrs).axis;
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
  const Shape& data = in[0].shape;
  TensorSpec out{in[0].dtype, {data.begin(), data.begin() + axis}};
  out.shape.insert(out.shape.end(), in[1].shape.begin(), in[1].shape.end());
  out.shape.insert(out.shape.end(), data.begin() + axis + 1, data.end());
  return out;
}

Result<TensorSpec> InferGatherElements(const Attrs& attrs, const Specs& in) {
  int64_t axis = std::get<AxisAttrs>(attrs).axis;
  TRY(CheckAxis(axis, in[0]));
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
    if (a.mode != PadMode::kConstant && a.interior[d] > 0)
      return Err("only a pad with a constant can insert elements between others");
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

Result<TensorSpec> InferCallee(const Attrs&, const Specs&) {
  return Err("the type of a call cannot be inferred from its inputs; add the node by GraphBuilder::Call or CallNamed");
}

using K = OpKind;
using L = LayoutRule;
using T = OperandTypes;
// clang-format off
const OpInfo kTable[] = {
    // op          inputs   types         attributes         kind             layout           commutative  type
    {Op::kConv2d,          2, T::kFactors,  ConvAttrs{},        K::kAnchor,      L::kImage,       false, InferConv<2>},
    {Op::kConv3d,          2, T::kFactors,  ConvAttrs{},        K::kAnchor,      L::kImage,       false, InferConv<3>},
    {Op::kMatmul,          2, T::kFactors,    std::monostate{},   K::kAnchor,      L::kFixed,       false, InferMatmul},
    {Op::kBatchMatmul,     2, T::kFactors,    std::monostate{},   K::kAnchor,      L::kFixed,       false, InferBatchMatmul},
    {Op::kBlockMatmul,    -1, T::kOwn,      std::monostate{},   K::kAnchor,      L::kFixed,       false, InferBlockMatmul},
    {Op::kBatchNorm,       5, T::kFloats,   BatchNormAttrs{},   K::kElementwise, L::kAxis,        false, InferBatchNorm},
    {Op::kRelu,            1, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kClip,            1, T::kFloats,   ClipAttrs{},        K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kSigmoid,         1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kSqrt,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kTanh,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kErf,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kExp,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kLog,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAbs,             1, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kNeg,             1, T::kSigned,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kFloor,           1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kCeil,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kRound,           1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kSin,              1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kCos,              1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kTan,              1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAsin,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAcos,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAtan,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kSinh,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kCosh,             1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAsinh,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAcosh,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kAtanh,            1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kLeakyRelu,       1, T::kFloats,   AlphaAttrs{},       K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kIsNan,           1, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferIsNan},
    {Op::kNot,             1, T::kBits,     std::monostate{},   K::kElementwise, L::kElementwise, false, InferSame},
    {Op::kCast,            1, T::kAny,      CastAttrs{},        K::kElementwise, L::kElementwise, false, InferCast},
    {Op::kBitCast,         1, T::kAnyNumbers, CastAttrs{},        K::kElementwise, L::kElementwise, false, InferBitCast},
    {Op::kAdd,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary},
    {Op::kSub,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kMul,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary},
    {Op::kDiv,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kMod,             2, T::kIntegers, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kPow,             2, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kMax,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kMin,             2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kEqual,           2, T::kComputed, std::monostate{},   K::kElementwise, L::kElementwise, true,  InferComparison},
    {Op::kLess,            2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferComparison},
    {Op::kLessEqual,       2, T::kNumbers,  std::monostate{},   K::kElementwise, L::kElementwise, false, InferComparison},
    {Op::kAnd,             2, T::kBits,     std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary},
    {Op::kOr,              2, T::kBits,     std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary},
    {Op::kXor,             2, T::kBits,     std::monostate{},   K::kElementwise, L::kElementwise, true,  InferBinary},
    {Op::kShiftLeft,       2, T::kUnsigned, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kShiftRight,      2, T::kUnsigned, std::monostate{},   K::kElementwise, L::kElementwise, false, InferBinary},
    {Op::kWhere,           3, T::kSelected, std::monostate{},   K::kElementwise, L::kElementwise, false, InferWhere},
    {Op::kFma,             3, T::kFloats,   std::monostate{},   K::kElementwise, L::kElementwise, false, InferFma},
    {Op::kLookUp,          2, T::kOwn,      std::monostate{},   K::kElementwise, L::kElementwise, false, InferLookUp},
    {Op::kMaxPool2d,       1, T::kNumbers,  PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<2>},
    {Op::kAvgPool2d,       1, T::kFloats,   PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<2>},
    {Op::kMaxPool3d,       1, T::kNumbers,  PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<3>},
    {Op::kAvgPool3d,       1, T::kFloats,   PoolAttrs{},        K::kReduction,   L::kImage,       false, InferPool<3>},
    {Op::kArgMaxPool,      1, T::kNumbers,  PoolAttrs{},        K::kOpaque,      L::kImage,       false, InferArgMaxPool},
    {Op::kGlobalAvgPool,   1, T::kFloats,   ImageAttrs{},       K::kReduction,   L::kImage,       false, InferGlobalPool},
    {Op::kGlobalMaxPool,   1, T::kNumbers,  ImageAttrs{},       K::kReduction,   L::kImage,       false, InferGlobalPool},
    {Op::kReduceSum,       1, T::kNumbers,  AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceProd,      1, T::kNumbers,  AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceMax,       1, T::kNumbers,  AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kReduceMin,       1, T::kNumbers,  AxesAttrs{},        K::kReduction,   L::kAxis,        false, InferReduce},
    {Op::kArgReduce,       1, T::kNumbers,  ArgAttrs{},         K::kOpaque,      L::kAxis,        false, InferArgReduce},
    {Op::kLrn,             1, T::kFloats,   LrnAttrs{},         K::kOpaque,      L::kAxis,        false, InferLrn},
    {Op::kSoftmax,         1, T::kFloats,   AxisAttrs{},        K::kOpaque,      L::kAxis,        false, InferSoftmax},
    {Op::kConcat,         -1, T::kAny,      AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferConcat},
    {Op::kGather,          2, T::kIndexed,  AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferGather},
    {Op::kGatherElements,  2, T::kIndexed,  AxisAttrs{},        K::kInjective,   L::kAxis,        false, InferGatherElements},
    {Op::kScatter,         3, T::kPlaced,   ScatterAttrs{},     K::kOpaque,      L::kFixed,       false, InferScatter},
    {Op::kCumulate,        1, T::kNumbers,  CumulateAttrs{},    K::kOpaque,      L::kFixed,       false, InferCumulate},
    {Op::kTopK,            1, T::kNumbers,  TopKAttrs{},        K::kOpaque,      L::kFixed,       false, InferTopK},
    {Op::kSelectBoxes,     3, T::kWeighted, BoxesAttrs{},       K::kOpaque,      L::kFixed,       false, InferSelectBoxes},
    {Op::kGatherSum,       3, T::kWeighted, std::monostate{},   K::kReduction,   L::kFixed,       false, InferGatherSum},
    {Op::kDet,             1, T::kFloats,   std::monostate{},   K::kOpaque,      L::kFixed,       false, InferDet},
    {Op::kSlice,           1, T::kAny,      SliceAttrs{},       K::kInjective,   L::kPerDim,      false, InferSlice},
    {Op::kPad,             1, T::kAny,      PadAttrs{},         K::kInjective,   L::kPerDim,      false, InferPad},
    {Op::kBroadcastTo,     1, T::kAny,      ReshapeAttrs{},     K::kInjective,   L::kFixed,       false, InferBroadcastTo},
    {Op::kReshape,         1, T::kAny,      ReshapeAttrs{},     K::kAlias,       L::kFixed,       false, InferReshape},
    {Op::kTranspose,       1, T::kAny,      TransposeAttrs{},   K::kInjective,   L::kFixed,       false, InferTranspose},
    {Op::kFused,          -1, T::kAny,      std::monostate{},   K::kOpaque,      L::kFixed,       false, InferCallee},
    {Op::kCall,           -1, T::kAny,      CallAttrs{},        K::kOpaque,      L::kFixed,       false, InferCallee},
};
// clang-format on
static_assert(std::size(kTable) == kNumOps, "an operator of graph/op.h has no row in kTable");
static_assert(std::size(EnumNames<Op>::kNames) == kNumOps, "an operator of graph/op.h has no name there");

template <class T>
void AppendField(std::string& text, const T& value) {
  if constexpr (HasEnumNames<T>) {
    text += ToText(value);
  } else if constexpr (std::is_same_v<T, DType>) {
    text += value.Text();
  } else if constexpr (std::is_same_v<T, std::string>) {
    text += value;
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
  TRY_NOTE(CheckTypes(info.types, inputs), where);
  TensorSpec out = TRY_NOTE(info.infer(attrs, inputs), where);
  TRY_NOTE(CheckSize(out), where);
  return out;
}

Result<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  Shape out;
  if (!te::BroadcastShapes(a, b, &out)) return Err("shapes ", ShapeText(a), " and ", ShapeText(b), " do not broadcast");
  return out;
}

namespace {

// Returns true if the attributes A write the field only if it is not false or 0, and it is. So the texts and hashes of
// older tasks stay the same when such a field is added.
template <class A, class Value>
bool IsLeftOut(std::string_view field, const Value& value) {
  if constexpr (requires { A::kWrittenIfSet; } && std::integral<Value>)
    return std::ranges::find(A::kWrittenIfSet, field) != std::end(A::kWrittenIfSet) && value == Value();
  return false;
}

}  // namespace

std::string AttrsText(const Attrs& attrs) {
  std::string text;
  std::visit(
      [&](const auto& a) {
        if constexpr (HasFields<std::remove_cvref_t<decltype(a)>>) {
          ForEachField(a, [&](std::string_view name, const auto& value) {
            if (IsLeftOut<std::remove_cvref_t<decltype(a)>>(name, value)) return;
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
