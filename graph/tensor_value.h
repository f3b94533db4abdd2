// TensorSpec and TensorValue: the type and static shape of a tensor; a TensorValue also holds its bytes, on the host.
// Values; copies share the bytes, which are immutable once shared, so copies may be used from several threads. Unlike
// the runtime's tensors, these know nothing of devices.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "support/check.h"

namespace autotune::graph {

using Shape = std::vector<int64_t>;

struct TensorSpec {
  DType dtype = DType::Float(32);
  Shape shape;  // empty: a scalar

  int64_t NumElements() const;
  int64_t Bytes() const { return NumElements() * dtype.Bytes(); }
  int rank() const { return static_cast<int>(shape.size()); }
  std::string Text() const;  // f32[1,3,224,224]
  bool operator==(const TensorSpec&) const = default;
};

std::string ShapeText(const Shape& shape);  // [1,3,224,224]

struct ScaledIntegers;

// Reference-counted bytes, aligned to 64.
class SharedBytes {
 public:
  SharedBytes() = default;
  static SharedBytes Copy(std::string_view bytes);
  // `*writable` may be written until the value is copied.
  static SharedBytes Allocate(size_t size, char** writable);
  std::string_view view() const { return {data_.get(), size_}; }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }
  explicit operator bool() const { return data_ != nullptr; }
  // What the numbers were made of, in another shape; null: not known. Other bytes of the same numbers need not have it.
  const ScaledIntegers* origin() const { return origin_.get(); }
  void set_origin(std::shared_ptr<const ScaledIntegers> origin) { origin_ = std::move(origin); }

 private:
  std::shared_ptr<const ScaledIntegers> origin_;
  std::shared_ptr<const char> data_;
  size_t size_ = 0;
};

// Elements in C order, native (little-endian) byte order.
struct TensorValue {
  TensorSpec spec;
  SharedBytes bytes;

  template <class T>
  const T* As() const {
    CHECK(sizeof(T) == static_cast<size_t>(spec.dtype.Bytes())) << spec.Text();
    return reinterpret_cast<const T*>(bytes.data());
  }
  template <class T>
  static TensorValue Of(Shape shape, const std::vector<T>& elements);  // float, double, int64_t, int32_t
  static TensorValue Scalar(float value) { return Of<float>({}, {value}); }
  // Converts the numbers to the type. Integers truncate; numbers beyond the range become its nearest end, NaN becomes
  // 0.
  static TensorValue FromNumbers(DType dtype, Shape shape, const std::vector<double>& numbers);
  // Element i as a number; exact for all types but integers beyond 2^53.
  double Number(int64_t i) const;
  // The same elements under another shape of the same size.
  TensorValue Reshaped(Shape shape) const;
};

// Numbers of f32 that are f32(integer) * scale, rounded once, as weights of few bits are.
struct ScaledIntegers {
  TensorValue numbers;  // i8
  TensorValue scales;   // f32, of the same rank, with extents of 1 where they repeat
};

}  // namespace autotune::graph
