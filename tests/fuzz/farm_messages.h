// Makes messages of the farm's protocol from the bytes of a fuzz input: plausible ones, whose ids, tokens and runs are
// those of earlier messages; altered ones, some of whose fields have other likely or unlikely values; and frames that
// no message has. Not thread-safe. For tests only.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "rpc/message.h"
#include "support/hash.h"
#include "support/json.h"

namespace autotune::fuzz {

// Reads numbers from the input; zeros follow its end.
class StepBytes {
 public:
  explicit StepBytes(std::string_view input) : input_(input) {}
  bool empty() const { return input_.empty(); }
  uint8_t Next() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(input_.front());
    input_.remove_prefix(1);
    return byte;
  }
  size_t Below(size_t n) { return Next() % n; }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  std::string_view input_;
};

// The latest values of one meaning.
template <class T>
class Latest {
 public:
  void Add(const T& value) {
    if (count_ > 0 && Newest() == value) return;
    values_[count_++ % kMost] = value;
  }
  bool empty() const { return count_ == 0; }
  const T& Newest() const { return values_[(count_ - 1) % kMost]; }
  const T& Some(StepBytes& in) const { return values_[in.Below(std::min(count_, kMost))]; }

 private:
  static constexpr size_t kMost = 8;
  std::array<T, kMost> values_{};
  size_t count_ = 0;
};

// Blobs that a machine can tell apart, by their bytes or by their sizes.
inline const rpc::Blob& SomeBlob(StepBytes& in) {
  static const auto make = [](std::string bytes) { return rpc::MakeBlob(std::move(bytes)); };
  static const rpc::Blob kBlobs[] = {make("artifact"), make("reference"), make(""), make(std::string(3 << 20, 'a')),
                                     make(std::string(rpc::kMaxBlobBytes + 1, 'a'))};
  const size_t which = in.Next();
  return kBlobs[which < 240 ? which % 2 : which % std::size(kBlobs)];
}

class MessageMaker {
 public:
  explicit MessageMaker(StepBytes& in) : in_(in) {}

