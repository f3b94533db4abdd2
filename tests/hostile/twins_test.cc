// The twins of the attacks: where the rule that stops an attack is switched off (rpc/rules.h), the attack does harm.
// In each farm, every process lacks the rules of one attack.
#include "tests/hostile/attack.h"
#include "tests/hostile/hostile.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
using testing::ElementsAre;
using enum TrialStatus;

constexpr char kWrong[] = " for (int i = 0; i < 64; ++i) y[i] = 99;";
constexpr char kForEver[] = " for (volatile int forever = 1; forever;);";

// A result that no runner has measured.
std::string ForgedResult(int64_t run = 0) {
  TrialResult forged;
  forged.candidate = "0";
  forged.status = kOk;
  forged.times = {1e-9, 1e-9};
  forged.checked = true;
  return OnTheChannel({"", rpc::RunnerResult{run, forged}, {}});
}
std::string Hello() { return OnTheChannel({"", rpc::RunnerHello{1, ""}, {}}); }

class HostileTwins : public Hostile {
 protected:
  struct Lacks {
    std::string tracker = {}, victim = {}, bystander = {};  // rules
  };
  void SetUp() override {}
  // Starts a farm whose processes lack rules.
  void Begin(Lacks lacks) {
    lacks_ = std::move(lacks);
    Hostile::SetUp();
  }
  void StartProcesses() override {
    const std::string program = std::string(AUTOTUNE_BINARY_DIR) + "/tests/breakable_farm";
    LaunchTracker({program, lacks_.tracker, "tracker", "ipc://" + Endpoint(), folder_ + "/state"});
    for (const auto& [key, rules] : {std::pair("victim", lacks_.victim), std::pair("bystander", lacks_.bystander)}) {
      LaunchServer(key, {program, rules, "server", "ipc://" + Endpoint(), key, folder_ + "/" + key,
                         kTools + "/rpc_server", "--runner", "--memory-limit=0.25"});
    }
  }
  std::vector<TrialStatus> StatusesOnVictim(const std::vector<std::string>& bodies, const std::string& top = "") {
    std::vector<Blob> artifacts;
    for (const std::string& body : bodies) artifacts.push_back(Compile(body, kSystemCall + top));
    return StatusesOf(Measure("victim", std::move(artifacts), 1.5));
  }
  // One client's candidate leaves a thread that sends forged results. Returns what another client's wrong one gets.
  TrialStatus WrongOneAfterALeftThread() {
    const std::string thread =
        "static void thread_body(void) __attribute__((used)); static void thread_body(void) { "
        "long nap[2] = {0, 20000000}; for (;;) { " +
        Send(ForgedResult() + Hello()) + " call(35, nap, 0, 0); } }";
    EXPECT_THAT(StatusesOnVictim({LeaveThread(kForEver)}, thread), ElementsAre(kOk));
    const std::vector<TrialStatus> statuses = StatusesOnVictim({kWrong});
    return statuses.size() == 1 ? statuses[0] : kInfrastructure;
  }

 private:
  Lacks lacks_;
};

TEST_F(HostileTwins, ForgedResultsLeasesOfOthersAndUnfinishedMessages) {
  Begin({.tracker = "secret-ids", .victim = "fresh-runs", .bystander = "memory-watch"});
  EXPECT_THAT(StatusesOnVictim({Send(ForgedResult()) + kDouble + kWrong}), ElementsAre(kOk)) << "forged";
  EXPECT_EQ(WrongOneAfterALeftThread(), kWrongAnswer) << "each client has its own runner";
  // Whoever asks for the status ends the lease of another client, which must then ask for another one.
  const std::string lease = DeviceOf("bystander").lease;
  Peer stranger(Tracker());
  stranger.Send({"r", rpc::LeaseRelease{lease}, {}});
  EXPECT_TRUE(Soon([&] { return DeviceOf("bystander").lease != lease; }, 10)) << "the lease goes on";
  if (kSanitized) return;  // a sanitizer's allocator does not tell what is allocated
  EXPECT_GT(MostWhileUnfinished(DeviceOf("bystander").endpoint, PidOf("bystander"), 1, 300), 128 << 20);
}

TEST_F(HostileTwins, LeftThreadsAndLongTexts) {
  Begin({.tracker = "limits", .victim = "fresh-runs,own-runner"});
  EXPECT_EQ(WrongOneAfterALeftThread(), kOk);
  const int64_t rest = MemoryOf(TrackerPid());
  Peer stranger(Tracker());
  for (int i = 0; i < 50; ++i)
    stranger.SendAs("lease_withdraw", {{"withdrawn", std::string(2 << 20, 'x') + std::to_string(i)}});
  EXPECT_TRUE(Soon([&] { return MemoryOf(TrackerPid()) - rest > kMostGrowth; }, 10));
}

TEST_F(HostileTwins, MessagesOfALaterRunAndEpochs) {
  Begin({.victim = "fresh-runs,drops-unread", .bystander = "plausible,incarnation"});
  const std::string both = ForgedResult() + Hello();
  EXPECT_THAT(StatusesOnVictim({Send(both + both) + kForEver, kWrong}), ElementsAre(kOk, kOk));
  EndBystander();
  Peer stranger(DeviceOf("bystander").endpoint);
  const rpc::LeaseClaim claim{.lease = "l", .token = {INT64_MAX, INT64_MAX}, .ttl_ms = 1000, .client = "c"};
  stranger.Send({"r", rpc::ClientBeat{claim, ""}, {}});
  // No tracker can give out a later token, and ours takes no report with this one.
  EXPECT_TRUE(Soon([&] { return Log().find("refuses this server") != std::string::npos; }, 10)) << Log();
}

TEST_F(HostileTwins, AnnouncedReferencesAndOldTokens) {
  Begin({.victim = "fresh-runs,phases", .bystander = "fencing,incarnation"});
  const std::vector<float> wrong(64, 99);
  const auto outputs = rpc::MakeBlob({reinterpret_cast<const char*>(wrong.data()), 64 * 4});
  const std::string announced = OnTheChannel({"", rpc::RunnerReference{1}, {outputs}});
  EXPECT_THAT(StatusesOnVictim({Send(announced) + "*(volatile int*)0 = 1;", kWrong}), ElementsAre(kRunCrashed, kOk));
  const rpc::DeviceStatus device = DeviceOf("bystander");
  Peer stranger(device.endpoint);
  const rpc::LeaseClaim claim{.lease = "l", .token = {0, 1}, .ttl_ms = 1000, .client = "c"};
  stranger.Send({"r", rpc::ClientBeat{claim, ""}, {}});
  EXPECT_TRUE(Soon([&] { return Log().find(" lost by ") != std::string::npos; }, 10)) << Log();
}
#endif

}  // namespace
}  // namespace autotune
