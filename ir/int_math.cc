#include "ir/int_math.h"

namespace autotune {

std::optional<int64_t> FoldInt(BinaryOp op, int64_t a, int64_t b, DType dtype) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool is_unsigned = dtype.code == TypeCode::kUInt;
  bool less = is_unsigned ? x < y : a < b;
  switch (op) {
    case BinaryOp::kAdd:
      return WrapTo(x + y, dtype);
    case BinaryOp::kSub:
      return WrapTo(x - y, dtype);
    case BinaryOp::kMul:
      return WrapTo(x * y, dtype);
    case BinaryOp::kDiv:
      return std::nullopt;
    case BinaryOp::kFloorDiv:
      if (b == 0) return std::nullopt;
      return is_unsigned ? static_cast<int64_t>(x / y) : WrapTo(static_cast<uint64_t>(FloorDivide(a, b)), dtype);
    case BinaryOp::kFloorMod:
      if (b == 0) return std::nullopt;
      return is_unsigned ? static_cast<int64_t>(x % y) : FloorModulo(a, b);
    case BinaryOp::kMin:
      return less ? a : b;
    case BinaryOp::kMax:
      return less ? b : a;
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return less;
    case BinaryOp::kLe:
      return less || a == b;
    case BinaryOp::kGt:
      return !less && a != b;
    case BinaryOp::kGe:
      return !less;
    case BinaryOp::kAnd:
      return a && b;
    case BinaryOp::kOr:
      return a || b;
    case BinaryOp::kShl:
      if (y >= dtype.bits) return std::nullopt;
      return WrapTo(x << y, dtype);
    case BinaryOp::kShr:
      if (y >= dtype.bits) return std::nullopt;
      return is_unsigned ? static_cast<int64_t>(x >> y) : a >> y;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
  }
  return std::nullopt;
}

}  // namespace autotune
