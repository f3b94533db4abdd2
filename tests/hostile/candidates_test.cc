// Attacks by candidates that use memory, files, threads, signals and the channel to the server.
#include "rpc/remote_device.h"
#include "rpc/system_calls.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/hostile.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

class HostileCandidates : public Hostile {};

constexpr char kFindsLargeFile[] =
    "for (long f = 3; f < 100; ++f) if (call(8, f, 0, 2) > (8 << 20)) FAIL(\"found\") "
    "for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];";

struct CandidateAttack {
  std::string attack, body;
  std::vector<TrialStatus> expected;
  std::string top = {};
  std::string error = {};  // a part of the result's error
};

std::vector<CandidateAttack> Attacks(const std::string& folder, pid_t server) {
  using enum TrialStatus;
  const std::string server_memory = "/proc/" + std::to_string(server) + "/mem";
  TrialResult forged;
  forged.candidate = "0";
  forged.status = kOk;
  forged.times = {1e-9, 1e-9};
  forged.checked = true;
  std::string forgeries;
  for (int64_t run = 0; run < 64; ++run) forgeries += OnTheChannel({"", rpc::RunnerResult{run, forged}, {}});
  const std::string wrong = " y[0] = 99;";
  const auto reads = [](const std::string& path) {
    return "long f = call(2, \"" + path + "\", 0, 0); if (f >= 0) FAIL(\"opened\") " + std::string(kDouble);
  };
  const std::string spins = "void thread_body(void) { for (;;) __asm__ volatile(\"pause\"); }";
  const std::string floods =
      "void thread_body(void) { static const char junk[65536] = {7}; for (;;) call6(44, 3, (long)junk, 65536, 0, 0, "
      "0); }";
  return {
      // Texts.
      {"an error of 5 MiB",
       "static char t[5 << 20]; for (int i = 0; i < (5 << 20) - 1; ++i) t[i] = 'x'; FAIL(t)",
       {kRunCrashed}},
      {"an error that is not UTF-8", "FAIL(\"\\xff\\xfe\\xc0\\x80\")", {kRunCrashed}},
      {"an error with terminal codes", "FAIL(\"\\033[2J\\033]0;x\\007\\r\\n\")", {kRunCrashed}},
      {"a flood on standard error", "for (;;) call(1, 2, \"xxxxxxxxxxxxxxxx\", 16);", {kRunTimedOut}},
      // Files.
      {"reading /etc/shadow", reads("/etc/shadow"), {kOk}},
      {"reading /etc/passwd", reads("/etc/passwd"), {kOk}},
      {"reading the tracker's state", reads(folder + "/state/state.json"), {kOk}},
      {"opening the server's memory", reads(server_memory), {kOk}},
      {"listing other processes", reads("/proc"), {kOk}},
      // Memory.
      {"private memory without end",
       "for (;;) { char* p = (char*)call6(9, 0, 1 << 24, 3, 0x22, -1, 0); if ((long)p < 0) FAIL(\"out\") for (int i = "
       "0; i "
       "< 1 << 24; i += 4096) p[i] = 1; }",
       {kRunCrashed, kOutOfMemory}},
      {"shared memory without end",
       "for (;;) { char* p = (char*)call6(9, 0, 1 << 24, 3, 0x21, -1, 0); if ((long)p < 0) FAIL(\"out\") for (int i = "
       "0; i "
       "< 1 << 24; i += 4096) p[i] = 1; }",
       {kOutOfMemory}},
      {"memory files without end, mapped and closed",
       "static char z[1 << 20]; for (;;) { long f = call(319, \"x\", 0, 0); if (f < 0) FAIL(\"out\") for (int i = 0; i "
       "< 8; "
       "++i) call(1, f, z, 1 << 20); call6(9, 0, 4096, 1, 1, f, 0); call(3, f, 0, 0); }",
       {kOutOfMemory}},
      {"a memory file of 9 MiB",
       "static char z[1 << 20]; long f = call(319, \"x\", 0, 0); for (int i = 0; i < 9; ++i) if (call(1, f, z, 1 << "
       "20) != "
       "1 << 20) FAIL(\"full\")",
       {kRunCrashed}},
      {"looking for a memory file that is larger than it may make", kFindsLargeFile, {kOk}},
      {"descriptors without end", "for (;;) if (call(319, \"x\", 0, 0) < 0) FAIL(\"none left\")", {kRunCrashed}},
      {"scratch memory without end",
       "for (;;) if (!c->workspace_alloc(c, 1 << 24)) FAIL(\"out of memory\")",
       {kOutOfMemory, kRunCrashed}},
      {"its memory unmapped", "char here; call(11, ((long)&here & -4096) - (1 << 20), 2 << 20, 0);", {kRunCrashed}},
      {"its inputs made writable, and written",
       "call(10, (long)x & -4096, 4096, 3); x[0] = 5; " + std::string(kDouble),
       {kOk, kWrongAnswer}},
      {"a patched table of functions",
       "c->set_error = 0; c->parallel_for = 0; " + std::string(kDouble),
       {kOk, kRunCrashed}},
      // Threads and signals.
      // Its code is unloaded before the result is sent. On a busy host the thread may not run in between.
      {"a thread that is left spinning", LeaveThread(kDouble), {kOk, kRunCrashed}, spins},
      {"a thread that is left flooding the channel",
       LeaveThread("for (volatile int forever = 1; forever;);"),
       {kRunCrashed},
       floods},
      {"threads without end",
       "for (int i = 0; i < 100000; ++i) { " + LeaveThread("") + " } " + kDouble,
       {kOk, kRunCrashed, kRunTimedOut, kOutOfMemory},
       "void thread_body(void) { long nap[2] = {9, 0}; for (;;) call(35, nap, 0, 0); }"},
      {"stopping itself",
       "call(234, call(39, 0, 0, 0), call(186, 0, 0, 0), 19);",
       {kRunCrashed},
       "",
       "forbidden system call: tgkill"},
      {"a loop without end, with all signals blocked",
       "long all = -1; call6(14, 0, (long)&all, 0, 8, 0, 0); for (volatile int forever = 1; forever;);",
       {kRunTimedOut}},
      {"leaving the process", "call(231, 0, 0, 0);", {kRunCrashed}},
      {"ending the main thread", "call(60, 0, 0, 0);", {kRunTimedOut, kRunCrashed}},
      {"a segmentation fault", "*(volatile int*)0 = 1;", {kRunCrashed}},
      {"a call of 32-bit code", "__asm__ volatile(\"int $0x80\" : : \"a\"(2)); " + std::string(kDouble), {kRunCrashed}},
      {"a call of the x32 ABI", "call(0x40000039, 0, 0, 0); " + std::string(kDouble), {kRunCrashed}},
      {"code that runs while it is loaded",
       kDouble,
       {kLoadFailed},
       "__attribute__((constructor)) static void f(void) { for (volatile int forever = 1; forever;); }",
       "runs while it is loaded"},
      // The channel.
      {"forged results of guessed runs", Send(forgeries) + kDouble + wrong, {kWrongAnswer}},
      {"half a message on the channel",
       Send(std::string("\3\0\0\0\xff", 5)) + "for (volatile int forever = 1; forever;);",
       {kRunTimedOut}},
      {"a message of 4 GiB on the channel",
       Send(std::string("\1\0\0\0\xff\xff\xff\xff", 8)) + "for (volatile int forever = 1; forever;);",
       {kRunCrashed},
       "",
       "too long"},
      {"a message of a million frames on the channel",
       Send(std::string("\xff\xff\x0f\0", 4)) + "for (volatile int forever = 1; forever;);",
       {kRunCrashed},
       "",
       "too many frames"},
      {"garbage on the channel",
       Send(std::string(4096, '\1')) + "for (volatile int forever = 1; forever;);",
       {kRunCrashed, kRunTimedOut}},
      {"messages of a client on the channel",
       Send(OnTheChannel({"", rpc::LeaseEnd{}, {}}) + OnTheChannel({"", rpc::StatusRequest{}, {}})) + kDouble,
       {kOk}},
      {"the channel closed", "call(3, 3, 0, 0);", {kRunCrashed}},
      {"requests of the server taken away",
       "static char b[65536]; for (;;) call6(45, 3, (long)b, sizeof b, 0, 0, 0);",
       {kRunTimedOut}},
      {"references announced", Send(OnTheChannel({"", rpc::RunnerReference{1}, {}})) + kDouble, {kOk}},
  };
}

