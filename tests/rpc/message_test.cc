#include "rpc/message.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "rpc/channel.h"
#include "rpc/encoded.h"
#include "rpc/from.h"
#include "support/json.h"
#include "support/rng.h"
#include "support/subprocess.h"
#include "tests/rpc/bytes.h"

namespace autotune::rpc {
namespace {

std::string Hex(std::string_view bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : bytes) (text += kDigits[c >> 4]) += kDigits[c & 15];
  return text;
}
std::string Unhex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}
Message DecodeOrDie(const Frames& frames) {
  auto decoded = Decode(frames);
  if (auto* error = std::get_if<DecodeError>(&decoded)) {
    ADD_FAILURE() << error->refusal.text;
    return {};
  }
  return std::get<Message>(decoded);
}

template <size_t I = 0, class F>
void ForEachKind(F f) {
  if constexpr (I < std::variant_size_v<AnyBody>) {
    f(std::variant_alternative_t<I, AnyBody>{});
    ForEachKind<I + 1>(f);
  }
}

TEST(Message, EveryKindHasItsOwnNameAndComesBack) {
  std::set<std::string_view> kinds;
  ForEachKind([&](auto body) {
    EXPECT_TRUE(kinds.insert(decltype(body)::kKind).second) << decltype(body)::kKind;
    Message message = DecodeOrDie(Encode({"r1", body, {Bytes("blob")}}));
    EXPECT_EQ(message.request, "r1");
    ASSERT_TRUE(message.As<decltype(body)>()) << decltype(body)::kKind;
    EXPECT_EQ(ToJson(*message.As<decltype(body)>()), ToJson(body));
    ASSERT_EQ(message.blobs.size(), 1u);
    EXPECT_EQ(*message.blobs[0], "blob");
  });
}

// Sets every field, nested ones too, to a value other than its default.
template <class T>
void Fill(T& value, int64_t& next) {
  if constexpr (HasEnumNames<T>) {
    value = static_cast<T>(1);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = !value;
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(++next) + 0.25;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(++next);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = "s" + std::to_string(++next);
  } else if constexpr (HasFields<T>) {
    ForEachField(value, [&](std::string_view, auto& field) { Fill(field, next); });
  } else if constexpr (requires { typename T::mapped_type; }) {
    Fill(value["key"], next);
  } else {
    Fill(value.emplace_back(), next);
  }
}

std::string GoldenPath(int minor) {
  return std::string(AUTOTUNE_SOURCE_DIR) + "/tests/rpc/golden/wire-" + std::to_string(kWireMajor) + "." +
         std::to_string(minor) + ".txt";
}

// The wire format of the current version. If this fails, released peers are no longer understood. Add fields in a new
// minor version with its own file, and never change a released file. AUTOTUNE_UPDATE_GOLDENS=1 writes the current file;
// use it only before the release.
TEST(Message, GoldenBytesOfEveryKind) {
  std::string now;
  ForEachKind([&](auto body) {
    int64_t next = 0;
    Fill(body, next);
    Frames frames = Encode({"0123456789abcdef0123456789abcdef", body, {}});
    now += std::string(decltype(body)::kKind) + " " + Hex(*frames[0]) + " " + Hex(*frames[1]) + "\n";
  });
  if (std::getenv("AUTOTUNE_UPDATE_GOLDENS")) std::ofstream(GoldenPath(kWireMinor)) << now;
  std::ifstream file(GoldenPath(kWireMinor));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), now);
}

// Checks that a message of an earlier minor version is read in full: its fields keep their values, and later fields
// have their defaults.
void ExpectUnderstood(const Json& said, const Json& read, const Json& defaults, const std::string& where) {
  const Json::Object* fields = said.As<Json::Object>();
  const Json::Object* ours = read.As<Json::Object>();
  const Json::Array* items = said.As<Json::Array>();
  if (fields && ours) {
    const Json::Object* fallback = defaults.As<Json::Object>();
    for (const auto& [name, value] : *fields) {
      ASSERT_TRUE(ours->count(name)) << where << "." << name << " is gone";
      bool known = fallback && fallback->count(name);
      ExpectUnderstood(value, ours->at(name), known ? fallback->at(name) : Json(), where + "." + name);
    }
    for (const auto& [name, value] : *ours) {
      if (fields->count(name) || !fallback) continue;
      EXPECT_EQ(value, fallback->at(name)) << where << "." << name;
    }
  } else if (items && read.As<Json::Array>()) {
    ASSERT_EQ(items->size(), read.As<Json::Array>()->size()) << where;
    for (size_t i = 0; i < items->size(); ++i) {
      ExpectUnderstood(items->at(i), read.As<Json::Array>()->at(i), Json(), where + "[]");
    }
  } else {
    EXPECT_EQ(said, read) << where;
  }
}

