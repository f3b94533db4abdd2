// Checks the names of files that a command or a library is asked to write, before the work begins. Thread-safe.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// Returns an error unless `path` has a name for the output of this executor: M.tar or M.so for "graph"; NAME.a, NAME.o
// or NAME.c for "aot".
Status CheckCompiledFile(const std::string& path, const std::string& executor);

// Returns why the file `output` of this option cannot be written, before the work begins: its folder is missing or
// cannot be written, it is no regular file, or it is the file `input`, which would be lost. An empty `output` is right.
Status CheckOutputFile(const std::string& output, const std::string& input, const std::string& option = "-o");

}  // namespace autotune
