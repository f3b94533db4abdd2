// Code: the text of one expression in a language of the C family, with the precedence of its outermost operator. The
// precedence decides whether the text needs parentheses as an operand. A value; thread-safe. Internal to codegen/c.
#pragma once
#include <string>
#include <string_view>

namespace autotune::c {

enum class Level {
  kTernary,
  kOr,
  kAnd,
  kBitOr,
  kBitXor,
  kBitAnd,
  kEquality,
  kRelation,
  kShift,
  kAdd,
  kMul,
  kUnary,
  kPrimary
};

struct Code {
  std::string text;
  Level level = Level::kPrimary;

  // Returns true if the text is a name or a number, which is short and costs nothing to compute again.
  bool IsAtom() const { return level == Level::kPrimary && text.find_first_of("([{") == std::string::npos; }
  // Returns the text as an operand, in parentheses if its precedence is below `least`.
  std::string Under(Level least) const { return level >= least ? text : "(" + text + ")"; }
};

// Returns the code `a OP b`. Operators of one level are left-associative, as in C.
inline Code Infix(const Code& a, std::string_view op, const Code& b, Level level) {
  const Level tighter = static_cast<Level>(static_cast<int>(level) + 1);
  // Compilers warn about mixed operators such as in `a & b == c`, and people misread them. So operands get parentheses.
  const bool mixed = level != Level::kAdd && level != Level::kMul;
  return {a.Under(mixed ? Level::kAdd : level) + " " + std::string(op) + " " + b.Under(mixed ? Level::kAdd : tighter),
          level};
}
inline Code CallOf(std::string_view function, std::string_view arguments) {
  return {std::string(function) + "(" + std::string(arguments) + ")"};
}

}  // namespace autotune::c
