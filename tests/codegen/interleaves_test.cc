// Stores of vectors whose lanes take turns (codegen/llvm/cpu/interleaves.h) agree with the interpreter.
#include "tests/codegen/kernel.h"
#include "tests/draws.h"

namespace autotune {
namespace {

TEST(Interleaves, VectorsOfAnyElementsAndCounts) {
  size_t number = 0;
  for (const Target& target : AllGenerators()) {
    for (const char* type : {"f32", "f64", "i8", "i16", "i64"}) {
      for (int lanes : {4, 8, 16}) {
        for (int columns = 2; columns <= 9; ++columns) {
          // C compilers take most of the time, so one case in ten suffices.
          if (target.kind == TargetKind::kC && !test::IsDrawn(number++, 10)) continue;
          SCOPED_TRACE(target.cpu + " " + type + ", " + std::to_string(lanes) + " lanes, " + std::to_string(columns));
          const std::string c = std::to_string(columns), l = std::to_string(lanes), rows = std::to_string(3 * lanes);
          AgreesWithInterpreter(
              Parse("func f(x: " + std::string(type) + "[" + c + ", " + rows + "] input, y: " + type + "[" + rows +
                    ", " + c + "] output) { for j in 3 { for u in " + c + " unrolled { for l in " + l +
                    " vectorized { block t(r: S " + rows + " = j * " + l + " + l, c: S " + c + " = " + c +
                    " - 1 - u) { y[r, c] = x[c, r] + x[c, r] } } } } }"),
              3, target);
        }
      }
    }
  }
}

// The last column holds a number, not a value of the operand.
TEST(Interleaves, PaddedColumns) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[3, 32] input, y: f32[32, 4] output) {
      for j in 2 { for u in 4 unrolled { for l in 16 vectorized {
        block t(r: S 32 = j * 16 + l, c: S 4 = u) { y[r, c] = select(c < 3, x[c, r], -1.0) }
      } } }
    })"),
                          5, target);
  }
}

// Lanes of a part of the columns, and sequences that read what they write, take no turns.
TEST(Interleaves, WhatIsMissingOrReadInBetweenStays) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[16, 4] input, y: f32[16, 4] output) {
      for i in 16 { for j in 4 vectorized { block zero(a: S 16 = i, b: S 4 = j) { y[a, b] = x[a, b] } } }
      for u in 3 unrolled { for l in 16 vectorized {
        block t(r: S 16 = l, c: S 3 = u) { y[r, c] = x[r, c] * 2.0 }
      } }
    })"),
                          7, target);
    AgreesWithInterpreter(Parse(R"(func f(x: f32[4, 16] input, y: f32[16, 4] output) {
      for i in 16 { for j in 4 vectorized { block zero(a: S 16 = i, b: S 4 = j) { y[a, b] = 1.0 } } }
      for u in 4 unrolled { for l in 16 vectorized {
        block t(r: S 16 = l, c: S 4 = u) { y[r, c] = x[c, r] + y[r, 0] }
      } }
    })"),
                          7, target);
  }
}

}  // namespace
}  // namespace autotune
