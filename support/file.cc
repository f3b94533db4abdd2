#include "support/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace autotune {
namespace {

constexpr const char* kTemporary = ".tmp";  // suffix of the name of a temporary file; the process id follows

struct Temporary {
  UniqueFd fd;  // empty after an error, which is in errno
  std::string name;
  bool is_named = false;  // true: the file has this name in its folder
};

// Opens a temporary file for `target` and locks it. The lock shows other writers that the file is in use. On file
// systems without locks, RemoveAbandoned removes nothing.
Temporary OpenTemporary(const std::string& target, mode_t mode) {
  Temporary file{.name = target + kTemporary + std::to_string(getpid())};
  file.fd.Reset(open(FolderOf(target).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  struct stat status {};
  while (!file.fd) {  // repeats if another process removed the file before it was locked
    file.fd.Reset(open(file.name.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, mode));
    if (!file.fd) return file;
    file.is_named = true;
    flock(file.fd.get(), LOCK_EX);
    if (fstat(file.fd.get(), &status) == 0 && status.st_nlink == 0) file.fd.Reset();
  }
  flock(file.fd.get(), LOCK_EX | LOCK_NB);
  return file;
}

// Removes the temporary files of writers of `target` that ended before they were done.
void RemoveAbandoned(const std::string& target) {
  const std::string begin = std::filesystem::path(target).filename().string() + kTemporary;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(FolderOf(target), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || name.size() == begin.size()) continue;
    if (name.find_first_not_of("0123456789", begin.size()) != std::string::npos) continue;
    if (entry.symlink_status(error).type() != std::filesystem::file_type::regular) continue;
    UniqueFd fd(open(entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
  }
}

// Writes the names of the files in a folder to the disk. Returns false after an error of the disk, which is in errno. A
// folder that may not be read, and a file system that cannot sync folders, are no errors.
bool SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return !fd || fsync(fd.get()) == 0 || (errno != EIO && errno != ENOSPC && errno != EDQUOT);
}

// Does what ReplaceFile promises or, if `durable`, what ReplaceFileDurably promises.
Status Replace(const std::string& path, const std::function<Status(int fd)>& write, bool durable) {
  std::error_code error;
  std::string target = path;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return Err("cannot write ", path, ": it is not a regular file");
    target = std::filesystem::canonical(path, error).string();
    if (error) return Err("cannot write ", path, ": ", error.message());
  }
  RemoveAbandoned(target);
  auto failed = [&] { return Err("cannot write ", path, ": ", std::strerror(errno)); };
  Temporary file = OpenTemporary(target, durable ? 0600 : 0666);
  if (!file.fd) return failed();
  Status written = write(file.fd.get());
  // The bytes must be on the disk before the file gets its name. A crash could otherwise leave an empty file.
  if (written.ok() && durable && fsync(file.fd.get()) != 0) written = failed();
  if (written.ok() && !file.is_named &&
      linkat(AT_FDCWD, PathOfDescriptor(file.fd.get()).c_str(), AT_FDCWD, file.name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return failed();
  if (written.ok() && std::rename(file.name.c_str(), target.c_str()) != 0) {
    written = failed();
    file.is_named = true;
  }
  if (!written.ok() && file.is_named) unlink(file.name.c_str());
  if (written.ok() && durable && !SyncFolder(FolderOf(target))) return failed();
  return written;
}

}  // namespace

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

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string PathOfDescriptor(int fd) { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd); }

Result<UniqueFd> OpenUnnamedFile(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  std::string path = folder + "/.autotune-XXXXXX";  // for file systems without unnamed files
  fd.Reset(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return Err("cannot write into ", folder, ": ", std::strerror(errno));
  unlink(path.c_str());
  return fd;
}

Status ReplaceFile(const std::string& path, const std::function<Status(int fd)>& write) {
  return Replace(path, write, /*durable=*/false);
}

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  return ReplaceFile(path, [&](int fd) { return WriteAll(fd, bytes, path); });
}

Status ReplaceFileDurably(const std::string& path, std::string_view bytes) {
  return Replace(
      path, [&](int fd) { return WriteAll(fd, bytes, path); }, /*durable=*/true);
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
