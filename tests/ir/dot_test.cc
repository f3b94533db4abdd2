// Dot products: the interpreter adds exactly the products of each group, and other operands are refused.
#include "ir/dot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

constexpr int kLanes = 8;

// A program with one dot product. `a_lanes`: lanes of its first operand.
std::string Program(const std::string& a_type, const std::string& b_type, int a_lanes, const std::string& lanes = "8",
                    const std::string& b_lanes = "32", const std::string& b_size = "32") {
  const std::string a = std::to_string(a_lanes);
  return "func f(a: " + a_type + "[" + a + "] input, b: " + b_type + "[" + b_size +
         "] input, c: i32[8] input, y: i32[8] output) {" + " for t in 1 { y[ramp(0, 1, " + lanes +
         ")] = dot(c[ramp(0, 1, " + lanes + ")], a[ramp(0, 1, " + a + ")], b[ramp(0, 1, " + b_lanes + ")]) } }";
}

InterpArray Bytes(const char* type, int64_t count, Rng& rng) {
  InterpArray array{*DType::Parse(type), {count}, {}};
  const int64_t low = array.dtype.IsSigned() ? -128 : 0;
  for (int64_t i = 0; i < count; ++i)  // every third is an end of the range
    array.data.push_back(static_cast<double>(low + static_cast<int64_t>(i % 3 ? rng.Below(256) : 255 * rng.Below(2))));
  return array;
}

TEST(Dot, AddsTheProductsOfGroups) {
  Rng rng(1);
  for (const char* a_type : {"u8", "i8"}) {
    for (const char* b_type : {"u8", "i8"}) {
      for (const int a_lanes : {kByteGroup, kByteGroup * kLanes}) {
        const PrimFunc f = test::Parse(Program(a_type, b_type, a_lanes));
        EXPECT_EQ(FirstMismatch(f, ParsePrimFunc(ToText(f)).value()), "");
        ASSERT_TRUE(Verify(f).ok()) << Verify(f).error().Text();
        InterpArray c{DType::Int(32), {kLanes}, {}};
        for (int i = 0; i < kLanes; ++i) c.data.push_back(i % 2 ? INT32_MAX : i);  // sums wrap around
        std::vector<InterpArray> args = {Bytes(a_type, a_lanes, rng),
                                         Bytes(b_type, kByteGroup * kLanes, rng),
                                         c,
                                         {DType::Int(32), {kLanes}, std::vector<double>(kLanes)}};
        ASSERT_TRUE(Interpret(f, args).ok());
        for (int i = 0; i < kLanes; ++i) {
          auto sum = static_cast<uint32_t>(static_cast<int64_t>(c.data[i]));
          for (int k = 0; k < kByteGroup; ++k) {
            const double a = args[0].data[(a_lanes == kByteGroup ? 0 : kByteGroup * i) + k];
            sum += static_cast<uint32_t>(static_cast<int32_t>(a * args[1].data[kByteGroup * i + k]));
          }
          EXPECT_EQ(args[3].data[i], static_cast<int32_t>(sum)) << a_type << " " << b_type << " lane " << i;
        }
      }
    }
  }
}

