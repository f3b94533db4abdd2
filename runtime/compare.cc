#include "runtime/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <vector>

#include "support/half.h"

namespace autotune {
namespace {

constexpr uint8_t kBandByte = 0xa5;
// Of sums of products with random signs, the largest of some thousand is about 12 times the lower quartile. Sums of the
// products' magnitudes are larger, but their rounding errors cancel as the products do.
constexpr double kMagnitudesPerQuartile = 16;
constexpr size_t kLeastRank = 4;  // a smaller rank may be an accident: a single number near 0
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class T>
double SmallMagnitudeOf(const T* values, int64_t count) {
  std::vector<T> sizes;
  sizes.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const T size = std::fabs(values[i]);
    if (size > 0 && std::isfinite(size)) sizes.push_back(size);
  }
  if (sizes.empty()) return kMagnitudeOfZeros;
  double small = kInfinity;
  auto end = sizes.end();
  for (const size_t part : {4, 16, 64}) {
    const size_t rank = sizes.size() / part;
    if (part > 4 && rank < kLeastRank) break;
    const auto place = sizes.begin() + static_cast<ptrdiff_t>(rank);
    std::nth_element(sizes.begin(), place, end);
    small = std::min(small, static_cast<double>(*place) * static_cast<double>(part) / 4);
    end = place;
  }
  return small;
}

// `small` is the q of runtime/compare.h, `bounds` null or one number for each element.
template <class A, class B>
void CompareFloats(const A* actual, const B* reference, const B* bounds, int64_t count, const Tolerance& tolerance,
                   double small, Comparison& out) {
  out.floor = tolerance.atol * small;
  double worst = -1;
  for (int64_t i = 0; i < count; ++i) {
    const double a = actual[i], b = reference[i];
    const double difference = std::fabs(a - b);
    double allowed = out.floor + tolerance.rtol * std::fabs(b);
    if (bounds && std::isfinite(bounds[i])) allowed += bounds[i];
    const bool close = difference < kInfinity && difference <= allowed;  // false if a or b is NaN or infinite
    if (close && difference <= worst * allowed) continue;                // the common case
    if (!close && Same(a, b)) continue;
    if (!close) ++out.mismatches;
    const double ratio = difference == 0 ? 0 : difference < kInfinity && allowed > 0 ? difference / allowed : kInfinity;
    if (ratio <= worst) continue;
    worst = out.worst_ratio = ratio;
    out.worst_index = i;
    out.worst_actual = a;
    out.worst_reference = b;
  }
}

template <class T>
void CompareIntegers(const T* actual, const T* reference, int64_t count, Comparison& out) {
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    double b = static_cast<double>(reference[i]);
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

// Calls f(values), where `values` points to the elements of `tensor` as float or double.
template <class F>
auto WithFloats(const Tensor& tensor, const F& f) {
  if (IsHalf(tensor.dtype())) return f(static_cast<const float*>(FromHalves(tensor).data()));
  if (tensor.dtype().bits == 32) return f(static_cast<const float*>(tensor.Data<float>()));
  return f(static_cast<const double*>(tensor.Data<double>()));
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

Tolerance Widened(Tolerance tolerance, double rounding) {
  tolerance.rtol += rounding;
  tolerance.atol += kMagnitudesPerQuartile * rounding;
  return tolerance;
}

double SmallMagnitude(const Tensor& tensor) {
  return WithFloats(tensor, [&](const auto* values) { return SmallMagnitudeOf(values, tensor.num_elements()); });
}

double LeastMagnitude(DLDataType type) { return type.bits == 64 ? 0x1p-1012 : 0x1p-116; }

Result<Comparison> CompareTensors(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance,
                                  const Tensor* bounds) {
  auto is_float = [](DLDataType t) { return IsHalf(t) || (t.code == kDLFloat && (t.bits == 32 || t.bits == 64)); };
  DLDataType type = actual.dtype();
  bool floats = is_float(type) && is_float(reference.dtype());
  bool integers = type.code <= kDLUInt && type == reference.dtype();
  if (actual.shape() != reference.shape() || !(floats || integers)) {
    return Err("cannot compare ", actual.TypeText(), " with a reference of ", reference.TypeText());
  }
  if (bounds && (!floats || bounds->dtype() != reference.dtype() || bounds->shape() != reference.shape())) {
    return Err("bounds of ", bounds->TypeText(), " for a reference of ", reference.TypeText());
  }
  Comparison out;
  out.elements = actual.num_elements();
  auto compare_integers = [&]<class T>(T) {
    CompareIntegers(actual.Data<T>(), reference.Data<T>(), out.elements, out);
  };
  if (floats) {
    Tolerance wider = tolerance;
    if (IsHalf(type)) wider.rtol += type.code == kDLBfloat ? 0x1p-7 : 0x1p-10;
    const double small = std::max(SmallMagnitude(reference), LeastMagnitude(type));
    WithFloats(actual, [&](const auto* values) {
      WithFloats(reference, [&]<class B>(const B* expected) {
        const B* allowed = bounds ? static_cast<const B*>(bounds->data()) : nullptr;
        CompareFloats(values, expected, allowed, out.elements, wider, small, out);
      });
    });
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
