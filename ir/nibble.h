// Numbers of 4 bits, from -8 to 7, of which an i32 has eight: number k has the bits from 4 k on, in two's complement.
// There is no type for them: programs shift words. Pure; thread-safe.
#pragma once
#include <optional>

#include "ir/expr.h"

namespace autotune {

inline constexpr int kNibbleBits = 4, kNibblesOfWord = 8;
inline constexpr DType kWordOfNibbles = DType::Int(32);

// Returns number `k`, an index from 0 to 7, of a word: it moves to the upper end, and then back with its sign.
inline Expr NibbleOf(const Expr& word, const Expr& k) {
  constexpr int kTop = (kNibblesOfWord - 1) * kNibbleBits;
  const Expr place = MakeCast(kWordOfNibbles, k * -kNibbleBits + kTop);
  return MakeBinary(BinaryOp::kShr, MakeBinary(BinaryOp::kShl, word, place), ConstOf(kTop, kWordOfNibbles));
}

// The upper 4 bits, with their sign, of a word that has moved by `left` bits.
struct FoundNibble {
  Expr word, left;
};

// Returns the word of which `number`, a word or a vector of words, has 4 bits as NibbleOf computes them; nothing if it
// computes something else.
inline std::optional<FoundNibble> FindNibble(const Expr& number) {
  const auto is_top = [](const Expr& e) {
    const Broadcast* splat = e.As<Broadcast>();
    const int64_t* bits = AsInt(splat ? splat->a : e);
    return bits && *bits == (kNibblesOfWord - 1) * kNibbleBits;
  };
  const Binary* back = number.As<Binary>();
  if (!back || back->op != BinaryOp::kShr || number.dtype().Element() != kWordOfNibbles || !is_top(back->b))
    return std::nullopt;
  const Binary* up = back->a.As<Binary>();
  if (!up || up->op != BinaryOp::kShl) return std::nullopt;
  return FoundNibble{up->a, up->b};
}

}  // namespace autotune