// Sums of pairs of words, whose ends are -2^15: four of them make 2^31, which wraps around.
TEST(Dot, AddsTheProductsOfPairsOfWords) {
  for (const int a_lanes : {kWordGroup, kWordGroup * kLanes}) {
    const PrimFunc f = test::Parse(Program("i16", "i16", a_lanes, "8", "16", "16"));
    EXPECT_EQ(FirstMismatch(f, ParsePrimFunc(ToText(f)).value()), "");
    ASSERT_TRUE(Verify(f).ok()) << Verify(f).error().Text();
    std::vector<InterpArray> args = {{DType::Int(16), {a_lanes}, {}},
                                     {DType::Int(16), {2 * kLanes}, {}},
                                     {DType::Int(32), {kLanes}, {}},
                                     {DType::Int(32), {kLanes}, std::vector<double>(kLanes)}};
    for (int i = 0; i < a_lanes; ++i) args[0].data.push_back(i < 2 ? -32768 : 1000 * i - 7000);
    for (int i = 0; i < 2 * kLanes; ++i) args[1].data.push_back(i < 2 ? -32768 : 32767 - 999 * i);
    for (int i = 0; i < kLanes; ++i) args[2].data.push_back(i - 3);
    ASSERT_TRUE(Interpret(f, args).ok());
    EXPECT_EQ(args[3].data[0], INT32_MAX - 2.0) << "2^31 - 3";
    for (int i = 0; i < kLanes; ++i) {
      auto sum = static_cast<uint32_t>(i - 3);
      for (int k = 0; k < kWordGroup; ++k) {
        const double a = args[0].data[(a_lanes == kWordGroup ? 0 : kWordGroup * i) + k];
        sum += static_cast<uint32_t>(static_cast<int32_t>(a * args[1].data[kWordGroup * i + k]));
      }
      EXPECT_EQ(args[3].data[i], static_cast<int32_t>(sum)) << "lane " << i;
    }
  }
}

TEST(Dot, AddsTheProductsOfPairsOfBf16) {
  for (const int a_lanes : {2, 2 * kLanes}) {
    const std::string a = std::to_string(a_lanes);
    const PrimFunc f = test::Parse("func f(a: bf16[" + a + "] input, b: bf16[16] input, c: f32[8] input, y: f32[8] " +
                                   "output) { for t in 1 { y[ramp(0, 1, 8)] = dot(c[ramp(0, 1, 8)], a[ramp(0, 1, " + a +
                                   ")], b[ramp(0, 1, 16)]) } }");
    ASSERT_TRUE(Verify(f).ok()) << Verify(f).error().Text();
    std::vector<InterpArray> args = {{DType::BFloat16(), {a_lanes}, {}},
                                     {DType::BFloat16(), {16}, {}},
                                     {DType::Float(32), {kLanes}, {}},
                                     {DType::Float(32), {kLanes}, std::vector<double>(kLanes)}};
    for (int i = 0; i < a_lanes; ++i) args[0].data.push_back(i * 0.5 - 3);
    for (int i = 0; i < 16; ++i) args[1].data.push_back(7 - i);
    for (int i = 0; i < kLanes; ++i) args[2].data.push_back(i + 0.25);
    ASSERT_TRUE(Interpret(f, args).ok());
    for (int i = 0; i < kLanes; ++i) {
      double sum = i + 0.25;
      for (int k = 0; k < 2; ++k) sum += args[0].data[(a_lanes == 2 ? 0 : 2 * i) + k] * args[1].data[2 * i + k];
      EXPECT_EQ(args[3].data[i], sum) << "lane " << i;
    }
  }
}

std::string Wrong(const std::string& text) {
  const auto parsed = ParsePrimFunc(text);
  if (!parsed.ok()) return parsed.error().Text();
  const Status verified = Verify(*parsed);
  return verified.ok() ? "" : verified.error().Text();
}

TEST(Dot, OtherOperandsAreRefused) {
  EXPECT_EQ(Wrong(Program("u8", "i8", kByteGroup)), "");
  EXPECT_THAT(Wrong(Program("i16", "i8", kByteGroup)), HasSubstr("operands that dot does not multiply"));
  EXPECT_EQ(Wrong(Program("i16", "i16", kWordGroup, "8", "16")), "");
  EXPECT_THAT(Wrong(Program("i16", "i16", kByteGroup, "8", "16")), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("u16", "u16", kWordGroup, "8", "16")), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("i16", "bf16", kWordGroup, "8", "16")), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("bf16", "bf16", kByteGroup)), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("u8", "f32", kByteGroup)), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("u8", "i8", 2 * kByteGroup)), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("u8", "i8", kByteGroup, "4")), HasSubstr("operands that dot does not multiply"));
  EXPECT_THAT(Wrong(Program("u8", "i8", kByteGroup, "8", "16")), HasSubstr("operands that dot does not multiply"));
}

}  // namespace
}  // namespace autotune
