// `run` and `bench` on a device of a farm: the same answers as here, and one line for each failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::ReadAll;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RemoteRun : public test::FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("m.tar"), "--quiet"}).code, 0);
  }
  std::vector<std::string> OnFarm(std::vector<std::string> command) const {
    for (const std::string& word : {std::string("--tracker"), socket_, std::string("--key"), std::string("pi")})
      command.push_back(word);
    return command;
  }
};

TEST_F(RemoteRun, AnswersAsHereBitByBit) {
  const CliResult here = Run({"run", File("m.tar"), "-o", File("here.npz"), "--quiet"});
  ASSERT_EQ(here.code, 0) << here.err;
  const CliResult there = Run(OnFarm({"run", File("m.tar"), "-o", File("there.npz"), "--quiet", "--repeat", "2"}));
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(ReadAll(File("here.npz")), ReadAll(File("there.npz")));
  EXPECT_THAT(Run({"devices", "--tracker", socket_}).out, HasSubstr("calls"));
}

TEST_F(RemoteRun, BenchTellsTheLatencyThere) {
  const CliResult bench = Run(OnFarm({"bench", File("m.tar"), "--seconds", "0.2", "--json"}));
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out,
              AllOf(HasSubstr("\"key\":\"pi\""), HasSubstr("\"median_ms\":"), HasSubstr("\"undisturbed\":")));
  const CliResult profile = Run(OnFarm({"bench", File("m.tar"), "--profile"}));
  EXPECT_EQ(profile.code, 2);
  EXPECT_THAT(profile.err, HasSubstr("a device of a farm is measured by one run after another"));
}

TEST_F(RemoteRun, ASignalGivesTheDeviceBack) {
  const auto free = [&] { return Run({"devices", "--tracker", socket_}).out.find("free") != std::string::npos; };
  for (const int signal : {SIGINT, SIGTERM}) {
    Subprocess bench = Start(OnFarm({"bench", File("m.tar"), "--seconds", "100"}), "bench");
    ASSERT_TRUE(test::Soon([&] { return !free(); }, 10));
    bench.Kill(signal);
    const auto ended = bench.Wait(5000);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code, 130) << ReadAll(File("bench.err"));
    EXPECT_THAT(ReadAll(File("bench.err")), HasSubstr("cancelled"));
    EXPECT_TRUE(test::Soon(free, 3)) << "not only when the lease expires, after 10 s";
  }
}

TEST_F(RemoteRun, WhatCannotRunThereIsOneLine) {
  EXPECT_THAT(Run(OnFarm({"run", File("m.tar"), "--device", "cuda:0"})).err,
              HasSubstr("--device chooses a device of this"));
  EXPECT_THAT(Run(OnFarm({"run", File("missing.tar")})).err, HasSubstr("missing.tar"));
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("m.so"), "--quiet"}).code, 0);
  EXPECT_THAT(Run(OnFarm({"run", File("m.so")})).err, HasSubstr("give the package as M.tar"));
  const CliResult threads = Run(OnFarm({"run", File("m.tar"), "--threads", "16"}));
  EXPECT_EQ(threads.code, 0) << threads.err;  // slow, but as here
  const CliResult unknown = Run({"run", File("m.tar"), "--tracker", socket_, "--key", "nothing"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("nothing"));
}

}  // namespace
}  // namespace autotune
