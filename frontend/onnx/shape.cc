// Imports reshapes, concatenations, transposes and constants, and the shape arithmetic of exported models.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Binds the result to the elements of input 0 in another shape. If the input is a constant, so is the result.
Status BindReshaped(ImportContext& c, Shape shape) {
  const TensorValue* value = c.Constant(0);
  if (value) TRY(InferType(Op::kReshape, ReshapeAttrs{shape}, {value->spec}));
  if (value) return c.BindConstant(value->Reshaped(std::move(shape)));
  return c.Bind(TRY(c.Reshape(TRY(c.Tensor(0)), std::move(shape))));
}

Status ImportIdentity(ImportContext& c) { return BindReshaped(c, TRY(c.ShapeOf(0))); }

// Imports Dropout as the identity, which it is without training or with a ratio of 0. Dropping elements at random is
// refused, since the outputs of a package depend on its inputs alone.
Status ImportDropout(ImportContext& c) {
  if (c.Has(2) && TRY(c.ConstantNumber(2, "training_mode")) != 0) {
    const TensorValue* ratio = c.Has(1) ? c.Constant(1) : nullptr;
    if (!ratio || TRY(c.ConstantNumber(1, "the ratio")) != 0)
      return Err("drops elements at random in training mode unless its ratio is a constant 0");
  }
  if (c.node().outputs.size() > 1) {
    Shape shape = TRY(c.ShapeOf(0));
    DType type = DType::Bool();
    if (c.opset < 10) type = TRY(c.StoredType(0));  // the mask has the type of the data
    TRY(c.Reserve(shape));
    std::vector<double> kept(TensorSpec{type, shape}.NumElements(), 1);
    TRY(c.BindConstant(TensorValue::FromNumbers(type, shape, kept), 1));
  }
  return ImportIdentity(c);
}

Status ImportConcat(ImportContext& c) {
  if (!c.HasAttr("axis")) return Err("has no axis");
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), static_cast<int>(TRY(c.ShapeOf(0)).size())));
  bool shape_arithmetic = true;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    const TensorValue* value = c.Constant(i);
    shape_arithmetic &= value && value->spec.dtype == DType::Int(64) && value->spec.rank() == 1;
  }
  if (shape_arithmetic) {
    std::vector<int64_t> all;
    for (size_t i = 0; i < c.node().inputs.size(); ++i) {
      std::vector<int64_t> part = TRY(c.Ints(i, "an operand of an integer Concat"));
      all.insert(all.end(), part.begin(), part.end());
    }
    int64_t n = static_cast<int64_t>(all.size());
    TRY(c.Reserve({n}));
    return c.BindConstant(TensorValue::Of<int64_t>({n}, all));
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) inputs.push_back(TRY(c.Tensor(i)));
  if (inputs.size() == 1) return c.Bind(inputs[0]);
  return c.Bind(TRY(c.Emit(Op::kConcat, inputs, AxisAttrs{axis})));
}

Status ImportFlatten(ImportContext& c) {
  Shape shape = TRY(c.ShapeOf(0));
  int64_t axis = TRY(c.Int("axis", 1)), rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis > rank) return Err("axis ", axis, " is outside a tensor of rank ", rank);
  if (axis < 0) axis += rank;
  Shape flat = {1, 1};
  for (int64_t i = 0; i < rank; ++i) flat[i < axis ? 0 : 1] *= shape[i];
  return BindReshaped(c, flat);
}

Status ImportReshape(ImportContext& c) {
  Shape in = TRY(c.ShapeOf(0)), out = TRY(c.Ints(1, "the shape of Reshape"));
  bool allow_zero = TRY(c.Int("allowzero", 0)) != 0;
  int64_t total = 1, known = 1;
  int wild = -1;
  for (int64_t d : in) total *= d;
  bool too_large = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !allow_zero) {
      if (i >= in.size())
        return Err("shape ", ShapeText(out), " copies dimension ", i, ", which the input ", ShapeText(in),
                   " does not have");
      out[i] = in[i];
    }
    if (out[i] == -1) {
      if (wild >= 0) return Err("shape ", ShapeText(out), " leaves two dimensions open");
      wild = static_cast<int>(i);
    } else {
      too_large = too_large || __builtin_mul_overflow(known, out[i], &known);
    }
  }
  if (too_large) return Err("impossible shape ", ShapeText(out));
  if (wild >= 0) {
    if (known <= 0 || total % known != 0) return Err("cannot reshape ", ShapeText(in), " to ", ShapeText(out));
    out[wild] = total / known;
    known *= out[wild];
  }
  if (known != total || std::any_of(out.begin(), out.end(), [](int64_t d) { return d < 0; })) {
    return Err("cannot reshape ", ShapeText(in), " to ", ShapeText(out));
  }
  return BindReshaped(c, out);
}

