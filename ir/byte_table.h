// Tables with a value for each number of 8 bits. Some processors look numbers up in tables that their registers hold.
//
// There is no node for a look-up: it is a load whose subscript is a byte, table[index(u8(x))]. Entry i of a table is
// the value for the number whose bits are those of the u8 i. So the subscript is within the table, whatever x is.
// Pure functions; thread-safe.
#pragma once
#include <optional>

#include "ir/dot.h"
#include "ir/stmt.h"

namespace autotune {

inline constexpr int64_t kByteValues = 256;  // entries of a table

// Returns the subscript of the entry for `byte`, an i8 or u8.
inline Expr ByteIndex(const Expr& byte) {
  const DType bits = DType::UInt(8).WithLanes(byte.dtype().lanes);
  return MakeCast(DType::Index().WithLanes(bits.lanes), MakeCast(bits, byte));
}

// Returns the u8, or the vector of them, that a load of these indices looks up in a table of bytes, before and after
// lowering; nothing if the access is something else.
inline std::optional<Expr> LookedUpByte(const Buffer& buffer, const std::vector<Expr>& indices) {
  if (!IsByte(buffer->dtype) || indices.size() != 1 || buffer->shape.size() != 1) return std::nullopt;
  const int64_t* extent = AsInt(buffer->shape[0]);
  const Cast* index = indices[0].As<Cast>();
  if (!extent || *extent != kByteValues || !index || index->a.dtype().Element() != DType::UInt(8)) return std::nullopt;
  return index->a;
}
inline std::optional<Expr> LookedUpByte(const Load& load) { return LookedUpByte(load.buffer, load.indices); }

}  // namespace autotune