TEST(Message, EveryReleasedMinorIsUnderstood) {
  for (int minor = 0; minor <= kWireMinor; ++minor) {
    std::ifstream file(GoldenPath(minor));
    std::string kind, header, bytes;
    int count = 0;
    while (file >> kind >> header >> bytes) {
      ++count;
      Message back = DecodeOrDie({Bytes(Unhex(header)), Bytes(Unhex(bytes))});
      EXPECT_EQ(KindOf(back.body), kind);
      Json said = Json::ParseCbor(Unhex(bytes)).value();
      std::visit([&](const auto& b) { ExpectUnderstood(said, ToJson(b), ToJson(std::decay_t<decltype(b)>{}), kind); },
                 back.body);
    }
    EXPECT_GE(count, 29) << "minor " << minor;  // number of kinds in 2.0
  }
}

// ExpectUnderstood reports a renamed field and a changed value.
TEST(Message, AFieldThatIsNotUnderstoodIsNoticed) {
  EXPECT_FATAL_FAILURE(ExpectUnderstood(Json(Json::Object{{"yields", true}}), ToJson(LeaseRenewed{}),
                                        ToJson(LeaseRenewed{}), "lease_renewed"),
                       "lease_renewed.yields is gone");
  EXPECT_NONFATAL_FAILURE(ExpectUnderstood(Json(Json::Object{{"ttl_ms", 5}}), ToJson(LeaseRenewed{6, false}),
                                           ToJson(LeaseRenewed{}), "lease_renewed"),
                          "lease_renewed.ttl_ms");
  EXPECT_NONFATAL_FAILURE(ExpectUnderstood(Json(Json::Object{{"ttl_ms", 5}}), ToJson(LeaseRenewed{5, true}),
                                           ToJson(LeaseRenewed{}), "lease_renewed"),
                          "lease_renewed.yield");
}

Frames WithHeader(Json header, Json body) { return {Bytes(header.Cbor()), Bytes(body.Cbor())}; }

TEST(Message, UnknownFieldsAreIgnoredMissingOnesDefaultNewMinorsRead) {
  Json header =
      Json::Object{{"major", kWireMajor}, {"minor", 7}, {"kind", "lease_renewed"}, {"request", "x"}, {"new", "field"}};
  Message message = DecodeOrDie(WithHeader(header, Json::Object{{"ttl_ms", 5}, {"colour", "red"}}));
  ASSERT_TRUE(message.As<LeaseRenewed>());
  EXPECT_EQ(message.As<LeaseRenewed>()->ttl_ms, 5);
  EXPECT_FALSE(message.As<LeaseRenewed>()->yield);
}

TEST(Message, AnotherMajorIsRefusedWithTheRequestsId) {
  Json header = Json::Object{{"major", kWireMajor + 1}, {"minor", 0}, {"kind", "lease_renewed"}, {"request", "x"}};
  auto decoded = Decode(WithHeader(header, Json::Object{}));
  ASSERT_TRUE(std::holds_alternative<DecodeError>(decoded));
  EXPECT_EQ(std::get<DecodeError>(decoded).refusal.code, code::kWrongVersion);
  EXPECT_EQ(std::get<DecodeError>(decoded).request, "x");
}

TEST(Message, ARefusalSpeaksTheMajorOfThePeer) {
  auto decoded = Decode(WithHeader(Json::Object{{"major", 7}, {"kind", "ping"}, {"request", "x"}}, Json::Object{}));
  const auto& error = std::get<DecodeError>(decoded);
  const Frames answer = Encode({error.request, error.refusal, {}}, error.major);
  EXPECT_EQ(Json::ParseCbor(*answer[0]).value()["major"], Json(7));
  EXPECT_EQ(std::get<DecodeError>(Decode({Bytes("")})).major, kWireMajor) << "nothing is known of the peer";
}

