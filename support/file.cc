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

Status ReplaceFile(const std::string& path, const std::function<Status(const std::string& temporary)>& write) {
  std::error_code error;
  std::string target = path;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return Err("cannot write ", path, ": it is no regular file");
    target = std::filesystem::canonical(path, error).string();
    if (error) return Err("cannot write ", path, ": ", error.message());
  }
  const std::string temporary = target + ".tmp" + std::to_string(getpid());
  Status written = write(temporary);
  if (written.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) {
    written = Err("cannot write ", path, ": ", std::strerror(errno));
  }
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

Status ReplaceFile(const std::string& path, const std::string& bytes) {
  return ReplaceFile(path, [&](const std::string& temporary) -> Status {
    Status written = WriteFile(temporary, bytes);
    if (!written.ok()) return Err("cannot write ", path, ": ", std::strerror(errno));
    return {};
  });
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
