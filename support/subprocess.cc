#include "support/subprocess.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/clock.h"
#include "support/hint.h"

extern char** environ;

namespace autotune {
namespace {

constexpr char kParentVariable[] = "AUTOTUNE_PARENT_PID";

ExitStatus Decode(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const SpawnOptions& options) {
  std::vector<std::string> added = options.environment;
  added.push_back(std::string(kParentVariable) + "=" + (options.wrapped ? "any" : std::to_string(getpid())));
  std::vector<std::string> all;
  for (char** e = environ; *e; ++e) {
    std::string_view entry = *e, name = entry.substr(0, entry.find('=') + 1);
    bool replaced = std::any_of(added.begin(), added.end(), [&](const auto& a) { return a.starts_with(name); });
    if (!replaced) all.emplace_back(entry);
  }
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

}  // namespace

std::string ExitStatus::Text() const {
  if (signal == 0) return "exited with code " + std::to_string(code);
  const char* name = sigdescr_np(signal);
  return "was ended by signal " + std::to_string(signal) + (name ? std::string(" (") + name + ")" : "");
}

Result<Subprocess> Subprocess::Spawn(const SpawnOptions& options) {
  CHECK(!options.argv.empty());
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // First duplicates our descriptors to numbers above all of the child's, since the number of a source may be the
  // destination of another.
  std::vector<UniqueFd> parked;
  int highest = 2;
  for (const auto& [child_fd, our_fd] : options.fds) highest = std::max(highest, child_fd);
  for (const auto& [child_fd, our_fd] : options.fds) {
    UniqueFd copy(fcntl(our_fd, F_DUPFD_CLOEXEC, highest + 1));
    if (!copy) return Err("cannot start ", options.argv[0], ": no descriptor left: ", strerror(errno));
    posix_spawn_file_actions_adddup2(&actions, copy.get(), child_fd);
    parked.push_back(std::move(copy));
  }
  if (!options.fds.count(0)) posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (int fd = 3; fd <= highest; ++fd) {
    if (!options.fds.count(fd)) posix_spawn_file_actions_addclose(&actions, fd);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, highest + 1);

  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int group = options.own_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));

  std::vector<std::string> argv = options.argv, environment = Environment(options);
  Subprocess child;
  child.own_group_ = options.own_group;
  int error = posix_spawnp(&child.pid_, argv[0].c_str(), &actions, &attributes, Pointers(argv).data(),
                           Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error) {
    child.pid_ = -1;
    return Err("cannot start ", options.argv[0], ": ", strerror(error));
  }
  child.pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  return child;
}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this == &other) return *this;
  End();
  pid_ = std::exchange(other.pid_, -1);
  own_group_ = other.own_group_;
  is_stopped_ = other.is_stopped_;
  pidfd_ = std::move(other.pidfd_);
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

Subprocess::~Subprocess() { End(); }

void Subprocess::End() {
  if (pid_ < 0) return;
  Kill();
  Wait(5000);
  pid_ = -1;
}

void Subprocess::Kill(int signal) {
  if (pid_ > 0 && !Poll()) kill(Addressee(), signal);
}

