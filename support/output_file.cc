#include "support/output_file.h"

#include <filesystem>

#include "support/file.h"

namespace autotune {

Status CheckCompiledFile(const std::string& path, const std::string& executor) {
  const bool linked = path.ends_with(".a") || path.ends_with(".o") || path.ends_with(".c");
  if (executor == "aot") {
    if (linked) return {};
    return Err(path, ": name it NAME.a, an archive, NAME.o, an object, or NAME.c, a C source");
  }
  if (path.ends_with(".tar") || path.ends_with(".so")) return {};
  return Err(path, ": name it M.tar, a package, or M.so, one shared object",
             linked ? "; --executor aot writes code for linkers" : "");
}

Status CheckOutputFile(const std::string& output, const std::string& input, const std::string& option) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (output.empty()) return {};
  const std::string folder = FolderOf(output);
  if (!fs::is_directory(folder, error)) return Err(option, " ", output, ": there is no folder ", folder);
  // Permissions do not tell what may be written: not to root, and not on every file system.
  TRY_NOTE(OpenUnnamedFile(folder), "for " + option + " " + output);
  if (!fs::exists(output, error)) return {};
  if (!fs::is_regular_file(output, error)) return Err(option, " ", output, " is not a regular file");
  if (fs::equivalent(output, input, error))
    return Err(option, " ", output, " is the model itself, or its records, which would be lost");
  return {};
}

}  // namespace autotune
