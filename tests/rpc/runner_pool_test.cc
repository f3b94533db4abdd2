#include "rpc/runner_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "rpc/channel.h"
#include "rpc/runner.h"
#include "tests/support/trace.h"

namespace autotune::rpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDie = 9;

// The runner of the tests below. It answers a request with its process id, and kills itself on the request kDie.
TEST(RunnerPoolChild, Serves) {
  if (!std::getenv("AUTOTUNE_TEST_CHILD")) GTEST_SKIP() << "runs only as the child process of another test";
  ConsentToTracing();
  BlockingChannel channel(kRunnerDescriptor);
  ASSERT_TRUE(channel.Send({"", RunnerHello{getpid()}, {}}).ok());
  while (true) {
    auto message = channel.Receive();
    if (!message || !*message) _exit(0);
    const auto* request = (*message)->As<RunnerRequest>();
    if (request && request->run == kDie) kill(getpid(), SIGKILL);
    (void)channel.Send({"", RunnerProgress{getpid()}, {}});
  }
}

RunnerPool::Options ServingRunners() {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  RunnerPool::Options options;
  options.argv = {"env", "AUTOTUNE_TEST_CHILD=1", self, "--gtest_filter=RunnerPoolChild.Serves"};
  return options;
}
Message Request(int64_t run) { return {"", RunnerRequest{run, {}, {}}, {}}; }

TEST(RunnerPool, AFloodOfLastWordsDoesNotStopTheLoop) {
  Loop loop;
  std::string why;
  RunnerPool::Options options;
  options.argv = {"sh", "-c", "exec cat /dev/zero >&2"};
  options.runners = 1;
  options.start_ms = 100;
  RunnerPool pool(loop, options,
                  {.on_ready = [] { ADD_FAILURE() << "the runner has not sent its hello"; },
                   .on_message = nullptr,
                   .on_end = nullptr,
                   .on_unavailable =
                       [&](const std::string& text) {
                         why = text;
                         loop.Stop();
                       }});
  loop.Run();
  EXPECT_THAT(why, HasSubstr("did not start in time"));
}

TEST(RunnerPool, ARunnerThatCannotBeKilledKeepsTheDeviceUnavailable) {
  Loop loop;
  std::vector<std::string> events;
  std::optional<Tracer> tracer;
  std::unique_ptr<RunnerPool> pool;
  Loop::Watch later;
  RunnerPool::Options options = ServingRunners();
  options.unkillable_ms = 100;
  bool forbidden = false;
  RunnerPool::Handlers handlers;
  handlers.on_ready = [&] {
    events.push_back("ready");
    if (events.size() == 1) return pool->Send(Request(1));
    loop.Stop();
  };
  handlers.on_message = [&](const Message& message) {
    tracer = Tracer::Of(static_cast<pid_t>(message.As<RunnerProgress>()->run));
    forbidden = !tracer;
    if (forbidden) return loop.Stop();
    pool->Replace();
    EXPECT_TRUE(pool->KillPending());
    events.push_back("replaced");  // Replace does not wait, although the runner lives on
  };
  handlers.on_end = [&](const RunnerEnd&) { events.push_back("end"); };
  handlers.on_unavailable = [&](const std::string& why) {
    EXPECT_THAT(why, HasSubstr("cannot be killed"));
    EXPECT_FALSE(pool->KillPending());
    events.push_back("unavailable");
    later = loop.After(100, [&] {
      events.push_back("dead");
      tracer->End();
    });
  };
  handlers.on_all_dead = [&] { events.push_back("all dead"); };
  pool = std::make_unique<RunnerPool>(loop, options, handlers);
  loop.Run();
  pool.reset();
  if (forbidden) GTEST_SKIP() << "this system forbids tracing";
  // The warm spare must not run a candidate while the old runner lives.
  EXPECT_THAT(events, ElementsAre("ready", "replaced", "unavailable", "dead", "all dead", "ready"));
}

TEST(RunnerPool, OnlyAnOutOfMemoryDuringTheRequestCounts) {
  Loop loop;
  int64_t kills = 0;
  std::vector<bool> out_of_memory;
  std::unique_ptr<RunnerPool> pool;
  RunnerPool::Options options = ServingRunners();
  options.oom_kills = [&] { return kills; };
  RunnerPool::Handlers handlers;
  handlers.on_ready = [&] {
    if (out_of_memory.empty()) kills = 5;  // kills of other processes, after the runner's start
    pool->Send(Request(kDie));
    if (!out_of_memory.empty()) kills = 6;
  };
  handlers.on_message = [](const Message&) {};
  handlers.on_end = [&](const RunnerEnd& end) {
    EXPECT_EQ(end.signal, SIGKILL) << end.text;
    out_of_memory.push_back(end.out_of_memory);
    if (out_of_memory.size() == 2) loop.Stop();
  };
  handlers.on_unavailable = [](const std::string& why) { ADD_FAILURE() << why; };
  pool = std::make_unique<RunnerPool>(loop, options, handlers);
  loop.Run();
  EXPECT_THAT(out_of_memory, ElementsAre(false, true));
}

}  // namespace
}  // namespace autotune::rpc
