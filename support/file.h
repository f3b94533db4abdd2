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
// Creates an unnamed file in the folder of `path`, calls `write` to fill it, and renames it to `path`. If `write`
// fails, an old file stays as it was. For the renaming, the file gets the name `path`.tmpN first, where N is the
// process id; on file systems without unnamed files, it has this name from the start. If a writer is killed while its
// file has this name, the next writer removes the file. Follows a symbolic link. Errors: `path` exists and is not a
// regular file; the folder cannot be written; those of `write`.
Status ReplaceFile(const std::string& path, const std::function<Status(int fd)>& write);
Status ReplaceFile(const std::string& path, std::string_view bytes);
// Like ReplaceFile, but returns after the bytes and the name have reached the disk. After a crash of the machine, the
// file has the old bytes or the new ones, and the new ones if this function had returned. Only its owner may read it.
Status ReplaceFileDurably(const std::string& path, std::string_view bytes);
// Creates an empty file in `folder` that has no name. It exists until its last descriptor is closed.
Result<UniqueFd> OpenUnnamedFile(const std::string& folder);
// Returns the folder of `path`: "." for a plain name.
std::string FolderOf(const std::string& path);
// Returns a path by which other processes of this machine can open the file while this process has the descriptor.
std::string PathOfDescriptor(int fd);
// Writes all bytes to an open file. The error says "cannot write WHAT: REASON".
Status WriteAll(int fd, std::string_view bytes, std::string_view what);

}  // namespace autotune
