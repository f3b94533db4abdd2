// The events that a tracker tells the log, at a real socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/transport.h"
#include "tracker/tracker.h"

namespace autotune {
namespace {

// Returns the events of a tracker that ends as soon as it has answered a message.
std::vector<std::string> EventsUntilTheAnswer(const rpc::Message& message) {
  Loop loop;
  std::vector<std::string> events;
  const std::string endpoint = "ipc:///tmp/tracker-events-" + rpc::RandomId();
  auto started = Tracker::Start(
      loop, {.endpoints = {endpoint}, .on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
  std::unique_ptr<Tracker> tracker = std::move(started).value();
  std::unique_ptr<rpc::DealerSocket> peer;
  rpc::DealerSocket::Handlers handlers;
  handlers.on_message = [&](const rpc::Message&) { loop.Stop(); };
  handlers.on_connected = [&] { peer->Send(message); };
  peer = std::move(rpc::DealerSocket::Connect(loop, endpoint, std::move(handlers))).value();
  loop.Run();
  tracker.reset();
  return events;
}

TEST(TrackerEvents, TheLastOneIsTold) {
  rpc::ServerReport report{.server = "s1", .incarnation = "1"};
  report.device.key = "cpu";
  report.device.endpoint = "ipc:///tmp/nobody";
  EXPECT_THAT(EventsUntilTheAnswer({"r", report, {}}), testing::ElementsAre(testing::HasSubstr("registered")));
}

TEST(TrackerEvents, AQuestionIsNone) { EXPECT_THAT(EventsUntilTheAnswer({"r", rpc::Ping{}, {}}), testing::IsEmpty()); }

}  // namespace
}  // namespace autotune
