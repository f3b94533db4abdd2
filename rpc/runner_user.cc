#include "rpc/runner_user.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace autotune::rpc {

Result<RunnerUser> RunnerUser::Take(const std::string& folder) {
  if (geteuid() != 0) return Err("the server does not run as root");
  constexpr uid_t kMost = 1000;  // servers on one host
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Err("cannot make ", folder, ": ", strerror(errno));
  for (uid_t number = kFirstRunnerUser; number < kFirstRunnerUser + kMost; ++number) {
    if (getpwuid(number)) continue;
    const std::string path = folder + "/user-" + std::to_string(number);
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return Err("cannot open ", path, ": ", strerror(errno));
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return RunnerUser(number, std::move(file));
    if (errno != EWOULDBLOCK) return Err("cannot lock ", path, ": ", strerror(errno));
  }
  return Err("no number of a user is free between ", kFirstRunnerUser, " and ", kFirstRunnerUser + kMost - 1);
}

Status BecomeUser(uid_t number, int threads) {
  if (geteuid() != 0) return Err("the server does not run as root");
  if (number >= kFirstRunnerUser) {
    const rlimit limit{static_cast<rlim_t>(threads), static_cast<rlim_t>(threads)};
    setrlimit(RLIMIT_NPROC, &limit);
  }
  const pid_t parent = getppid();
  if (setgroups(0, nullptr) != 0 || setresgid(number, number, number) != 0 || setresuid(number, number, number) != 0)
    return Err("cannot become user ", number, ": ", strerror(errno));
  // The change has cancelled the request of EndWithParent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // The caches of OpenCL's compilers; the folder of the server's user is closed to this one.
  setenv("HOME", ("/tmp/autotune-user-" + std::to_string(number)).c_str(), /*overwrite=*/1);
  return {};
}

}  // namespace autotune::rpc
