// Calls: values as bytes, the runner's table of handles, and what a server does about a session of calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "rpc/call_table.h"
#include "rpc/content_hash.h"
#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Result<RemoteHandle> NoHandle(const Value& value) { return Err("a handle of a ", value.TypeName()); }

Value Through(const Value& value) {
  ByteWriter out;
  EXPECT_TRUE(WriteValue(value, NoHandle, out).ok());
  const std::string bytes = out.Take();
  ByteReader in(bytes, "value");
  Value back = ReadValue(in, nullptr).value();
  EXPECT_TRUE(in.End().ok());
  return back;
}

TEST(RemoteValue, TravelsBitByBit) {
  EXPECT_TRUE(Through(Value()).IsNull());
  for (const int64_t integer : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(*Through(Value(integer)).If<int64_t>(), integer);
  for (const double number : {0.0, -0.0, 1e308, 5e-324, std::nan(""), -std::numeric_limits<double>::infinity()}) {
    const double back = *Through(Value(number)).If<double>();
    EXPECT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(number));
  }
  const std::string odd("a\0b\xff\n", 5);
  EXPECT_EQ(*Through(Value(odd)).If<std::string>(), odd);
  EXPECT_EQ(Through(Value(autotune::Bytes{odd})).If<autotune::Bytes>()->data, odd);
  EXPECT_TRUE(*Through(Value(DLDataType{kDLBfloat, 16, 1})).If<DLDataType>() == (DLDataType{kDLBfloat, 16, 1}));
  const DLDevice device = *Through(Value(DLDevice{kDLCUDA, 3})).If<DLDevice>();
  EXPECT_EQ(device.device_type, kDLCUDA);
  EXPECT_EQ(device.device_id, 3);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {0, 5}, {2, 3, 4}}) {
    const Tensor tensor = Tensor::Zeros(shape, "i16").value();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Data<int16_t>()[i] = static_cast<int16_t>(i * 1111);
    const Tensor back = *Through(Value(tensor)).If<Tensor>();
    EXPECT_EQ(back.TypeText(), tensor.TypeText());
    EXPECT_EQ(back.bytes(), tensor.bytes());
  }
  ByteWriter out;
  const Tensor large = Tensor::Zeros({kInlineTensorBytes + 1}, "u8").value();
  EXPECT_FALSE(WriteValue(Value(large), NoHandle, out).ok()) << "it must not travel whole";
}

// Bytes of a peer are damaged in all ways, and read without harm.
TEST(RemoteValue, DamagedBytesAreRefused) {
  const Tensor tensor = Tensor::Zeros({3, 2}, "f32").value();
  const std::string good =
      WriteCall({{1, 2}, 7, "name", {Value(5), Value("text"), Value(tensor), Value()}}, NoHandle).value();
  const auto read = [](std::string_view bytes) {
    return ReadCall(
        bytes, [](int64_t) {}, [](const RemoteHandle&) -> Result<Value> { return Err("no handle"); });
  };
  ASSERT_TRUE(read(good).ok());
  EXPECT_FALSE(read(good + "x").ok());
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(read(good.substr(0, size)).ok()) << size;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)read(bytes);
    (void)ReadReply(bytes, nullptr);
  }
}

// Calls of a table without a process between.
struct Table {
  Result<Value> Call(const std::string& name, std::vector<Value> args, std::vector<int64_t> released = {}) {
    const auto exported = [&](const Value& value) -> Result<RemoteHandle> {
      return handles.at(static_cast<size_t>(*value.If<Tensor>()->Data<int64_t>()));
    };
    const std::string call = TRY(WriteCall({std::move(released), 0, name, std::move(args)}, exported, -1));
    return TRY(ReadReply(TRY(table.Answer(call)), [&](const RemoteHandle& handle) -> Result<Value> {
      handles.push_back(handle);
      return Value();
    }));
  }
  // Stands for a handle among the arguments.
  static Value Handle(int64_t i) {
    const Tensor tensor = Tensor::Empty({1}, "i64").value();
    *tensor.Data<int64_t>() = i;
    return Value(tensor);
  }
  CallTable table{nullptr};
  std::vector<RemoteHandle> handles;
};