TEST(Message, TextsOfCandidatesCannotSpoilAMessage) {
  TrialResult result;
  result.error = std::string(3 << 20, 'x');
  result.device = "\xff\x1b[31m";
  const Message back = DecodeOrDie(Encode({"r", ResultReport{result}, {}}));
  const TrialResult& got = back.As<ResultReport>()->result;
  EXPECT_EQ(got.error, std::string(kTextBytes - 3, 'x') + "...");
  EXPECT_EQ(got.device, "\\xff\\x1b[31m");
  result.error = std::string(kTextBytes, 'x');
  result.device = "Gerät";
  const Message whole = DecodeOrDie(Encode({"r", ResultReport{result}, {}}));
  EXPECT_EQ(ToJson(whole.As<ResultReport>()->result), ToJson(result)) << "texts within the limits stay";
}

// The messages of tests/rpc state their limits, or they would not compile. A limit of a field is smaller than that of
// texts in general, and counts for lists as well.
TEST(Message, LimitsOfFieldsAreCheckedAndKept) {
  const auto refusal = [](const Json& body, std::string_view kind) {
    Json header = Json::Object{{"major", kWireMajor}, {"kind", std::string(kind)}, {"request", "x"}};
    const auto decoded = Decode(WithHeader(header, body));
    return std::holds_alternative<DecodeError>(decoded) ? std::get<DecodeError>(decoded).refusal.text : "";
  };
  const auto renew = [](size_t bytes) { return Json(Json::Object{{"lease", std::string(bytes, 'a')}}); };
  EXPECT_EQ(refusal(renew(kIdBytes), LeaseRenew::kKind), "");
  EXPECT_EQ(refusal(renew(kIdBytes + 1), LeaseRenew::kKind), "body: lease: a text of 65 bytes; 64 is the limit");
  const auto exclude = [](size_t items) { return Json(Json::Object{{"exclude", Json(Json::Array(items, "s"))}}); };
  EXPECT_EQ(refusal(exclude(64), LeaseRequest::kKind), "");
  EXPECT_EQ(refusal(exclude(65), LeaseRequest::kKind), "body: exclude: a list of 65 items; 64 is the limit");
  const Json cores = Json::Object{{"device", Json::Object{{"cores", Json(Json::Array(kMostCores + 1, 1))}}}};
  EXPECT_EQ(refusal(cores, ServerReport::kKind), "body: cores: a list of 4097 items; 4096 is the limit");
  ServerReport report;
  report.device.model = std::string(kNameBytes + 1, 'm');
  report.device.cores.assign(kMostCores + 1, 3);
  report.trials[std::string(kIdBytes, 's')] = 1;
  const Message back = DecodeOrDie(Encode({"r", report, {}}));
  EXPECT_EQ(back.As<ServerReport>()->device.model, std::string(kNameBytes - 3, 'm') + "...");
  EXPECT_EQ(back.As<ServerReport>()->device.cores.size(), kMostCores);
}

struct Unlimited {
  std::string text;
  AUTOTUNE_FIELDS(text)
};
struct OfAnotherField {
  std::string text;
  AUTOTUNE_FIELDS(text)
  AUTOTUNE_LIMITS({"text", kTextBytes}, {"txet", kTextBytes})
};
struct UnlimitedList {
  std::vector<std::string> lines;
  AUTOTUNE_FIELDS(lines)
  AUTOTUNE_LIMITS({"lines", kTextBytes})
};
static_assert(detail::IsLimited<LeaseRequest>());
static_assert(!detail::IsLimited<Unlimited>());
static_assert(!detail::IsLimited<OfAnotherField>());
static_assert(!detail::IsLimited<UnlimitedList>());

TEST(Encoded, GivesTheBytesOfItsValueUntilACopyChanges) {
  const DeviceInfo info{.key = "cpu", .endpoint = "tcp://10.0.0.7:1", .cores = {0, 1}};
  LeaseGranted shared;
  shared.device = Encoded<DeviceInfo>(info);
  LeaseGranted changed = shared;
  EXPECT_EQ(shared.device.cbor(), ToCbor(info));
  EXPECT_EQ(changed.device.cbor().data(), shared.device.cbor().data()) << "copies share the bytes";

  ForEachField(changed.device, [](std::string_view name, auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::string>)
      if (name == "key") field = "gpu";
  });
  EXPECT_EQ(changed.device.cbor(), "");
  EXPECT_EQ(DecodeOrDie(Encode({"r", changed, {}})).As<LeaseGranted>()->device->key, "gpu");
  EXPECT_EQ(DecodeOrDie(Encode({"r", shared, {}})).As<LeaseGranted>()->device->key, "cpu");
  EXPECT_EQ(shared.device->key, "cpu");
}

