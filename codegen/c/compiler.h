// Runs the C compiler of this machine: `cc`, or for another architecture the cross compiler TRIPLE-gcc. AUTOTUNE_CC in
// the environment names another compiler. The compiler runs in the process group of its caller. So killing the group of
// a build worker, as the client does after a time-out, also ends the compiler and its children. Nothing is written to
// disk: source and assembly pass through a socket and a pipe. Thread-safe. Internal to codegen/c.
#pragma once
#include <string>

#include "support/result.h"
#include "target/target.h"

namespace autotune::c {

// Compiles a translation unit to assembly. Errors are one line that names the compiler. They are: there is no compiler
// (the line says what to install), the compiler fails (the line has its first message), a signal ends the compiler.
Result<std::string> CompileToAssembly(const std::string& source, const Target& target);

// Returns text to append to an error if the compiler is for another architecture than the target's, else "". Starts a
// process to find out, so call it only after a failure.
std::string OtherMachine(const Target& target);

}  // namespace autotune::c
