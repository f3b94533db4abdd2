// Computes element-wise arithmetic of short integer and bool constants at import. Exported models compute shapes with
// such arithmetic.
#include <limits>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

constexpr int64_t kMostElements = 1024;  // limit of a constant's elements; shapes have fewer

bool IsFoldable(const TensorValue* value) {
  if (!value || value->spec.rank() > 1 || value->spec.NumElements() > kMostElements) return false;
  DType t = value->spec.dtype;
  return t == DType::Int(64) || t == DType::Int(32) || t.IsBool();
}

int64_t Element(const TensorValue& value, int64_t i) {
  if (value.spec.NumElements() == 1) i = 0;
  if (value.spec.dtype == DType::Int(64)) return value.As<int64_t>()[i];
  return static_cast<int64_t>(value.Number(i));
}

struct Folded {
  bool known = true;
  bool comparison = false;  // the result is a bool
  bool overflow = false, zero_division = false;
  int64_t value = 0;
};

Folded Fold(const std::string& op, const std::vector<int64_t>& in) {
  Folded out;
  int64_t a = in[0], b = in.size() > 1 ? in[1] : 0;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  if (in.size() == 1) {
    if (op == "Neg") return {.overflow = a == kLeast, .value = a == kLeast ? 0 : -a};
    if (op == "Abs") return {.overflow = a == kLeast, .value = a == kLeast ? 0 : a < 0 ? -a : a};
    if (op == "Not") return {.comparison = true, .value = !a};
    return {.known = op == "Max" || op == "Min" || op == "Sum", .value = a};
  }
  if (op == "Where" && in.size() == 3) return {.value = a ? in[1] : in[2]};
  if (in.size() != 2) return {.known = false};
  if (op == "Add" || op == "Sum") {
    out.overflow = __builtin_add_overflow(a, b, &out.value);
  } else if (op == "Sub") {
    out.overflow = __builtin_sub_overflow(a, b, &out.value);
  } else if (op == "Mul") {
    out.overflow = __builtin_mul_overflow(a, b, &out.value);
  } else if (op == "Div" || op == "Mod") {
    out.zero_division = b == 0;
    out.overflow = b == -1 && a == kLeast;
    if (out.zero_division || out.overflow) return out;
    int64_t rest = a % b;
    out.value = op == "Div" ? a / b : rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else if (op == "Max") {
    out.value = std::max(a, b);
  } else if (op == "Min") {
    out.value = std::min(a, b);
  } else {
    out.comparison = true;
    if (op == "Equal") return out.value = a == b, out;
    if (op == "Less") return out.value = a < b, out;
    if (op == "LessOrEqual") return out.value = a <= b, out;
    if (op == "Greater") return out.value = a > b, out;
    if (op == "GreaterOrEqual") return out.value = a >= b, out;
    if (op == "And") return out.value = a && b, out;
    if (op == "Or") return out.value = a || b, out;
    if (op == "Xor") return out.value = !a != !b, out;
    out.known = false;
  }
  return out;
}

// Returns whether ONNX defines the operator on this type. Type inference refuses the other types.
bool TakesType(const std::string& op, DType type) {
  if (op == "Equal" || op == "Where") return true;
  bool logical = op == "And" || op == "Or" || op == "Xor" || op == "Not";
  return logical == type.IsBool();
}

}  // namespace

std::optional<Result<TensorValue>> FoldIntegers(const ImportContext& c) {
  std::vector<const TensorValue*> in;
  Shape shape;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    in.push_back(c.Constant(i));
    if (!IsFoldable(in.back())) return std::nullopt;
    Result<Shape> wider = BroadcastShapes(shape, in.back()->spec.shape);
    if (!wider.ok()) return Result<TensorValue>(wider.error());
    shape = *wider;
  }
  if (in.empty()) return std::nullopt;
  const DType type = in.back()->spec.dtype;
  // All operands must have one type, except the first operand of Where, the condition.
  for (size_t i = c.node().op_type == "Where" ? 1 : 0; i < in.size(); ++i) {
    if (in[i]->spec.dtype != type) return std::nullopt;
  }
  if (c.HasAttr("fmod") || !TakesType(c.node().op_type, type)) return std::nullopt;
  std::vector<int64_t> out;
  bool comparison = false;
  int64_t n = shape.empty() ? 1 : shape.front();
  for (int64_t i = 0; i < n; ++i) {
    std::vector<int64_t> elements;
    for (const TensorValue* value : in) elements.push_back(Element(*value, i));
    Folded folded = Fold(c.node().op_type, elements);
    if (!folded.known) return std::nullopt;
    if (folded.overflow) return Result<TensorValue>(Err("integer constants overflow"));
    if (folded.zero_division) return Result<TensorValue>(Err("integer division by 0"));
    comparison = folded.comparison;
    out.push_back(folded.value);
  }
  if (comparison || type.IsBool())
    return Result<TensorValue>(TensorValue::FromNumbers(DType::Bool(), shape, {out.begin(), out.end()}));
  if (type == DType::Int(32)) return Result<TensorValue>(TensorValue::Of<int32_t>(shape, {out.begin(), out.end()}));
  return Result<TensorValue>(TensorValue::Of<int64_t>(shape, out));
}

}  // namespace autotune::onnx_import
