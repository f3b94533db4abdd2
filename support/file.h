// Whole files. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// The bytes of a file, also of one that does not know its size (/proc). The error names the path and says why.
Result<std::string> ReadFile(const std::string& path);

// Creates or replaces the file. The error names the path and says why; the file may then be incomplete.
Status WriteFile(const std::string& path, const std::string& bytes);
// Has `write` write a temporary file beside `path`, then renames it: a write that fails leaves the old file, or none. A
// symbolic link is followed. Errors: what exists there is no regular file; those of `write`.
Status ReplaceFile(const std::string& path, const std::function<Status(const std::string& temporary)>& write);
Status ReplaceFile(const std::string& path, const std::string& bytes);
// Writes all bytes to an open file. The error says "cannot write WHAT: REASON".
Status WriteAll(int fd, std::string_view bytes, std::string_view what);

}  // namespace autotune
