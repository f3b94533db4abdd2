// FarmNetworks: what becomes of the networks of a final choice when their device goes away.
#include "service/farm_networks.h"

#include <gmock/gmock.h>

#include <optional>

#include "runtime/graph_json.h"
#include "runtime/params.h"
#include "support/clock.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class FarmNetworksTest : public test::FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    // An executor of a network that only copies its input: no library is needed.
    Graph graph;
    graph.nodes = {{.name = "x", .outputs = {{"f32", {64}, 0}}}};
    graph.heads = {{0, 0}};
    package_.graph_json = graph.ToText();
    package_.params = ParamsBytes({});
    rpc::RemoteDevice::Options options{.farm = {.tracker = socket_, .key = "pi", .wait_seconds = 3}};
    options.on_wait = [this](const rpc::DeviceWait& wait) {
      const std::lock_guard hold(mutex_);
      waits_.push_back(wait.text);
    };
    networks_.emplace(options, "pi");
  }
  // Loads the network and runs it, in one turn. `replace` kills the server between two runs of the first try, and
  // starts another one.
  Status Turn(const std::function<void()>& replace = nullptr) {
    bool is_first = true;
    return RunTurn(*networks_, [&]() -> Status {
      const Module network = TRY(networks_->Load(package_, 1, false));
      TRY(networks_->Measure(TRY(network->GetFunction("run")), {}));
      if (!std::exchange(is_first, false) || !replace) return {};
      servers_[0].Kill();
      servers_[0].Wait(5000);
      replace();
      TRY(networks_->Measure(TRY(network->GetFunction("run")), {}));
      return {};
    });
  }

  Package package_;
  std::optional<FarmNetworks> networks_;
  std::mutex mutex_;
  std::vector<std::string> waits_;
};

TEST_F(FarmNetworksTest, ATurnBeginsAgainWhenItsDeviceIsBack) {
  ASSERT_TRUE(Turn().ok());
  const MeasuredOn before = networks_->measured_on();
  const Status again = Turn([this] { StartServer(); });
  EXPECT_TRUE(again.ok()) << again.error().Text();
  EXPECT_EQ(networks_->measured_on().server, before.server);
}

// Times of another device of the key would not compare with those that are there.
TEST_F(FarmNetworksTest, TheWaitForADeviceThatStaysAwayEndsWithOneSentence) {
  ASSERT_TRUE(Turn().ok());
  const std::string device = "the device of server " + networks_->measured_on().server;
  const int64_t began = BootMillis();
  const Status lost = Turn([this] { StartServer({"--state", File("another")}); });
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().Text(),
              AllOf(HasSubstr(device + ", on which the networks are compared, has not come back within 3 s: "),
                    HasSubstr("the same command compares them once it is there")));
  EXPECT_LT(BootMillis() - began, 40'000);
  const std::lock_guard hold(mutex_);
  EXPECT_THAT(waits_, Contains(HasSubstr(device + ", on which the networks are compared, is not free: ")));
}

}  // namespace
}  // namespace autotune
