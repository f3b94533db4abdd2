// Look-ups of bytes in tables (ir/byte_table.h) agree with the interpreter, in registers and by loads.
#include "tests/codegen/kernel.h"
#include "tests/draws.h"

namespace autotune {
namespace {

// A vector of look-ups, whose bytes are computed from `of`, and a loop for the rest.
PrimFunc LookUps(const std::string& of, const std::string& of_table, int lanes, const std::string& byte) {
  const std::string l = std::to_string(lanes);
  return Parse("func f(x: " + of + "[3, " + l + "] input, t: " + of_table + "[256] constant, y: " + of_table + "[3, " +
               l + "] output) { for i in 3 { for j in " + l + " vectorized { block look_up(r: S 3 = i, c: S " + l +
               " = j) { y[r, c] = t[index(u8(" + byte + "))] } } } }");
}

// Numbers of all bits, which SmallIntegers does not draw.
std::vector<InterpArray> AllBytes(const PrimFunc& f) {
  std::vector<InterpArray> args = SmallIntegers(f, 1);
  for (size_t a = 0; a < args.size(); ++a)
    for (size_t i = 0; i < args[a].data.size(); ++i) {
      const auto byte = static_cast<double>((i * 37 + a * 11 + 5) % 256);
      args[a].data[i] = args[a].dtype.IsSigned() ? byte - 128 : byte;
    }
  return args;
}

void ExpectRight(const PrimFunc& f, const Target& target) {
  std::vector<InterpArray> want = AllBytes(f), got = want;
  ASSERT_TRUE(Interpret(f, want).ok());
  const Result<Built> built = Build(f, target);
  ASSERT_TRUE(built.ok()) << built.error().Text();
  ASSERT_TRUE(Run(*built, f, got).ok());
  EXPECT_EQ(got.back().data, want.back().data);
}

TEST(ByteTables, AnyLanesAndSigns) {
  size_t number = 0;
  for (const Target& target : AllGenerators()) {
    for (const char* of : {"u8", "i8"}) {
      for (const char* of_table : {"u8", "i8"}) {
        for (const int lanes : {1, 2, 3, 4, 8, 16, 17, 32, 48, 64, 100, 128, 192}) {
          // C compilers take most of the time, so one case in ten suffices.
          if (target.kind == TargetKind::kC && !test::IsDrawn(number++, 10)) continue;
          SCOPED_TRACE(target.Text() + " " + of + " " + of_table + ", " + std::to_string(lanes) + " lanes");
          ExpectRight(LookUps(of, of_table, lanes, "x[r, c]"), target);
        }
      }
    }
  }
}

TEST(ByteTables, OfComputedBytes) {
  for (const Target& target : AllGenerators())
    for (const char* byte : {"i32(x[r, c]) * 3i32 - 7i32", "f32(x[r, c]) * 1.5 + 20.0", "min(x[r, c], 9u8)"})
      ExpectRight(LookUps("u8", "i8", 32, byte), target);
}

// A lane whose condition fails reads an entry of the table, whatever its byte is.
TEST(ByteTables, UnderConditions) {
  for (const Target& target : AllGenerators()) {
    ExpectRight(Parse(R"(func f(x: u8[40] input, t: i8[256] constant, y: i8[64] output) {
      for j in 64 vectorized { block b(c: S 64 = j) { y[c] = select(c < 40, t[index(u8(x[c]))], -1i8) } }
    })"),
                target);
  }
}

// A look-up of what a look-up gives, and one whose bytes lie in columns.
TEST(ByteTables, OfLookUpsAndColumns) {
  for (const Target& target : AllGenerators()) {
    ExpectRight(Parse(R"(func f(x: i8[64] input, t: u8[256] constant, u: i8[256] constant, y: i8[64] output) {
      for j in 64 vectorized { block b(c: S 64 = j) { y[c] = u[index(u8(t[index(u8(x[c]))]))] } }
    })"),
                target);
    ExpectRight(Parse(R"(func f(x: u8[16, 48] input, t: u8[256] constant, y: u8[48, 16] output) {
      for i in 3 { for u in 16 unrolled { for l in 16 vectorized {
        block b(c: S 48 = i * 16 + u, r: S 16 = l) { y[c, r] = t[index(u8(x[r, c]))] }
      } } }
    })"),
                target);
  }
}

// Sequences of look-ups, which registers of 64 bytes take four at a time.
TEST(ByteTables, Sequences) {
  for (const Target& target : AllGenerators()) {
    for (const int lanes : {4, 8, 16, 32}) {
      for (const int count : {2, 3, 4, 5, 9}) {
        if (target.kind == TargetKind::kC && lanes * count != 64) continue;
        SCOPED_TRACE(target.Text() + ", " + std::to_string(count) + " of " + std::to_string(lanes) + " lanes");
        const std::string l = std::to_string(lanes), n = std::to_string(count), all = std::to_string(lanes * count);
        const std::string head = "func f(x: f32[" + all + "] input, t: u8[256] constant, u: i8[256] constant, y: ";
        const std::string loops = " output) { for i in " + n + " unrolled { for j in " + l +
                                  " vectorized { block b(c: S " + all + " = i * " + l + " + j) { y[c] = ";
        const std::string look_up = "t[index(u8(x[c] * 0.5 + 100.0))]";
        ExpectRight(Parse(head + "u8[" + all + "]" + loops + look_up + " } } } }"), target);
        ExpectRight(Parse(head + "f32[" + all + "]" + loops + "f32(i32(" + look_up + ") - 3i32) + f32(u[index(u8(" +
                          look_up + "))]) } } } }"),
                    target);
        ExpectRight(Parse(head + "u8[" + all + "]" + loops + "select(c < 7, " + look_up + ", 5u8) } } } }"), target);
      }
    }
  }
}

// What a sequence writes, its later look-ups read.
TEST(ByteTables, SequencesThatReadWhatTheyWrite) {
  for (const Target& target : AllGenerators()) {
    ExpectRight(Parse(R"(func f(x: u8[4, 16] input, t: u8[256] constant, y: u8[4, 16] output) {
      alloc m: u8[4, 16]
      for i in 4 { for j in 16 vectorized { block zero(a: S 4 = i, b: S 16 = j) { m[a, b] = 0u8 } } }
      for u in 4 unrolled {
        for l in 16 vectorized { block w(c: S 4 = u, d: S 16 = l) { m[c, d] = x[c, d] + 1u8 } }
        for k in 16 vectorized { block r(e: S 4 = u, g: S 16 = k) { y[e, g] = t[index(u8(m[e, g]))] } }
      }
    })"),
                target);
  }
}

// Indices of another form, and tables of another length, are loads.
TEST(ByteTables, OtherLoadsStay) {
  for (const Target& target : AllGenerators()) {
    ExpectRight(Parse(R"(func f(x: u8[64] input, t: u8[300] constant, y: u8[64] output) {
      for j in 64 vectorized { block b(c: S 64 = j) { y[c] = t[index(x[c]) + 40] } }
    })"),
                target);
    ExpectRight(Parse(R"(func f(x: u8[64] input, t: i32[256] constant, y: i32[64] output) {
      for j in 64 vectorized { block b(c: S 64 = j) { y[c] = t[index(x[c])] } }
    })"),
                target);
  }
}

}  // namespace
}  // namespace autotune