TEST(CallTable, KeepsWhatHasHandlesUntilTheyAreReleased) {
  Table t;
  ASSERT_TRUE(t.Call("remote.tensor", {Value(DLDataType{kDLUInt, 8, 1}), Value(4)}).ok());
  ASSERT_EQ(t.handles.size(), 1u);
  EXPECT_EQ(t.handles[0].shape, std::vector<int64_t>{4});
  ASSERT_TRUE(t.Call("remote.write", {Table::Handle(0), Value(1), Value(autotune::Bytes{"abc"})}).ok());
  EXPECT_EQ(t.Call("remote.read", {Table::Handle(0), Value(1), Value(3)})->If<autotune::Bytes>()->data, "abc");
  for (const auto& [offset, count] : {std::pair{-1, 1}, {0, 5}, {5, 0}, {1, 4}, {0, -1}})
    EXPECT_FALSE(t.Call("remote.read", {Table::Handle(0), Value(offset), Value(count)}).ok()) << offset;
  EXPECT_FALSE(t.Call("remote.write", {Table::Handle(0), Value(2), Value(autotune::Bytes{"abc"})}).ok());
  EXPECT_EQ(t.table.handles(), 1u);
  EXPECT_EQ(*t.Call("remote.handles", {}, {t.handles[0].number})->If<int64_t>(), 0);
  EXPECT_FALSE(t.Call("remote.read", {Table::Handle(0), Value(0), Value(1)}).ok()) << "it was released";
  EXPECT_FALSE(t.Call("remote.nothing", {}).ok());
  EXPECT_FALSE(t.Call("nothing", {}).ok());
  ASSERT_TRUE(t.Call("remote.tensor", {Value(DLDataType{kDLUInt, 8, 1}), Value(8)}).ok());
  EXPECT_FALSE(t.Call("remote.load_module", {Table::Handle(1), Value(0)}).ok());
  EXPECT_FALSE(t.Call("remote.load_network", {Value(), Table::Handle(1), Table::Handle(1), Value(0)}).ok());
  EXPECT_FALSE(t.table.Answer("damaged").ok());
}

Call CallOf(int64_t number, const Id& session = "s", int64_t lease = 1) {
  return {ServerWorld::Claim(lease), session, number, 10, false};
}

struct CallWorld : ServerWorld {
  using ServerWorld::ServerWorld;
  void Make(const rpc::Call& wanted) { Say("r" + std::to_string(wanted.number), wanted, {Bytes("call")}); }
  void Answer(const std::string& text, TrialStatus status = TrialStatus::kOk) {
    RunnerResult result{*call, {}};
    result.result.status = status;
    call.reset();
    Take(session.OnRunnerMessage({"", result, {Bytes(text)}}, now));
  }
  // The number and status of the latest reply since the latest message.
  std::pair<int64_t, std::string> Reply() const {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it)
      if (auto* reply = it->As<CallReply>()) return {reply->number, std::string(ToText(reply->status))};
    return {0, ""};
  }
};
using Pair = std::pair<int64_t, std::string>;

TEST(ServerCalls, AnswersEachCallOnceAndRepeatsTheReply) {
  CallWorld w;
  w.Make(CallOf(1));
  ASSERT_TRUE(w.call);
  EXPECT_EQ(w.kills, 0) << "the runner is fresh";
  w.Make(CallOf(1));
  EXPECT_THAT(w.sent, IsEmpty()) << "it runs";
  w.Answer("one");
  EXPECT_EQ(w.Reply(), (Pair{1, "ok"}));
  w.Make(CallOf(1));
  EXPECT_EQ(w.Reply(), (Pair{1, "ok"}));
  EXPECT_FALSE(w.call) << "it must not run again";
  w.Make(CallOf(2));
  w.Answer("two");
  EXPECT_EQ(w.Reply(), (Pair{2, "ok"}));
  w.Make(CallOf(4));
  EXPECT_THAT(w.RefusalText(), HasSubstr("there is no such session"));
  w.Make(CallOf(1));
  EXPECT_THAT(w.sent, IsEmpty()) << "a late copy";
  EXPECT_FALSE(w.call);
  w.Make(CallOf(3));
  EXPECT_TRUE(w.call) << "the session goes on";
}

