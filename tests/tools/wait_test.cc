// A tuner that waits for a device of a farm: it reports the wait, ends on a signal, and continues when it gets a
// device.
#include <gmock/gmock.h>
#include <signal.h>

#include "rpc/client.h"
#include "support/clock.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::kExample;
using test::Lines;
using test::NameOf;
using test::ReadAll;
using test::Soon;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Wait : public test::FarmTest {
 protected:
  // Takes the only device with another client, which keeps it until it is destroyed.
  std::unique_ptr<rpc::FarmClient> TakeDevice() {
    auto client =
        rpc::FarmClient::Connect({.tracker = socket_, .key = "pi", .job = "other", .idle_lease_seconds = 3600});
    EXPECT_TRUE(client.ok());
    rpc::MeasureJob job;  // gets the device, but fails to load
    job.artifacts = {std::make_shared<const std::string>("no artifact")};
    job.candidates.resize(1);
    job.candidates[0].id = "a";
    job.candidates[0].kernel = "kernel";
    EXPECT_TRUE((*client)->Measure(std::move(job)).ok());
    return std::move(*client);
  }
  std::vector<std::string> Command(std::vector<std::string> more = {}) const {
    std::vector<std::string> command = {"--model", kExample,  "--trials",  "16",    "--search", "random",
                                        "--tasks", "softmax", "--tracker", socket_, "--key",    "pi"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  bool SoonHolds(const std::string& name, const std::string& text) {
    return Soon([&] { return ReadAll(File(name)).find(text) != std::string::npos; });
  }
};

// Longest time in seconds from a signal to the end of the program. A wait ends within a second; the rest is for a busy
// machine.
constexpr double kEndSeconds = 2;

TEST_F(Wait, ASignalEndsIt) {
  struct Case {
    int signal;
    std::vector<std::string> more;
    ::testing::Matcher<std::string> budget;  // in the command that resumes the run
  };
  for (const auto& [signal, more, budget] :
       {Case{SIGINT, {}, Not(HasSubstr("--time-budget"))},
        Case{SIGTERM, {"--time-budget", "10m"}, HasSubstr(" --time-budget 10m ")}}) {
    auto holder = TakeDevice();
    std::string name = "tune" + std::to_string(signal);
    Subprocess run = Start(Command(more), name);
    ASSERT_TRUE(SoonHolds(name + ".out", "waiting for a device since")) << ReadAll(File(name + ".err"));
    const double signalled = SteadySeconds();
    kill(run.pid(), signal);
    CliResult result = Finish(run, name, 20);  // the device never becomes free
    EXPECT_LE(SteadySeconds() - signalled, kEndSeconds) << result.Text();
    EXPECT_EQ(result.code, 130) << result.Text();
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("1 of 1 devices `pi` busy"), HasSubstr("place 1"), Not(HasSubstr("about"))));
    EXPECT_THAT(result.err, AllOf(HasSubstr("interrupted; 0 of 16 trials are saved"), HasSubstr("--tasks 'softmax'")));
    EXPECT_THAT(result.err, budget);
  }
  EXPECT_THAT(Run({"records", "stats"}).out, HasSubstr("0 records")) << "unmeasured candidates must not be stored";
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
  EXPECT_EQ(NameOf(events[1]), "waiting");
  EXPECT_THAT(*events[1]["reason"].As<std::string>(), HasSubstr("`pi`"));
  EXPECT_EQ(NameOf(events.back()), "end");
}

TEST_F(Wait, AKeyThatWasNeverOfferedIsRefused) {
  // The tracker refuses unknown keys only after servers have had time to report.
  ASSERT_TRUE(Soon([&] { return rpc::QueryStatus("ipc://" + socket_).value().uptime_ms > 4000; }, 30));
  std::vector<std::string> command = Command();
  command.back() = "pii";
  CliResult result = Run(command);
  EXPECT_EQ(result.code, 1) << result.Text();
  EXPECT_THAT(Lines(result.err), SizeIs(1));
  EXPECT_THAT(result.err, AllOf(HasSubstr("no device has the key `pii`"), HasSubstr("did you mean `pi`")));
  EXPECT_THAT(result.out, Not(HasSubstr("waiting")));
}

}  // namespace
}  // namespace autotune
