#include "support/process_stat.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace autotune {
namespace {

pid_t Fork(const std::function<void()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(0);
  }
  return pid;
}

TEST(StatOfProcess, TellsStatesApart) {
  const pid_t child = Fork([] { pause(); });
  const std::optional<ProcessStat> running = StatOfProcess(child);
  ASSERT_TRUE(running);
  EXPECT_FALSE(running->HasEnded());
  EXPECT_FALSE(running->IsStopped());
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(StatOfProcess(child)->IsStopped());
  kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::optional<ProcessStat> ended = StatOfProcess(child);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->HasEnded());
  EXPECT_EQ(ended->started, running->started);
  waitpid(child, &status, 0);
  EXPECT_FALSE(StatOfProcess(child));
}

TEST(StatOfProcess, ReadsPastANameWithParentheses) {
  ASSERT_EQ(prctl(PR_SET_NAME, "a) Z 1 (b"), 0);
  const std::optional<ProcessStat> self = StatOfProcess(getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->state, 'R');
  EXPECT_GT(self->started, 0);
}

TEST(StatOfProcess, CountsProcessorTime) {
  const double before = StatOfProcess(getpid())->cpu_ms;
  volatile double sink = 1;
  // The kernel counts in ticks of usually 10 ms.
  while (StatOfProcess(getpid())->cpu_ms < before + 30) {
    for (int i = 0; i < 1000000; ++i) sink = sink * 1.0000001;
  }
  SUCCEED();
}

}  // namespace
}  // namespace autotune
