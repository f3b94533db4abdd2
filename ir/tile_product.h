// Loops that multiply tiles: products of small matrices by instructions on two-dimensional registers (x86: AMX). Pure
// functions; thread-safe.
//
// Programs have no node for such a product, not even lowered ones. They have ordinary loops, of which an annotation
// (kTiles, on the outermost one) says that they shall become tile instructions. A code generator recognizes them here;
// elsewhere they are loops like any others.
//
//     for h in T: for g in G: for t in 2: for i in R: for j in C: for s in group:
//       c[..] = c[..] + sum_type(a[..]) * sum_type(b[..])
//
// Operands are those of `dot` (ir/dot.h), and so are the types of sums and their rounding. With strides in elements:
//   s: the steps of a group. Neighbours in a and in b.
//   j: columns. Neighbours in c; `group` apart in b.
//   i, t: rows, and tiles of rows. Any strides in c and a.
//   g: groups. `group` apart in a; any stride in b.
//   h: more steps of the sum, such as the taps of a window, in any number. Any strides in a and b.
#pragma once
#include <optional>
#include <vector>

#include "ir/dot.h"
#include "ir/stmt.h"

namespace autotune {

// What one tile instruction of x86 multiplies at most: rows of 64 bytes.
inline constexpr int kTileRows = 16, kTileColumns = 16, kTileGroups = 16;

// Returns how many rows of `run` rows at equal distances make a tile, so that tiles cover them all; 0: so few that
// vectors are as fast.
int64_t TileRowsOf(int64_t run);

// A product of tiles. All strides are in elements.
struct TileProduct {
  // A loop: its extent, and how far one iteration moves in each operand.
  struct Loop {
    int64_t extent = 1, c = 0, a = 0, b = 0;
  };
  Expr c, a, b;  // loads of the first elements; their indices do not use the variables of the loops
  int64_t group = 0;
  Loop row_tiles, rows, columns, groups;
  std::vector<Loop> others;  // h
};

// Returns the product that the loops compute; nothing if they have another form.
std::optional<TileProduct> MatchTileProduct(const For& loop);

}  // namespace autotune
