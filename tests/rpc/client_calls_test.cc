// What a client does about a session of calls.
#include <gmock/gmock.h>

#include <algorithm>

#include "rpc/client_session.h"
#include "rpc/content_hash.h"
#include "tests/rpc/bytes.h"
#include "tests/rpc/pass_time.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A client session that makes calls.
struct Caller {
  explicit Caller() : session(Options()) {}
  static ClientSession::Options Options() {
    ClientSession::Options options;
    options.key = "cpu";
    options.new_id = [n = 0]() mutable { return "id" + std::to_string(++n); };
    return options;
  }
  void Take(ClientActions actions) {
    for (auto& action : actions) {
      if (auto* a = std::get_if<AskTracker>(&action)) tracker.push_back(a->message);
      if (auto* a = std::get_if<AskServer>(&action)) server.push_back(a->message);
      if (auto* a = std::get_if<CallReplied>(&action)) replies.push_back(*a);
      if (auto* a = std::get_if<CallDone>(&action)) done.push_back(*a);
      if (auto* a = std::get_if<JobWaits>(&action)) waits.push_back(a->wait);
    }
  }
  // Makes `count` calls, whose bodies are their numbers.
  void Make(int64_t number, int64_t count = 1) {
    Take(session.StartCall({.session = "s",
                            .number = number,
                            .count = count,
                            .seconds = 10,
                            .body = [=](int64_t i) { return Bytes(std::to_string(number + i)); }},
                           now));
  }
  void Grant(int64_t counter = 1) {
    const LeaseGranted granted{"lease" + std::to_string(counter), {1, counter}, "s1", {}, 10000};
    for (auto it = tracker.rbegin(); it != tracker.rend(); ++it) {
      if (!it->As<LeaseRequest>()) continue;
      return Take(session.On({.roles = {Role::kTracker}}, {it->request, granted, {}}, now));
    }
  }
  void Hear(Message message) { Take(session.On({.roles = {Role::kServer}}, message, now)); }
  void Reply(int64_t number, int minor = kWireMinor) {
    Hear({"", CallReply{"s", number, TrialStatus::kOk, "", ""}, {Bytes("reply")}, minor});
  }
  // The numbers of the calls that were sent since the latest look.
  std::vector<int64_t> Sent() {
    std::vector<int64_t> numbers;
    for (; seen < server.size(); ++seen)
      if (auto* call = server[seen].As<Call>()) numbers.push_back(call->number);
    return numbers;
  }
  int64_t Calls() const {
    return std::count_if(server.begin(), server.end(), [](const Message& m) { return m.As<Call>() != nullptr; });
  }
  ClientSession session;
  int64_t now = 0;
  std::vector<Message> tracker, server;
  size_t seen = 0;  // messages to the server, by Sent
  std::vector<CallReplied> replies;
  std::vector<CallDone> done;
  std::vector<DeviceWait> waits;
};

TEST(ClientCalls, GoToOneDeviceAndAreRepeatedUntilAnswered) {
  Caller c;
  c.Make(1);
  c.Grant();
  EXPECT_EQ(c.Calls(), 1);
  test::PassTime(c.session, c.now, 3000, [&](auto actions) { c.Take(std::move(actions)); });
  EXPECT_EQ(c.Calls(), 1) << "a copy would take long over a slow link";
  c.Take(c.session.OnServerConnected(c.now));
  EXPECT_EQ(c.Calls(), 2) << "the connection is another one";
  c.Reply(2);
  EXPECT_THAT(c.done, IsEmpty()) << "it answers another call";
  c.Reply(1);
  ASSERT_EQ(c.done.size(), 1u);
  EXPECT_EQ(*c.replies.at(0).body, "reply");
  c.Reply(1);
  EXPECT_EQ(c.done.size(), 1u);
  c.Make(2);
  EXPECT_EQ(c.Calls(), 3) << "over the same lease";
}

TEST(ClientCalls, TheFirstOneMayGoToAnotherDeviceAndLaterOnesMayNot) {
  Caller c;
  c.Make(1);
  c.Grant(1);
  c.Hear({c.server.back().request, Refusal{code::kLeaseLost, "gone"}, {}});
  EXPECT_THAT(c.done, IsEmpty());
  c.Grant(2);
  EXPECT_EQ(c.Calls(), 2);
  c.Reply(1);
  c.Make(2);
  c.Hear({c.server.back().request, Refusal{code::kLeaseLost, "gone"}, {}});
  ASSERT_EQ(c.done.size(), 2u);
  EXPECT_THAT(c.done[1].error->Text(), HasSubstr("the device was lost: gone"));
  c.Make(3);
  EXPECT_THAT(c.done.back().error->Text(), HasSubstr("the device was lost: gone")) << "it says why, also later";
}

