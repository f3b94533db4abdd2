#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "support/clock.h"
#include "support/subprocess.h"
#include "tests/support/trace.h"

namespace autotune {
namespace {

Subprocess Spawn(SpawnOptions options) {
  Result<Subprocess> child = Subprocess::Spawn(options);
  EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().Text());
  return std::move(child).value();
}
Subprocess Shell(const std::string& script) { return Spawn({.argv = {"/bin/sh", "-c", script}}); }

// Returns whether a process exists. Zombies do not count.
bool Exists(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}
bool GoneSoon(pid_t pid) {
  for (int i = 0; i < 500 && Exists(pid); ++i) {
    waitpid(pid, nullptr, WNOHANG);
    usleep(10000);
  }
  return !Exists(pid);
}
std::string ReadAll(int fd) {
  std::string text;
  char bytes[256];
  for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
  return text;
}

TEST(Subprocess, TellsExitCodesAndSignals) {
  EXPECT_EQ(Shell("exit 3").Wait(10000), (ExitStatus{3, 0}));
  EXPECT_EQ(Shell("kill -SEGV $$").Wait(10000), (ExitStatus{0, SIGSEGV}));
  EXPECT_EQ((ExitStatus{0, SIGSEGV}).Text(), "was ended by signal 11 (Segmentation fault)");
}

TEST(Subprocess, AMissingExecutableIsAnError) {
  auto child = Subprocess::Spawn({.argv = {"/no/such/program"}});
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().Text().find("/no/such/program"), std::string::npos);
}

