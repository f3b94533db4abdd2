#include "graph/tensor_value.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "ir/float_math.h"
#include "support/half.h"
#include "support/join.h"

namespace autotune::graph {

int64_t TensorSpec::NumElements() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string ShapeText(const Shape& shape) { return "[" + Joined(shape, ",") + "]"; }

std::string TensorSpec::Text() const { return dtype.Text() + ShapeText(shape); }

SharedBytes SharedBytes::Allocate(size_t size, char** writable) {
  constexpr std::align_val_t kAlignment{64};
  char* data = static_cast<char*>(::operator new(size ? size : 1, kAlignment));
  SharedBytes bytes;
  bytes.data_ =
      std::shared_ptr<const char>(data, [](const char* p) { ::operator delete(const_cast<char*>(p), kAlignment); });
  bytes.size_ = size;
  *writable = data;
  return bytes;
}

SharedBytes SharedBytes::Copy(std::string_view bytes) {
  char* data = nullptr;
  SharedBytes copy = Allocate(bytes.size(), &data);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return copy;
}

template <class T>
TensorValue TensorValue::Of(Shape shape, const std::vector<T>& elements) {
  DType dtype = std::is_floating_point_v<T> ? DType::Float(sizeof(T) * 8) : DType::Int(sizeof(T) * 8);
  TensorValue value{{dtype, std::move(shape)},
                    SharedBytes::Copy({reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)})};
  CHECK(value.spec.Bytes() == static_cast<int64_t>(value.bytes.size()))
      << value.spec.Text() << " of " << elements.size();
  return value;
}
template TensorValue TensorValue::Of<float>(Shape, const std::vector<float>&);
template TensorValue TensorValue::Of<double>(Shape, const std::vector<double>&);
template TensorValue TensorValue::Of<int64_t>(Shape, const std::vector<int64_t>&);
template TensorValue TensorValue::Of<int32_t>(Shape, const std::vector<int32_t>&);

namespace {

template <class T>
T Converted(double x) {
  if constexpr (std::is_integral_v<T>) {
    // The least number, and the first number beyond the largest. Both are powers of two or 0, so they are exact.
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (std::isnan(x)) return 0;
    if (x <= least) return std::numeric_limits<T>::min();
    if (x >= beyond) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(x);
}

}  // namespace

TensorValue TensorValue::FromNumbers(DType dtype, Shape shape, const std::vector<double>& numbers) {
  char* out = nullptr;
  TensorValue value{{dtype, std::move(shape)}, SharedBytes::Allocate(numbers.size() * dtype.Bytes(), &out)};
  CHECK(value.spec.NumElements() == static_cast<int64_t>(numbers.size())) << value.spec.Text();
  auto store = [&](auto zero) {
    auto* elements = reinterpret_cast<decltype(zero)*>(out);
    for (size_t i = 0; i < numbers.size(); ++i) elements[i] = Converted<decltype(zero)>(numbers[i]);
  };
  bool is_unsigned = dtype.code == TypeCode::kUInt;
  switch (dtype.IsFloat() ? 0 : dtype.IsBool() ? 1 : dtype.bits) {
    case 0:
      if (dtype.IsHalf()) {
        auto* elements = reinterpret_cast<uint16_t*>(out);
        for (size_t i = 0; i < numbers.size(); ++i)
          elements[i] = static_cast<uint16_t>(FloatToBits(RoundFloat(numbers[i], dtype), dtype));
        break;
      }
      dtype.bits == 32 ? store(float{}) : store(double{});
      break;
    case 1:
      for (size_t i = 0; i < numbers.size(); ++i) out[i] = numbers[i] != 0;
      break;
    case 8:
      is_unsigned ? store(uint8_t{}) : store(int8_t{});
      break;
    case 16:
      is_unsigned ? store(uint16_t{}) : store(int16_t{});
      break;
    case 32:
      is_unsigned ? store(uint32_t{}) : store(int32_t{});
      break;
    default:
      is_unsigned ? store(uint64_t{}) : store(int64_t{});
      break;
  }
  return value;
}

double TensorValue::Number(int64_t i) const {
  const DType t = spec.dtype;
  switch (t.code) {
    case TypeCode::kBFloat:
      return BFloatFromBits(As<uint16_t>()[i]);
    case TypeCode::kFloat:
      if (t.bits == 16) return HalfFromBits(As<uint16_t>()[i]);
      return t.bits == 32 ? As<float>()[i] : As<double>()[i];
    case TypeCode::kInt:
      if (t.bits == 64) return static_cast<double>(As<int64_t>()[i]);
      return t.bits == 32 ? As<int32_t>()[i] : t.bits == 16 ? As<int16_t>()[i] : As<int8_t>()[i];
    case TypeCode::kUInt:
      if (t.bits == 64) return static_cast<double>(As<uint64_t>()[i]);
      return t.bits == 32 ? As<uint32_t>()[i] : t.bits == 16 ? As<uint16_t>()[i] : As<uint8_t>()[i];
    case TypeCode::kBool:
      return *(bytes.data() + i) != 0;
    default:
      break;
  }
  UNREACHABLE();
  return 0;
}

TensorValue TensorValue::Reshaped(Shape shape) const {
  TensorValue value{{spec.dtype, std::move(shape)}, bytes};
  CHECK(value.spec.NumElements() == spec.NumElements()) << spec.Text() << " as " << value.spec.Text();
  return value;
}

}  // namespace autotune::graph