  // Notes the ids, tokens and runs of a message.
  void Remember(const rpc::Message& message) {
    if (!message.request.empty()) texts_[kRequest].Add(message.request);
    std::visit([this](const auto& body) { RememberFields(body); }, message.body);
  }
  // Returns a message of one kind, an index of Body.
  rpc::Message Plausible(size_t kind) {
    rpc::Message message{NewestText(kRequest), PlausibleBody(kind % std::variant_size_v<rpc::AnyBody>), {}};
    if (auto* batch = std::get_if<rpc::MeasureRequest>(&message.body)) {
      for (size_t i = 0; i < batch->candidates.size(); ++i) {
        batch->candidates[i].id = std::to_string(i);
        batch->candidates[i].blob = static_cast<int>(i);
        message.blobs.push_back(SomeBlob(in_));
      }
      batch->task.reference_hash.clear();
      if (batch->has_reference) {
        message.blobs.push_back(SomeBlob(in_));
        batch->task.reference_hash = HashBytes128(*message.blobs.back()).Hex();
      }
      message.request = "batch" + std::to_string(in_.Next());
    } else if (std::holds_alternative<rpc::RunnerReference>(message.body) ||
               std::holds_alternative<rpc::UploadChunk>(message.body)) {
      message.blobs.push_back(SomeBlob(in_));
    } else if (auto* call = std::get_if<rpc::Call>(&message.body)) {
      call->number = 1 + static_cast<int64_t>(in_.Below(6));
      call->seconds = in_.OneIn(8) ? 0 : 5;
      call->answered = static_cast<int64_t>(in_.Below(6)) - 1;
      message.request = "call" + std::to_string(in_.Next());
      if (in_.Below(8) > 0) message.blobs.push_back(SomeBlob(in_));
    } else if (auto* reply = std::get_if<rpc::CallReply>(&message.body)) {
      reply->number = 1 + static_cast<int64_t>(in_.Below(6));
      if (reply->status == TrialStatus::kOk) message.blobs.push_back(SomeBlob(in_));
    } else if (auto* wish = std::get_if<rpc::LeaseRequest>(&message.body); wish && in_.Below(4) > 0) {
      message.request = "request" + std::to_string(in_.Next());
      wish->client = "c" + std::to_string(in_.Below(4));
    } else if (auto* hold = std::get_if<rpc::DeviceHold>(&message.body)) {
      static constexpr const char* kHows[] = {rpc::hold::kDrain, rpc::hold::kLock, rpc::hold::kNone};
      static constexpr const char* kPatterns[] = {"k", "*", "k?", "s1**"};
      message.request = "hold" + std::to_string(in_.Next());
      hold->how = kHows[in_.Below(std::size(kHows))];
      hold->pattern = kPatterns[in_.Below(std::size(kPatterns))];
      hold->for_ms = in_.OneIn(2) ? 0 : int64_t{100} * in_.Next();
    } else if (std::holds_alternative<rpc::LeaseRevoke>(message.body)) {
      message.request = "revocation" + std::to_string(in_.Next());
    }
    return message;
  }
  // Changes about one in `span` / 2 fields.
  rpc::Message Altered(rpc::Message message, size_t span) {
    span_ = span;
    gap_ = in_.Below(span_);
    if (Hit()) message.request = SomeText(kRequest);
    std::visit([this](auto& body) { AlterFields(body); }, message.body);
    if (Hit()) message.blobs.push_back(SomeBlob(in_));
    if (Hit() && !message.blobs.empty()) message.blobs.pop_back();
    return message;
  }
  // Returns frames, most of which are no message.
  rpc::Frames Broken(const rpc::Message& message) {
    rpc::Frames frames = rpc::Encode(message);
    const size_t part = in_.Below(2);  // header or body
    switch (in_.Below(8)) {
      case 0:
        frames.resize(in_.Below(2));
        return frames;
      case 1:
        frames.resize(in_.Next() * 2 + 1, frames[0]);
        return frames;
      case 2:
      case 3:
        for (size_t f = 0; f < 2; ++f) {
          std::string bytes(*frames[f]);
          for (size_t n = in_.Below(3); n > 0; --n) bytes[in_.Next() % bytes.size()] = static_cast<char>(in_.Next());
          if (in_.OneIn(8)) bytes.resize(in_.Next() % bytes.size());
          frames[f] = rpc::MakeBlob(std::move(bytes));
        }
        return frames;
      default: {
        Json json = Json::ParseCbor(*frames[part]).value();
        if (in_.OneIn(8)) json["unknown"] = SomeValue();
        if (auto& result = json["result"]; result.As<Json::Object>() && in_.OneIn(2)) {
          result["status"] = Json("later");
        } else {
          Spoil(json);
        }
        frames[part] = rpc::MakeBlob(json.Cbor());
        return frames;
      }
    }
  }
  int64_t SomeNumber() {
    static constexpr int64_t kNumbers[] = {0,    1,     2,      3,  4,         64,        100,
                                           1000, 10000, 600000, -1, INT64_MAX, INT64_MIN, 1LL << 53};
    return kNumbers[in_.Below(std::size(kNumbers))];
  }

 private:
  enum Meaning {
    kNone,
    kLease,
    kRequest,
    kServer,
    kIncarnation,
    kClient,
    kKey,
    kCandidate,
    kHash,
    kSession,
    kMeanings
  };
  static constexpr Meaning MeaningOf(std::string_view field) {
    if (field == "lease" || field == "revoked" || field == "yield") return kLease;
    if (field == "withdrawn" || field == "batch") return kRequest;
    if (field == "server" || field == "exclude") return kServer;
    if (field == "incarnation") return kIncarnation;
    if (field == "client") return kClient;
    if (field == "key" || field == "pattern") return kKey;
    if (field == "candidate") return kCandidate;
    if (field == "reference_hash") return kHash;
    if (field == "session") return kSession;
    return kNone;
  }

  template <class T>
  static constexpr bool kIsText = std::is_same_v<T, std::string>;
  template <class T>
  static constexpr bool kIsMap = requires {
    typename T::mapped_type;
  };

  std::string NewestText(Meaning meaning) const {
    return texts_[meaning].empty() ? std::string() : texts_[meaning].Newest();
  }
  std::string SomeText(Meaning meaning) {
    static const std::string kTexts[] = {"", "1", "2", "k", "k2", "s2", "i2", "c2", "ok", "ipc:///s1"};
    static const std::string kCodes[] = {"lease_lost", "stale_lease", "need_reference", "timed_out"};
    const size_t which = in_.Next();
    if (which >= 248) return std::string(which >= 254 ? 5000 : which >= 252 ? 300 : 65, 'x');
    if (which >= 244) return "\xff\n";
    if (meaning == kNone && which < 128) return kCodes[which % std::size(kCodes)];
    if (!texts_[meaning].empty() && which < 192) return texts_[meaning].Some(in_);
    return kTexts[which % std::size(kTexts)];
  }

