// A tuner that waits for a device of a farm, or for another process that keeps the host's lock: it reports the wait,
// ends on a signal, and continues when the wait is over.
#include <gmock/gmock.h>
#include <signal.h>

#include "rpc/client.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "support/sanitized.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::kTools;
using test::Lines;
using test::NameOf;
using test::ReadAll;
using test::Soon;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Longest time in seconds from a signal to the end of a process. A wait ends within a second; the rest is for a busy
// machine.
constexpr int kEndSeconds = kSanitized ? 20 : 2;

class Wait : public test::FarmTest {
 protected:
  // Takes the only device of this key with another client, which keeps it until it is destroyed.
  std::unique_ptr<rpc::FarmClient> TakeDevice(const std::string& key = "pi") {
    auto client =
        rpc::FarmClient::Connect({.tracker = socket_, .key = key, .job = "other", .idle_lease_seconds = 3600});
    EXPECT_TRUE(client.ok());
    rpc::MeasureJob job;  // gets the device, but fails to load
    job.artifacts = {rpc::MakeBlob("no artifact")};
    job.candidates.resize(1);
    job.candidates[0].id = "a";
    job.candidates[0].kernel = "kernel";
    EXPECT_TRUE((*client)->Measure(std::move(job)).ok());
    return std::move(*client);
  }
  std::vector<std::string> Command(std::vector<std::string> more = {}, const std::string& key = "pi",
                                   const std::string& trials = "16") const {
    std::vector<std::string> command = {"--model", SmallModel(), "--trials",  trials,  "--search", "random",
                                        "--tasks", "softmax",    "--tracker", socket_, "--key",    key};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  bool SoonHolds(const std::string& name, const std::string& text) {
    return Soon([&] { return ReadAll(File(name)).find(text) != std::string::npos; });
  }

  // Takes the host's lock for this process.
  // Waits until the server's calibration is over.
  std::optional<HostLock> TakeHost(HostLock::Mode mode) { return std::move(HostLock::Acquire(mode)).value(); }
};

TEST_F(Wait, ASignalEndsIt) {
  for (int signal : {SIGINT, SIGTERM}) {
    auto holder = TakeDevice();
    std::string name = "tune" + std::to_string(signal);
    Subprocess run = Start(Command(), name);
    ASSERT_TRUE(SoonHolds(name + ".err", "waiting for a device since")) << ReadAll(File(name + ".err"));
    const double signalled = SteadySeconds();
    kill(run.pid(), signal);
    CliResult result = Finish(run, name, 20);  // the device never becomes free
    EXPECT_LE(SteadySeconds() - signalled, kEndSeconds) << result.Text();
    EXPECT_EQ(result.code, 130) << result.Text();
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("1 of 1 devices `pi` busy"), HasSubstr("place 1"), Not(HasSubstr("about"))));
    EXPECT_THAT(result.err, HasSubstr("interrupted before the search; nothing was measured"));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(db_)) << "nothing was measured";
}

TEST_F(Wait, ASignalEndsTheLinesWithAnError) {
  auto holder = TakeDevice();
  Subprocess run = Start(Command({"--json"}), "tune");
  ASSERT_TRUE(SoonHolds("tune.out", "\"waiting\"")) << ReadAll(File("tune.err"));
  kill(run.pid(), SIGINT);
  const CliResult result = Finish(run, "tune", 20);
  EXPECT_EQ(result.code, 130) << result.Text();
  const std::vector<Json> events = EventsOf(result.out);
  EXPECT_EQ(NameOf(events.back()), "error");
  EXPECT_EQ(events.back()["code"], Json(130));
  EXPECT_EQ(events.back()["text"], Json("interrupted before the search; nothing was measured"));
  EXPECT_THAT(result.err, HasSubstr("interrupted before the search; nothing was measured\n"));
}

TEST_F(Wait, ADeviceEndsItToo) {
  auto holder = TakeDevice();
  Subprocess run = Start(Command({"--json"}), "tune");
  ASSERT_TRUE(SoonHolds("tune.out", "\"waiting\"")) << ReadAll(File("tune.err"));
  holder.reset();
  CliResult result = Finish(run, "tune");
  EXPECT_EQ(result.code, 0) << result.Text();
  std::vector<Json> events = EventsOf(result.out);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(NameOf(events[0]), "waiting");
  EXPECT_THAT(*events[0]["reason"].As<std::string>(), HasSubstr("`pi`"));
  EXPECT_EQ(NameOf(events.back()), "saved");
  EXPECT_THAT(ReadAll(File("server.err")), Not(HasSubstr("waiting for this host")));
}