TEST(Encoded, IsCutToWhatPeersTake) {
  LeaseGranted grant;
  grant.device = Encoded<DeviceInfo>({.key = "\xff", .model = std::string(kNameBytes + 1, 'm')});
  const Message back = DecodeOrDie(Encode({"r", grant, {}}));
  ASSERT_TRUE(back.As<LeaseGranted>());
  EXPECT_EQ(back.As<LeaseGranted>()->device->model, std::string(kNameBytes - 3, 'm') + "...");
}

TEST(From, OnlyWhoMaySendAMessageIsHeard) {
  const Message report{"r", ServerReport{}, {}}, grant{"r", LeaseGranted{}, {}}, result{"r", RunnerResult{}, {}};
  const From unknown{.peer = "p", .roles = kUnauthenticated};
  EXPECT_EQ(RefusalOf(unknown, report), std::nullopt);
  EXPECT_EQ(RefusalOf({.roles = {Role::kClient}}, report)->code, code::kForbidden);
  EXPECT_EQ(RefusalOf({.roles = {Role::kTracker}}, grant), std::nullopt);
  EXPECT_EQ(RefusalOf(unknown, grant)->text, "the sender may not send a lease_granted");
  EXPECT_EQ(RefusalOf({.roles = {Role::kTracker, Role::kServer}}, result)->code, code::kForbidden);
  EXPECT_EQ(RefusalOf({.roles = {Role::kAdmin}}, {"r", StatusRequest{}, {}}), std::nullopt);
}

TEST(Message, AStatusOfALaterVersionIsReadAsInfrastructure) {
  auto report = [](std::string status, std::string error) {
    Json result = Json::Object{{"candidate", "7"}, {"status", std::move(status)}, {"error", std::move(error)}};
    Json header = Json::Object{{"major", kWireMajor}, {"minor", 9}, {"kind", "result_report"}, {"request", "x"}};
    return DecodeOrDie(WithHeader(header, Json::Object{{"result", result}})).As<ResultReport>()->result;
  };
  EXPECT_EQ(report("run crashed", "boom").error, "boom");
  const TrialResult later = report("overheated", "at 97 degrees");
  EXPECT_EQ(later.status, TrialStatus::kInfrastructure);
  EXPECT_EQ(later.candidate, "7");
  EXPECT_EQ(later.error, "status 'overheated' of a later version: at 97 degrees");
}

TEST(Message, WhatIsMalformedIsRefused) {
  Json header = Json::Object{{"major", kWireMajor}, {"minor", 0}, {"kind", "lease_renewed"}, {"request", "x"}};
  Json strange = Json::Object{{"major", kWireMajor}, {"kind", "no_such_kind"}};
  Json long_id = Json::Object{{"major", kWireMajor}, {"kind", "ping"}, {"request", std::string(65, 'a')}};
  std::vector<Frames> cases = {
      {},
      {Bytes("")},
      {Bytes(""), Bytes("")},
      {Bytes("\xff\xff"), Bytes("\xa0")},
      {Bytes(header.Cbor()), Bytes("garbage")},
      {Bytes(header.Cbor()), Bytes(Json(Json::Array{}).Cbor())},
      WithHeader(header, Json::Object{{"ttl_ms", "ten"}}),
      WithHeader(strange, Json::Object{}),
      WithHeader(long_id, Json::Object{}),
      WithHeader(Json::Array{}, Json::Object{}),
      WithHeader(header, Json::Object{{"new", std::string(kTextBytes + 1, 'a')}}),
      WithHeader(header, Json::Object{{"new", Json::Array{"\xc3"}}}),
      WithHeader(header, Json::Object{{std::string(kTextBytes + 1, 'a'), 1}}),
      Frames(kMaxFrames + 1, Bytes(header.Cbor())),
  };
  for (const Frames& frames : cases) {
    auto decoded = Decode(frames);
    ASSERT_TRUE(std::holds_alternative<DecodeError>(decoded)) << frames.size();
    EXPECT_FALSE(std::get<DecodeError>(decoded).refusal.text.empty());
  }
}

