#include "rpc/runner_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
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
using testing::MatchesRegex;

constexpr int64_t kDie = 9, kAsk = 10, kForge = 11, kTalk = 12, kFill = 13, kKeep = 14;

// The runner of the tests below. It answers a request with its process id. Some requests make it do other things: kill
// itself (kDie), send a result and ask for work (kAsk) or not (kForge), announce a later run and half a message
// (kTalk), fill a memory file that it maps but does not touch (kFill), or one that it keeps open but unmapped (kKeep).
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
    if (request && (request->run == kAsk || request->run == kForge)) {
      (void)channel.Send({"", RunnerResult{request->run, {}}, {}});
      if (request->run == kAsk) (void)channel.Send({"", RunnerHello{getpid()}, {}});
      continue;
    }
    if (request && request->run == kFill) {
      for (int i = 0; i < 32; ++i) {
        const int file = memfd_create("filler", 0);
        mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
        close(file);
      }
      continue;
    }
    if (request && request->run == kKeep) {
      const std::string megabytes(4 << 20, 'x');
      for (int i = 0; i < 32; ++i) (void)!write(memfd_create("filler", 0), megabytes.data(), megabytes.size());
      continue;
    }
    (void)channel.Send({"", RunnerProgress{getpid()}, {}});
    if (request && request->run == kTalk) {
      (void)channel.Send({"", RunnerProgress{4711}, {}});
      (void)!write(kRunnerDescriptor, "\3\0\0\0", 4);
    }
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

// Runs a pool whose active runner gets `request`, until a message or the runner's end is seen. Returns what was seen.
std::string Seen(int64_t request, RunnerPool::Options options) {
  Loop loop;
  std::string seen;
  std::unique_ptr<RunnerPool> pool;
  RunnerPool::Handlers handlers;
  handlers.on_ready = [&] { pool->Send(Request(request)); };
  handlers.on_message = [&](const Message& message) {
    const auto* result = message.As<RunnerResult>();
    seen = !result ? "a message" : result->last ? "the last result" : "a result";
    loop.Stop();
  };
  handlers.on_end = [&](const RunnerEnd& end) {
    seen = end.text + (end.out_of_memory ? ", out of memory" : "");
    loop.Stop();
  };
  handlers.on_unavailable = [&](const std::string& why) {
    seen = why;
    loop.Stop();
  };
  pool = std::make_unique<RunnerPool>(loop, options, handlers);
  loop.Run();
  return seen;
}

TEST(RunnerPool, ARunnerThatDoesNotAskForWorkGetsNone) {
  RunnerPool::Options options = ServingRunners();
  options.ask_ms = 200;
  EXPECT_EQ(Seen(kAsk, options), "a result");
  EXPECT_EQ(Seen(kForge, options), "the last result");
}

TEST(RunnerPool, MemoryFilesCountIfTheyAreMappedOrOpen) {
  RunnerPool::Options options = ServingRunners();
  options.memory_bytes = 16 * kRunnerFileBytes;
  EXPECT_THAT(Seen(kKeep, options), MatchesRegex("used [0-9]+ MiB of memory, and may use 128.*, out of memory"));
  options.memory_bytes = 32 * kRunnerFileBytes;
  EXPECT_THAT(Seen(kFill, options), MatchesRegex("used [0-9]+ MiB of memory, and may use 256.*, out of memory"));
  options.memory_bytes = 0;
  EXPECT_EQ(Seen(kAsk, options), "a result");
}

// A runner cannot prepare messages for a run that it has not got yet.
TEST(RunnerPool, DropsWhatARunnerHasSentBeforeItsRequest) {
  Loop loop;
  std::vector<int64_t> runs;
  std::unique_ptr<RunnerPool> pool;
  Loop::Watch later;
  RunnerPool::Handlers handlers;
  handlers.on_ready = [&] { pool->Send(Request(kTalk)); };
  handlers.on_message = [&](const Message& message) {
    runs.push_back(message.As<RunnerProgress>() ? message.As<RunnerProgress>()->run : 0);
    if (runs.size() == 2) later = loop.After(100, [&] { pool->Send(Request(kAsk)); });
    if (message.As<RunnerResult>()) loop.Stop();
  };
  handlers.on_end = [&](const RunnerEnd& end) {
    ADD_FAILURE() << end.text;
    loop.Stop();
  };
  handlers.on_unavailable = [](const std::string& why) { ADD_FAILURE() << why; };
  pool = std::make_unique<RunnerPool>(loop, ServingRunners(), handlers);
  loop.Run();
  EXPECT_EQ(runs.size(), 3u);
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
