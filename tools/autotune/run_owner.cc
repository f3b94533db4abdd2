#include "tools/autotune/run_owner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "records/open.h"
#include "support/file.h"
#include "support/hash.h"
#include "tools/error_lines.h"

namespace autotune::tools {
namespace {

// Returns false if the name stands for another file by now: the last owner removed this one after it was opened.
bool IsFileAt(const std::string& path, int fd) {
  struct stat named {
  }, opened{};
  return stat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

}  // namespace

Result<RunOwner> RunOwner::Take(const std::string& database, const std::string& run) {
  if (database == kMemoryStore) return RunOwner("", {});
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::weakly_canonical(database, ignored);
  const std::string path = (file.empty() ? database : file.string()) + ".run-" + HashBytes128(run).Hex().substr(0, 16);
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd) return Err("cannot open ", path, ": ", strerror(errno));
    if (flock(fd.get(), LOCK_EX | LOCK_NB)) {
      if (errno != EWOULDBLOCK) return Err("cannot lock ", path, ": ", strerror(errno));
      char owner[32] = {};
      const ssize_t n = pread(fd.get(), owner, sizeof owner - 1, 0);
      return WithHint(Err("this run is under way", n > 0 ? " in process " + std::string(owner) : ""),
                      "wait for it, or begin another run with --seed N or --fresh");
    }
    if (!IsFileAt(path, fd.get())) continue;
    const std::string self = std::to_string(getpid());
    if (ftruncate(fd.get(), 0)) return Err("cannot write ", path, ": ", strerror(errno));
    TRY(WriteAll(fd.get(), self, path));
    return RunOwner(path, std::move(fd));
  }
}

RunOwner::~RunOwner() {
  if (fd_) unlink(path_.c_str());
}

}  // namespace autotune::tools
