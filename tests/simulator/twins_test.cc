// Each rule of the machines is switched off in turn: a promise of the ledger is then broken. So the simulator notices a
// machine without that rule. frozen_test.cc has the rules for stopped processes and restarted trackers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/rules.h"
#include "tests/simulator/simulator.h"

namespace autotune {
namespace {

using testing::Contains;

constexpr int64_t kHalfHour = 30 * 60 * 1000;

struct Twin {
  const char* rule;
  const char* promise;           // that is broken
  Simulator::Options farm = {};  // in which the rule matters
};
void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.rule; }

Simulator::Options ManyFaults() { return {.weather = {.fault_every_ms = 3000}}; }
// Nothing fails; candidates take seconds, many wait, and one client never gives its device back.
Simulator::Options Crowded() {
  Weather weather = kCalm;
  weather.longest_run_ms = 3000;
  return {.weather = weather, .servers = {2}, .clients = 5, .jobs = 2, .most_candidates = 60, .hoarders = 1};
}
// Half of the jobs are sessions of calls.
Simulator::Options WithCalls() { return {.weather = {.fault_every_ms = 3000}, .calls = 0.5}; }
// One client has a device for itself. Messages are lost, and nothing else fails.
Simulator::Options Alone() { return {.weather = {.loss = 0.02, .fault_every_ms = 0}, .servers = {1}, .clients = 1}; }
Simulator::Options Walled() { return {.weather = kCalm, .servers = {2}, .clients = 1, .wall = true}; }

const Twin kTwins[] = {
    {"fencing", "fencing", ManyFaults()},
    {"ended-lease", "fencing", ManyFaults()},
    {"incarnation", "fencing", ManyFaults()},
    {"kills-on-loss", "one-at-a-time", ManyFaults()},
    {"resends", "progress", Alone()},
    {"remembers", "no-idle-work", ManyFaults()},
    {"fresh-runs", "honest-results", ManyFaults()},
    {"yield-stops", "yields", Crowded()},
    {"repeats", "second-chance", Alone()},
    {"fresh-runner", "fair-verdicts", Alone()},
    {"own-runner", "own-runner", ManyFaults()},
    {"spares", "fair-verdicts", ManyFaults()},
    {"ends-batch", "ends-batch", ManyFaults()},
    {"probes", "quarantine", ManyFaults()},
    {"calls-once", "calls-once", WithCalls()},
    {"call-runner", "own-runner", WithCalls()},
    {"calls-end", "calls-in-order", WithCalls()},
    {"third-device", "third-device", ManyFaults()},
    {"answers-once", "answered-once", ManyFaults()},
    {"silent-server", "progress", Walled()},
    {"retries", "retried", ManyFaults()},
    {"asks-again", "retried", Alone()},
    {"one-holder", "one-holder", ManyFaults()},
    {"expiry", "dead-holders", ManyFaults()},
    {"revocation", "shared-devices", Crowded()},
    {"queue-order", "queue-order", ManyFaults()},
    {"silent-queue", "dead-holders", ManyFaults()},
    {"holds", "held-devices", ManyFaults()},
};

class Twins : public testing::TestWithParam<Twin> {
 public:
  ~Twins() override { rpc::BreakRule(""); }
};

std::set<std::string> PromisesBroken(Simulator::Options options, uint64_t seed) {
  options.seed = seed;
  options.encoded = 16;
  Simulator farm(std::move(options));
  farm.Run(kHalfHour);
  std::set<std::string> promises;
  for (const std::string& violation : farm.Violations()) promises.insert(violation.substr(0, violation.find(':')));
  return promises;
}

TEST_P(Twins, IsNoticed) {
  const Twin& twin = GetParam();
  constexpr uint64_t kSeeds = 200;
  std::set<std::string> all;
  uint64_t seed = 1;
  rpc::BreakRule(twin.rule);
  for (; seed <= kSeeds && !all.contains(twin.promise); ++seed) all.merge(PromisesBroken(twin.farm, seed));
  EXPECT_THAT(all, Contains(std::string(twin.promise))) << "after " << seed - 1 << " seeds";
  RecordProperty("seeds", static_cast<int>(seed - 1));
  rpc::BreakRule("");
  for (uint64_t again = 1; again < seed; ++again)
    EXPECT_THAT(PromisesBroken(twin.farm, again), testing::IsEmpty()) << "with the rule, seed " << again;
}
TEST(TwinsOfRules, AreComplete) {
  std::set<std::string_view> tested = {"stopped-time", "recovery"};                                // frozen_test.cc
  tested.insert({"plausible", "secret-ids", "limits", "memory-watch", "drops-unread", "phases"});  // tests/hostile
  tested.insert({"allow-list", "roles", "owners", "proof"});                                       // members_test.cc
  tested.insert({"keys", "handshakes"});                                                           // tests/hostile
  for (const Twin& twin : kTwins) tested.insert(twin.rule);
  for (const std::string_view rule : EnumNames<rpc::Rule>::kNames)
    EXPECT_TRUE(tested.contains(rule)) << "nothing shows that the rule " << rule << " is needed";
}
INSTANTIATE_TEST_SUITE_P(Rules, Twins, testing::ValuesIn(kTwins), [](const auto& info) {
  std::string name = info.param.rule;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace autotune
