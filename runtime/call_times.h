// The time evaluator that programs use: times calls of any function. Kernels under controlled caches, as a tuner
// measures them, are timed by runtime/time_evaluator.h. Stateless.
#pragma once
#include "runtime/packed_func.h"

namespace autotune {

// Returns a function of any arguments. It calls `function` with them, once untimed and then `repeat` times `number`
// times, and returns JSON text: {"mean", "median", "min", "max": seconds of one call, "results": seconds of one call in
// each repeat}. Errors: there is no function; a number below 1 or above 2^40.
Result<PackedFunc> TimeEvaluator(PackedFunc function, int64_t number, int64_t repeat);

}  // namespace autotune
