// The reference of a function: the same formula, computed in f64 unless it takes steps. It is compiled once per task,
// and candidates are compared with its results. Thread-safe. Not tuned: at most one loop of each block is parallel, and
// none is tiled.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/stmt.h"

namespace autotune::te {

// Returns true if the function takes steps: it rounds floats to whole numbers, converts them to integers or compares
// them. A candidate whose arithmetic rounds otherwise than the reference's may then be a whole step away and still be
// right. So the reference of such a function keeps its types, and is compared on integers, whose sums are exact in any
// order.
bool TakesSteps(const PrimFunc& f);

// Returns the positions of the integer parameters that may have any value of their type when candidates are checked.
// Some instructions saturate sums, which only large numbers show. Parameters that decide an index (other than that of a
// look-up, ir/byte_table.h), the end of a loop, a divisor or a shift count need small numbers. So do integers of more
// than 8 bits in a function with floats, which would round them, and all integers in a function that takes steps and
// sums floats, so that these sums are exact. Sums of integers wrap around, so they are equal in any order.
std::vector<int64_t> FullRangeInputs(const PrimFunc& f);

// Returns a function with the same parameters, in which every float intermediate is f64. Inputs are widened where they
// are loaded, and outputs are rounded once, where they are stored. A function that takes steps keeps its types. Ops
// that lower/math.cc expands (exp, tanh, ...) are evaluated in their own dtype.
//
// Perfect nests around one block, whose loops are bound one to one to its iterators, are also reordered. The
// initialisation of a reduction becomes a nest of its own. If there are several spatial loops, the last one moves
// innermost, for consecutive addresses. The outermost spatial loop with more than one iteration runs in parallel,
// unless a reduction loop is around it. Other loops stay as they are.
PrimFunc ToReference(const PrimFunc& f);

}  // namespace autotune::te