  template <class T>
  void RememberFields(const T& value) {
    ForEachField(value, [&](std::string_view name, const auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (kIsText<Field>) {
        const Meaning meaning = MeaningOf(name);
        if (meaning != kNone && !field.empty()) texts_[meaning].Add(field);
      } else if constexpr (std::is_same_v<Field, rpc::Token>) {
        tokens_.Add(field);
      } else if constexpr (HasFields<Field>) {
        RememberFields(field);
      } else if constexpr (std::is_same_v<Field, int64_t>) {
        if (name == "run") runs_.Add(field);
      }
    });
  }

  template <size_t I = 0>
  rpc::Body PlausibleBody(size_t kind) {
    if constexpr (I + 1 < std::variant_size_v<rpc::AnyBody>) {
      if (kind != I) return PlausibleBody<I + 1>(kind);
    }
    std::variant_alternative_t<I, rpc::AnyBody> body;
    FillPlausibly(body);
    return body;
  }
  template <class T>
  void FillPlausibly(T& value) {
    ForEachField(value, [&](std::string_view name, auto& field) { FillField(name, field); });
  }
  template <class Field>
  void FillField(std::string_view name, Field& field) {
    if constexpr (kIsText<Field>) {
      if (MeaningOf(name) != kNone) field = NewestText(MeaningOf(name));
    } else if constexpr (std::is_same_v<Field, rpc::Token>) {
      if (!tokens_.empty()) field = tokens_.Newest();
      if (in_.OneIn(16)) ++field.counter;
    } else if constexpr (HasEnumNames<Field>) {
      field = static_cast<Field>(in_.Below(std::size(EnumNames<Field>::kNames)));
    } else if constexpr (std::is_same_v<Field, bool>) {
      field = in_.OneIn(2);
    } else if constexpr (std::is_same_v<Field, int64_t>) {
      if (name == "run" && !runs_.empty()) field = runs_.Newest();
      if (name == "ttl_ms" || name == "wait_ms") field = 10000;
    } else if constexpr (HasFields<Field>) {
      FillPlausibly(field);
    } else if constexpr (requires { field.emplace_back(); }) {
      using Item = typename Field::value_type;
      for (size_t n = in_.Below(HasFields<Item> ? 4 : 2); n > 0; --n) FillField(name, field.emplace_back());
    }
  }