TEST(ServerCalls, ASessionHasARunnerOfItsOwn) {
  CallWorld w;
  w.Say("b", ServerWorld::Batch(1, 1));
  w.Enter(RunnerPhase::kRun);
  w.Make(CallOf(1));
  EXPECT_THAT(w.RefusalText(), HasSubstr("a batch is being measured"));
  w.Finish();
  w.Make(CallOf(1));
  EXPECT_EQ(w.kills, 1) << "the runner has run a candidate";
  EXPECT_FALSE(w.call);
  w.Take(w.session.OnRunnerReady(w.now));
  ASSERT_TRUE(w.call);
  w.Say("b2", ServerWorld::Batch(1, 1));
  EXPECT_THAT(w.RefusalText(), HasSubstr("a call of this client has not ended"));
  w.Answer("one");
  w.Make(CallOf(1, "other"));
  EXPECT_EQ(w.kills, 2);
  w.Take(w.session.OnRunnerReady(w.now));
  w.Answer("other");
  w.Say("b3", ServerWorld::Batch(1, 1));
  EXPECT_EQ(w.kills, 3) << "a candidate runs in a fresh runner, too";
}

TEST(ServerCalls, TheEndOfTheRunnerEndsTheSession) {
  CallWorld w;
  w.Make(CallOf(1));
  w.End({"was ended by signal 11", 11, false});
  EXPECT_EQ(w.Reply(), (Pair{1, "run crashed"}));
  w.call.reset();
  w.Make(CallOf(2));
  EXPECT_EQ(w.Reply(), (Pair{2, "run crashed"}));
  EXPECT_FALSE(w.call);
  w.Make(CallOf(1, "next"));
  ASSERT_TRUE(w.call);
  w.sent.clear();
  w.Pass(10000);
  EXPECT_EQ(w.Reply(), (Pair{1, "run timed out"}));
  EXPECT_EQ(w.kills, 1);
}

TEST(ServerCalls, EndWithTheLease) {
  CallWorld idle;
  idle.Make(CallOf(1));
  idle.Answer("one");
  idle.Say("e", LeaseEnd{ServerWorld::Claim(1)});
  EXPECT_EQ(idle.kills, 1) << "the process ends, also between two calls";
  CallWorld w;
  w.Make(CallOf(1));
  w.Say("e", LeaseEnd{ServerWorld::Claim(1)});
  EXPECT_EQ(w.kills, 1);
  w.Take(w.session.OnRunnerReady(w.now));
  w.call.reset();
  w.Make(CallOf(2, "s", 2));
  EXPECT_THAT(w.RefusalText(), HasSubstr("there is no such session"));
  // A device that the tracker wants back starts no further call.
  w.Make(CallOf(1, "s", 2));
  w.Answer("one");
  w.SayAs(ServerWorld::kTracker, ReportReply{1, 1000, {}, {"lease2"}});
  w.Make(CallOf(2, "s", 2));
  EXPECT_EQ(w.Reply(), (Pair{2, "cancelled"}));
}

TEST(ServerCalls, OneThatMeasuresTakesATurnOnTheHost) {
  CallWorld w;
  w.unlocked = "nobody lets go";
  Call call = CallOf(1);
  call.exclusive = true;
  w.Make(call);
  ASSERT_TRUE(w.call);
  EXPECT_EQ(w.releases, 0);
  w.Answer("one");
  EXPECT_EQ(w.releases, 1);
  EXPECT_EQ(w.sent.back().As<CallReply>()->disturbed, "nobody lets go");
  w.Make(CallOf(2));
  w.Answer("two");
  EXPECT_EQ(w.releases, 1);
  call.number = 3;
  w.Make(call);
  w.Say("e", LeaseEnd{ServerWorld::Claim(1)});
  EXPECT_EQ(w.releases, 2);
}

TEST(ServerCalls, TheEndOfTheRunnerEndsACallThatWaitsForTheHost) {
  CallWorld w;
  w.Make(CallOf(1));
  w.Answer("one");
  Call call = CallOf(2);
  call.exclusive = w.host_busy = true;
  w.Make(call);
  EXPECT_FALSE(w.call) << "it waits";
  w.End({"was ended by signal 9", 9, false});
  EXPECT_EQ(w.Reply(), (Pair{2, "run crashed"}));
  EXPECT_EQ(w.sent.back().As<CallReply>()->error, "the process was ended by signal 9");
  EXPECT_EQ(w.releases, 1);
  // One that waits for its first process gets another one.
  CallWorld fresh;
  call.number = 1;
  fresh.host_busy = true;
  fresh.Make(call);
  fresh.End({"was ended by signal 9", 9, false});
  EXPECT_EQ(fresh.Reply(), (Pair{0, ""}));
}

