// Makes wrong code on purpose, only so that tests can show that the checks of the farm catch it. One pass of the
// lowering pipeline does its work and then makes one mistake; the rest of the build is normal.
//
// AUTOTUNE_MISCOMPILE=PERCENT in the environment of a build worker makes that part of all programs with a schedule
// wrong. These are candidates and the kernels of `autotune compile`, but not the references that candidates are
// compared with. A hash of the scheduled program's text selects the programs and the mistake of each, so that a test
// can tell them afterwards. Without the variable a pass costs one more comparison with null. Thread-safe.
#pragma once
#include <optional>
#include <string_view>

#include "ir/stmt.h"
#include "support/fields.h"

namespace autotune {

enum class Bug { kStartsAtOne, kLosesLastIteration, kLosesAnUpdate };
AUTOTUNE_ENUM(Bug, "accumulators start at one", "the outermost loop loses its last iteration", "an update is lost")

struct Miscompile {
  Bug bug = Bug::kStartsAtOne;
  bool applied = false;  // set once the mistake has been made; a program that has no place for it stays right
};

// The value of AUTOTUNE_MISCOMPILE, read once per process; 0 without it. Fails a check unless the value is a number
// from 0 to 100.
int MiscompilePercent();

// Returns the mistake for this program, or nothing for 100 - `percent` of 100 programs. `scheduled` is the argument of
// Lower.
std::optional<Miscompile> PlanMiscompile(const PrimFunc& scheduled, int percent);

// Returns `f`, the result of `pass`, with the mistake if `miscompile` names this pass. Makes one mistake per kernel.
PrimFunc WithMistake(std::string_view pass, const PrimFunc& f, Miscompile& miscompile);

}  // namespace autotune
