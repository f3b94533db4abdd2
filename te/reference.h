// The reference of a function: the same formula, computed in f64 unless it takes steps. Compiled once per task, it is
// what candidates are compared with. Thread-safe. Not tuned: naive loops, of which one per block is parallel.
#pragma once
#include "ir/stmt.h"

namespace autotune::te {

// Returns true if the function takes steps: it rounds floats to whole numbers, converts them to integers or compares
// them. A candidate whose arithmetic rounds otherwise than the reference's may then be a whole step away and still be
// right. So the reference of such a function keeps its types, and is compared on integers, whose sums are exact in any
// order.
bool TakesSteps(const PrimFunc& f);

// The same parameters; every float intermediate is f64, inputs are widened where they are loaded, outputs rounded once
// where they are stored (not if the function takes steps). Ops that lower/math.cc expands (exp, tanh, ...) are
// evaluated in their own dtype, everything around them in f64. Of each perfect nest around one block whose loops are
// bound one to one to its iterators: the initialisation of a reduction becomes a nest of its own, the last spatial loop
// moves innermost (consecutive addresses) and the outermost other spatial loop of more than one iteration runs in
// parallel. Other loops stay as they are.
PrimFunc ToReference(const PrimFunc& f);

}  // namespace autotune::te
