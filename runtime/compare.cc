#include "runtime/compare.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <vector>

#include "support/half.h"

namespace autotune {
namespace {

constexpr uint8_t kBandByte = 0xa5;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class A, class B>
void CompareFloats(const A* actual, const B* reference, int64_t count, const Tolerance& tolerance, Comparison& out) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double b = std::fabs(static_cast<double>(reference[i]));
    if (b > largest && b < kInfinity) largest = b;
  }
  out.max_reference = largest;
  double base = tolerance.atol * largest, worst = -kInfinity;
  for (int64_t i = 0; i < count; ++i) {
    double a = actual[i], b = reference[i];
    double difference = std::fabs(a - b), allowed = base + tolerance.rtol * std::fabs(b);
    double excess = difference - allowed;
    if (excess <= worst) continue;  // the common case; false if `excess` is NaN, because a or b is NaN or infinite
    if (std::isnan(excess)) {
      if (Same(a, b)) continue;
      excess = kInfinity;
    }
    if (excess <= worst) continue;
    worst = excess;
    out.worst_index = i;
    out.worst_actual = a;
    out.worst_reference = b;
    out.worst_ratio = difference == 0 ? 0 : excess < kInfinity && allowed > 0 ? difference / allowed : kInfinity;
  }
  if (worst <= 0) return;
  for (int64_t i = 0; i < count; ++i) {
    double a = actual[i], b = reference[i];
    double difference = std::fabs(a - b);
    bool close = difference < kInfinity && difference <= base + tolerance.rtol * std::fabs(b);
    if (!close && !Same(a, b)) ++out.mismatches;
  }
}

template <class T>
void CompareIntegers(const T* actual, const T* reference, int64_t count, Comparison& out) {
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    double b = static_cast<double>(reference[i]);
    out.max_reference = std::max(out.max_reference, std::fabs(b));
    if (actual[i] == reference[i]) continue;
    ++out.mismatches;
    double difference = std::max(std::fabs(static_cast<double>(actual[i]) - b), 0.5);
    if (difference > worst) {
      worst = difference;
      out.worst_index = i;
      out.worst_actual = static_cast<double>(actual[i]);
      out.worst_reference = b;
      out.worst_ratio = kInfinity;
    }
  }
}

bool IsHalf(DLDataType t) { return t.bits == 16 && (t.code == kDLFloat || t.code == kDLBfloat); }

std::vector<float> FromHalves(const Tensor& tensor) {
  const bool bfloat = tensor.dtype().code == kDLBfloat;
  std::vector<float> numbers(tensor.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t bits = tensor.Data<uint16_t>()[i];
    numbers[i] = bfloat ? BFloatFromBits(bits) : HalfFromBits(bits);
  }
  return numbers;
}

template <class A>
void CompareFloatsWith(const A* actual, const Tensor& reference, const Tolerance& tolerance, Comparison& out) {
  if (IsHalf(reference.dtype())) {
    CompareFloats(actual, FromHalves(reference).data(), reference.num_elements(), tolerance, out);
  } else if (reference.dtype().bits == 32) {
    CompareFloats(actual, reference.Data<float>(), reference.num_elements(), tolerance, out);
  } else {
    CompareFloats(actual, reference.Data<double>(), reference.num_elements(), tolerance, out);
  }
}

}  // namespace

std::string Comparison::Text() const {
  std::ostringstream out;
  out.precision(9);
  if (ok) {
    out << "all " << elements << " elements match";
  } else {
    out << mismatches << " of " << elements << " elements differ; worst at " << worst_index << ": " << worst_actual
        << ", expected " << worst_reference;
    out.precision(3);
    if (std::isfinite(worst_ratio)) out << " (" << worst_ratio << " times the tolerance)";
  }
  return out.str();
}

Result<Comparison> CompareTensors(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance) {
  auto is_float = [](DLDataType t) { return IsHalf(t) || (t.code == kDLFloat && (t.bits == 32 || t.bits == 64)); };
  DLDataType type = actual.dtype();
  bool floats = is_float(type) && is_float(reference.dtype());
  bool integers = type.code <= kDLUInt && type == reference.dtype();
  if (actual.shape() != reference.shape() || !(floats || integers)) {
    return Err("cannot compare ", actual.TypeText(), " with a reference of ", reference.TypeText());
  }
  Comparison out;
  out.elements = actual.num_elements();
  auto compare_integers = [&]<class T>(T) {
    CompareIntegers(actual.Data<T>(), reference.Data<T>(), out.elements, out);
  };
  if (floats && type.bits == 16) {
    Tolerance wider = tolerance;
    wider.rtol += type.code == kDLBfloat ? 0x1p-7 : 0x1p-10;
    CompareFloatsWith(FromHalves(actual).data(), reference, wider, out);
  } else if (floats && type.bits == 32) {
    CompareFloatsWith(actual.Data<float>(), reference, tolerance, out);
  } else if (floats) {
    CompareFloatsWith(actual.Data<double>(), reference, tolerance, out);
  } else {
    bool is_signed = type.code == kDLInt;
    switch (DataTypeBytes(type)) {
      case 1:
        is_signed ? compare_integers(int8_t{}) : compare_integers(uint8_t{});
        break;
      case 2:
        is_signed ? compare_integers(int16_t{}) : compare_integers(uint16_t{});
        break;
      case 4:
        is_signed ? compare_integers(int32_t{}) : compare_integers(uint32_t{});
        break;
      default:
        is_signed ? compare_integers(int64_t{}) : compare_integers(uint64_t{});
        break;
    }
  }
  out.ok = out.mismatches == 0;
  return out;
}

Result<GuardedTensor> GuardedTensor::Empty(std::vector<int64_t> shape, std::string_view type) {
  DLDataType parsed = TRY(DataTypeFromText(type));
  int64_t bytes = TRY(ShapeBytes(shape, parsed));
  GuardedTensor guarded;
  guarded.total_bytes_ = bytes + 2 * kBandBytes;
  guarded.memory_ = AllocateAligned(guarded.total_bytes_);
  if (!guarded.memory_) return OutOfMemory("cannot allocate ", guarded.total_bytes_, " bytes");
  char* memory = static_cast<char*>(guarded.memory_.get());
  std::memset(memory, kBandByte, kBandBytes);
  std::memset(memory + kBandBytes + bytes, kBandByte, kBandBytes);
  guarded.tensor_ = TRY(Tensor::View(memory + kBandBytes, std::move(shape), parsed, guarded.memory_));
  guarded.Refill();
  return guarded;
}

void GuardedTensor::Refill() const { std::memset(tensor_.data(), 0xff, static_cast<size_t>(tensor_.num_bytes())); }

Status GuardedTensor::Check() const {
  auto* bytes = static_cast<const uint8_t*>(memory_.get());
  for (int64_t i = kBandBytes - 1; i >= 0; --i) {
    if (bytes[i] != kBandByte) return Err("byte ", kBandBytes - i, " before the buffer was overwritten");
  }
  for (int64_t i = total_bytes_ - kBandBytes; i < total_bytes_; ++i) {
    if (bytes[i] != kBandByte) {
      return Err("byte ", i - (total_bytes_ - kBandBytes) + 1, " after the buffer was overwritten");
    }
  }
  return {};
}

}  // namespace autotune
