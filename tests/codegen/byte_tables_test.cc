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
