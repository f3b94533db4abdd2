// Whole files. Thread-safe.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

// Returns the bytes of a file, also if it reports no size (as in /proc). The error names the path and the reason.
Result<std::string> ReadFile(const std::string& path);

// Creates or replaces the file. The error names the path and the reason; the file may then be incomplete.
Status WriteFile(const std::string& path, const std::string& bytes);
// Creates an unnamed file in the folder of `path`, calls `write` to fill it, and then gives it the name `path`. If
// `write` fails, an old file stays as it was. A killed writer leaves no file behind. On file systems without unnamed
// files, the file is called `path`.tmpN until then, where N is the process id; such files of killed writers are removed
// by the next one. Follows a symbolic link. Errors: `path` exists and is not a regular file; the folder cannot be
// written; those of `write`.
Status ReplaceFile(const std::string& path, const std::function<Status(int fd)>& write);
Status ReplaceFile(const std::string& path, std::string_view bytes);
// Creates an empty file in `folder` that has no name. It exists until its last descriptor is closed.
Result<UniqueFd> OpenUnnamedFile(const std::string& folder);
// Returns the folder of `path`: "." for a plain name.
std::string FolderOf(const std::string& path);
// Returns a path by which other processes of this machine can open the file while this process has the descriptor.
std::string PathOfDescriptor(int fd);
// Writes all bytes to an open file. The error says "cannot write WHAT: REASON".
Status WriteAll(int fd, std::string_view bytes, std::string_view what);

}  // namespace autotune