// Calls that were sent ahead run in order, one at a time, and their replies are kept until the client has them.
TEST(ServerCalls, TakesCallsAheadOfTheReplies) {
  CallWorld w;
  w.Make(CallOf(1));
  w.Answer("one");
  const auto ahead = [&](int64_t number, int64_t answered) {
    Call call = CallOf(number);
    call.answered = answered;
    w.Make(call);
  };
  ahead(2, 1);
  const int64_t run = w.call.value();
  ahead(3, 1);
  EXPECT_EQ(w.call, run) << "one at a time";
  ahead(5, 1);
  EXPECT_THAT(w.RefusalText(), HasSubstr("there is no such session")) << "one is missing";
  w.Answer("two");
  EXPECT_EQ(w.Reply(), (Pair{2, "ok"}));
  ASSERT_TRUE(w.call) << "the next one runs at once";
  w.Answer("three");
  ahead(2, 1);
  EXPECT_EQ(w.Reply(), (Pair{2, "ok"})) << "its reply is kept";
  ahead(4, 3);
  ahead(3, 2);
  EXPECT_EQ(w.Reply(), (Pair{0, ""})) << "the client has said that it has this reply";
  for (int64_t number = 5; number < 4 + kMostOpenCalls; ++number) {
    ahead(number, 3);
    EXPECT_EQ(w.RefusalText(), "");
  }
  ahead(4 + kMostOpenCalls, 3);
  EXPECT_THAT(w.RefusalText(), HasSubstr("too many calls"));
  w.End({"was ended by signal 11", 11, false});
  EXPECT_EQ(w.Reply(), (Pair{3 + kMostOpenCalls, "run crashed"})) << "all of them have failed";
}

// A server that keeps contents, and what it hands to its runner.
struct ContentWorld : ServerWorld {
  ContentWorld()
      : ServerWorld({.server = kServer,
                     .incarnation = "i1",
                     .device = {.key = "cpu"},
                     .find_content =
                         [this](const std::string& owner, const std::string& hash) {
                           const auto found = kept.find(owner + "/" + hash);
                           return found == kept.end() ? nullptr : Bytes(found->second);
                         },
                     .keep_content = [this](const std::string& owner, const std::string& hash,
                                            std::string_view bytes) { kept[owner + "/" + hash] = bytes; }}) {}
  // Makes a call with this body, which ends with `content` unless that is left out. Returns what the runner gets.
  std::string Make(int64_t number, const std::string& body, const std::string& content, bool left_out) {
    Call made = CallOf(number);
    made.content = ContentHash(content);
    made.content_bytes = std::ssize(content);
    made.left_out = left_out;
    sent.clear();
    std::string begun;
    for (auto& action : session.On(kPeer, {"r", made, {Bytes(left_out ? body : body + content)}}, now)) {
      if (auto* a = std::get_if<StartCandidate>(&action)) begun = *a->request.blobs.at(0);
      if (auto* a = std::get_if<ToPeer>(&action)) sent.push_back(a->message);
    }
    return begun;
  }
  std::map<std::string, std::string> kept;
};

TEST(ServerCalls, ContentsThatWereSentOnceMayBeLeftOut) {
  ContentWorld first, second;
  EXPECT_EQ(first.Make(1, "write ", "kernels", true), "");
  EXPECT_THAT(first.RefusalText(), HasSubstr("need_content"));
  EXPECT_EQ(first.Make(1, "write ", "kernels", false), "write kernels") << "the same call again";
  EXPECT_EQ(first.kept.size(), 1u);
  second.kept = first.kept;
  EXPECT_EQ(second.Make(1, "write ", "kernels", true), "write kernels");
  EXPECT_EQ(second.RefusalText(), "");
}

