// FileLock: an exclusive lock between processes, by flock on a file that is never removed. Not recursive. Not
// thread-safe: threads that share one FileLock need a mutex, because the lock does not exclude them from each other.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

class FileLock {
 public:
  // Opens or creates the lock file; does not lock yet. Programs that this process starts do not inherit the descriptor.
  static Result<FileLock> Open(const std::string& path);
  FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // Waits for the lock, or fails after `timeout_ms`. The operating system frees the lock of a process that dies.
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

// True if `path` is on a network file system, where processes cannot rely on memory shared through a file.
bool IsOnNetworkFileSystem(const std::string& path);
// True if `magic`, a file system type as statfs(2) reports it, is a network file system.
bool IsNetworkFileSystemType(unsigned long magic);

}  // namespace autotune
