// The tail of a vectorized loop becomes vectors of fewer lanes, if it has the same lanes in every outer iteration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

Target Avx512() {
  return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -mattr=+avx512f,+avx512vl,+fma").value();
}

// Lowers the loops `body` over x: f32[`rows`, `columns`] and y of the same shape, and returns the result. Checks that
// it computes the same as the interpreted program.
PrimFunc Lowered(int rows, int columns, const std::string& body) {
  std::string shape = "f32[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  auto f = ParsePrimFunc("func kernel(\n  x: " + shape + " input,\n  y: " + shape + " output\n) {\n" + body + "}\n");
  EXPECT_TRUE(f.ok()) << f.error().Text();
  auto kernel = Lower(*f, Avx512());
  EXPECT_TRUE(kernel.ok()) << kernel.error().Text();
  std::vector<InterpArray> want = test::RandomArgs(*f, 1), got = want;
  for (size_t i = 0; i < got.size(); ++i) got[i].shape = ConstShape(kernel->run.params[i].buffer);
  EXPECT_TRUE(Interpret(*f, want).ok());
  Status ran = Interpret(kernel->run, got);
  EXPECT_TRUE(ran.ok()) << ran.error().Text();
  EXPECT_EQ(want[1].data.size(), got[1].data.size());
  for (size_t i = 0; i < want[1].data.size(); ++i) {
    double a = want[1].data[i], b = got[1].data[i];
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << "y[" << i << "]: " << a << " became " << b;
  }
  return kernel->run;
}

struct Shape {
  std::vector<int> lanes;  // lanes of each store, in order
  int guards = 0;
};
Shape ShapeOf(const PrimFunc& f) {
  Shape shape;
  Walk(f.body, [&](const Stmt& s) {
    if (const Store* store = s.As<Store>()) shape.lanes.push_back(store->value.dtype().lanes);
    shape.guards += s.As<If>() != nullptr;
    return true;
  });
  return shape;
}

// Returns the loops
//   for i in `rows`: for j in `tiles`: for u in `unrolled`: for v in `lanes`: if c < `columns`: y[i, c] = x[i, c] + 1
// where c is the column (j * `unrolled` + u) * `lanes` + v.
std::string Tiled(int rows, int tiles, int unrolled, int lanes, int columns) {
  auto text = [](int n) { return std::to_string(n); };
  return "  for i in " + text(rows) + " {\n    for j in " + text(tiles) + " {\n      for u in " + text(unrolled) +
         " unrolled {\n        for v in " + text(lanes) + " vectorized {\n          if j * " + text(unrolled * lanes) +
         " + u * " + text(lanes) + " + v < " + text(columns) + " {\n            y[i, j * " + text(unrolled * lanes) +
         " + u * " + text(lanes) + " + v] = x[i, j * " + text(unrolled * lanes) + " + u * " + text(lanes) +
         " + v] + 1.0\n          }\n        }\n      }\n    }\n  }\n";
}

TEST(Tails, OneTileThatOvershootsHasNoGuards) {
  Shape shape = ShapeOf(Lowered(3, 24, Tiled(3, 1, 2, 16, 24)));
  EXPECT_EQ(shape.guards, 0);
  EXPECT_THAT(shape.lanes, ::testing::ElementsAre(16, 8));
}

TEST(Tails, LastTileOfMany) {
  Shape shape = ShapeOf(Lowered(2, 107, Tiled(2, 4, 2, 16, 107)));  // 3 whole tiles and 11 columns
  EXPECT_EQ(shape.guards, 1);
  EXPECT_THAT(shape.lanes, ::testing::ElementsAre(16, 16, 8, 2, 1));
}

TEST(Tails, TilesThatDivideHaveNone) {
  Shape shape = ShapeOf(Lowered(2, 96, Tiled(2, 3, 2, 16, 96)));
  EXPECT_EQ(shape.guards, 0);
  EXPECT_THAT(shape.lanes, ::testing::ElementsAre(16, 16));
}

