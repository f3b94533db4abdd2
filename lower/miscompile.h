// Wrong code on purpose, so that tests can show that the checks of the farm catch it; for nothing else. A pass of the
// lowering pipeline does what it should and then makes one mistake; the rest of the build is as always.
//
// AUTOTUNE_MISCOMPILE=PERCENT in the environment of a build worker makes that part of the programs which come with a
// schedule wrong: candidates, not the references that they are compared with (and what `autotune compile` builds, whose
// kernels have schedules, too). Which ones, and which mistake each gets, follows from a hash of the scheduled program's
// text, so that a test can tell them afterwards. Without the variable a pass costs one comparison with null more.
// Thread-safe.
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

// The value of AUTOTUNE_MISCOMPILE, read once per process; 0 without it. Anything but 0 to 100 fails the build.
int MiscompilePercent();

// The mistake for this program; none for 100 - `percent` of a hundred programs. `scheduled` is what Lower gets.
std::optional<Miscompile> PlanMiscompile(const PrimFunc& scheduled, int percent);

// What the pass made, with the mistake in it if this is the pass that makes it; at most one in a kernel.
PrimFunc WithMistake(std::string_view pass, const PrimFunc& f, Miscompile& miscompile);

}  // namespace autotune
