// The programs that the compiler makes, as they go by: each step of a schedule, each lowering pass, each program made
// from tensor expressions or interpreted is shown to a watcher, which checks it. Nobody watches unless the build or the
// environment has AUTOTUNE_VERIFY or a test asks for it; then a program costs one load of a pointer. Thread-safe.
#pragma once
#include <atomic>
#include <string>

#include "ir/stmt.h"

namespace autotune {

// `where` says what has made it: "after pass unroll". Called by several threads at once.
using ProgramWatcher = void (*)(const std::string& where, const PrimFunc& f);

// The watcher, or null: at first what the environment asks for.
extern std::atomic<ProgramWatcher> program_watcher;
// Asked for by the value of AUTOTUNE_VERIFY: CheckProgram by "all", and by whatever in a build with AUTOTUNE_VERIFY;
// CheckSomePrograms by anything else; none by null.
ProgramWatcher WatcherFor(const char* value);

// Aborts with `where`, what is wrong and the program, unless it verifies and prints to a text that parses to its equal.
void CheckProgram(const std::string& where, const PrimFunc& f);
// Does so for the first programs of the process, a quarter of a megabyte of text, then for some, 32 bytes for each that
// is shown: tuners make a hundred thousand, and a check costs as much as a dozen steps.
void CheckSomePrograms(const std::string& where, const PrimFunc& f);

// `where` is a callable that returns a string: most texts are made for nobody.
template <class Where>
void ShowProgram(const PrimFunc& f, Where&& where) {
  if (ProgramWatcher watcher = program_watcher.load(std::memory_order_relaxed)) watcher(where(), f);
}

}  // namespace autotune
