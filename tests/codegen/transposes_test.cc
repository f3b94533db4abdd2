// Transposes in registers (codegen/llvm/cpu/transposes.h) agree with the interpreter, for all element types, lane
// counts and square sizes.
#include "tests/codegen/kernel.h"
#include "tests/draws.h"

namespace autotune {
namespace {

TEST(Tiles, SquaresOfAnyElements) {
  size_t number = 0;
  for (const Target& target : AllGenerators()) {
    for (const char* type : {"f32", "f64", "i8", "i16", "i32", "i64"}) {
      for (int lanes : {4, 8, 16}) {
        // Generated C has no transposes in registers, and C compilers take most of the time, so one lane count
        // and one in five cases suffice.
        if (target.kind == TargetKind::kC && lanes != 8) continue;
        for (int columns : {lanes, 2 * lanes, lanes + 3, lanes - 1}) {
          if (target.kind == TargetKind::kC && !test::IsDrawn(number++, 5)) continue;
          SCOPED_TRACE(target.cpu + " " + type + ", " + std::to_string(lanes) + " lanes, " + std::to_string(columns));
          const std::string l = std::to_string(lanes), c = std::to_string(columns), rows = std::to_string(2 * lanes),
                            all = std::to_string(3 * columns);
          AgreesWithInterpreter(
              Parse("func f(x: " + std::string(type) + "[" + rows + ", " + all + "] input, y: " + type + "[" + all +
                    ", " + rows + "] output) { for i in 3 { for j in 2 { for u in " + c + " unrolled { for l in " + l +
                    " vectorized { block t(c: S " + all + " = i * " + c + " + u, r: S " + rows + " = j * " + l +
                    " + l) { y[c, r] = x[r, c] } } } } } }"),
              3, target);
        }
      }
    }
  }
}

// One sequence of statements reads several squares, in expressions, in any order.
TEST(Tiles, SeveralSquares) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(a: f32[16, 40] input, b: f32[16, 40] input, y: f32[32, 16] output) {
      for u in 32 unrolled { for l in 16 vectorized {
        block t(c: S 32 = 31 - u, r: S 16 = l) { y[c, r] = a[r, c + 8] * 2.0 + b[r, c] - a[r, c] }
      } }
    })"),
                          5, target);
  }
}

// A sequence that writes a buffer and reads it again must read the new values.
TEST(Tiles, WhatIsWrittenInBetweenIsSeen) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[16, 16] input, z: f32[16, 16] output) {
      alloc t: f32[16, 16]
      for i in 16 { for j in 16 vectorized { block zero(a: S 16 = i, b: S 16 = j) { t[a, b] = 0.0 } } }
      for u in 16 unrolled {
        for l in 16 vectorized { block w(c: S 16 = u, d: S 16 = l) { t[c, d] = x[c, d] } }
        for m in 16 vectorized { block r(e: S 16 = u, g: S 16 = m) { z[e, g] = t[g, e] } }
      }
    })"),
                          7, target);
  }
}

// A lane whose condition is false is not read, so such lanes form no square. Columns without a condition still form
// one.
TEST(Tiles, ConditionsKeepTheirLanes) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[20, 16] input, w: f32[32, 16] input, y: f32[16, 32] output) {
      for j in 2 { for u in 16 unrolled { for l in 16 vectorized {
        block t(c: S 16 = u, r: S 32 = j * 16 + l) { y[c, r] = w[r, c] + select(r < 20, x[r, c], -1.0) }
      } } }
    })"),
                          9, target);
  }
}

// Two blocks read each column.
TEST(Tiles, TheSameColumnTwice) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[16, 16] input, y: f32[16, 16] output, z: f32[16, 16] output) {
      for u in 16 unrolled {
        for l in 16 vectorized { block a(c: S 16 = u, r: S 16 = l) { y[c, r] = x[r, c] * 2.0 } }
        for m in 16 vectorized { block b(d: S 16 = u, s: S 16 = m) { z[d, s] = x[s, d] + 1.0 } }
      }
    })"),
                          11, target);
  }
}

// Unrolled copies of a sequence must not share loads, since the buffer changes between them.
TEST(Tiles, EachSequenceReadsForItself) {
  for (const Target& target : AllGenerators()) {
    AgreesWithInterpreter(Parse(R"(func f(x: f32[16, 16] input, y: f32[2, 2, 16, 16] output) {
      alloc z: f32[2, 4] alloc t: f32[16, 16]
      for v in 2 unrolled {
        for a in 16 { for b in 16 vectorized {
          block w(vv: S 2 = v, va: S 16 = a, vb: S 16 = b) { t[va, vb] = x[va, vb] + f32(vv) }
        } }
        for i in 2 {
          for u in 16 unrolled { for l in 16 vectorized {
            block r(rv: S 2 = v, ri: S 2 = i, ru: S 16 = u, rl: S 16 = l) { y[rv, ri, ru, rl] = t[rl, ru] }
          } }
          for k in 2 { block e(ev: S 2 = v, ei: S 2 = i, ek: S 2 = k) where v >= 1 { z[ev, ei * 2 + ek] = 1.0 } }
        }
      }
    })"),
                          13, target);
  }
}

}  // namespace
}  // namespace autotune
