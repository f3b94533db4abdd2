// The functions of ImportContext: they read the current node for the import functions of operators, and bind its
// results.
#include <algorithm>
#include <cstring>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

Result<int64_t> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return Err("axis ", axis, " is outside a tensor of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank) {
  for (int64_t& axis : axes) axis = TRY(NormalizeAxis(axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return Err("names an axis twice");
  return axes;
}

TensorValue Moved(const TensorValue& from, const Shape& shape, const std::function<int64_t(const Shape&)>& source) {
  TensorSpec spec{from.spec.dtype, shape};
  int64_t size = spec.dtype.Bytes(), n = spec.NumElements();
  char* out = nullptr;
  SharedBytes bytes = SharedBytes::Allocate(n * size, &out);
  Shape index(shape.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out + i * size, from.bytes.data() + source(index) * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return {std::move(spec), std::move(bytes)};
}

Status ImportContext::Reserve(const Shape& shape) {
  constexpr int64_t kMostElements = int64_t{1} << 27;  // 1 GiB, since some constants are computed as doubles
  TensorSpec spec{DType::Float(64), shape};
  TRY(CheckSize(spec));
  reserved_ += spec.NumElements();
  if (reserved_ <= kMostElements) return {};
  return Err("makes a constant of shape ", ShapeText(shape), ": more than ", kMostElements,
             " elements of constants that the file does not hold");
}

Result<Operand*> ImportContext::Find(size_t i) const {
  if (!Has(i)) return Err("input ", i, " is missing");
  Operand* operand = scope_->Find(node().inputs[i]);
  if (!operand) return scope_->WhyAbsent(node().inputs[i]);
  return operand;
}

Result<DType> ImportContext::StoredType(size_t i) const { return SpecOf(*TRY(Find(i))).dtype; }

std::optional<DType> ImportContext::HalfOfResults() const {
  const OperatorRow* row = FindOperator(node());
  if (!row || row->names_types) return std::nullopt;
  for (size_t i = 0; i < node().inputs.size(); ++i) {
    const Result<DType> type = Has(i) ? StoredType(i) : Result<DType>(DType::Bool());
    if (!type.ok() || !type->IsFloat()) continue;
    if (type->IsHalf()) return *type;
    if (i == 0) break;
  }
  return std::nullopt;
}

Result<ValueId> ImportContext::Tensor(size_t i) {
  ValueId v = TRY(StoredTensor(i));
  if (!Type(v).IsHalf()) return v;
  auto known = singles_.find(v);
  if (known == singles_.end()) known = singles_.emplace(v, TRY(Cast(v, DType::Float(32)))).first;
  return known->second;
}

Result<ValueId> ImportContext::Factor(size_t i) {
  const ValueId v = TRY(StoredTensor(i));
  if (Type(v) != DType::BFloat16()) return Tensor(i);
  const auto [wide, is_new] = factors_.try_emplace(v, -1);
  if (is_new) singles_[v] = wide->second = TRY(Cast(v, DType::Float(32)));
  return wide->second;
}

Result<ValueId> ImportContext::StoredTensor(size_t i) {
  Operand* operand = TRY(Find(i));  // comes before node().inputs[i], since Find checks i
  return ToValue(*operand, node().inputs[i]);
}

Result<Operand> ImportContext::Input(size_t i) const { return *TRY(Find(i)); }

Result<ValueId> ImportContext::ToValue(Operand& operand, const std::string& name) {
  if (const ValueId* v = std::get_if<ValueId>(&operand.tensor)) return *v;
  const TensorValue& value = std::get<TensorValue>(operand.tensor);
  TRY_NOTE(CheckSize(value.spec), "of input '" + name + "'");
  if (!operand.constant) operand.constant = builder.AddConstant(name, value);
  return *operand.constant;
}

Operand ImportContext::ToOperand(ValueId v) const {
  const graph::Constant* constant = builder.graph().FindConstant(v);
  if (constant) return {builder.graph().ConstantValue(*constant), v};
  return {v};
}

TensorSpec ImportContext::SpecOf(const Operand& operand) const {
  const ValueId* v = std::get_if<ValueId>(&operand.tensor);
  return v ? builder.Spec(*v) : std::get<TensorValue>(operand.tensor).spec;
}

Result<std::vector<ValueId>> ImportContext::AllTensors() {
  std::vector<ValueId> all;
  for (size_t i = 0; i < node().inputs.size(); ++i) all.push_back(TRY(Tensor(i)));
  if (all.empty()) return Err("has no inputs");
  return all;
}

const TensorValue* ImportContext::Constant(size_t i) const {
  Result<Operand*> operand = Find(i);
  return operand.ok() ? std::get_if<TensorValue>(&(*operand)->tensor) : nullptr;
}

const TensorValue* ImportContext::Known(const Operand& operand) const {
  const ValueId* v = std::get_if<ValueId>(&operand.tensor);
  return v ? values_.Find(*v) : &std::get<TensorValue>(operand.tensor);
}

const TensorValue* ImportContext::Known(size_t i) const {
  Result<Operand*> operand = Find(i);
  return operand.ok() ? Known(**operand) : nullptr;
}

Result<const OnnxGraph*> ImportContext::Subgraph(const char* name) const {
  auto it = node().attrs.find(name);
  if (it == node().attrs.end() || !it->second.graph) return Err("has no subgraph '", name, "'");
  return it->second.graph.get();
}

Result<Shape> ImportContext::ShapeOf(size_t i) const { return SpecOf(*TRY(Find(i))).shape; }

Result<std::vector<int64_t>> ImportContext::Ints(size_t i, const char* what) const {
  TRY(Find(i));
  const TensorValue* value = Known(i);
  if (!value) return Err(what, " is computed at run time; it must be a constant");
  std::vector<int64_t> out(value->spec.NumElements());
  for (size_t k = 0; k < out.size(); ++k) {
    if (value->spec.dtype == DType::Int(64)) {
      out[k] = value->As<int64_t>()[k];
    } else if (value->spec.dtype == DType::Int(32)) {
      out[k] = value->As<int32_t>()[k];
    } else {
      return Err(what, " must be integers, not ", value->spec.Text());
    }
  }
  return out;
}

Result<double> ImportContext::ConstantNumber(size_t i, const char* what) const {
  TRY(Find(i));
  const TensorValue* value = Known(i);
  if (!value) return Err(what, " is computed at run time; it must be a constant");
  if (value->spec.NumElements() != 1) return Err(what, " must be one number, not ", value->spec.Text());
  return value->Number(0);
}

Result<ValueId> ImportContext::Mean(ValueId v, const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= ShapeOfValue(v)[axis];
  if (!Type(v).IsFloat()) return Err("takes the mean of ", builder.Spec(v).Text(), "; only floats are supported");
  return ApplyNumber(Op::kDiv, TRY(Reduce(Op::kReduceSum, v, axes)), static_cast<double>(count));
}

Result<ValueId> ImportContext::Cut(ValueId v, int64_t axis, int64_t begin, int64_t extent) {
  const Shape& shape = ShapeOfValue(v);
  if (begin == 0 && extent == shape[axis]) return v;
  SliceAttrs a{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
  a.begin[axis] = begin;
  a.extent[axis] = extent;
  return Emit(Op::kSlice, {v}, a);
}

namespace {
template <class T>
Result<T> ReadAttr(const OnnxNode& node, const char* name, T fallback, std::optional<T> OnnxAttr::*member,
                   const char* type) {
  auto it = node.attrs.find(name);
  if (it == node.attrs.end()) return fallback;
  if (!(it->second.*member)) return Err("attribute '", name, "' must be ", type);
  return *(it->second.*member);
}
}  // namespace

Result<int64_t> ImportContext::Int(const char* name, int64_t fallback) const {
  return ReadAttr(node(), name, fallback, &OnnxAttr::i, "an integer");
}
Result<float> ImportContext::Float(const char* name, float fallback) const {
  return ReadAttr(node(), name, fallback, &OnnxAttr::f, "a float");
}
Result<std::string> ImportContext::String(const char* name, const char* fallback) const {
  return ReadAttr(node(), name, std::string(fallback), &OnnxAttr::s, "a string");
}
Result<std::vector<int64_t>> ImportContext::IntList(const char* name, std::vector<int64_t> fallback) const {
  return ReadAttr(node(), name, std::move(fallback), &OnnxAttr::ints, "a list of integers");
}

Result<std::vector<float>> ImportContext::FloatList(const char* name, std::vector<float> fallback) const {
  return ReadAttr(node(), name, std::move(fallback), &OnnxAttr::floats, "a list of floats");
}

Result<std::vector<std::string>> ImportContext::StringList(const char* name, std::vector<std::string> fallback) const {
  return ReadAttr(node(), name, std::move(fallback), &OnnxAttr::strings, "a list of strings");
}

// Returns the result as a constant if all operands are constants of few elements, as in shape arithmetic. Large tensors
// do not decide shapes, so kernels compute them. Neither do erf and tanh, and a kernel keeps digits of 1 + erf(z) that
// two steps lose.
std::optional<ValueId> ImportContext::Folded(Op op, const std::vector<ValueId>& inputs, const Attrs& attrs) {
  constexpr int64_t kFew = 1024;
  if (op == Op::kErf || op == Op::kTanh) return std::nullopt;
  std::vector<TensorValue> operands;
  std::vector<TensorSpec> specs;
  int64_t elements = 0;
  for (ValueId v : inputs) {
    const graph::Constant* constant = builder.graph().FindConstant(v);
    if (!constant || (elements += builder.Spec(v).NumElements()) > kFew) return std::nullopt;
    operands.push_back(builder.graph().ConstantValue(*constant));
    specs.push_back(builder.Spec(v));
  }
  Result<TensorSpec> spec = InferType(op, attrs, specs);
  if (!spec.ok() || spec->NumElements() > kFew) return std::nullopt;
  std::optional<TensorValue> value = values_.Evaluate(op, attrs, operands);
  if (!value) return std::nullopt;
  return builder.AddConstant("", std::move(*value));
}

Result<ValueId> ImportContext::Emit(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  if (std::optional<ValueId> folded = Folded(op, inputs, attrs)) return *folded;
  return EmitUnfolded(op, std::move(inputs), std::move(attrs));
}

Result<ValueId> ImportContext::EmitUnfolded(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  std::string name = node().name.empty() && !node().outputs.empty() ? node().outputs[0] : node().name;
  return builder.Add(op, std::move(inputs), std::move(attrs), std::move(name));
}

Result<ValueId> ImportContext::Reshape(ValueId v, Shape shape) {
  TRY(InferType(Op::kReshape, ReshapeAttrs{shape}, {builder.Spec(v)}));
  return builder.Reshape(v, std::move(shape), node().name);
}

Result<ValueId> ImportContext::Transpose(ValueId v, std::vector<int64_t> perm) {
  TRY(InferType(Op::kTranspose, TransposeAttrs{perm}, {builder.Spec(v)}));
  if (std::optional<ValueId> folded = Folded(Op::kTranspose, {v}, TransposeAttrs{perm})) return *folded;
  return builder.Transpose(v, std::move(perm), node().name);
}

// Concatenates in several steps of at most kMostOperands parts, since each part is an operand of the kernel. Steps of
// equal size share a kernel.
Result<ValueId> ImportContext::Stack(std::vector<ValueId> values, int64_t axis) {
  constexpr int64_t kMostOperands = 16;
  Shape shape = ShapeOfValue(values[0]);
  axis = TRY(NormalizeAxis(axis, static_cast<int>(shape.size()) + 1));
  shape.insert(shape.begin() + axis, 1);
  for (ValueId& v : values) v = TRY(Reshape(v, shape));
  while (values.size() > 1) {
    std::vector<ValueId> joined;
    for (auto begin = values.begin(); begin != values.end();) {
      const auto end = begin + std::min<int64_t>(kMostOperands, values.end() - begin);
      const std::vector<ValueId> piece(begin, end);
      joined.push_back(piece.size() == 1 ? piece[0] : TRY(Emit(Op::kConcat, piece, AxisAttrs{axis})));
      begin = end;
    }
    values = std::move(joined);
  }
  return values[0];
}

void ImportContext::Bind(Operand operand, size_t output) {
  if (output >= node().outputs.size() || node().outputs[output].empty()) return;
  const std::string& name = node().outputs[output];
  const ValueId* v = std::get_if<ValueId>(&operand.tensor);
  if (v && builder.graph().values[*v].name.empty()) builder.SetName(*v, name);
  if (operand.constant && builder.graph().values[*operand.constant].name.empty())
    builder.SetName(*operand.constant, name);
  scope_->tensors.insert_or_assign(name, std::move(operand));
}

Status ImportContext::Bind(ValueId v, size_t output) {
  const std::optional<DType> half = HalfOfResults();
  if (!half || Type(v) != DType::Float(32)) return BindAs(v, output);
  ValueId rounded = TRY(Cast(v, *half));
  singles_.emplace(rounded, v);
  return BindAs(rounded, output);
}

Status ImportContext::BindAs(ValueId v, size_t output) {
  Bind(ToOperand(v), output);
  return {};
}

Status ImportContext::BindConstant(TensorValue value, size_t output) {
  const std::optional<DType> half = HalfOfResults();
  if (half && value.spec.dtype == DType::Float(32)) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < value.spec.NumElements(); ++i) numbers.push_back(value.Number(i));
    value = TensorValue::FromNumbers(*half, value.spec.shape, numbers);
  }
  Bind(Operand{std::move(value)}, output);
  return {};
}

bool ImportContext::IsUsed(size_t output) const {
  if (output >= node().outputs.size()) return false;
  const std::string& name = node().outputs[output];
  return !name.empty() && scope_->IsUsed(name);  // "" means an omitted output
}

Status ImportContext::RefuseExtraOutputs(const char* why) const {
  for (size_t i = 1; i < node().outputs.size(); ++i) {
    if (IsUsed(i)) return Err("output '", node().outputs[i], "' is used, but ", why);
  }
  return {};
}

}  // namespace autotune::onnx_import
