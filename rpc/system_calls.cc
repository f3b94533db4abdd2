#include "rpc/system_calls.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "rpc/runner.h"
#include "support/sanitized.h"

namespace autotune::rpc {
namespace {

// The calls of a runner on the CPU: found by tracing runners of every kind (one thread and many, with and without a
// reference, killed by abort), and the calls by which the C library does the same things on other machines.
constexpr const char* kAllowed[] = {
    // Descriptors that are open, and files that Landlock allows.
    "read", "pread64", "readv", "write", "writev", "close", "lseek", "fstat", "newfstatat", "stat", "lstat", "statx",
    "readlink", "readlinkat", "access", "faccessat", "faccessat2", "getdents64", "poll", "ppoll",
    // Memory, and files in memory, from which artifacts are loaded.
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "memfd_create", "membarrier",
    // RISC-V: code in memory, and the extensions of the CPU, by which the C library chooses its memcpy whenever a
    // library is bound to it.
    "riscv_flush_icache", "riscv_hwprobe",
    // Threads, of this process only.
    "futex", "set_robust_list", "set_tid_address", "rseq", "exit", "exit_group", "sched_yield", "sched_getaffinity",
    "getcpu", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
    // Clocks, and what the process and the machine are.
    "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "time", "getrusage", "getpid", "gettid", "getppid",
    "getuid", "geteuid", "getgid", "getegid", "sysinfo", "uname", "getrandom", "getcwd"};

// Calls that the C library can do without. An error code makes it take another way.
struct Missing {
  const char* call;
  int error;
};
constexpr Missing kMissing[] = {
    {"clone3", ENOSYS}, {"openat2", ENOSYS}, {"futex_waitv", ENOSYS}, {"ioctl", ENOTTY}, {"set_mempolicy", EPERM}};

// Calls that no driver needs.
constexpr const char* kRefused[] = {
    // Other processes: signals, memory, priorities, groups.
    "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "ptrace",
    "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "migrate_pages",
    "move_pages", "setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr", "setrlimit",
    "setsid", "setpgid",
    // Sockets, and queues that outlive the process.
    "socket", "socketpair", "connect", "bind", "listen", "shmget", "msgget", "semget", "mq_open",
    // The machine, its file systems and namespaces.
    "mount", "umount2", "pivot_root", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "unshare", "setns", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "reboot", "swapon",
    "swapoff", "sethostname", "setdomainname", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm", "chroot", "vhangup",
    // Interfaces of the kernel that have a history of faults.
    "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "add_key",
    "request_key", "keyctl", "personality", "fanotify_init", "inotify_init", "inotify_init1", "name_to_handle_at",
    "open_by_handle_at", "landlock_restrict_self"};

// Calls that OpenCL's compilers need, and CUDA's does not.
constexpr const char* kCompilers[] = {
    "fork",      "vfork",    "execve",  "execveat", "creat",     "unlink", "unlinkat", "rename",    "renameat",
    "renameat2", "mkdir",    "mkdirat", "rmdir",    "link",      "linkat", "symlink",  "symlinkat", "truncate",
    "chmod",     "fchmodat", "mknod",   "mknodat",  "fchmodat2", "chown",  "lchown",   "fchownat"};

constexpr scmp_datum_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
constexpr scmp_datum_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// A filter in the making. Keeps the first error.
class Filter {
 public:
  explicit Filter(uint32_t default_action) : context_(seccomp_init(default_action), seccomp_release) {
    if (!context_) error_ = -ENOMEM;
    Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);  // calls of 32-bit code have other numbers
    Set(SCMP_FLTATR_CTL_TSYNC, 1);                        // filters all threads
    // Without this, Linux before 5.16 would slow down the memory accesses of filtered threads (a mitigation of Spectre)
    // and so falsify measurements.
    Set(SCMP_FLTATR_CTL_SSB, 1);
    Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);  // looks calls up in a tree
  }
  // Adds a rule for a call. Without effect if this machine has no such call.
  void Add(uint32_t action, const char* call, std::vector<scmp_arg_cmp> conditions = {}) {
    const int number = seccomp_syscall_resolve_name(call);
    if (number < 0 || error_) return;
    error_ = seccomp_rule_add_array(context_.get(), action, number, static_cast<unsigned>(conditions.size()),
                                    conditions.data());
  }
  Status Install() {
    if (!error_) error_ = seccomp_load(context_.get());
    if (error_) return Err("the operating system takes no filter: ", strerror(error_ < 0 ? -error_ : error_));
    return {};
  }

