#include "support/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace autotune {

Result<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Err("cannot read ", path, ": it is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) return Err("cannot read ", path, ": ", std::strerror(errno));
  std::ostringstream bytes;
  if (file.peek() != std::ifstream::traits_type::eof()) bytes << file.rdbuf();
  if (file.bad() || !bytes) return Err("cannot read ", path, " to its end");
  return std::move(bytes).str();
}

Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    return Err("cannot write ", path, ": ", std::strerror(errno));
  }
  return {};
}

Status ReplaceFile(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  Status written = WriteFile(temporary, bytes);
  if (written.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    written = Err("cannot write ", path, ": ", std::strerror(errno));
  }
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

Status WriteAll(int fd, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Err("cannot write ", what, ": ", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace autotune
