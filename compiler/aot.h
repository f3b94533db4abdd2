// Ahead-of-time output: a network as one relocatable object, one archive, or one C source, with a header (docs/aot.md).
// Programs link it and need no runtime. Stateless.
#pragma once
#include <string>

#include "compiler/compile.h"

namespace autotune {

// Returns an error if `path` is no name for ahead-of-time output: NAME.a, NAME.o or, for targets of kind c, NAME.c,
// with a NAME that is a C identifier. Refuses targets of GPUs, too.
Status CheckAotOutput(const std::string& path, const Target& target);

// Returns the path of the header that belongs to `path`.
std::string AotHeaderOf(const std::string& path);

// Writes `path` and its header. Objects need a C compiler for the target. Returns why the constants could not be
// prepared here, or nothing if they are: the program must then call NAME_prepare.
Result<std::string> WriteAot(const CompileResult& result, const Target& target, const std::string& path);

}  // namespace autotune
