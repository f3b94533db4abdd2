// How a reshape regroups dimensions. Thread-safe. Internal to graph/pass.
#pragma once
#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace autotune::graph {

// Dimensions [i, i_end) of one shape and [j, j_end) of another, whose extents have the same product.
struct ShapeGroup {
  size_t i, i_end, j, j_end;
};

// Returns the finest grouping of two shapes with equal numbers of elements.
inline std::vector<ShapeGroup> GroupsOf(const Shape& a, const Shape& b) {
  std::vector<ShapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    ShapeGroup g{i, i, j, j};
    int64_t x = 1, y = 1;
    if (i < a.size()) x = a[g.i_end++];
    if (j < b.size()) y = b[g.j_end++];
    while (x != y) {
      if (x < y) {
        x *= a[g.i_end++];
      } else {
        y *= b[g.j_end++];
      }
    }
    groups.push_back(g);
    i = g.i_end;
    j = g.j_end;
  }
  return groups;
}

}  // namespace autotune::graph