TEST(ClientCalls, TheFirstOneGoesOnIfItsDeviceFails) {
  for (const TrialStatus status : {TrialStatus::kDeviceError, TrialStatus::kCancelled}) {
    Caller c;
    c.Make(1);
    c.Grant(1);
    c.Hear({"", CallReply{"s", 1, status, "no", ""}, {}});
    EXPECT_THAT(c.done, IsEmpty());
    c.Grant(2);
    EXPECT_EQ(c.Calls(), 2);
    c.Reply(1);
    EXPECT_EQ(c.done.size(), 1u);
    c.Make(2);
    c.Hear({"", CallReply{"s", 2, status, "no", ""}, {}});
    ASSERT_EQ(c.done.size(), 2u);
    EXPECT_EQ(c.replies.at(1).reply.status, status) << "what the session has is lost";
    EXPECT_TRUE(c.server.back().As<LeaseEnd>()) << "so it needs no device any more";
  }
}

TEST(ClientCalls, SeveralAreSentAheadOfTheirReplies) {
  using Numbers = std::vector<int64_t>;
  Caller c;
  c.Make(1);
  c.Grant();
  c.Reply(1);
  EXPECT_EQ(c.Sent(), Numbers{1});
  c.Make(2, 100);
  EXPECT_EQ(c.Sent(), Numbers{2}) << "how fast the link is shows later";
  c.Reply(2);
  EXPECT_EQ(c.Sent(), (Numbers{3, 4}));
  EXPECT_EQ(c.server.back().As<Call>()->answered, 2);
  c.Reply(4);
  EXPECT_THAT(c.Sent(), IsEmpty()) << "an earlier reply was lost";
  for (int64_t number = 3; number < 60; ++number) {
    c.Reply(number);
    const int64_t ahead = c.server.back().As<Call>()->number - number;
    EXPECT_LE(ahead, kMostOpenCalls);
    EXPECT_TRUE(number <= 30 || ahead == kMostOpenCalls) << number;
  }
  // Over a slow link there are fewer, down to one.
  for (int64_t number = 60; number < 80; ++number) {
    c.now += 1500;
    c.Reply(number);
  }
  EXPECT_EQ(c.server.back().As<Call>()->number, 80);
  // After a break of the connection, those without a reply are sent again.
  c.Sent();
  c.Reply(80);
  c.Reply(81);
  EXPECT_EQ(c.Sent(), (Numbers{81, 82, 83, 84})) << "two are under way";
  c.Take(c.session.OnServerConnected(c.now));
  EXPECT_EQ(c.Sent(), Numbers{82});
  EXPECT_EQ(*c.server.back().blobs[0], "82");
  EXPECT_EQ(c.replies.size(), 81u);
  EXPECT_THAT(c.done, testing::SizeIs(1));
  while (c.done.size() < 2) c.Reply(static_cast<int64_t>(c.replies.size()) + 1);
  EXPECT_EQ(c.replies.size(), 101u);
}

TEST(ClientCalls, ServersBefore27GetOneAtATime) {
  Caller c;
  c.Make(1);
  c.Grant();
  c.Reply(1, 6);
  c.Make(2, 5);
  c.Reply(2, 6);
  c.Reply(3, 6);
  EXPECT_EQ(c.server.back().As<Call>()->number, 4);
  EXPECT_EQ(c.Calls(), 4);
}

TEST(ClientCalls, AFailureEndsAllThatWereSent) {
  Caller c;
  c.Make(1);
  c.Grant();
  c.Reply(1);
  c.Make(2, 10);
  c.Reply(2);
  c.Reply(3);
  c.Hear({"", CallReply{"s", 4, TrialStatus::kRunCrashed, "no", ""}, {}});
  EXPECT_EQ(c.done.size(), 2u);
  EXPECT_EQ(c.replies.back().reply.number, 4);
  c.Reply(5);
  EXPECT_EQ(c.replies.back().reply.number, 4);
}

// Begins a session with a server of a minor version, and makes calls with bodies "call N of kernels" whose last seven
// bytes the server may have.
void MakeWithContents(Caller& c, int minor, int64_t count) {
  c.Make(1);
  c.Grant();
  c.Reply(1, minor);
  c.Take(c.session.StartCall({.session = "s",
                              .number = 2,
                              .count = count,
                              .seconds = 10,
                              .body = [](int64_t i) { return Bytes("call " + std::to_string(i) + " of kernels"); },
                              .content_bytes = [](int64_t) { return 7; }},
                             c.now));
}
const Call& LastCall(const Caller& c) { return *c.server.back().As<Call>(); }