  // Whether the next field is changed.
  bool Hit() {
    if (gap_-- > 0) return false;
    gap_ = in_.Below(span_);
    return true;
  }
  template <class T>
  void AlterFields(T& value) {
    ForEachField(value, [&](std::string_view name, auto& field) { AlterField(name, field); });
  }
  template <class Field>
  void AlterField(std::string_view name, Field& field) {
    if constexpr (HasFields<Field> && !std::is_same_v<Field, rpc::Token>) {
      AlterFields(field);
    } else if constexpr (requires { field.emplace_back(); }) {
      for (auto& item : field) AlterField(name, item);
      if (!Hit()) return;
      if (in_.OneIn(2) && !field.empty()) return field.pop_back();
      field.resize(in_.OneIn(16) ? in_.Next() * 2 : field.size() + 1);
      if (!field.empty()) FillField(name, field.back());
    } else if (Hit()) {
      ChangeLeaf(name, field);
    }
  }
  template <class Field>
  void ChangeLeaf(std::string_view name, Field& field) {
    if constexpr (kIsText<Field>) {
      field = SomeText(MeaningOf(name));
    } else if constexpr (std::is_same_v<Field, rpc::Token>) {
      if (!tokens_.empty() && in_.OneIn(2)) field = tokens_.Some(in_);
      if (in_.OneIn(2)) field.counter += static_cast<int64_t>(in_.Below(3)) - 1;
      if (in_.OneIn(8)) field.epoch = SomeNumber();
    } else if constexpr (HasEnumNames<Field>) {
      field = static_cast<Field>(in_.Below(std::size(EnumNames<Field>::kNames)));
    } else if constexpr (std::is_same_v<Field, bool>) {
      field = !field;
    } else if constexpr (std::is_floating_point_v<Field>) {
      static constexpr double kNumbers[] = {
          0, 1e-3, 0.1, 1e9, -1, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
      field = static_cast<Field>(kNumbers[in_.Below(std::size(kNumbers))]);
    } else if constexpr (std::is_integral_v<Field>) {
      field = static_cast<Field>(name == "run" && !runs_.empty() && in_.OneIn(2) ? runs_.Some(in_) : SomeNumber());
    } else if constexpr (kIsMap<Field>) {
      FillField("", field[SomeText(kNone)]);
    }
  }

  // Puts another value in the place of some part.
  void Spoil(Json& json) {
    Json* at = &json;
    while (in_.Below(8) > 0) {
      if (auto* items = at->As<Json::Array>(); items && !items->empty()) {
        at = &(*items)[in_.Below(items->size())];
      } else if (auto* fields = at->As<Json::Object>(); fields && !fields->empty()) {
        at = &std::next(fields->begin(), static_cast<std::ptrdiff_t>(in_.Below(fields->size())))->second;
      } else {
        break;
      }
    }
    *at = SomeValue();
  }
  Json SomeValue() {
    switch (in_.Below(10)) {
      case 0:
        return Json();
      case 1:
        return Json(in_.OneIn(2));
      case 2:
        return Json(SomeNumber());
      case 3:
        return Json(in_.OneIn(2) ? 1e300 : 0.5);
      case 4:
        return Json(Json::Bytes{"bytes"});
      case 5:
        return Json(Json::Array(in_.Next() * in_.Below(32), Json(1)));
      case 6: {
        Json nested;
        for (size_t n = in_.Next(); n > 0; --n) nested = Json(Json::Array{std::move(nested)});
        return nested;
      }
      case 7:
        return Json(Json::Object{{SomeText(kNone), Json(SomeText(kNone))}});
      default:
        return Json(SomeText(kNone));
    }
  }

  StepBytes& in_;
  std::array<Latest<std::string>, kMeanings> texts_;
  Latest<rpc::Token> tokens_;
  Latest<int64_t> runs_;
  size_t gap_ = 0, span_ = 1;
};

// Returns the place of a message in the list of all.
template <class T, size_t I = 0>
constexpr size_t KindIndex() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, rpc::AnyBody>>) {
    return I;
  } else {
    return KindIndex<T, I + 1>();
  }
}
// What each machine takes; what has many fields is there more than once.
inline constexpr size_t kOfTracker[] = {
    KindIndex<rpc::ServerReport>(),  KindIndex<rpc::ServerReport>(),  KindIndex<rpc::ServerReport>(),
    KindIndex<rpc::LeaseRequest>(),  KindIndex<rpc::LeaseRequest>(),  KindIndex<rpc::LeaseRenew>(),
    KindIndex<rpc::LeaseRelease>(),  KindIndex<rpc::LeaseWithdraw>(), KindIndex<rpc::StatusRequest>(),
    KindIndex<rpc::ServerGoodbye>(), KindIndex<rpc::Ping>(),          KindIndex<rpc::DeviceHold>(),
    KindIndex<rpc::DeviceHold>(),    KindIndex<rpc::LeaseRevoke>(),   KindIndex<rpc::JobReport>()};
inline constexpr size_t kOfServer[] = {
    KindIndex<rpc::MeasureRequest>(), KindIndex<rpc::MeasureRequest>(), KindIndex<rpc::UploadLink>(),
    KindIndex<rpc::UploadChunk>(),    KindIndex<rpc::MeasureRequest>(), KindIndex<rpc::MeasureRequest>(),
    KindIndex<rpc::ReportReply>(),    KindIndex<rpc::ResultAck>(),      KindIndex<rpc::BatchCancel>(),
    KindIndex<rpc::ClientBeat>(),     KindIndex<rpc::LeaseEnd>(),       KindIndex<rpc::Ping>()};
inline constexpr size_t kOfClient[] = {KindIndex<rpc::LeaseGranted>(), KindIndex<rpc::UploadPull>(),
                                       KindIndex<rpc::LeaseQueued>(),  KindIndex<rpc::LeaseRenewed>(),
                                       KindIndex<rpc::ResultReport>(), KindIndex<rpc::ResultReport>(),
                                       KindIndex<rpc::Refusal>(),      KindIndex<rpc::MeasureAccepted>(),
                                       KindIndex<rpc::ServerBeat>(),   KindIndex<rpc::Refusal>(),
                                       KindIndex<rpc::Ping>()};
inline constexpr size_t kOfRunner[] = {KindIndex<rpc::RunnerResult>(), KindIndex<rpc::RunnerProgress>(),
                                       KindIndex<rpc::RunnerReference>()};

}  // namespace autotune::fuzz
