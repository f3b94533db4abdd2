#include "rpc/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/sanitized.h"

namespace autotune::rpc {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr uint32_t kArchitecture = AUDIT_ARCH_RISCV64;
#else
constexpr uint32_t kArchitecture = 0;  // unknown: no filter
#endif

// Numbers that headers older than Linux 5.14 lack. They are the same on all machines.
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif

constexpr int kDenied[] = {
// Processes, and files by name.
#ifdef SYS_fork
    SYS_fork, SYS_vfork, SYS_creat, SYS_unlink, SYS_rename, SYS_mkdir, SYS_rmdir, SYS_link, SYS_symlink, SYS_mknod,
    SYS_chmod, SYS_chown, SYS_lchown, SYS_inotify_init,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_execve, SYS_execveat, SYS_setsid, SYS_setpgid, SYS_unlinkat, SYS_renameat2, SYS_mkdirat, SYS_linkat,
    SYS_symlinkat, SYS_mknodat, SYS_truncate, SYS_fchmodat, SYS_fchownat, SYS_chroot, SYS_inotify_init1,
    SYS_fanotify_init, SYS_name_to_handle_at, SYS_open_by_handle_at,
    // Other processes: signals, memory, priorities.
    SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_getfd,
    SYS_pidfd_send_signal, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
    SYS_process_mrelease, SYS_kcmp, SYS_migrate_pages, SYS_move_pages, SYS_setpriority, SYS_ioprio_set,
    SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
#ifdef SYS_setrlimit
    SYS_setrlimit,
#endif
    // The network.
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen,
    // The machine, its file systems and namespaces.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_mount_setattr, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsconfig,
    SYS_fsmount, SYS_fspick, SYS_unshare, SYS_setns, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
    SYS_clock_adjtime, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_sethostname, SYS_setdomainname, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_acct, SYS_quotactl, SYS_syslog,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm,
#endif
    // Interfaces of the kernel that a kernel of a network does not need.
    SYS_bpf, SYS_perf_event_open, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_userfaultfd,
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_personality};

constexpr uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

// Returns the offset of the low half of system call argument n. A filter reads 32-bit words of seccomp_data, and all
// supported machines are little-endian.
constexpr uint32_t Argument(int n) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * static_cast<uint32_t>(n);
}
constexpr uint32_t HighHalf(int n) { return Argument(n) + 4; }

class Program {
 public:
  void Load(uint32_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }
  void IfCall(int number, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    Return(action);
  }
  // Returns `action` for system call `number` if argument n has any of `bits` (`set`) or has none of them (`!set`).
  // Allows the other calls of `number`.
  void IfCallWith(int number, int n, uint32_t bits, bool set, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    Load(Argument(n));
    Add(BPF_JMP | BPF_JSET | BPF_K, bits, set ? 0 : 1, set ? 1 : 0);
    Return(action);
    Return(SECCOMP_RET_ALLOW);
  }
  // Allows system call `number` only if the half of an argument at `offset` has this value. A further condition may
  // follow for the same call.
  void OnlyIf(int number, uint32_t offset, uint32_t value, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    Load(offset);
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    Return(action);
    Load(offsetof(seccomp_data, nr));
  }
  // Installs the filter for all threads of this process and those that they start. Without
  // SECCOMP_FILTER_FLAG_SPEC_ALLOW, Linux before 5.16 would slow down the memory accesses of filtered threads (a
  // mitigation of Spectre) and so falsify measurements.
  bool Install() {
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program) == 0;
  }
  void Add(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    code_.push_back({code, if_true, if_false, k});
  }

 private:
  std::vector<sock_filter> code_;
};

}  // namespace

bool CanRestrictSystemCalls() { return kArchitecture != 0 && !kSanitized; }

bool RestrictSystemCalls(Restriction restriction) {
  if (!CanRestrictSystemCalls()) return false;
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM, kUnknown = SECCOMP_RET_ERRNO | ENOSYS;
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  program.Add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  program.Return(kRefuse);  // refuses calls of 32-bit code, which have other numbers
  program.Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  program.Add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // system calls of the x32 ABI
  program.Return(kRefuse);
#endif
  program.IfCall(SYS_futex, SECCOMP_RET_ALLOW);  // comes first, since timed parallel loops make this call
  for (int call : kDenied) program.IfCall(call, kRefuse);
  // The flags of clone3 and openat2 lie in memory, which a filter cannot read. ENOSYS makes callers use clone and
  // openat instead.
  program.IfCall(SYS_clone3, kUnknown);
  program.IfCall(SYS_openat2, kUnknown);
  // abort() sends a signal to its own thread. Limits may be read, but not those of other processes, and not be changed.
  program.OnlyIf(SYS_tgkill, Argument(0), static_cast<uint32_t>(getpid()), kRefuse);
  for (uint32_t half : {Argument(0), Argument(2), HighHalf(2)}) program.OnlyIf(SYS_prlimit64, half, 0, kRefuse);
  program.IfCallWith(SYS_clone, 0, CLONE_THREAD, false, kRefuse);
  if (restriction == Restriction::kKernels) {
#ifdef SYS_open
    program.IfCallWith(SYS_open, 1, kWriting, true, kRefuse);
#endif
    program.IfCallWith(SYS_openat, 2, kWriting, true, kRefuse);
  }
  program.Return(SECCOMP_RET_ALLOW);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
  return program.Install();
}

}  // namespace autotune::rpc
