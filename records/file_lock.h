// FileLock: an exclusive lock between processes, by flock on a file that is never removed. Not recursive, and not a
// lock between the threads that share one FileLock: their owner has a mutex for that.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

class FileLock {
 public:
  // Opens or creates the lock file; does not lock yet. Children of this process do not inherit it.
  static Result<FileLock> Open(const std::string& path);
  FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // Waits until the lock is free, or fails after `timeout_ms`. The kernel frees it when its holder dies.
  Status Acquire(int timeout_ms);
  void Release();

  // Whether processes can share memory through files of this file system: some, as many a host's folder in a virtual
  // machine, lock files but do not map them.
  bool CanShareMemory() const;

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// True if the file system of `path` is reached over a network, where memory shared between processes cannot be trusted.
bool IsOnNetworkFileSystem(const std::string& path);
// The same for a file system's magic number, as statfs(2) gives it.
bool IsNetworkFileSystemType(unsigned long magic);

}  // namespace autotune
