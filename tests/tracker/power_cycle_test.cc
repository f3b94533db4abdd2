#include "tracker/power_cycle.h"

#include <gmock/gmock.h>

namespace autotune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMinute = 60000, kHour = 60 * kMinute;

// A farm whose servers fall silent and come back.
struct SilentFarm {
  std::vector<std::string> Due() {
    for (ServerSilence& server : servers) server.silent_ms = server.reports ? 0 : now - since[server.server];
    std::vector<std::string> members;
    for (const ServerSilence& server : cycle.Due(servers, now)) members.push_back(server.member);
    return members;
  }
  // Returns the minutes after which somebody is switched, in so many hours.
  std::vector<int64_t> MinutesOfSwitches(int64_t hours) {
    std::vector<int64_t> minutes;
    for (const int64_t begin = now, end = now + hours * kHour; now < end; now += kMinute)
      if (!Due().empty()) minutes.push_back((now - begin) / kMinute);
    return minutes;
  }
  ServerSilence& Add(const std::string& server, const std::string& member) {
    servers.push_back({.server = server, .key = "pi", .member = member, .address = "", .reports = true});
    return servers.back();
  }
  void Silence(size_t index) {
    servers[index].reports = false;
    since[servers[index].server] = now;
  }

  PowerCycle cycle{{}};
  std::vector<ServerSilence> servers;
  std::map<std::string, int64_t> since;
  int64_t now = 0;
};

TEST(PowerCycle, ASilentMemberIsSwitchedLessAndLessOften) {
  SilentFarm farm;
  farm.Add("a", "board1");
  farm.Silence(0);
  // After 5, 15 and 45 minutes; the next ones when the first is a day old, and when the second is.
  EXPECT_THAT(farm.MinutesOfSwitches(24), ElementsAre(5, 20, 65));
  EXPECT_EQ(farm.cycle.Switches("board1", farm.now), 3);
  EXPECT_EQ(farm.cycle.Switches("board2", farm.now), 0);
}

TEST(PowerCycle, AReportBeginsAnew) {
  SilentFarm farm;
  farm.Add("a", "board1");
  farm.Silence(0);
  EXPECT_THAT(farm.MinutesOfSwitches(1), ElementsAre(5, 20));
  farm.servers[0].reports = true;
  EXPECT_THAT(farm.MinutesOfSwitches(1), IsEmpty());
  farm.Silence(0);
  EXPECT_THAT(farm.MinutesOfSwitches(10), ElementsAre(5)) << "the third of this day";
  EXPECT_THAT(farm.MinutesOfSwitches(24), ::testing::Not(IsEmpty())) << "a day later";
}

TEST(PowerCycle, AMemberWithAServerThatReportsIsSpared) {
  SilentFarm farm;
  farm.Add("gpu0", "host1");
  farm.Add("gpu1", "host1");
  farm.Silence(1);
  EXPECT_THAT(farm.MinutesOfSwitches(24), IsEmpty());
  farm.Silence(0);
  EXPECT_THAT(farm.MinutesOfSwitches(1), ElementsAre(5, 20)) << "once for both, since the later of them";
}

TEST(PowerCycle, ADrainedDeviceIsSpared) {
  SilentFarm farm;
  farm.Add("a", "board1").held = true;
  farm.Silence(0);
  EXPECT_THAT(farm.MinutesOfSwitches(24), IsEmpty());
  farm.servers[0].held = false;
  EXPECT_THAT(farm.Due(), ElementsAre("board1"));
}

// If all fall silent at once, the network is at fault.
TEST(PowerCycle, IfNobodyReportsNobodyIsSwitched) {
  SilentFarm farm;
  for (const char* name : {"a", "b", "c"}) farm.Add(name, std::string("board ") + name);
  for (const size_t server : {0, 1, 2}) farm.Silence(server);
  EXPECT_THAT(farm.MinutesOfSwitches(2), IsEmpty());
  farm.servers[2].reports = true;
  EXPECT_THAT(farm.Due(), ElementsAre("board a", "board b"));
}

}  // namespace
}  // namespace autotune
