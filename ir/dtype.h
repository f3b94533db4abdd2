// DType: element type and lane count of values, buffers and tensors. A plain value; the text ("f32", "i64", "f32x8",
// "index") is stored in records and packages.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotune {

enum class TypeCode : uint8_t { kInt, kUInt, kFloat, kBFloat, kBool, kHandle, kIndex };

struct DType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;  // more than 1 only after the vectorize pass

  static constexpr DType Int(int bits) { return {TypeCode::kInt, static_cast<uint8_t>(bits), 1}; }
  static constexpr DType UInt(int bits) { return {TypeCode::kUInt, static_cast<uint8_t>(bits), 1}; }
  static constexpr DType Float(int bits) { return {TypeCode::kFloat, static_cast<uint8_t>(bits), 1}; }
  static constexpr DType BFloat16() { return {TypeCode::kBFloat, 16, 1}; }
  static constexpr DType Bool() { return {TypeCode::kBool, 8, 1}; }  // one byte in memory
  static constexpr DType Handle() { return {TypeCode::kHandle, 64, 1}; }
  static constexpr DType Index() { return {TypeCode::kIndex, 64, 1}; }  // loop variables, extents, subscripts; signed

  bool IsFloat() const { return code == TypeCode::kFloat || code == TypeCode::kBFloat; }
  bool IsHalf() const { return IsFloat() && bits == 16; }  // a storage type: arithmetic uses wider types
  bool IsInt() const { return code == TypeCode::kInt || code == TypeCode::kUInt || code == TypeCode::kIndex; }
  bool IsSigned() const { return code == TypeCode::kInt || code == TypeCode::kIndex; }  // of integers
  bool IsIndex() const { return code == TypeCode::kIndex; }
  bool IsBool() const { return code == TypeCode::kBool; }
  int64_t Bytes() const { return int64_t{bits} / 8 * lanes; }
  DType WithLanes(int n) const { return {code, bits, static_cast<uint16_t>(n)}; }
  DType Element() const { return WithLanes(1); }
  bool operator==(const DType&) const = default;

  std::string Text() const;
  static std::optional<DType> Parse(std::string_view text);
};

}  // namespace autotune
