// Attacks by system calls that no kernel needs: each ends its candidate with an error that names the call, and does
// nothing. Without the sandbox, the harmless ones among them go through.
#include "rpc/system_calls.h"

#include <span>

#include "tests/hostile/hostile.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
using testing::HasSubstr;

class HostileCalls : public Hostile {};

struct ForbiddenCall {
  std::string attack, code, name;
  bool harmless = false;  // may be made for real: it only touches its own process, or asks
};

std::vector<ForbiddenCall> ForbiddenCalls(const std::string& folder) {
  const std::string parent = "call(110, 0, 0, 0)";
  return {
      {"kill the server by tgkill", "call(234, " + parent + ", " + parent + ", 9)", "tgkill"},
      {"stop the server by tgkill", "call(234, " + parent + ", " + parent + ", 19)", "tgkill"},
      {"kill the server by tkill", "call(200, " + parent + ", 9, 0)", "tkill"},
      {"kill all processes", "call(62, -1, 9, 0)", "kill"},
      {"stop the group", "call(62, 0, 19, 0)", "kill"},
      {"queue a signal to the server", "char info[128] = {0}; call(129, " + parent + ", 9, info)", "rt_sigqueueinfo"},
      {"kill the server by a descriptor", "call(424, call(434, " + parent + ", 0, 0), 9, 0)", "pidfd_open"},
      {"signals to the server from a descriptor", "call(72, 3, 8, " + parent + ")", "fcntl"},
      {"trace the server", "call(101, 16, " + parent + ", 0)", "ptrace"},
      {"read the server's memory", "long v[2]; call6(310, " + parent + ", (long)v, 1, (long)v, 1, 0)",
       "process_vm_readv"},
      {"write the server's memory", "long v[2]; call6(311, " + parent + ", (long)v, 1, (long)v, 1, 0)",
       "process_vm_writev"},
      {"read the server's limits", "long v[2]; call6(302, " + parent + ", 7, 0, (long)v, 0, 0)", "prlimit64", true},
      {"lower the server's limits", "long v[2] = {0, 0}; call6(302, " + parent + ", 7, (long)v, 0, 0, 0)", "prlimit64"},
      {"lower the server's priority", "call(141, 0, " + parent + ", 19)", "setpriority"},
      {"move the server to one core", "long set = 1; call(203, " + parent + ", 8, &set)", "sched_setaffinity"},
      {"set the server's scheduler", "int p = 0; call(144, " + parent + ", 5, &p)", "sched_setscheduler"},
      {"compare the server's files", "call6(312, " + parent + ", " + parent + ", 0, 0, 0, 0)", "kcmp"},
      {"make a process by fork", "long p = call(57, 0, 0, 0); if (!p) call(231, 0, 0, 0)", "fork", true},
      {"fork for ever", "for (;;) call(57, 0, 0, 0)", "fork"},
      {"make a process by vfork", "call(58, 0, 0, 0)", "vfork"},
      {"make a process by clone", "long p = call(56, 17, 0, 0); if (!p) call(231, 0, 0, 0)", "clone", true},
      {"make a namespace by clone", "long p = call(56, 0x10000011, 0, 0); if (!p) call(231, 0, 0, 0)", "clone", true},
      {"start a program", "char* v[] = {\"/bin/true\", 0}; call(59, v[0], v, 0)", "execve"},
      {"leave the process group", "call(109, 0, 0, 0)", "setpgid", true},
      {"leave the session", "call(112, 0, 0, 0)", "setsid"},
      {"leave the namespaces", "call(272, 0x00020000, 0, 0)", "unshare", true},
      {"open a file to write", "call(2, \"" + folder + "/filler\", 0101, 0600)", "open", true},
      {"make a file", "call(257, -100, \"" + folder + "/filler\", 0102)", "openat", true},
      {"make a file by creat", "call(85, \"" + folder + "/filler\", 0600, 0)", "creat", true},
      {"remove the tracker's state", "call(87, \"" + folder + "/state/state.json\", 0, 0)", "unlink"},
      {"rename the tracker's socket", "call(82, \"" + folder + "/tracker\", \"" + folder + "/x\", 0)", "rename"},
      {"make a folder", "call(83, \"" + folder + "/made\", 0700, 0)", "mkdir", true},
      {"link a file", "call(88, \"/etc/passwd\", \"" + folder + "/link\", 0)", "symlink", true},
      {"change a file's rights", "call(90, \"" + folder + "\", 0777, 0)", "chmod"},
      {"make a TCP socket", "call(41, 2, 1, 0)", "socket", true},
      {"make a local socket", "call(41, 1, 1, 0)", "socket", true},
      {"make a pair of sockets", "int p[2]; call6(53, 1, 1, 0, (long)p, 0, 0)", "socketpair", true},
      {"pass a descriptor to the server", "char m[64] = {0}; call(46, 3, m, 0)", "sendmsg", true},
      {"watch files", "call(294, 0, 0, 0)", "inotify_init1", true},
      {"handle page faults", "call(323, 1, 0, 0)", "userfaultfd", true},
      {"make an io_uring", "char p[256] = {0}; call(425, 8, p, 0)", "io_uring_setup", true},
      {"load a BPF program", "char p[128] = {0}; call(321, 0, p, 64)", "bpf", true},
      {"count events", "char p[128] = {0}; call6(298, (long)p, 0, -1, -1, 0, 0)", "perf_event_open", true},
      {"make shared memory", "call(29, 0, 4096, 01600)", "shmget"},
      {"add a key", "call6(248, (long)\"user\", (long)\"x\", (long)\"y\", 1, -1, 0)", "add_key"},
      {"mount a file system", "call6(165, (long)\"x\", (long)\"" + folder + "\", (long)\"tmpfs\", 0, 0, 0)", "mount"},
      {"open a file system", "call(430, \"tmpfs\", 0, 0)", "fsopen", true},
      {"open a file by its handle", "call(304, -100, c, 0)", "open_by_handle_at", true},
      {"change the root", "call(161, \"/\", 0, 0)", "chroot", true},
      {"set the clock", "call(164, 0, 0, 0)", "settimeofday", true},
      {"set the host's name", "call(170, \"x\", -1, 0)", "sethostname", true},
      {"restart the host", "call(169, 0, 0, 0)", "reboot", true},
      {"end swapping", "call(168, \"/none\", 0, 0)", "swapoff", true},
      {"become root", "call(105, 0, 0, 0)", "setuid", true},
      {"outlive the server", "call(157, 1, 0, 0)", "prctl", true},
      {"replace the filter's handler", "long act[4] = {1, 0, 0, 0}; call6(13, 31, (long)act, 0, 8, 0, 0)",
       "rt_sigaction", true},
      {"filter the own calls", "call(317, 1, 0, 0)", "seccomp", true},
  };
}

