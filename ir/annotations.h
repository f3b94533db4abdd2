// The annotations of loops that lowering reads. Constants only.
#pragma once

namespace autotune {

// Of a serial loop (value 1): the few iterations at its ends in which some guard inside may fail become copies of their
// own, so that the loop that is left needs none, and the guards of the copies are decided when they are compiled.
inline constexpr char kPeel[] = "peel";

// Of a serial loop (value 1): the last of its passes, one that waits for memory, runs in the next iteration, inside a
// loop there that computes, where that keeps the meaning.
inline constexpr char kOverlap[] = "overlap";

}  // namespace autotune