TEST(Subprocess, WaitHasADeadlineAndKillEndsTheWholeGroup) {
  auto [out, in] = std::move(MakePipe()).value();
  Subprocess child = Spawn({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $!; wait"}, .fds = {{1, in.get()}}});
  in.Reset();
  char text[32] = {};
  ASSERT_GT(read(out.get(), text, sizeof text - 1), 0);
  pid_t grandchild = std::atoi(text);
  ASSERT_TRUE(Exists(grandchild));
  EXPECT_FALSE(child.Wait(20));
  child.Kill();
  EXPECT_EQ(child.Wait(10000), (ExitStatus{0, SIGKILL}));
  EXPECT_TRUE(GoneSoon(grandchild));
}

TEST(Subprocess, StopsAreSeenAfterTheirEnd) {
  // A shell that starts a child of its own may wait in vfork for a child that the signal has stopped before its exec.
  // Such a shell does not stop. So one process becomes the other.
  Subprocess child = Shell("exec sleep 1000");
  EXPECT_FALSE(child.WasStopped());
  child.Kill(SIGSTOP);
  for (int i = 0; i < 10000 && !child.WasStopped(); ++i) usleep(1000);
  ASSERT_TRUE(child.WasStopped()) << "it still is";
  child.Kill(SIGCONT);
  EXPECT_TRUE(child.WasStopped()) << "it was since the latest look";
  EXPECT_FALSE(child.WasStopped());
  child.Kill(SIGSTOP);
  child.Kill(SIGCONT);
  usleep(1000);
  child.WasStopped();  // the kernel may have joined the two signals
  EXPECT_FALSE(child.WasStopped());
  child.Kill();
  child.Wait(10000);
  EXPECT_FALSE(child.WasStopped());
}

// Poll kills the rest of a dead child's group, but not if other code has reaped the child: the number of the group may
// belong to others by then.
TEST(Subprocess, PollSendsNoSignalToAGroupWhoseLeaderWasReaped) {
  for (bool reaped : {false, true}) {
    auto [out, in] = std::move(MakePipe()).value();
    Subprocess child = Spawn({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $!"}, .fds = {{1, in.get()}}});
    in.Reset();
    char text[32] = {};
    ASSERT_GT(read(out.get(), text, sizeof text - 1), 0);
    const pid_t grandchild = std::atoi(text);
    if (reaped) {
      ASSERT_EQ(waitpid(child.pid(), nullptr, 0), child.pid());
    }
    EXPECT_EQ(child.Wait(10000), (ExitStatus{reaped ? -1 : 0, 0}));
    if (reaped) {
      EXPECT_TRUE(Exists(grandchild));
      kill(grandchild, SIGKILL);
    }
    EXPECT_TRUE(GoneSoon(grandchild));
  }
}

TEST(Subprocess, OnlyTheGivenDescriptorsReachTheChild) {
  auto [out, in] = std::move(MakePipe()).value();
  UniqueFd leaked(dup(in.get()));  // without CLOEXEC
  Subprocess child =
      Spawn({.argv = {"/bin/sh", "-c", "cd /proc/self/fd; echo *"}, .fds = {{1, in.get()}, {5, in.get()}}});
  in.Reset();
  leaked.Reset();
  std::string text = ReadAll(out.get());
  // The shell may hold one more descriptor while it reads the folder.
  EXPECT_TRUE(text == "0 1 2 5\n" || text == "0 1 2 3 5\n") << text;
}

TEST(Subprocess, FewDescriptorsSuffice) {
  auto [out, in] = std::move(MakePipe()).value();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = fcntl(0, F_DUPFD, 0);  // the lowest free descriptor
  close(free);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(free) + 8;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Result<Subprocess> child = Subprocess::Spawn({.argv = {"/bin/sh", "-c", "echo one"}, .fds = {{1, in.get()}}});
  few.rlim_cur = static_cast<rlim_t>(free);
  setrlimit(RLIMIT_NOFILE, &few);
  Result<Subprocess> none = Subprocess::Spawn({.argv = {"/bin/true"}, .fds = {{1, in.get()}}});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(child.ok()) << child.error().Text();
  in.Reset();
  EXPECT_EQ(ReadAll(out.get()), "one\n");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().Text(), testing::HasSubstr("no descriptor left"));
}

TEST(Subprocess, SwappedDescriptorsArriveSwapped) {
  auto [out, in] = std::move(MakePipe()).value();
  auto [out2, in2] = std::move(MakePipe()).value();
  Subprocess child =
      Spawn({.argv = {"/bin/sh", "-c", "echo one >&1; echo two >&2"}, .fds = {{1, in2.get()}, {2, in.get()}}});
  in.Reset();
  in2.Reset();
  EXPECT_EQ(ReadAll(out.get()), "two\n");
  EXPECT_EQ(ReadAll(out2.get()), "one\n");
}

TEST(Subprocess, ChildrenEndWithTheirParent) {
  auto [out, in] = std::move(MakePipe()).value();
  // The middle process is killed, and its child has asked to end with it.
  pid_t middle = fork();
  if (middle == 0) {
    Subprocess child = Spawn({.argv = {"/proc/self/exe", "--gtest_filter=SubprocessChild.WaitsForever"},
                              .fds = {{1, in.get()}, {2, in.get()}},
                              .environment = {"AUTOTUNE_TEST_CHILD=1"}});
    pause();
  }
  in.Reset();
  std::string text;
  char c;
  while (text.find("pid ") == std::string::npos || text.back() != '.') {
    ASSERT_EQ(read(out.get(), &c, 1), 1) << text;
    text += c;
  }
  pid_t child = std::atoi(text.c_str() + text.find("pid ") + 4);
  ASSERT_TRUE(Exists(child));
  kill(middle, SIGKILL);
  waitpid(middle, nullptr, 0);
  EXPECT_TRUE(GoneSoon(child));
}
TEST(SubprocessChild, WaitsForever) {
  if (!std::getenv("AUTOTUNE_TEST_CHILD")) GTEST_SKIP() << "runs only as the child process of another test";
  EndWithParent();
  dprintf(1, "pid %d.", getpid());
  pause();
}

TEST(Subprocess, StrangersAreKilled) {
  AdoptOrphans();
  Subprocess known = Shell("exec sleep 1000");
  Subprocess parent = Shell("setsid sleep 1000 & exit 0");  // leaves its group, so that killing the group misses it
  ASSERT_TRUE(parent.Wait(10000));
  int killed = 0;
  for (int i = 0; i < 200 && killed == 0; ++i) {
    killed += KillStrangers({known.pid()}).reaped;
    usleep(5000);
  }
  EXPECT_EQ(killed, 1);
  EXPECT_FALSE(known.Poll());
}

TEST(Subprocess, AStrangerThatDoesNotDieIsNotWaitedFor) {
  AdoptOrphans();
  Subprocess known = Shell("exec sleep 1000");
  pid_t stranger = fork();
  if (stranger == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ConsentToTracing();
    for (;;) pause();
  }
  std::optional<Tracer> tracer;
  for (int i = 0; i < 100 && !tracer; ++i, usleep(10000)) tracer = Tracer::Of(stranger);
  if (!tracer) {
    EXPECT_EQ(kill(stranger, SIGKILL), 0);
    waitpid(stranger, nullptr, 0);
    GTEST_SKIP() << "this system forbids tracing";
  }
  Strangers strangers = KillStrangers({known.pid(), tracer->pid()});
  EXPECT_EQ(strangers.reaped, 0);
  EXPECT_EQ(strangers.alive, 1);
  tracer->End();
  for (int i = 0; i < 1000 && strangers.reaped == 0; ++i) {
    usleep(5000);
    strangers = KillStrangers({known.pid()});
  }
  EXPECT_EQ(strangers.reaped, 1);
  EXPECT_EQ(strangers.alive, 0);
  EXPECT_FALSE(known.Poll());
}

TEST(OutputTail, KeepsTheEndAndNeverReadsForEver) {
  UniqueFd zeros(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  OutputTail endless;
  EXPECT_TRUE(endless.ReadSome(zeros.get()));
  EXPECT_EQ(endless.text(), std::string(OutputTail::kKept, '\0'));
  auto [out, in] = std::move(MakePipe()).value();
  fcntl(out.get(), F_SETFL, O_NONBLOCK);
  OutputTail words;
  EXPECT_TRUE(words.ReadSome(out.get()));
  std::string said = std::string(1000, 'x') + "last";
  ASSERT_EQ(write(in.get(), said.data(), said.size()), static_cast<ssize_t>(said.size()));
  EXPECT_TRUE(words.ReadSome(out.get()));
  EXPECT_EQ(words.text(), said.substr(said.size() - OutputTail::kKept));
  in.Reset();
  EXPECT_FALSE(words.ReadSome(out.get()));
}

}  // namespace
}  // namespace autotune