TEST(ServerCalls, ContentsAreWhatTheirHashSays) {
  ContentWorld w;
  Call lie = CallOf(1);
  lie.content = ContentHash("kernels");
  lie.content_bytes = 7;
  w.Say("r", lie, {Bytes("write others!")});
  EXPECT_EQ(w.RefusalText(), "");
  EXPECT_THAT(w.kept, IsEmpty());
  ContentWorld other;
  other.kept["/" + ContentHash("kernels")] = "kernels";
  Call longer = lie;
  longer.content_bytes = 8;
  longer.left_out = true;
  other.Say("r", longer, {Bytes("write ")});
  EXPECT_THAT(other.RefusalText(), HasSubstr("need_content")) << "it has another size";
  for (const int64_t bytes :
       {int64_t{0}, int64_t{-1}, int64_t{14}, kMaxBlobBytes, std::numeric_limits<int64_t>::max()}) {
    lie.content_bytes = bytes;
    for (const bool left_out : {true, false}) {
      if (left_out && bytes == 14) continue;
      lie.left_out = left_out;
      w.Say("r", lie, {Bytes("write others!")});
      EXPECT_THAT(w.RefusalText(), HasSubstr("impossible size")) << bytes;
    }
  }
  ServerWorld none;  // a server that keeps nothing
  lie.content_bytes = 7;
  lie.left_out = true;
  none.Say("r", lie, {Bytes("write ")});
  EXPECT_THAT(none.RefusalText(), HasSubstr("need_content"));
}

TEST(ServerCalls, KeepLimitedMemory) {
  CallWorld w;
  const Blob most = Bytes(std::string(kMaxBlobBytes, 'x'));
  const int64_t before = w.session.KeptBytes();
  int64_t number = 1;
  for (std::string refusal; refusal.empty(); refusal = w.RefusalText()) {
    Call call = CallOf(number++);
    call.answered = 0;
    w.Say("r", call, {most});
    EXPECT_LE(w.session.KeptBytes() - before, kMostOpenBytes);
  }
  EXPECT_THAT(w.RefusalText(), HasSubstr("too many calls"));
  // Replies count, too.
  const std::string large(kMaxBlobBytes - 100, 'x');
  CallWorld replies;
  for (number = 1; number < kMostOpenCalls; ++number) {
    Call call = CallOf(number);
    call.answered = 0;
    replies.Make(call);
    if (replies.call) replies.Answer(large);
    EXPECT_LE(replies.session.KeptBytes(), kMostOpenBytes);
  }
  EXPECT_EQ(replies.Reply().second, "out of memory");
}

TEST(ServerCalls, TheEndOfAnIdleProcessEndsTheLease) {
  CallWorld w;
  w.Make(CallOf(1));
  w.Answer("one");
  w.End({"was ended by signal 9", 9, false});
  EXPECT_FALSE(w.session.Busy());
  EXPECT_THAT(w.events.back().why, HasSubstr("was ended by signal 9"));
  w.Make(CallOf(2));
  EXPECT_THAT(w.RefusalText(), HasSubstr("was ended by signal 9"));
  // The twin: a runner that has run nothing of the client is replaced without harm.
  CallWorld other;
  other.Say("b", ClientBeat{ServerWorld::Claim(1), ""}, {});
  other.End({"was ended by signal 9", 9, false});
  EXPECT_TRUE(other.session.Busy());
}

TEST(ServerCalls, MalformedOnesAreRefused) {
  CallWorld w;
  Call endless = CallOf(1);
  endless.seconds = 1e9;
  w.Make(endless);
  EXPECT_THAT(w.RefusalText(), HasSubstr("out of range"));
  w.Make(CallOf(0));
  EXPECT_THAT(w.RefusalText(), HasSubstr("out of range"));
  w.Say("r", CallOf(1), {});
  EXPECT_THAT(w.RefusalText(), HasSubstr("one blob"));
  w.Say("r", CallOf(1), {Bytes(std::string(kMaxBlobBytes + 1, 'x'))});
  EXPECT_THAT(w.RefusalText(), HasSubstr("at most"));
  w.Make(CallOf(1));
  RunnerResult result{*w.call, {}};
  result.result.status = TrialStatus::kOk;
  w.Take(w.session.OnRunnerMessage({"", result, {}}, w.now));  // without the reply
  EXPECT_EQ(w.Reply(), (Pair{1, "run crashed"}));
}

}  // namespace
}  // namespace autotune::rpc
