// Products of tiles by AMX: random shapes, strides and types give what the interpreter gives. Only such kernels need
// AMX.
#include <gtest/gtest.h>

#include "support/cpu_features.h"
#include "support/rng.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

Target Amx() {
  return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -mattr=+amx-tile,+amx-int8,+amx-bf16").value();
}

// Loops of one iteration disappear, and with them an annotation. So there are at least two rows and two groups.
struct Shape {
  std::string a = "u8", b = "i8";
  int64_t tasks = 2, taps = 1, groups = 16, row_tiles = 1, rows = 16, columns = 16;
  int64_t row_gap = 0;  // elements between rows of a

  std::string Program() const {
    const bool floats = a == "bf16";
    const int64_t group = floats ? 2 : 4, row = groups * group + row_gap, row_tile = rows * row;
    const int64_t image = row_tiles * row_tile, panel = groups * columns * group, sums = row_tiles * rows * columns;
    const auto n = [](int64_t value) { return std::to_string(value); };
    const std::string at = "o * " + n(sums) + " + t * " + n(rows * columns) + " + i * " + n(columns) + " + j";
    const std::string x = "a[o * " + n(image) + " + h * " + n(row) + " + t * " + n(row_tile) + " + i * " + n(row) +
                          " + g * " + n(group) + " + s]";
    const std::string w = "b[h * " + n(panel) + " + g * " + n(columns * group) + " + j * " + n(group) + " + s]";
    const std::string sum = floats ? "f32" : "i32", tiles = " @{tiles=1}";
    return "func f(a: " + a + "[" + n(tasks * image + taps * row) + "] input, b: " + b + "[" + n(taps * panel) +
           "] input, y: " + sum + "[" + n(tasks * sums) + "] output) { for o in " + n(tasks) + " parallel { for z in " +
           n(sums) + " { y[o * " + n(sums) + " + z] = " + (floats ? "3.0" : "3i32") + " } for h in " + n(taps) +
           (taps > 1 ? tiles : "") + " { for g in " + n(groups) + (taps > 1 ? "" : tiles) + " { for t in " +
           n(row_tiles) + " { for i in " + n(rows) + " { for j in " + n(columns) + " { for s in " + n(group) + " { y[" +
           at + "] = y[" + at + "] + " + sum + "(" + x + ") * " + sum + "(" + w + ") } } } } } } } }";
  }
  std::string Text() const {
    return a + " " + b + " " + std::to_string(taps) + " taps, " + std::to_string(groups) + " groups, " +
           std::to_string(row_tiles) + " x " + std::to_string(rows) + " rows, " + std::to_string(columns) + " columns";
  }
};

TEST(Tiles, AgreeWithTheInterpreter) {
  if (!CheckCpuFeatures({"amx-tile", "amx-int8", "amx-bf16"}).ok()) GTEST_SKIP() << "this CPU has no AMX";
  const std::pair<const char*, const char*> types[] = {
      {"u8", "i8"}, {"i8", "i8"}, {"u8", "u8"}, {"i8", "u8"}, {"bf16", "bf16"}};
  Rng rng(3);
  for (int i = 0; i < 30; ++i) {
    const auto [a, b] = types[i % 5];
    const Shape shape{.a = a,
                      .b = b,
                      .taps = 1 + static_cast<int64_t>(rng.Below(3)),
                      .groups = 2 + static_cast<int64_t>(rng.Below(39)),
                      .row_tiles = 1 + static_cast<int64_t>(rng.Below(3)),
                      .rows = 2 + static_cast<int64_t>(rng.Below(15)),
                      .columns = 16 * (1 + static_cast<int64_t>(rng.Below(5))),
                      .row_gap = 4 * static_cast<int64_t>(rng.Below(3))};
    SCOPED_TRACE(shape.Text());
    AgreesWithInterpreter(Parse(shape.Program()), static_cast<uint64_t>(i), Amx());
    if (HasFailure()) return;
  }
}

// Returns a program around products of `rows` rows whose sums begin at y[at]; `body` names them P<rows;at>.
std::string WithProducts(std::string body) {
  int products = 0;
  for (size_t i; (i = body.find("P<")) != std::string::npos;) {
    const size_t semicolon = body.find(';', i), end = body.find('>', i);
    const std::string rows = body.substr(i + 2, semicolon - i - 2);
    const std::string number = std::to_string(products++);  // no variable may be bound twice
    const std::string g = "g" + number, r = "r" + number, c = "c" + number, k = "k" + number;
    const std::string y = "y[" + body.substr(semicolon + 1, end - semicolon - 1) + " + " + r + " * 16 + " + c + "]";
    body.replace(i, end + 1 - i,
                 "for " + g + " in 8 @{tiles=1} { for " + r + " in " + rows + " { for " + c + " in 16 { for " + k +
                     " in 4 { " + y + " = " + y + " + i32(a[" + r + " * 32 + " + g + " * 4 + " + k + "]) * i32(b[" + g +
                     " * 64 + " + c + " * 4 + " + k + "]) } } } }");
  }
  return "func f(a: u8[512] input, b: i8[512] input, y: i32[768] output) { for z in 768 { y[z] = 0i32 } " + body + " }";
}

// Two products of different shapes in one function need two configurations of the registers.
TEST(Tiles, ProductsOfDifferentShapesShareAFunction) {
  if (!CheckCpuFeatures({"amx-tile", "amx-int8", "amx-bf16"}).ok()) GTEST_SKIP() << "this CPU has no AMX";
  AgreesWithInterpreter(Parse(WithProducts("for o in 2 { P<16;0> P<7;256> P<16;512> }")), 1, Amx());
}

// The body of a parallel loop is a function of its own, which releases the registers of the thread that calls it.
TEST(Tiles, ProductsStandAroundParallelLoopsWithProducts) {
  if (!CheckCpuFeatures({"amx-tile", "amx-int8", "amx-bf16"}).ok()) GTEST_SKIP() << "this CPU has no AMX";
  const std::string parallel = " for q in 2 parallel { P<7;256 + q * 112> } ";
  const std::string again = " for p in 2 parallel { P<7;256 + p * 112> } ";
  for (const std::string& body : {parallel + "P<16;0>", "P<16;0>" + parallel, "P<16;0>" + parallel + "P<16;512>",
                                  parallel + "P<16;0> P<16;512> P<7;0>" + again}) {
    SCOPED_TRACE(body);
    AgreesWithInterpreter(Parse(WithProducts("for o in 2 { " + body + " }")), 1, Amx());
  }
}

TEST(Tiles, OnlyTheirKernelsNeedAmx) {
  const auto uses_tiles = [](const std::string& program) {
    const auto compiled = Compile(Parse(program), Amx());
    return compiled.ok() && compiled->uses_tiles;
  };
  EXPECT_TRUE(uses_tiles(Shape().Program()));
  EXPECT_FALSE(uses_tiles("func f(a: f32[16] input, y: f32[16] output) { for i in 16 { y[i] = a[i] + 1.0 } }"));
}

}  // namespace
}  // namespace autotune