Status ImportTranspose(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  int rank = c.builder.Spec(x).rank();
  std::vector<int64_t> reversed;
  for (int i = rank - 1; i >= 0; --i) reversed.push_back(i);
  std::vector<int64_t> perm = TRY(c.IntList("perm", reversed));
  return c.Bind(TRY(c.Transpose(x, perm)));
}

// Returns the axes of Squeeze or Unsqueeze: an attribute before operator set 13, input 1 since then.
Result<std::vector<int64_t>> ReadAxes(const ImportContext& c, int rank) {
  std::vector<int64_t> axes = c.opset < 13 ? TRY(c.IntList("axes", {})) : TRY(c.Ints(1, "axes"));
  return NormalizeAxes(std::move(axes), rank);
}

Status ImportSqueeze(ImportContext& c) {
  Shape in = TRY(c.ShapeOf(0)), out;
  bool all = c.opset < 13 ? !c.HasAttr("axes") : !c.Has(1);
  std::vector<int64_t> axes;
  if (!all) axes = TRY(ReadAxes(c, static_cast<int>(in.size())));
  for (int64_t i = 0; i < static_cast<int64_t>(in.size()); ++i) {
    bool named = std::binary_search(axes.begin(), axes.end(), i);
    if (named && in[i] != 1) return Err("axis ", i, " of ", ShapeText(in), " is not 1");
    if (all ? in[i] != 1 : !named) out.push_back(in[i]);
  }
  return BindReshaped(c, out);
}

Status ImportUnsqueeze(ImportContext& c) {
  Shape in = TRY(c.ShapeOf(0)), out;
  size_t n = c.opset < 13 ? TRY(c.IntList("axes", {})).size() : TRY(c.Ints(1, "axes")).size();
  std::vector<int64_t> axes = TRY(ReadAxes(c, static_cast<int>(in.size() + n)));
  auto next = in.begin();
  for (int64_t i = 0; i < static_cast<int64_t>(in.size() + n); ++i) {
    out.push_back(std::binary_search(axes.begin(), axes.end(), i) ? 1 : *next++);
  }
  return BindReshaped(c, out);
}

Status ImportConstant(ImportContext& c) {
  auto attr = [&](const char* name) {
    auto it = c.node().attrs.find(name);
    return it == c.node().attrs.end() ? nullptr : &it->second;
  };
  if (const OnnxAttr* a = attr("value"); a && a->tensor) return c.BindConstant(*a->tensor);
  if (const OnnxAttr* a = attr("value_float"); a && a->f) return c.BindConstant(TensorValue::Of<float>({}, {*a->f}));
  if (const OnnxAttr* a = attr("value_int"); a && a->i) return c.BindConstant(TensorValue::Of<int64_t>({}, {*a->i}));
  if (const OnnxAttr* a = attr("value_floats"); a && a->floats) {
    int64_t n = static_cast<int64_t>(a->floats->size());
    return c.BindConstant(TensorValue::Of<float>({n}, *a->floats));
  }
  if (const OnnxAttr* a = attr("value_ints"); a && a->ints) {
    int64_t n = static_cast<int64_t>(a->ints->size());
    return c.BindConstant(TensorValue::Of<int64_t>({n}, *a->ints));
  }
  return Err("only tensors, numbers and lists of numbers are supported");
}

Status ImportConstantOfShape(ImportContext& c) {
  Shape shape = TRY(c.Ints(0, "the shape of ConstantOfShape"));
  TensorValue fill = TensorValue::Of<float>({1}, {0});
  if (auto it = c.node().attrs.find("value"); it != c.node().attrs.end() && it->second.tensor)
    fill = *it->second.tensor;
  if (fill.spec.NumElements() != 1) return Err("value must have one element, not ", fill.spec.Text());
  TRY(c.Reserve(shape));
  int64_t n = TensorSpec{fill.spec.dtype, shape}.NumElements(), size = fill.spec.dtype.Bytes();
  char* out = nullptr;
  SharedBytes bytes = SharedBytes::Allocate(n * size, &out);
  if (n > 0) std::memcpy(out, fill.bytes.data(), size);
  for (int64_t done = 1; done < n; done *= 2) std::memcpy(out + done * size, out, std::min(done, n - done) * size);
  return c.BindConstant({{fill.spec.dtype, shape}, bytes});
}

