// Subprocess: a child process. It is started by posix_spawn, by default in its own process group, with only the
// descriptors it is given, and it ends with its parent. Not thread-safe. Linux sends the death signal
// (PR_SET_PDEATHSIG) when the *thread* that spawned the child ends, so that thread must live as long as the child is
// needed.
#pragma once
#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

struct ExitStatus {
  int code = 0;    // exit code, if signal is 0
  int signal = 0;  // the signal that ended it
  bool ok() const { return code == 0 && signal == 0; }
  std::string Text() const;  // "exited with code 3", "was ended by signal 11 (Segmentation fault)"
  bool operator==(const ExitStatus&) const = default;
};

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH unless it holds a slash
  // Maps descriptors of the child to ours. If not listed, 0 reads /dev/null, and 1 and 2 are inherited. All other
  // descriptors are closed in the child.
  std::map<int, int> fds;
  std::vector<std::string> environment;  // "NAME=value", added to ours
  // True: the child runs inside a wrapper (qemu, bwrap), so this process may not be its parent. EndWithParent() then
  // relies on the death signal alone.
  bool wrapped = false;
  // True: the child leads a process group of its own. False: it is in our group and ends when our group is killed, and
  // Kill kills the child alone.
  bool own_group = true;
};

class Subprocess {
 public:
  static Result<Subprocess> Spawn(const SpawnOptions& options);
  Subprocess(Subprocess&& other) noexcept { *this = std::move(other); }
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();  // kills the child, and its group if it leads one; waits up to 5 s for the child

  pid_t pid() const { return pid_; }
  // Readable once the child has ended; -1 if the kernel (before 5.3) has no pidfd; then call Poll regularly.
  int exit_descriptor() const { return pidfd_.get(); }
  // Sends the signal to the child, and to its group if it leads one. No effect after the child has been waited for.
  void Kill(int signal = SIGKILL);
  // Never blocks, and keeps answering after the end. The exit code is -1 if other code has reaped the child; the rest
  // of its group then stays alive.
  std::optional<ExitStatus> Poll();
  std::optional<ExitStatus> Wait(int64_t timeout_ms);  // nullopt: still alive
  // Returns whether a signal has stopped the child and it has not been continued, or was since the latest call. False
  // for a child inside a wrapper of which this process is not the parent. Takes about a microsecond.
  bool WasStopped();

 private:
  Subprocess() = default;
  void End();
  // The argument of kill() for the child and, if it leads one, its group.
  pid_t Addressee() const { return own_group_ ? -pid_ : pid_; }

  pid_t pid_ = -1;
  bool own_group_ = true, is_stopped_ = false;
  UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

// For a child: the first call of main in every mode that Spawn starts. Asks the kernel for SIGKILL when the parent
// ends, and exits at once if it has ended already. Without effect in a process that Spawn did not start.
void EndWithParent();

// For a child that leads its process group and starts other programs in it: when the parent ends, the whole group ends.
// Call it after EndWithParent. Without effect in a process that leads no group.
void EndGroupWithParent();

// For a parent: descendants orphaned by their own parents become our children, so that KillStrangers finds them.
void AdoptOrphans();
struct Strangers {  // numbers of processes that KillStrangers found
  int reaped = 0;
  int alive = 0;  // killed, but not dead yet
};
// Kills every child of this process that is not in `known`, and reaps those that are dead. Does not wait, since a
// process that is blocked in a system call outlives SIGKILL. Call it again while some are alive.
Strangers KillStrangers(const std::vector<pid_t>& known);

// Keeps the end of the text that a child writes to a pipe.
class OutputTail {
 public:
  static constexpr size_t kKept = 500;            // bytes of text
  static constexpr size_t kMostBytes = 64 << 10;  // bytes per call; the capacity of a pipe
  // Reads the available bytes from a non-blocking descriptor, but no more than kMostBytes, since a child may write
  // faster than we read. Returns false at the end of the stream.
  bool ReadSome(int fd);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();  // stream, both ends CLOEXEC
Result<std::pair<UniqueFd, UniqueFd>> MakePipe();        // {read, write}, both CLOEXEC
// Returns the path of one of our executables: in $AUTOTUNE_LIBEXEC, else beside the running executable, else in
// ../libexec/autotune. In a shared library, which any program may have loaded: beside the library, in
// ../libexec/autotune,
// ../bin or ../../bin.
Result<std::string> FindOwnExecutable(const std::string& name);

}  // namespace autotune