TEST(ClientCalls, ContentsAreLeftOutUntilTheServerLacksOne) {
  Caller c;
  MakeWithContents(c, kWireMinor, 3);
  EXPECT_TRUE(LastCall(c).left_out);
  EXPECT_EQ(LastCall(c).content, ContentHash("kernels"));
  EXPECT_EQ(LastCall(c).content_bytes, 7);
  EXPECT_EQ(*c.server.back().blobs.at(0), "call 0 of ");
  c.Reply(2);  // the next two are sent
  EXPECT_EQ(*c.server.back().blobs.at(0), "call 2 of ");
  const Id third = c.server[c.server.size() - 2].request, fourth = c.server.back().request;
  c.Hear({third, Refusal{code::kNeedContent, "send it"}, {}});
  EXPECT_EQ(LastCall(c).number, 3);
  EXPECT_FALSE(LastCall(c).left_out);
  EXPECT_EQ(LastCall(c).content, ContentHash("kernels")) << "so that the server may keep it";
  EXPECT_EQ(*c.server.back().blobs.at(0), "call 1 of kernels");
  c.Hear({fourth, Refusal{code::kUnexpected, "there is no such session of calls"}, {}});
  EXPECT_THAT(c.done, testing::SizeIs(1)) << "that was an answer to what was sent before";
  c.Reply(3);
  EXPECT_EQ(*c.server.back().blobs.at(0), "call 2 of kernels");
  c.Hear({c.server.back().request, Refusal{code::kNeedContent, "send it"}, {}});
  ASSERT_EQ(c.done.size(), 2u) << "it was sent";
  EXPECT_THAT(c.done[1].error->Text(), HasSubstr("send it"));
}

TEST(ClientCalls, EarlierServersGetWholeBodies) {
  Caller c;
  MakeWithContents(c, kContentMinor - 1, 1);
  EXPECT_FALSE(LastCall(c).left_out);
  EXPECT_EQ(LastCall(c).content, "");
  EXPECT_EQ(*c.server.back().blobs.at(0), "call 0 of kernels");
}

TEST(ClientCalls, SayWhatTheirServerWaitsForOnce) {
  Caller c;
  c.Make(1);
  c.Grant();
  c.Hear({"", ServerBeat{"", 0, ""}, {}});
  EXPECT_THAT(c.waits, IsEmpty());
  for (int i = 0; i < 3; ++i) c.Hear({"", ServerBeat{"", 0, "somebody measures"}, {}});
  ASSERT_EQ(c.waits.size(), 1u);
  EXPECT_EQ(c.waits[0].text, "somebody measures");
  EXPECT_TRUE(c.waits[0].has_device);
  c.Reply(1);
  c.Hear({"", ServerBeat{"", 0, "somebody else measures"}, {}});
  EXPECT_EQ(c.waits.size(), 1u) << "no call waits";
}

TEST(ClientCalls, AServerThatNeverAnswersIsGivenUp) {
  Caller c;
  c.Make(1);
  c.Grant();
  for (int second = 0; second < 99; ++second) {
    test::PassTime(c.session, c.now, 1000, [&](auto actions) { c.Take(std::move(actions)); });
    c.Hear({"", ServerBeat{}, {}});
    for (auto it = c.tracker.rbegin(); it != c.tracker.rend(); ++it) {
      if (!it->As<LeaseRenew>()) continue;
      c.Take(c.session.On({.roles = {Role::kTracker}}, {it->request, LeaseRenewed{10000, false}, {}}, c.now));
      break;
    }
  }
  EXPECT_THAT(c.done, IsEmpty());
  test::PassTime(c.session, c.now, 2000, [&](auto actions) { c.Take(std::move(actions)); });
  ASSERT_EQ(c.done.size(), 1u);
  EXPECT_THAT(c.done[0].error->Text(), HasSubstr("does not answer the call"));
}

TEST(ClientCalls, ACancelledOneGivesTheDeviceBack) {
  Caller c;
  c.Make(1);
  c.Grant();
  c.Take(c.session.Cancel(c.now));
  ASSERT_EQ(c.done.size(), 1u);
  EXPECT_EQ(c.done[0].error->Text(), "cancelled");
  EXPECT_TRUE(c.server.back().As<LeaseEnd>());
  c.Make(1);
  c.Hear({"x", Refusal{code::kUnexpected, "of another request"}, {}});
  EXPECT_EQ(c.done.size(), 1u);
}

}  // namespace
}  // namespace autotune::rpc