Status ImportShape(ImportContext& c) {
  Shape shape = TRY(c.ShapeOf(0));
  int64_t rank = static_cast<int64_t>(shape.size());
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  int64_t start = clamp(TRY(c.Int("start", 0))), end = std::max(start, clamp(TRY(c.Int("end", rank))));
  return c.BindConstant(TensorValue::Of<int64_t>({end - start}, Shape(shape.begin() + start, shape.begin() + end)));
}

Status ImportSize(ImportContext& c) {
  int64_t n = 1;
  for (int64_t d : TRY(c.ShapeOf(0))) n *= d;
  return c.BindConstant(TensorValue::Of<int64_t>({}, {n}));
}

// Binds the range of integers of 64 bits, which doubles do not hold.
Status BindWholeRange(ImportContext& c) {
  auto number = [&](size_t i) { return *c.Known(i)->As<int64_t>(); };
  using Wide = __int128;  // holds all sums and differences below
  const Wide start = number(0), delta = number(2), way = number(1) - start;
  const Wide steps = (way > 0) == (delta > 0) ? (way + delta - (delta > 0 ? 1 : -1)) / delta : 0;
  const auto count = static_cast<int64_t>(steps);
  TRY(c.Reserve({count}));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<int64_t>(start + i * delta));
  return c.BindConstant(TensorValue::Of<int64_t>({count}, numbers));
}

Status ImportRange(ImportContext& c) {
  constexpr double kMost = 1 << 24;
  double start = TRY(c.ConstantNumber(0, "start")), limit = TRY(c.ConstantNumber(1, "limit")),
         delta = TRY(c.ConstantNumber(2, "delta"));
  double count = delta != 0 ? std::ceil((limit - start) / delta) : kMost + 1;
  if (!(count <= kMost)) return Err("the range from ", start, " to ", limit, " by ", delta, " is too long");
  const DType type = TRY(c.StoredType(0));
  if (TRY(c.StoredType(1)) != type || TRY(c.StoredType(2)) != type)
    return Err("start, limit and delta have the types ", type.Text(), ", ", TRY(c.StoredType(1)).Text(), " and ",
               TRY(c.StoredType(2)).Text());
  if (type == DType::Int(64)) return BindWholeRange(c);
  count = std::max(0.0, count);
  TRY(c.Reserve({static_cast<int64_t>(count)}));
  std::vector<double> numbers;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) numbers.push_back(start + static_cast<double>(i) * delta);
  int64_t n = static_cast<int64_t>(numbers.size());
  return c.BindConstant(TensorValue::FromNumbers(type, {n}, numbers));
}

Status ImportEyeLike(ImportContext& c) {
  Shape shape = TRY(c.ShapeOf(0));
  if (shape.size() != 2) return Err("the input must be a matrix, not ", ShapeText(shape));
  const DType type = c.HasAttr("dtype") ? TRY(SupportedType(TRY(c.Int("dtype", 1)))) : TRY(c.StoredType(0));
  int64_t k = TRY(c.Int("k", 0));
  TRY(c.Reserve(shape));
  std::vector<double> numbers(shape[0] * shape[1]);
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (k >= -i && k < shape[1] - i) numbers[i * shape[1] + i + k] = 1;
  }
  return c.BindConstant(TensorValue::FromNumbers(type, shape, numbers));
}

}  // namespace

const std::vector<OperatorRow>& ShapeOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Identity", 1, 28, ImportIdentity}, {"Dropout", 7, 28, ImportDropout},
      {"Concat", 4, 28, ImportConcat},     {"Flatten", 1, 28, ImportFlatten},
      {"Reshape", 5, 28, ImportReshape},   {"Transpose", 1, 28, ImportTranspose},
      {"Squeeze", 1, 28, ImportSqueeze},   {"Unsqueeze", 1, 28, ImportUnsqueeze},
      {"Constant", 1, 28, ImportConstant}, {"ConstantOfShape", 9, 28, ImportConstantOfShape},
      {"Shape", 1, 28, ImportShape},       {"Size", 1, 28, ImportSize},
      {"Range", 11, 28, ImportRange},      {"EyeLike", 9, 28, ImportEyeLike, true},
  };
  return rows;
}

}  // namespace autotune::onnx_import
