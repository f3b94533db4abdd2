// Compiled conversions of floats to integers, scalar and vectorized, including values that the integer type cannot
// hold.
#include "ir/float_math.h"
#include "support/rng.h"
#include "tests/codegen/kernel.h"
#include "tests/draws.h"

namespace autotune {
namespace {

// Returns a target for every code generator, and LLVM for older processors.
std::vector<Target> Converters() {
  std::vector<Target> targets = Generators();
  for (const char* cpu : {"x86-64", "haswell"}) {
    targets.push_back(Target::Parse(std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=") + cpu).value());
  }
  return targets;
}

const DType kIntegers[] = {DType::Int(8),  DType::Int(16),  DType::Int(32),  DType::Int(64),
                           DType::UInt(8), DType::UInt(16), DType::UInt(32), DType::UInt(64)};
const DType kFloats[] = {DType::Float(32), DType::Float(64), DType::Float(16), DType::BFloat16()};

// Returns numbers at and around the limits of all integer types, and random numbers of many magnitudes.
std::vector<double> Numbers(DType type) {
  std::vector<double> numbers = {0.0, -0.0, 0.5, -0.5, -0.99, 1, -1, INFINITY, -INFINITY, std::nan("")};
  for (int bits : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (double sign : {1.0, -1.0}) {
      for (double beside : {-1.0, -0.5, 0.0, 0.5, 1.0}) numbers.push_back(sign * (std::ldexp(1.0, bits) + beside));
      for (double factor : {0.99, 1.01}) numbers.push_back(sign * std::ldexp(factor, bits));
    }
  }
  Rng rng(7);
  while (numbers.size() % 64 != 0 || numbers.size() < 512) {
    numbers.push_back((rng.Below(2) ? 1 : -1) * std::ldexp(1 + rng.Uniform(), static_cast<int>(rng.Below(80)) - 10));
  }
  for (double& x : numbers) x = RoundFloat(x, type);
  return numbers;
}

PrimFunc Conversion(DType from, DType to, int count, const char* kind) {
  const std::string n = std::to_string(count), a = from.Text(), b = to.Text();
  return Parse("func convert(a: " + a + "[" + n + "] input, b: " + b + "[" + n + "] output) {" + "for o in " +
               std::to_string(count / 16) + " { for i in 16 " + kind + " { block c(v: S " + n +
               " = o * 16 + i) { b[v] = " + b + "(a[v]) } } } }");
}

TEST(Casts, AreWhatTheInterpreterSays) {
  size_t number = 0;
  for (DType from : kFloats) {
    const std::vector<double> numbers = Numbers(from);
    const auto count = static_cast<int64_t>(numbers.size());
    for (DType to : kIntegers) {
      for (const char* kind : {"serial", "vectorized"}) {
        const PrimFunc f = Conversion(from, to, static_cast<int>(count), kind);
        std::vector<InterpArray> want = {{from, {count}, numbers}, {to, {count}, std::vector<double>(numbers.size())}};
        ASSERT_TRUE(Interpret(f, want).ok());
        ++number;
        for (const Target& target : Converters()) {
          if (target.kind == TargetKind::kC && !test::IsDrawn(number, 4)) continue;  // C compilers are slow
          SCOPED_TRACE(from.Text() + " to " + to.Text() + ", " + kind + ", by " + target.Text());
          auto built = Build(f, target);
          ASSERT_TRUE(built.ok()) << built.error().Text();
          std::vector<InterpArray> got = {want[0], {to, {count}, std::vector<double>(numbers.size())}};
          ASSERT_TRUE(autotune::Run(*built, f, got).ok());
          for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(got[1].data[i], want[1].data[i]) << numbers[i];
        }
      }
    }
  }
}

// Interprets the program on `args`, of which the last one is its result, and runs it by all code generators on copies.
void ExpectAsInterpreted(const PrimFunc& f, std::vector<InterpArray>& args) {
  const std::vector<InterpArray> before = args;
  ASSERT_TRUE(Interpret(f, args).ok());
  for (const Target& target : Converters()) {
    SCOPED_TRACE(target.Text());
    auto built = Build(f, target);
    ASSERT_TRUE(built.ok()) << built.error().Text();
    std::vector<InterpArray> got = before;
    ASSERT_TRUE(autotune::Run(*built, f, got).ok());
    EXPECT_EQ(got.back().data, args.back().data);
  }
}

// All places of the 4 bits, with other bits around them.
TEST(Casts, OfNumbersOfFourBits) {
  constexpr int64_t kWords = 64;
  const PrimFunc f = Parse(
      "func convert(a: i32[64] input, b: f32[8, 64] output) { for k in 8 unrolled { for o in 4 { for i in 16 "
      "vectorized "
      "{ block c(w: S 8 = k, v: S 64 = o * 16 + i) { b[w, v] = f32((a[v] << i32(w * -4 + 28)) >> 28i32) } } } } }");
  Rng rng(5);
  std::vector<double> words;
  for (int64_t i = 0; i < kWords; ++i) words.push_back(static_cast<int32_t>(rng.Next()));
  std::vector<InterpArray> want = {{DType::Int(32), {kWords}, words}, {DType::Float(32), {8, kWords}, {}}};
  want[1].data.resize(8 * kWords);
  ExpectAsInterpreted(f, want);
  for (int64_t k = 0; k < 8; ++k) {
    const auto nibble = static_cast<int>(static_cast<uint32_t>(static_cast<int32_t>(words[3])) >> (4 * k) & 15);
    EXPECT_EQ(want[1].data[static_cast<size_t>(k * kWords + 3)], nibble < 8 ? nibble : nibble - 16);
  }
}

// Words that move so far that fewer than 4 of their bits are left, by constants and by numbers from memory.
TEST(Casts, OfFewerThanFourBits) {
  constexpr int64_t kWords = 16;
  for (const std::string left : {"29i32", "31i32", "n[v]"}) {
    SCOPED_TRACE(left);
    const PrimFunc f = Parse(
        "func convert(a: i32[16] input, n: i32[16] input, b: f32[16] output) { for i in 16 vectorized { block c(v: S "
        "16 = i) { b[v] = f32((a[v] << " +
        left + ") >> 28i32) } } }");
    Rng rng(6);
    std::vector<double> words, places;
    for (int64_t i = 0; i < kWords; ++i) {
      words.push_back(static_cast<int32_t>(rng.Next()));
      places.push_back(static_cast<double>(16 + i));
    }
    std::vector<InterpArray> want = {
        {DType::Int(32), {kWords}, words}, {DType::Int(32), {kWords}, places}, {DType::Float(32), {kWords}, {}}};
    want[2].data.resize(kWords);
    ExpectAsInterpreted(f, want);
  }
}

double Converted(double x, DType to) {
  const PrimFunc f = Conversion(DType::Float(64), to, 16, "serial");
  std::vector<InterpArray> args = {{DType::Float(64), {16}, std::vector<double>(16, x)}, {to, {16}, {}}};
  args[1].data.resize(16);
  EXPECT_TRUE(Interpret(f, args).ok());
  return args[1].data[0];
}

// The values are written by hand from the rules in docs/ir.md.
TEST(Casts, WrapAroundBelow32Bits) {
  EXPECT_EQ(Converted(-1.5, DType::UInt(8)), 255);
  EXPECT_EQ(Converted(300.9, DType::UInt(8)), 44);
  EXPECT_EQ(Converted(-129, DType::Int(8)), 127);
  EXPECT_EQ(Converted(65535.5, DType::Int(16)), -1);
  EXPECT_EQ(Converted(-3, DType::UInt(32)), 4294967293);
  EXPECT_EQ(Converted(4294967298.0, DType::UInt(32)), 2);
  // An InterpArray stores the bits of a u64 as an i64.
  EXPECT_EQ(Converted(0x1p63 + 4096, DType::UInt(64)), -0x1p63 + 4096);
  EXPECT_EQ(Converted(-0x1p62, DType::UInt(64)), -0x1p62);
}

TEST(Casts, HaveOneNumberForWhatDoesNotFit) {
  for (double x : {0x1p31, -0x1p31 - 1, 1e300, static_cast<double>(INFINITY), std::nan("")}) {
    EXPECT_EQ(Converted(x, DType::Int(32)), -0x1p31) << x;
    EXPECT_EQ(Converted(x, DType::UInt(8)), 0) << x;
  }
  EXPECT_EQ(Converted(0x1p31 - 1, DType::Int(32)), 0x1p31 - 1);
  for (double x : {0x1p63, -0x1p64, static_cast<double>(-INFINITY), std::nan("")}) {
    EXPECT_EQ(Converted(x, DType::Int(64)), -0x1p63) << x;
    EXPECT_EQ(Converted(x, DType::UInt(32)), 0) << x;
  }
}

// Lowers a conversion of `value` to `type` and returns the text. Lowering guards a conversion by a select, unless the
// program already limits the value to the type's range.
std::string Lowered(const std::string& value, const char* type) {
  const std::string t = type;
  auto lowered =
      Lower(Parse("func f(a: f32[64] input, b: " + t + "[64] output) { for i in 64 { block s(v: S 64 = i) { " +
                  "b[v] = " + t + "(" + value + ") } } }"),
            Cpu());
  EXPECT_TRUE(lowered.ok());
  return lowered.ok() ? ToText(lowered->run) : "";
}

TEST(Casts, GuardOnlyWhatMayNotFit) {
  EXPECT_EQ(Lowered("min(max(round(a[v]), -128.0), 127.0)", "i8").find("select"), std::string::npos);
  EXPECT_EQ(Lowered("max(min(a[v], 255.0), -0.5)", "u8").find("select"), std::string::npos);
  EXPECT_NE(Lowered("max(min(a[v], 256.0), 0.0)", "u8").find("i32("), std::string::npos);
  EXPECT_NE(Lowered("min(-128.0, a[v])", "i8").find("select"), std::string::npos);  // min keeps NaN: guard needed
  EXPECT_NE(Lowered("a[v]", "i32").find("select"), std::string::npos);
}

}  // namespace
}  // namespace autotune
