// The form in which a package stores constants of 32-bit floats and of i16, if a smaller one holds the same numbers: a
// network's package is then about as large as its model. Both directions are exact. Stateless, thread-safe.
//
//   8 bits, for i16: a tensor of i8 of the same name, if all numbers have an equal there.
//   16 bits: a tensor of bf16 or f16 of the same name, if all numbers have an equal there.
//   Integers with scales: instead of NAME the tensors NAME.numbers and NAME.scales, and perhaps NAME.offsets. Number i
//     is f32(numbers[i] + offsets[i]) * scales[i], rounded once. All have the same rank, and extents of 1 in offsets
//     and scales repeat. `numbers` are i8, or u8 with two numbers from 0 to 15 along the last dimension, the first of
//     them in the lower half; only the latter have offsets, of i8. The scales are f32, bf16 or f16.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/graph_json.h"
#include "runtime/params.h"

namespace autotune {

// A constant that is the product of integers and scales, of the same rank.
struct ScaledIntegers {
  Tensor numbers;  // i8
  Tensor scales;   // f32, with extents of 1 where they repeat
};

// Returns the constants in their smallest form. `scaled`: by name, the integers and scales that some of them may be the
// products of; others stay as they are.
Result<Params> Narrowed(Params params, const std::map<std::string, ScaledIntegers>& scaled);

// Undoes Narrowed for the constants of a graph: returns those with the types and shapes of the graph. Returns an error
// if the parts of one do not fit each other.
Result<Params> Widened(const Graph& graph, Params params);

// Returns the names of the tensors that may stand for a constant in place of its own.
std::vector<std::string> StoredParts(const std::string& name);
// Returns whether a constant is among stored parameters, in any form.
bool IsStored(const Params& params, const std::string& name);

}  // namespace autotune
