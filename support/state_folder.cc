#include "support/state_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "support/hint.h"

namespace autotune {

std::string StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = state && *state ? state : home && *home ? std::string(home) + "/.local/state" : "/var/tmp";
  return folder + "/autotune";
}

std::string RuntimeFolder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime) return std::string(runtime) + "/autotune";
  return "/tmp/autotune-" + std::to_string(geteuid());
}

Status MakePrivateFolder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const bool made = mkdir(path.c_str(), 0700) == 0;
  struct stat info {};
  if ((!made && errno != EEXIST) || lstat(path.c_str(), &info)) return Err("cannot make ", path, ": ", strerror(errno));
  if (!S_ISDIR(info.st_mode)) return Err(path, " is no folder");
  if (info.st_uid != geteuid()) return Err("another user owns the folder ", path);
  if (info.st_mode & (S_IRWXG | S_IRWXO))
    return WithHint(Err("other users may enter the folder ", path), "chmod 700 " + path);
  return {};
}

}  // namespace autotune
