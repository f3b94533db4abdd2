#include "support/host_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "support/clock.h"
#include "support/log.h"

namespace autotune {
namespace {

constexpr useconds_t kPoll = 5000;        // microseconds between two tries; long measurements pause for longer
constexpr int64_t kReportEveryMs = 1000;  // time between two reports of a wait, and before the first one

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

// Returns the processes that hold the lock. A line of /proc/locks is "3: FLOCK  ADVISORY  WRITE 4711 fe:00:1095 0 EOF":
// the process, the file's device in two hexadecimal numbers, and its inode. The system does not list processes of other
// namespaces.
std::set<pid_t> HoldersOf(const std::string& path) {
  std::set<pid_t> holders;
  struct stat file {};
  if (stat(path.c_str(), &file)) return holders;
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%02x:%02x:%ju", major(file.st_dev), minor(file.st_dev),
                static_cast<uintmax_t>(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, enforcement, access, place;
    pid_t holder = 0;
    words >> number >> kind >> enforcement >> access >> holder >> place;
    if (kind == "FLOCK" && place == wanted && holder > 0) holders.insert(holder);
  }
  return holders;
}

std::string ProcessText(pid_t pid) {
  std::string name;
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::getline(file, name);
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

// Reports one wait while it lasts.
class WaitReport {
 public:
  explicit WaitReport(std::string path) : path_(std::move(path)) {}
  ~WaitReport() {
    if (reported_) HostWaitWatch::Tell({.since = since_, .reason = ""});
  }
  int64_t milliseconds() const { return BootMillis() - since_; }
  // Reports the wait if a report is due.
  void Update() {
    if (milliseconds() < due_) return;
    due_ = milliseconds() + kReportEveryMs;
    const HostWait wait{.since = since_, .reason = HostLock::HeldText(path_)};
    if (!HostWaitWatch::Tell(wait) && !reported_) Log(LogLevel::kWarning, "waiting for this host: ", wait.reason);
    reported_ = true;
  }

 private:
  const std::string path_;
  const int64_t since_ = BootMillis();
  int64_t due_ = kReportEveryMs;  // milliseconds after the begin of the wait
  bool reported_ = false;
};

std::mutex watch_mutex;
HostWaitWatch* latest_watch = nullptr;  // guarded by watch_mutex

}  // namespace

HostWaitWatch::HostWaitWatch(std::function<void(const HostWait&)> on_wait) : on_wait_(std::move(on_wait)) {
  std::lock_guard hold(watch_mutex);
  earlier_ = std::exchange(latest_watch, this);
}

HostWaitWatch::~HostWaitWatch() {
  std::lock_guard hold(watch_mutex);
  HostWaitWatch** link = &latest_watch;
  while (*link != this) link = &(*link)->earlier_;
  *link = earlier_;
}

bool HostWaitWatch::Tell(const HostWait& wait) {
  std::lock_guard hold(watch_mutex);
  if (!latest_watch) return false;
  latest_watch->on_wait_(wait);
  return true;
}

std::string HostLock::Path() {
  const char* path = std::getenv("AUTOTUNE_HOST_LOCK");
  return path && *path ? path : "/tmp/autotune-host.lock";
}

std::string HostLock::PathOf(const std::string& identity) {
  if (identity.empty()) return Path();
  std::string name = identity;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  return Path() + "." + name;
}

std::string HostLock::HeldText(const std::string& path) {
  std::string holders;
  for (pid_t holder : HoldersOf(path)) holders += (holders.empty() ? "" : ", ") + ProcessText(holder);
  return path + " is held by " + (holders.empty() ? "another process" : holders);
}

Result<HostLock> HostLock::Acquire(Mode mode, const std::atomic<bool>* stop) {
  std::optional<HostLock> lock = TRY(Wait(mode, std::nullopt, stop, Path()));
  return std::move(*lock);
}

Result<std::optional<HostLock>> HostLock::TryAcquire(Mode mode, const std::string& path) {
  UniqueFd fd = TRY(Open(path));
  if (flock(fd.get(), (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
    return std::optional<HostLock>(HostLock(std::move(fd)));
  }
  if (errno == EWOULDBLOCK || errno == EINTR) return std::optional<HostLock>();
  return Err("cannot lock ", path, ": ", strerror(errno));
}

Result<std::optional<HostLock>> HostLock::AcquireWithin(Mode mode, int64_t milliseconds, const std::atomic<bool>* stop,
                                                        const std::string& path) {
  return Wait(mode, milliseconds, stop, path);
}

// Tries again and again instead of blocking in flock, since a blocked thread could neither report nor be stopped.
Result<std::optional<HostLock>> HostLock::Wait(Mode mode, std::optional<int64_t> milliseconds,
                                               const std::atomic<bool>* stop, const std::string& path) {
  for (WaitReport report(path);; usleep(kPoll)) {
    std::optional<HostLock> lock = TRY(TryAcquire(mode, path));
    if (lock || (milliseconds && report.milliseconds() >= *milliseconds)) return lock;
    if (stop && *stop) return Error("stopped a wait: " + HeldText(path), ErrorKind::kStopped);
    report.Update();
  }
}

}  // namespace autotune
