// Products of tiles by AMX: random shapes, strides and types give what the interpreter gives, and the code has the
// instructions.
#include <gtest/gtest.h>

#include "support/cpu_features.h"
#include "support/rng.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

Target Amx() {
  return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -mattr=+amx-tile,+amx-int8,+amx-bf16").value();
}

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
    const std::string sum = floats ? "f32" : "i32";
    return "func f(a: " + a + "[" + n(tasks * image + taps * row) + "] input, b: " + b + "[" + n(taps * panel) +
           "] input, y: " + sum + "[" + n(tasks * sums) + "] output) { for o in " + n(tasks) + " parallel { for z in " +
           n(sums) + " { y[o * " + n(sums) + " + z] = " + (floats ? "3.0" : "3i32") + " } for h in " + n(taps) +
           " @{tiles=1} { for g in " + n(groups) + " { for t in " + n(row_tiles) + " { for i in " + n(rows) +
           " { for j in " + n(columns) + " { for s in " + n(group) + " { y[" + at + "] = y[" + at + "] + " + sum + "(" +
           x + ") * " + sum + "(" + w + ") } } } } } } } }";
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
                      .groups = 1 + static_cast<int64_t>(rng.Below(40)),
                      .row_tiles = 1 + static_cast<int64_t>(rng.Below(3)),
                      .rows = 1 + static_cast<int64_t>(rng.Below(16)),
                      .columns = 16 * (1 + static_cast<int64_t>(rng.Below(5))),
                      .row_gap = 4 * static_cast<int64_t>(rng.Below(3))};
    SCOPED_TRACE(shape.Text());
    AgreesWithInterpreter(Parse(shape.Program()), static_cast<uint64_t>(i), Amx());
    if (HasFailure()) return;
  }
}

// Two products of different shapes in one function need two configurations of the registers.
TEST(Tiles, ProductsOfDifferentShapesShareAFunction) {
  if (!CheckCpuFeatures({"amx-tile", "amx-int8", "amx-bf16"}).ok()) GTEST_SKIP() << "this CPU has no AMX";
  const std::string product =
      "for g in 8 @{tiles=1} { for i in ROWS { for j in 16 { for s in 4 { "
      "y[AT + i * 16 + j] = y[AT + i * 16 + j] + i32(a[i * 32 + g * 4 + s]) * "
      "i32(b[g * 64 + j * 4 + s]) } } } }";
  const auto with = [&](const std::string& rows, const std::string& at) {
    std::string text = product;
    text.replace(text.find("ROWS"), 4, rows);
    for (size_t i; (i = text.find("AT")) != std::string::npos;) text.replace(i, 2, at);
    return text;
  };
  AgreesWithInterpreter(Parse("func f(a: u8[512] input, b: i8[512] input, y: i32[768] output) { for z in 768 { y[z] = "
                              "0i32 } for o in 2 { " +
                              with("16", "0") + with("7", "256") + with("16", "512") + " } }"),
                        1, Amx());
}

}  // namespace
}  // namespace autotune