TEST(Message, MutatedBytesNeverThrow) {
  Rng rng(1);
  Frames good = Encode({"q", MeasureRequest{{"l", {1, 2}, 3, "c", "n", "t", "j"}, {}, {Candidate{}}, true}, {}});
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string frames[2] = {std::string(*good[0]), std::string(*good[1])};
    for (int n = 1 + static_cast<int>(rng.Below(4)); n > 0; --n) {
      std::string& frame = frames[rng.Below(2)];
      switch (rng.Below(3)) {
        case 0:
          frame[static_cast<size_t>(rng.Below(static_cast<int64_t>(frame.size())))] = static_cast<char>(rng.Next());
          break;
        case 1:
          frame.resize(static_cast<size_t>(rng.Below(static_cast<int64_t>(frame.size())) + 1));
          break;
        default:
          frame.insert(static_cast<size_t>(rng.Below(static_cast<int64_t>(frame.size()))), 1,
                       static_cast<char>(rng.Next()));
      }
    }
    auto decoded = Decode({Bytes(frames[0]), Bytes(frames[1])});
    refused += std::holds_alternative<DecodeError>(decoded);
  }
  EXPECT_GT(refused, 1000);
}

TEST(RandomId, Is128BitsInHex) {
  Id a = RandomId(), b = RandomId();
  EXPECT_EQ(a.size(), 32u);
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(a, b);
}

TEST(Channel, UnpackerCutsAStreamAtAnyByte) {
  Frames frames = Encode({"q", Ping{"hello"}, {Bytes(std::string(1000, 'x')), Bytes("")}});
  std::string stream = PackFrames(frames) + PackFrames(frames);
  Unpacker unpacker;
  int messages = 0;
  for (char c : stream) {
    unpacker.Feed({&c, 1});
    auto next = unpacker.Next();
    ASSERT_TRUE(next.ok());
    if (!*next) continue;
    ++messages;
    ASSERT_EQ((*next)->size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(*(**next)[i], *frames[i]);
  }
  EXPECT_EQ(messages, 2);
}

TEST(Channel, PackedFramesAreCut) {
  for (const Frames& frames :
       {Frames{}, {Bytes("")}, {Bytes("a"), Bytes(""), Bytes(std::string(100, 'x')), Bytes("")}}) {
    const std::string packed = PackFrames(frames);
    const auto cut = CutFrames(packed);
    ASSERT_TRUE(cut.ok()) << cut.error().Text();
    ASSERT_EQ(cut->size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ((*cut)[i], *frames[i]);
  }
}

TEST(Channel, FramesThatDoNotFitTheirBytesAreRefused) {
  const std::string packed = PackFrames({Bytes("abc"), Bytes(std::string(100, 'x'))});
  for (const std::string& bytes : {packed + "x", packed.substr(0, 50), packed.substr(0, 6), packed.substr(0, 3),
                                   std::string(50, '\xff'), std::string("\1\0\0\0\xff\xff\xff\xff", 8)})
    EXPECT_FALSE(CutFrames(bytes).ok());
}

TEST(Channel, ARunnerReadsWholeMessages) {
  auto [parent, runner] = MakeSocketPair().value();
  const Message message{"q", Ping{"hello"}, {Bytes(std::string(3 << 20, 'x')), Bytes("")}};
  std::thread sender([&, fd = parent.get()] {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(BlockingChannel(fd).Send(message).ok());
    EXPECT_EQ(send(fd, "\1\0\0\0\1", 5, 0), 5);  // the begin of another one
    shutdown(fd, SHUT_WR);
  });
  BlockingChannel channel(runner.get());
  for (int i = 0; i < 2; ++i) {
    const auto read = channel.Receive();
    ASSERT_TRUE(read.ok() && *read);
    ASSERT_EQ((*read)->blobs.size(), 2u);
    for (size_t blob : {0, 1}) EXPECT_EQ(*(*read)->blobs[blob], *message.blobs[blob]);
  }
  const auto end = channel.Receive();
  EXPECT_TRUE(end.ok() && !*end);
  sender.join();
}

TEST(Channel, ARunnerRefusesTooManyFrames) {
  auto [parent, runner] = MakeSocketPair().value();
  EXPECT_EQ(send(parent.get(), "\xff\xff\xff\xff", 4, 0), 4);
  EXPECT_FALSE(BlockingChannel(runner.get()).Receive().ok());
}

TEST(Channel, UnpackerRefusesImpossibleSizes) {
  Unpacker many;
  many.Feed(std::string(4, '\xff'));
  EXPECT_FALSE(many.Next().ok());
  Unpacker large;
  large.Feed(std::string("\x01\0\0\0\xff\xff\xff\xff", 8));
  EXPECT_FALSE(large.Next().ok());
}

}  // namespace
}  // namespace autotune::rpc