TEST_F(HostileCandidates, HarmNobody) {
  if (!rpc::CanRestrictSystemCalls()) GTEST_SKIP() << "this build cannot restrict system calls";
  for (const CandidateAttack& attack : Attacks(folder_, PidOf("victim"))) {
    // An attack that ends by itself gets the time that it needs on a busy host.
    const bool is_endless = std::ranges::count(attack.expected, TrialStatus::kRunTimedOut) > 0;
    const auto results = Measure("victim", {Compile(attack.body, kSystemCall + attack.top)}, is_endless ? 1.5 : Bar(5));
    ASSERT_EQ(results.size(), 1u) << attack.attack;
    EXPECT_EQ(std::ranges::count(attack.expected, results[0].status), 1)
        << attack.attack << ": " << ToText(results[0].status) << ", " << results[0].error;
    EXPECT_THAT(results[0].error, HasSubstr(attack.error)) << attack.attack;
    ExpectUnharmed(attack.attack);
  }
  std::printf("%d attacks\n", attacks_);
}

// The twin: the same code finds one in a session of calls, which may load large libraries.
TEST_F(HostileCandidates, OnlySessionsOfCallsHaveLargeFiles) {
  const auto device = rpc::RemoteDevice::Connect({.farm = {.tracker = Tracker(), .key = "victim"}});
  ASSERT_TRUE(device.ok()) << device.error().Text();
  const Module module = (*device)->LoadModule(*Compile(kFindsLargeFile, kSystemCall), 1).value();
  const Value x = Value(Tensor::Zeros({64}, "f32").value()), w = Value(Tensor::Zeros({256}, "f32").value());
  EXPECT_THAT(module->GetFunction("k").value()(x, w, x).error().Text(), HasSubstr("found"));
}

// The twins: without the sandbox, candidates read what they like.
TEST_F(HostileCandidates, WithoutASandboxFilesAreOpen) {
  for (const CandidateAttack& attack : Attacks(folder_, PidOf("open"))) {
    if (!attack.attack.starts_with("reading") && !attack.attack.starts_with("opening")) continue;
    if (geteuid() != 0 && attack.attack != "reading /etc/passwd") continue;
    const auto results = Measure("open", {Compile(attack.body, kSystemCall + attack.top)});
    ASSERT_EQ(results.size(), 1u) << attack.attack;
    EXPECT_THAT(results[0].error, HasSubstr("opened")) << attack.attack;
  }
}
#endif

}  // namespace
}  // namespace autotune