std::optional<ExitStatus> Subprocess::Poll() {
  if (status_ || pid_ < 0) return status_;
  // Kills the rest of the child's group before reaping the child. While the child is a zombie, its number is not
  // reused, so the signal cannot reach a foreign group.
  siginfo_t info{};
  int waited;
  while ((waited = waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT)) < 0 && errno == EINTR) {
  }
  if (waited == 0 && info.si_pid == 0) return std::nullopt;
  if (waited < 0) {
    // Other code has reaped the child. Its number may belong to a foreign group now, so no signal is sent.
    status_ = ExitStatus{-1, 0};
    return status_;
  }
  kill(Addressee(), SIGKILL);
  int status = 0;
  pid_t reaped;
  while ((reaped = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  status_ = reaped == pid_ ? Decode(status) : ExitStatus{-1, 0};
  return status_;
}

bool Subprocess::WasStopped() {
  if (pid_ < 0 || status_) return false;
  // A stop that has ended leaves only its end to be read.
  bool changed = false;
  for (siginfo_t info{}; waitid(P_PID, pid_, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0;
       info = {}) {
    changed = true;
    is_stopped_ = info.si_code == CLD_STOPPED;
  }
  return changed || is_stopped_;
}

std::optional<ExitStatus> Subprocess::Wait(int64_t timeout_ms) {
  int64_t deadline = BootMillis() + timeout_ms;
  while (!Poll()) {
    int64_t left = deadline - BootMillis();
    if (left <= 0) return std::nullopt;
    pollfd p{pidfd_.get(), POLLIN, 0};
    poll(&p, 1, pidfd_ ? static_cast<int>(std::min<int64_t>(left, 1000)) : 2);
  }
  return status_;
}

void EndWithParent() {
  const char* parent = std::getenv(kParentVariable);
  if (!parent) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the parent ended before prctl took effect, the signal will never come.
  if (std::string_view(parent) != "any" && getppid() != std::atoi(parent)) _exit(1);
  unsetenv(kParentVariable);
}

void EndGroupWithParent() {
  if (getpgrp() != getpid()) return;
  const pid_t parent = getppid();
  struct sigaction action = {};
  action.sa_handler = [](int) { kill(0, SIGKILL); };
  sigaction(SIGTERM, &action, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) kill(0, SIGKILL);
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

Strangers KillStrangers(const std::vector<pid_t>& known) {
  Strangers strangers;
  for (bool found = true; found;) {
    found = false;
    strangers.alive = 0;
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid; children >> pid;) {
        if (std::find(known.begin(), known.end(), pid) != known.end()) continue;
        kill(pid, SIGKILL);
        pid_t reaped = waitpid(pid, nullptr, WNOHANG);
        strangers.alive += reaped == 0;
        // The children of a dead child become children of this process, so look again.
        if (reaped == pid) found = true, ++strangers.reaped;
      }
    }
  }
  return strangers;
}

bool OutputTail::ReadSome(int fd) {
  char bytes[4096];
  for (size_t total = 0; total < kMostBytes;) {
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;  // true: nothing to read now; false: an error
    if (n == 0) return false;
    total += static_cast<size_t>(n);
    text_.append(bytes, static_cast<size_t>(n));
    if (text_.size() > kKept) text_.erase(0, text_.size() - kKept);
  }
  return true;
}

Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
    return Err("cannot make a socket pair: ", strerror(errno));
  return std::pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return Err("cannot make a pipe: ", strerror(errno));
  return std::pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

namespace {

// The shared library that this code is in; empty if it is in the program itself.
std::filesystem::path OwnLibrary() {
  Dl_info info{};
  void* entry = nullptr;  // the loader's link_map, whose name is empty for the program
  if (!dladdr1(reinterpret_cast<void*>(&FindOwnExecutable), &info, &entry, RTLD_DL_LINKMAP) || !entry) return {};
  const char* name = static_cast<const link_map*>(entry)->l_name;
  std::error_code ignored;
  return name && *name ? std::filesystem::weakly_canonical(name, ignored) : std::filesystem::path();
}

}  // namespace

Result<std::string> FindOwnExecutable(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> folders;
  if (const char* libexec = std::getenv("AUTOTUNE_LIBEXEC"); libexec && *libexec) folders.push_back(libexec);
  if (const fs::path library = OwnLibrary(); !library.empty()) {
    const fs::path folder = library.parent_path();
    // PREFIX/lib, or PREFIX/lib/x86_64-linux-gnu
    folders.insert(folders.end(), {folder, folder / "../libexec/autotune", folder / "../bin", folder / "../../bin"});
  } else {
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    folders.insert(folders.end(), {folder, folder / "../libexec/autotune"});
  }
  std::string tried;
  for (const fs::path& folder : folders) {
    fs::path path = folder / name;
    if (access(path.c_str(), X_OK) == 0) return path.string();
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  return WithHint(Err("cannot find the executable ", name, " in ", tried),
                  "set AUTOTUNE_LIBEXEC to the folder that holds it");
}

}  // namespace autotune
