// Whole files. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

// The bytes of a file, also of one that does not know its size (/proc). The error names the path and says why.
Result<std::string> ReadFile(const std::string& path);

// Creates or replaces the file. The error names the path and says why; the file may then be incomplete.
Status WriteFile(const std::string& path, const std::string& bytes);
// Creates an unnamed file in the folder of `path`, calls `write` to fill it, and then gives it the name `path`. If
// `write` fails, the old file stays, or there is none. A killed writer leaves nothing behind. On file systems without
// unnamed files, it is called `path`.tmpN meanwhile; such files of earlier writers are removed. Follows a symbolic
// link. Errors: `path` exists and is no regular file; the folder cannot be written; those of `write`.
Status ReplaceFile(const std::string& path, const std::function<Status(int fd)>& write);
Status ReplaceFile(const std::string& path, std::string_view bytes);
// An empty file in `folder` that has no name and ends with its last descriptor.
Result<UniqueFd> OpenUnnamedFile(const std::string& folder);
// The folder in which `path` lies: "." for a plain name.
std::string FolderOf(const std::string& path);
// A path by which other processes of this machine may open the file, as long as this one has the descriptor.
std::string PathOfDescriptor(int fd);
// Writes all bytes to an open file. The error says "cannot write WHAT: REASON".
Status WriteAll(int fd, std::string_view bytes, std::string_view what);

}  // namespace autotune
