#include "support/loop.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "support/subprocess.h"

namespace autotune {
namespace {

// A function that a callback posts runs before a function that another thread posts later, although the callback has
// not returned yet.
TEST(Loop, PostsRunInTheOrderOfTheCallsWhoeverMakesThem) {
  Loop loop;
  std::string order;
  loop.Post([&] {
    loop.Post([&] { order += "1"; });
    std::thread([&] { loop.Post([&] { order += "2"; }); }).join();
    loop.Post([&] { order += "3"; });
    std::thread([&] {
      loop.Post([&] { order += "4"; });
      loop.Post([&] { loop.Stop(); });
    }).join();
  });
  loop.Run();
  EXPECT_EQ(order, "1234");
}

TEST(Loop, PostsOfTimersAndDescriptorsKeepTheirOrderToo) {
  Loop loop;
  std::string order;
  auto [out, in] = std::move(MakePipe()).value();
  auto two_threads = [&](const std::string& mine, const std::string& theirs) {
    loop.Post([&order, mine] { order += mine; });
    std::thread([&] { loop.Post([&order, theirs] { order += theirs; }); }).join();
  };
  Loop::Watch timer = loop.After(1, [&] {
    two_threads("a", "b");
    ASSERT_EQ(write(in.get(), "x", 1), 1);
  });
  Loop::Watch readable = loop.OnReadable(out.get(), [&] {
    readable.reset();
    two_threads("c", "d");
    loop.Post([&] { loop.Stop(); });
  });
  loop.Run();
  EXPECT_EQ(order, "abcd");
}

TEST(Loop, AFunctionThatPostsItselfDoesNotStarveTimers) {
  Loop loop;
  std::function<void()> again = [&] { loop.Post(again); };
  loop.Post(again);
  Loop::Watch timer = loop.After(1, [&] { loop.Stop(); });
  loop.Run();  // returns only if the timer runs
}

TEST(Loop, PostedFunctionsTimersAndDescriptors) {
  Loop loop;
  auto [a, b] = std::move(MakeSocketPair()).value();
  std::string log;
  int reads = 0;
  Loop::Watch readable, late, every;
  readable = loop.OnReadable(a.get(), [&] {
    char c;
    // Reads one byte at a time, so the watch must call again for the rest.
    ASSERT_EQ(read(a.get(), &c, 1), 1);
    log += c;
    if (++reads == 3) readable.reset();
  });
  int ticks = 0;
  every = loop.Every(1, [&] {
    if (++ticks == 3) every.reset();
  });
  late = loop.After(100, [&] { loop.Stop(); });
  std::thread other([&] { loop.Post([&] { EXPECT_EQ(write(b.get(), "xyz!", 4), 4); }); });
  loop.Run();
  other.join();
  EXPECT_EQ(log, "xyz");
  EXPECT_EQ(ticks, 3);
}

TEST(Loop, SeesTheEndOfAChild) {
  Loop loop;
  Subprocess child = std::move(Subprocess::Spawn({.argv = {"/bin/sh", "-c", "exit 7"}})).value();
  ASSERT_GE(child.exit_descriptor(), 0);
  Loop::Watch watch = loop.OnReadable(child.exit_descriptor(), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(child.Poll(), (ExitStatus{7, 0}));
}

TEST(Loop, WatchesWithoutADescriptorToSpare) {
  Loop loop;
  auto watched = loop.After(1000000, [] {});  // the loop opens its own descriptors at the first watch
  auto [out, in] = std::move(MakePipe()).value();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 4;  // leaves no descriptor for a duplicate
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string events;
  Loop::Watch reading;
  Loop::Watch writing = loop.OnWritable(in.get(), [&] {
    events += 'w';
    writing.reset();
    (void)!write(in.get(), "x", 1);
  });
  reading = loop.OnReadable(out.get(), [&] {
    events += 'r';
    reading.reset();
    loop.Stop();
  });
  loop.Run();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(events, "wr");
}

TEST(Loop, Signals) {
  Loop loop;
  int seen = 0;
  Loop::Watch watch = loop.OnSignals({SIGUSR1}, [&](int signal) {
    seen = signal;
    loop.Stop();
  });
  loop.Post([] { raise(SIGUSR1); });
  loop.Run();
  EXPECT_EQ(seen, SIGUSR1);
}

}  // namespace
}  // namespace autotune
