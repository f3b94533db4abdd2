#include "records/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace autotune {

Result<FileLock> FileLock::Open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return Err("cannot open the lock file ", path, ": ", strerror(errno));
  return FileLock(path, fd);
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Status FileLock::Acquire(int timeout_ms) {
  using namespace std::chrono;
  auto deadline = steady_clock::now() + milliseconds(timeout_ms);
  auto pause = microseconds(100);
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return Err("cannot lock ", path_, ": ", strerror(errno));
    if (steady_clock::now() >= deadline) {
      return Err("another process has held ", path_, " for more than ", timeout_ms,
                 " ms: wait until it is done, or end it");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, microseconds(5000));
  }
  return {};
}

void FileLock::Release() { ::flock(fd_, LOCK_UN); }

bool FileLock::CanShareMemory() const {
  // The page is mapped but never accessed: the file is empty, so an access would raise SIGBUS.
  size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return false;
  ::munmap(memory, size);
  return true;
}

bool IsNetworkFileSystemType(unsigned long magic) {
  switch (magic & 0xffffffffUL) {
    case 0x00006969:  // NFS
    case 0x0000517b:  // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x0000564c:  // NCP
    case 0x5346414f:  // AFS
    case 0x6b414653:  // kAFS
    case 0x73757245:  // Coda
    case 0x00c36400:  // Ceph
    case 0x01021997:  // 9P
    case 0x0bd00bd0:  // Lustre
    case 0x01161970:  // GFS2
    case 0x7461636f:  // OCFS2
    case 0x65735546:  // FUSE: sshfs and many others
      return true;
    default:
      return false;
  }
}

bool IsOnNetworkFileSystem(const std::string& path) {
  struct statfs info;
  return ::statfs(path.c_str(), &info) == 0 && IsNetworkFileSystemType(static_cast<unsigned long>(info.f_type));
}

}  // namespace autotune
