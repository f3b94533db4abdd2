// FileLock: an exclusive lock between processes, by flock on a file that is never removed. Not recursive. Not
// thread-safe: threads that share one FileLock need a mutex, because the lock does not exclude them from each other.
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

  // Returns true if processes can share memory through files of this file system. Some file systems can lock files but
  // not map them, for example many folders that a host shares with a virtual machine.
  bool CanShareMemory() const;

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// True if `path` is on a network file system. There, processes cannot rely on memory shared through a file.
bool IsOnNetworkFileSystem(const std::string& path);
// True if `magic`, a file system type as statfs(2) reports it, is a network file system.
bool IsNetworkFileSystemType(unsigned long magic);

}  // namespace autotune