// One artifact with a kernel for each call. In the second form, each makes the call once only, so that it can be timed.
MeasureJob JobOfCalls(std::span<const ForbiddenCall> calls, const std::string& condition) {
  std::vector<std::string> bodies;
  for (const ForbiddenCall& call : calls)
    bodies.push_back("static int made; " + condition + "{ " + call.code + "; } " + kDouble);
  MeasureJob job = JobOf({});
  job.artifacts = {CompileKernels(bodies, kSystemCall)};
  for (size_t i = 0; i < bodies.size(); ++i) {
    Candidate candidate = JobOf(job.artifacts).candidates[0];
    candidate.id = std::to_string(i);
    candidate.kernel = KernelName(i);
    job.candidates.push_back(candidate);
  }
  return job;
}

TEST_F(HostileCalls, EndTheirCandidateAndHarmNobody) {
  if (!rpc::CanRestrictSystemCalls()) GTEST_SKIP() << "this build cannot restrict system calls";
  constexpr size_t kAtOnce = 8;  // attacks of one client
  const std::vector<ForbiddenCall> calls = ForbiddenCalls(folder_);
  for (size_t begin = 0; begin < calls.size(); begin += kAtOnce) {
    const std::span some = std::span(calls).subspan(begin, std::min(kAtOnce, calls.size() - begin));
    const auto results = Measure("victim", JobOfCalls(some, ""));
    ASSERT_EQ(results.size(), some.size());
    std::vector<std::string> attacks;
    for (size_t i = 0; i < some.size(); ++i) {
      attacks.push_back(some[i].attack);
      EXPECT_EQ(results[i].status, TrialStatus::kRunCrashed) << some[i].attack << ": " << results[i].error;
      EXPECT_TRUE(results[i].error.ends_with("made a forbidden system call: " + some[i].name)) << results[i].error;
    }
    ExpectUnharmed(attacks);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/state/state.json"));
  for (const char* name : {"filler", "made", "link", "x"}) EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + name));
  std::printf("%d attacks\n", attacks_);
  // The twins: where the sandbox is off, the harmless calls go through, and the candidate is measured.
  std::vector<ForbiddenCall> harmless;
  for (const ForbiddenCall& call : calls)
    if (call.harmless) harmless.push_back(call);
  const auto results = Measure("open", JobOfCalls(harmless, "if (!made++) "));
  ASSERT_EQ(results.size(), harmless.size());
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].status, TrialStatus::kOk) << harmless[i].attack << ": " << results[i].error;
  for (const char* name : {"filler", "made", "link"})
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + name)) << name;
}
#endif

}  // namespace
}  // namespace autotune
