#include "support/host_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "support/clock.h"

namespace autotune {
namespace {

Result<UniqueFd> Open(const std::string& path) {
  // First tries without O_CREAT, which Linux refuses in a sticky folder for a file of another user
  // (fs.protected_regular). All users of the host share the lock. flock needs no write access.
  for (int attempt = 0; attempt < 3; ++attempt) {
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd) return fd;
    if (errno != ENOENT) break;
    fd.Reset(open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd) {
      fchmod(fd.get(), 0666);
      return fd;
    }
    if (errno != EEXIST) break;
  }
  return Err("cannot open the host lock ", path, ": ", strerror(errno), "; AUTOTUNE_HOST_LOCK sets another file");
}

}  // namespace

std::string HostLock::Path() {
  const char* path = std::getenv("AUTOTUNE_HOST_LOCK");
  return path && *path ? path : "/tmp/autotune-host.lock";
}

Result<HostLock> HostLock::Acquire(Mode mode) {
  UniqueFd fd = TRY(Open(Path()));
  while (flock(fd.get(), mode == Mode::kShared ? LOCK_SH : LOCK_EX)) {
    if (errno != EINTR) return Err("cannot lock ", Path(), ": ", strerror(errno));
  }
  return HostLock(std::move(fd));
}

Result<std::optional<HostLock>> HostLock::TryAcquire(Mode mode) {
  UniqueFd fd = TRY(Open(Path()));
  if (flock(fd.get(), (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
    return std::optional<HostLock>(HostLock(std::move(fd)));
  }
  if (errno == EWOULDBLOCK || errno == EINTR) return std::optional<HostLock>();
  return Err("cannot lock ", Path(), ": ", strerror(errno));
}

Result<std::optional<HostLock>> HostLock::AcquireWithin(Mode mode, int64_t milliseconds) {
  for (int64_t end = BootMillis() + milliseconds;;) {
    std::optional<HostLock> lock = TRY(TryAcquire(mode));
    if (lock || BootMillis() >= end) return lock;
    usleep(5000);
  }
}

}  // namespace autotune