TEST_F(Wait, ASignalEndsAWaitForTheHost) {
  const std::vector<std::string> compile = {"compile", "--model", SmallModel(), "--no-records", "-o", File("m.tar")};
  std::optional<HostLock> measurement = TakeHost(HostLock::Mode::kExclusive);
  ASSERT_TRUE(measurement);
  const std::string held = HostLock::HeldText();
  ASSERT_THAT(held, HasSubstr(HostLock::Path() + " is held by process " + std::to_string(getpid())));
  for (int signal : {SIGINT, SIGTERM}) {
    std::string name = "tune" + std::to_string(signal);
    Subprocess run = Start(Command(), name);  // waits before its first build
    ASSERT_TRUE(SoonHolds(name + ".err", held)) << ReadAll(File(name + ".err"));
    kill(run.pid(), signal);
    CliResult result = Finish(run, name, kEndSeconds);
    EXPECT_EQ(result.code, 130) << result.Text();
    EXPECT_THAT(result.err, HasSubstr("waiting for this host since "));
    EXPECT_THAT(result.err, HasSubstr("interrupted before the search; nothing was measured\n"));
    EXPECT_THAT(Lines(result.err), SizeIs(2));
  }
  Subprocess run = Start(compile, "compile");
  ASSERT_TRUE(SoonHolds("compile.err", held)) << ReadAll(File("compile.err"));
  kill(run.pid(), SIGTERM);
  std::optional<ExitStatus> status = run.Wait(kEndSeconds * 1000);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGTERM) << status->Text();

  measurement.reset();
  CliResult compiled = Run(compile);
  EXPECT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_THAT(compiled.err, Not(HasSubstr("waiting")));
}

TEST_F(Wait, ASignalEndsTheSearchsWaitForTheHost) {
  // This device's server measures without the host's lock, so only the search and its builds wait.
  auto server =
      Subprocess::Spawn({.argv = {kTools + "/rpc_server", "--tracker", socket_, "--key", "shared", "--shared-host"}});
  ASSERT_TRUE(server.ok());
  ASSERT_TRUE(Soon(
      [&] {
        auto status = rpc::QueryStatus("ipc://" + socket_, "shared");
        return status.ok() && status->devices.size() == 1 && status->devices[0].state == "free";
      },
      30));
  const std::vector<std::string> command = {"--model",   SmallModel(), "--trials", "192",    "--search", "random",
                                            "--tracker", socket_,      "--key",    "shared", "--json"};
  Subprocess run = Start(command, "tune");
  ASSERT_TRUE(SoonHolds("tune.out", "\"round\"")) << ReadAll(File("tune.err"));
  // Between two batches of builds, the lock is free.
  std::optional<HostLock> measurement = TakeHost(HostLock::Mode::kExclusive);
  ASSERT_TRUE(measurement);
  ASSERT_TRUE(SoonHolds("tune.out", HostLock::HeldText())) << ReadAll(File("tune.err"));
  kill(run.pid(), SIGTERM);
  CliResult result = Finish(run, "tune", kEndSeconds);
  EXPECT_EQ(result.code, 130) << result.Text();
  EXPECT_EQ(NameOf(EventsOf(result.out).back()), "interrupted");
  EXPECT_THAT(result.err, AllOf(HasSubstr(" of 192 trials are saved"), Not(HasSubstr("interrupted; 0 of"))));

  measurement.reset();
  CliResult rest = Run(command);
  EXPECT_EQ(rest.code, 0) << rest.Text();
  EXPECT_THAT(rest.Text(), Not(HasSubstr(HostLock::Path() + " is held by")));
}

// A build of another process keeps the device's server from measuring.
TEST_F(Wait, TheServerSaysWhoHoldsTheHost) {
  std::optional<HostLock> build = TakeHost(HostLock::Mode::kShared);
  ASSERT_TRUE(build);
  const std::string held = HostLock::HeldText();
  Subprocess run = Start(Command(), "tune");
  ASSERT_TRUE(SoonHolds("server.err", "waiting for this host: " + held)) << ReadAll(File("tune.err"));
  kill(run.pid(), SIGTERM);
  CliResult result = Finish(run, "tune", kEndSeconds);
  EXPECT_EQ(result.code, 130) << result.Text();
  EXPECT_THAT(result.err, HasSubstr("interrupted; 0 of 16 trials are saved"));
  kill(servers_.back().pid(), SIGTERM);
  EXPECT_TRUE(servers_.back().Wait(kEndSeconds * 1000));
}

TEST_F(Wait, AKeyThatWasNeverOfferedIsRefused) {
  // The tracker refuses unknown keys only after servers have had time to report.
  ASSERT_TRUE(Soon([&] { return rpc::QueryStatus("ipc://" + socket_).value().uptime_ms > 4000; }, 30));
  std::vector<std::string> command = Command();
  command.back() = "pii";
  CliResult result = Run(command);
  EXPECT_EQ(result.code, 1) << result.Text();
  EXPECT_THAT(Lines(result.err), ElementsAre(StartsWith("error: ")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("no device has the key `pii`"), HasSubstr("did you mean `pi`")));
  EXPECT_THAT(result.Text(), Not(HasSubstr("waiting")));
}

}  // namespace
}  // namespace autotune
