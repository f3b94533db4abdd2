// Shows the programs that the compiler makes to a watcher, which checks them: the result of each schedule step and each
// lowering pass, and each program that is made from tensor expressions or interpreted. There is a watcher only if the
// build or the environment has AUTOTUNE_VERIFY, or if a test sets one. Without a watcher a program costs one load of a
// pointer. Thread-safe.
#pragma once
#include <atomic>
#include <string>

#include "ir/stmt.h"

namespace autotune {

// `where` says how the program was made: "after pass unroll". Called by several threads at once.
using ProgramWatcher = void (*)(const std::string& where, const PrimFunc& f);

// The watcher, or null. The initial value is that of AUTOTUNE_VERIFY in the environment (WatcherFor).
extern std::atomic<ProgramWatcher> program_watcher;
// Returns the watcher for a value of AUTOTUNE_VERIFY: CheckProgram for "all" (in a build with AUTOTUNE_VERIFY, for any
// value), no watcher for null, CheckSomePrograms for any other value.
ProgramWatcher WatcherFor(const char* value);

// CHECKs that the program verifies, and that its text parses to an Equal program. The error has `where` and the
// program.
void CheckProgram(const std::string& where, const PrimFunc& f);
// Checks only some programs: the first ones of the process, up to 256 KiB of text, and then 32 bytes of text for each
// program that is shown. A program whose text alone exceeds 256 KiB is not checked. A tuner makes a hundred thousand
// programs, and a check costs as much as a dozen steps.
void CheckSomePrograms(const std::string& where, const PrimFunc& f);
// Lets CheckSomePrograms check 256 KiB of text again, as at the start of the process.
void RenewProgramChecks();

// `where` is a callable that returns the text, so that the text is made only if there is a watcher.
template <class Where>
void ShowProgram(const PrimFunc& f, Where&& where) {
  if (ProgramWatcher watcher = program_watcher.load(std::memory_order_relaxed)) watcher(where(), f);
}

}  // namespace autotune