TEST(Tails, TilesBeyondTheEndDoNothing) {
  Shape shape = ShapeOf(Lowered(2, 40, Tiled(2, 3, 2, 16, 40)));  // the third tile begins at 64
  EXPECT_THAT(shape.lanes, ::testing::ElementsAre(16, 16, 8));
  EXPECT_EQ(shape.guards, 2);
}

// The number of remaining columns differs from row to row, so no vector fits all rows.
TEST(Tails, RemaindersThatVaryStayScalars) {
  Shape shape = ShapeOf(Lowered(5, 24, R"(
    for i in 5 {
      for v in 16 vectorized {
        if v < i + 9 {
          y[i, v] = x[i, v] + 1.0
        }
      }
    }
)"));
  EXPECT_GE(shape.guards, 1);
  EXPECT_THAT(shape.lanes, ::testing::Contains(1));
}

// An unguarded statement beside a guarded store also runs in tiles beyond the guard's end.
TEST(Tails, WhatIsNotGuardedIsDoneEverywhere) {
  Shape shape = ShapeOf(Lowered(8, 24, R"(
    for q in 3 {
      for i in 4 unrolled {
        for v in 8 vectorized { if q * 8 + v < 13 { y[i, q * 8 + v] = x[i, q * 8 + v] } }
        for w in 8 vectorized { y[i + 4, q * 8 + w] = x[i + 4, q * 8 + w] }
      }
    }
)"));
  EXPECT_THAT(shape.lanes, ::testing::Contains(8));
}

TEST(Tails, AllSmallShapes) {
  for (int lanes : {8, 16}) {
    for (int unrolled : {1, 2, 3}) {
      for (int columns = 1; columns <= 70; ++columns) {
        int tile = lanes * unrolled, tiles = (columns + tile - 1) / tile;
        Shape shape = ShapeOf(Lowered(2, columns, Tiled(2, tiles, unrolled, lanes, columns)));
        EXPECT_LE(shape.guards, 1) << columns << " in tiles of " << tile;
      }
    }
  }
}

// Padded copies that load distant elements branch only at the end of the data. A copy of adjacent elements uses masked
// loads instead.
TEST(Tails, PaddedCopiesAreGuardedWhereTheyEnd) {
  auto copy = [](const std::string& load, const std::string& extent) {
    return "  for o in 4 { for u in 8 unrolled { for l in 8 vectorized { block c(v: S 32 = o * 8 + l, w: S 8 = u) {\n" +
           ("y[w, v] = select(v < " + extent + ", " + load + ", 0.0)") + "\n} } } }\n";
  };
  auto conditions = [&](const std::string& load, const std::string& extent, int rows, int columns) {
    const PrimFunc f =
        *ParsePrimFunc("func kernel(\n  x: f32[" + std::to_string(rows) + ", " + std::to_string(columns) +
                       "] input,\n  y: f32[8, 32] output\n) {\n" + copy(load, extent) + "}\n");
    auto kernel = Lower(f, Avx512());
    EXPECT_TRUE(kernel.ok()) << kernel.error().Text();
    std::vector<InterpArray> want = test::RandomArgs(f, 1), got = want;
    for (size_t i = 0; i < got.size(); ++i) got[i].shape = ConstShape(kernel->run.params[i].buffer);
    EXPECT_TRUE(Interpret(f, want).ok());
    EXPECT_TRUE(Interpret(kernel->run, got).ok());
    EXPECT_EQ(want[1].data, got[1].data);
    int branches = 0;
    Walk(kernel->run.body, [&](const Stmt& x) {
      branches += x.As<If>() != nullptr;
      return true;
    });
    return branches;
  };
  EXPECT_EQ(conditions("x[v, w]", "27", 27, 8), 1);
  EXPECT_EQ(conditions("x[v, w]", "32", 32, 8), 0);
  EXPECT_EQ(conditions("x[w, v]", "27", 8, 27), 0);
}

}  // namespace
}  // namespace autotune
