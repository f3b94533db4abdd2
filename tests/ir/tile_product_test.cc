// MatchTileProduct: recognizes loops that multiply tiles, in any order, and refuses others.
#include "ir/tile_product.h"

#include <gtest/gtest.h>

#include "tests/ir/parse.h"

namespace autotune {
namespace {

// Returns the product of a lowered program's only statement: loops around y[at] = `value`.
std::optional<TileProduct> Match(const std::string& loops, const std::string& value, const std::string& at,
                                 const std::string& type = "u8", const std::string& sum = "i32") {
  int depth = 0;
  for (char c : loops) depth += c == '{';
  const PrimFunc f = test::Parse("func f(a: " + type + "[65536] input, b: " + (type == "u8" ? "i8" : type) +
                                 "[65536] input, y: " + sum + "[65536] output) { for o in 4 { " + loops + " y[" + at +
                                 "] = " + value + std::string(static_cast<size_t>(depth), '}') + " } }");
  return MatchTileProduct(*f.body.As<For>()->body.As<For>());
}

const std::string kAt = "o * 1024 + t * 512 + i * 32 + j";
const std::string kProduct =
    "y[" + kAt + "] + i32(a[o + t * 4096 + i * 256 + g * 4 + s]) * i32(b[g * 128 + j * 4 + s + 7])";

TEST(TileProduct, LoopsAreRecognizedInAnyOrder) {
  for (const char* loops : {"for g in 20 { for t in 2 { for i in 16 { for j in 32 { for s in 4 {",
                            "for t in 2 { for i in 16 { for j in 32 { for g in 20 { for s in 4 {"}) {
    const auto product = Match(loops, kProduct, kAt);
    ASSERT_TRUE(product) << loops;
    EXPECT_EQ(product->group, 4);
    EXPECT_EQ(product->rows.extent, 16);
    EXPECT_EQ(product->rows.a, 256);
    EXPECT_EQ(product->rows.c, 32);
    EXPECT_EQ(product->row_tiles.extent, 2);
    EXPECT_EQ(product->row_tiles.a, 4096);
    EXPECT_EQ(product->columns.extent, 32);
    EXPECT_EQ(product->groups.extent, 20);
    EXPECT_EQ(product->groups.b, 128);
    EXPECT_TRUE(product->others.empty());
  }
  const auto swapped =
      Match("for g in 20 { for t in 2 { for i in 16 { for j in 32 { for s in 4 {",
            "i32(b[g * 128 + j * 4 + s]) * i32(a[t * 4096 + i * 256 + g * 4 + s]) + y[" + kAt + "]", kAt);
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->rows.a, 256) << "the operands in the other order";
  const auto taps =
      Match("for h in 3 { for g in 2 { for i in 14 { for j in 16 { for s in 4 {",
            "y[i * 16 + j] + i32(a[h * 512 + i * 64 + g * 4 + s]) * i32(b[h * 99 + g * 64 + j * 4 + s])", "i * 16 + j");
  ASSERT_TRUE(taps);
  ASSERT_EQ(taps->others.size(), 1u);
  EXPECT_EQ(taps->others[0].a, 512);
  EXPECT_EQ(taps->others[0].b, 99);
  EXPECT_TRUE(Match("for g in 4 { for i in 16 { for j in 16 { for s in 2 {",
                    "fma(f32(a[i * 64 + g * 2 + s]), f32(b[g * 32 + j * 2 + s]), y[i * 16 + j])", "i * 16 + j", "bf16",
                    "f32"));
}

TEST(TileProduct, OthersAreRefused) {
  const std::string loops = "for g in 4 { for i in 16 { for j in 16 { for s in 4 {", at = "i * 16 + j";
  const auto matches = [&](const std::string& a, const std::string& b, const std::string& its_loops) {
    return Match(its_loops, "y[" + at + "] + i32(a[" + a + "]) * i32(b[" + b + "])", at).has_value();
  };
  const std::string a = "i * 64 + g * 4 + s", b = "g * 64 + j * 4 + s";
  EXPECT_TRUE(matches(a, b, loops));
  EXPECT_FALSE(matches("i * 64 + g * 4 + 3 - s", b, loops)) << "steps backwards";
  EXPECT_FALSE(matches("i * 64 + g * 8 + s", b, "for g in 4 { for i in 16 { for j in 16 { for s in 3 {"));
  EXPECT_FALSE(matches("min(i, 14) * 64 + g * 4 + s", b, loops)) << "rows at different distances";
  EXPECT_FALSE(matches(a, "g * 64 + j * 8 + s", loops)) << "columns apart";
  EXPECT_FALSE(matches(a, b, "for g in 4 { for i in 17 { for j in 16 { for s in 4 {")) << "too many rows";
  EXPECT_FALSE(matches(a, b, "for g in 4 { for i in 16 { for j in 15 { for s in 4 {")) << "no whole tile of columns";
  EXPECT_FALSE(matches(a, b, "for g in 4 { for i in 16 { for j in 16 vectorized { for s in 4 {"));
  EXPECT_FALSE(Match(loops, "y[" + at + "] + i32(a[" + a + "]) * 3i32", at));
  EXPECT_FALSE(Match(loops, "y[" + at + "] + i32(a[" + a + "]) * i32(b[" + b + "])", "i * 16 + j + 1")) << "no sum";
  EXPECT_FALSE(Match(loops, "y[" + at + "] + f32(a[" + a + "]) * f32(b[" + b + "])", at, "f16", "f32"));
}

}  // namespace
}  // namespace autotune