 private:
  void Set(scmp_filter_attr attribute, uint32_t value) {
    if (!error_) error_ = seccomp_attr_set(context_.get(), attribute, value);
  }
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

scmp_datum_t OwnPid() { return static_cast<scmp_datum_t>(getpid()); }

void AllowKernels(Filter& filter) {
  for (const char* call : kAllowed) filter.Add(SCMP_ACT_ALLOW, call);
  for (const Missing& missing : kMissing)
    filter.Add(SCMP_ACT_ERRNO(static_cast<uint16_t>(missing.error)), missing.call);
  filter.Add(SCMP_ACT_ALLOW, "open", {SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, 0)});
  filter.Add(SCMP_ACT_ALLOW, "openat", {SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, 0)});
  // Threads, but no processes and no namespaces. clone3 is missing, since its flags lie in memory, which a filter
  // cannot read; the C library then uses clone.
  filter.Add(SCMP_ACT_ALLOW, "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | kNamespaces, CLONE_THREAD)});
  // abort(), and the handler below. A runner that could stop itself would look as if the host had stopped it.
  for (const int signal : {SIGABRT, SIGSYS})
    filter.Add(SCMP_ACT_ALLOW, "tgkill",
               {SCMP_A0(SCMP_CMP_EQ, OwnPid()), SCMP_A2(SCMP_CMP_EQ, static_cast<scmp_datum_t>(signal))});
  filter.Add(SCMP_ACT_ALLOW, "sched_setaffinity", {SCMP_A0(SCMP_CMP_EQ, 0)});                   // of the calling thread
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)});  // reads own limits
  filter.Add(SCMP_ACT_ALLOW, "prctl", {SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)});
  // The first thread that a process starts makes the C library install a handler. That of SIGSYS stays.
  filter.Add(SCMP_ACT_ALLOW, "rt_sigaction", {SCMP_A0(SCMP_CMP_NE, SIGSYS)});
  // Others would name a process that gets signals when a descriptor becomes readable.
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC})
    filter.Add(SCMP_ACT_ALLOW, "fcntl", {SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command))});
  // The channel to the parent. No address, and no descriptors in messages to the parent. It passes the memory in which
  // artifacts lie.
  filter.Add(SCMP_ACT_ALLOW, "recvmsg", {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(kRunnerDescriptor))});
  for (const char* call : {"sendto", "recvfrom"})
    filter.Add(SCMP_ACT_ALLOW, call,
               {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(kRunnerDescriptor)), SCMP_A4(SCMP_CMP_EQ, 0)});
}

void RefuseToDrivers(Filter& filter, Restriction restriction) {
  constexpr uint32_t kRefuse = SCMP_ACT_ERRNO(EPERM);
  for (const char* call : kRefused) filter.Add(kRefuse, call);
  filter.Add(kRefuse, "tgkill", {SCMP_A0(SCMP_CMP_NE, OwnPid())});
  filter.Add(kRefuse, "sched_setaffinity", {SCMP_A0(SCMP_CMP_NE, 0)});
  filter.Add(kRefuse, "prlimit64", {SCMP_A0(SCMP_CMP_NE, 0)});
  filter.Add(kRefuse, "prlimit64", {SCMP_A2(SCMP_CMP_NE, 0)});
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  if (restriction == Restriction::kCompiler) {
    // Processes may be made, but no namespaces.
    for (scmp_datum_t flag = 1; flag <= kNamespaces; flag <<= 1) {
      if (kNamespaces & flag) filter.Add(kRefuse, "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)});
    }
    return;
  }
  filter.Add(kRefuse, "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)});
  for (const char* call : kCompilers) filter.Add(kRefuse, call);
}

// Names of the calls by number, for the handler, which must not allocate memory.
constexpr size_t kMostCalls = 512, kMostName = 32;
std::array<std::array<char, kMostName>, kMostCalls> call_names;

void NameCalls() {
  for (size_t i = 0; i < kMostCalls; ++i) {
    char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(i));
    if (!name) continue;
    strncpy(call_names[i].data(), name, kMostName - 1);
    free(name);
  }
}

// Handles SIGSYS: names the call, then ends the process by the same signal.
void OnForbiddenCall(int, siginfo_t* info, void*) {
  char text[96] = "made a forbidden system call: ";
  const auto number = static_cast<size_t>(info->si_syscall);
  strcat(text, number < kMostCalls && call_names[number][0] ? call_names[number].data() : "an unknown one");
  strcat(text, "\n");
  if (write(STDERR_FILENO, text, strlen(text)) < 0) text[0] = 0;  // the parent then only knows the signal
  raise(SIGSYS);                                                  // no handler is installed any more (SA_RESETHAND)
}

}  // namespace

bool CanRestrictSystemCalls() {
#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
  return !kSanitized;
#else
  return false;
#endif
}

Status RestrictSystemCalls(Restriction restriction) {
  if (!CanRestrictSystemCalls())
    return kSanitized ? Err("this build has a sanitizer, whose leak checker makes processes")
                      : Err("there is no filter for this kind of processor");
  if (restriction != Restriction::kKernels) {
    Filter filter(SCMP_ACT_ALLOW);
    RefuseToDrivers(filter, restriction);
    return filter.Install();
  }
  NameCalls();
  struct sigaction action = {};
  action.sa_sigaction = OnForbiddenCall;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  Filter filter(SCMP_ACT_TRAP);
  AllowKernels(filter);
  return filter.Install();
}

}  // namespace autotune::rpc
