#include "rpc/file_access.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "support/unique_fd.h"

namespace autotune::rpc {
namespace {

// The interface of Landlock (linux/landlock.h). Headers of older systems lack parts of it.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // the numbers are the same on all machines
constexpr unsigned kVersionFlag = 1;
constexpr int kPathBeneath = 1;
struct Ruleset {
  uint64_t files, network, scoped;
};
struct [[gnu::packed]] PathRule {
  uint64_t allowed;
  int32_t folder;
};
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadFolder = 1 << 3;
constexpr uint64_t kFirstFileRights = (1 << 13) - 1;  // those of version 1
constexpr uint64_t kRename = 1 << 13, kTruncate = 1 << 14, kDeviceControl = 1 << 15;
constexpr uint64_t kBindAndConnect = 3;  // TCP
constexpr uint64_t kAbstractSocketsAndSignals = 3;

// Returns the rights that this version of Landlock can withhold, and the bytes of the structure that it knows.
struct Known {
  Ruleset rights;
  size_t bytes;
};
Known RightsOf(long version) {
  Known known{{kFirstFileRights, 0, 0}, sizeof(uint64_t)};
  if (version >= 2) known.rights.files |= kRename;
  if (version >= 3) known.rights.files |= kTruncate;
  if (version >= 4) known = {{known.rights.files, kBindAndConnect, 0}, 2 * sizeof(uint64_t)};
  if (version >= 5) known.rights.files |= kDeviceControl;
  if (version >= 6) known = {{known.rights.files, kBindAndConnect, kAbstractSocketsAndSignals}, sizeof(Ruleset)};
  return known;
}

// Folders in which drivers and their compilers write.
std::vector<std::string> WritableFolders() {
  std::vector<std::string> folders = {"/dev", "/proc/self", "/tmp", "/var/tmp"};
  for (const char* name : {"TMPDIR", "XDG_CACHE_HOME", "POCL_CACHE_DIR"}) {
    if (const char* folder = std::getenv(name); folder && *folder) folders.emplace_back(folder);
  }
  if (const char* home = std::getenv("HOME"); home && *home) folders.push_back(std::string(home) + "/.cache");
  return folders;
}

// Allows `rights` beneath a folder. Without effect if there is no such folder.
Status Allow(int ruleset, const std::string& path, uint64_t rights) {
  UniqueFd folder(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!folder) return {};
  const PathRule rule{rights, folder.get()};
  if (syscall(kAddRule, ruleset, kPathBeneath, &rule, 0) != 0)
    return Err("Landlock takes no rule for ", path, ": ", strerror(errno));
  // A rule is for the inode. That of /proc/self is made anew once nobody uses it, so it stays in use.
  if (path == "/proc/self") folder.Release();
  return {};
}

}  // namespace

Result<std::string> RestrictFiles(Restriction restriction) {
  const long version = syscall(kCreateRuleset, nullptr, 0, kVersionFlag);
  if (version <= 0)
    return errno == EOPNOTSUPP ? Err("Landlock is switched off in this kernel")
                               : Err("this kernel has no Landlock (Linux 5.13 and later have it)");
  Known known = RightsOf(version);
  const bool kernels = restriction == Restriction::kKernels;
  if (!kernels) {
    known.rights = {known.rights.files & ~(kExecute | kReadFile | kReadFolder | kDeviceControl), 0, 0};
  }
  UniqueFd ruleset(static_cast<int>(syscall(kCreateRuleset, &known.rights, known.bytes, 0)));
  if (!ruleset) return Err("Landlock makes no set of rules: ", strerror(errno));
  if (kernels) {
    for (const char* folder : {"/proc/self", "/sys/devices/system/cpu"})
      TRY(Allow(ruleset.get(), folder, kReadFile | kReadFolder));
  } else {
    for (const std::string& folder : WritableFolders()) TRY(Allow(ruleset.get(), folder, known.rights.files));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(kRestrictSelf, ruleset.get(), 0) != 0)
    return Err("Landlock restricts nothing: ", strerror(errno));
  return "Landlock " + std::to_string(version);
}

}  // namespace autotune::rpc
