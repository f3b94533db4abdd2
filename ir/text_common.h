// Reserved words and operator precedence, shared by the printer and the parser of ir/text.h. Internal to ir/.
#pragma once
#include <string_view>

#include "ir/expr.h"

namespace autotune::text {

inline constexpr std::string_view kReserved[] = {"alloc", "local",    "for",   "block",    "if",     "else",
                                                 "let",   "evaluate", "init",  "true",     "false",  "inf",
                                                 "nan",   "strides",  "align", "register", "global", "reinterpret"};

inline bool IsReserved(std::string_view word) {
  for (std::string_view reserved : kReserved) {
    if (word == reserved) return true;
  }
  return word.starts_with("inf_") || word.starts_with("nan_");
}

inline bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c); }

// A greater precedence binds tighter; 0: written as a call. All operators are left-associative, comparisons included.
constexpr int Precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr:
      return 1;
    case BinaryOp::kAnd:
      return 2;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
      return 3;
    case BinaryOp::kBitOr:
      return 4;
    case BinaryOp::kBitXor:
      return 5;
    case BinaryOp::kBitAnd:
      return 6;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return 7;
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return 8;
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return 9;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return 0;
  }
  return 0;
}
inline constexpr int kUnaryPrecedence = 10;

}  // namespace autotune::text
