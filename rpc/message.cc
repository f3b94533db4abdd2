#include "rpc/message.h"

#include <sys/random.h>

#include <cstring>
#include <optional>

#include "rpc/rules.h"
#include "support/cbor.h"
#include "support/json.h"
#include "support/utf8.h"

namespace autotune::rpc {
namespace {

// What counts for all texts of a frame, also those in fields that this version does not know.
constexpr CborLimits kTexts = {.text_bytes = kTextBytes, .only_utf8 = true};

// Reads the alternative of Body whose kKind is `kind`. Searches the alternatives from I on.
template <size_t I = 0>
Status ReadBody(std::string_view kind, std::string_view bytes, Body& out) {
  if constexpr (I == std::variant_size_v<AnyBody>) {
    return Err("unknown kind of message");
  } else {
    using T = std::variant_alternative_t<I, AnyBody>;
    if (kind != T::kKind) return ReadBody<I + 1>(kind, bytes, out);
    T& body = out.template emplace<T>();
    TRY(FromCbor(bytes, body, Holds(Rule::kLimits) ? kTexts : CborLimits()));
    if (Holds(Rule::kLimits)) TRY(CheckLimits(body, false));
    return {};
  }
}

std::string ToCborWithinLimits(const Body& body) {
  return std::visit(
      [](const auto& b) {
        if (CheckLimits(b).ok()) return ToCbor(b);
        auto cut = b;
        CutToLimits(cut);
        return ToCbor(cut);
      },
      body);
}

// A status of a later minor version becomes `infrastructure`, with its word in the error: a result that could not be
// decoded would be sent again for ever. Returns the mended bytes of a result; nothing if its status is not the trouble.
std::optional<std::string> WithKnownStatus(std::string_view bytes) {
  Result<Json> body = Json::ParseCbor(bytes);
  if (!body || !(*body)["result"].As<Json::Object>()) return std::nullopt;
  Json& result = (*body)["result"];
  const auto* word = result["status"].As<std::string>();
  if (!word || EnumFromText<TrialStatus>(*word)) return std::nullopt;
  const auto* error = result["error"].As<std::string>();
  result["error"] = Json("status '" + *word + "' of a later version" + (error && !error->empty() ? ": " + *error : ""));
  result["status"] = Json(ToText(TrialStatus::kInfrastructure));
  return body->Cbor();
}

DecodeError Malformed(Id request, std::string text) {
  return {std::move(request), {code::kMalformed, std::move(text)}};
}

// Fills `message`, or returns the error.
std::optional<DecodeError> ReadMessage(const Frames& frames, Message& message) {
  if (frames.size() > kMaxFrames)
    return Malformed({}, "a message has at most " + std::to_string(kMaxFrames) + " frames");
  if (frames.size() < 2) return Malformed({}, "a message has at least two frames, header and body");
  Header header;
  header.major = 0;
  if (Status read = FromCbor(*frames[0], header, kTexts); !read) return Malformed({}, "header: " + read.error().Text());
  if (Status texts = CheckLimits(header, false); !texts) return Malformed({}, "header: " + texts.error().Text());
  if (header.major != kWireMajor) {
    return DecodeError{header.request,
                       {code::kWrongVersion, "this side speaks wire version " + std::to_string(kWireMajor) + "." +
                                                 std::to_string(kWireMinor) + ", not " + std::to_string(header.major) +
                                                 "." + std::to_string(header.minor) + "; install matching versions"},
                       header.major};
  }
  Status read = ReadBody(header.kind, *frames[1], message.body);
  if (!read && header.kind == ResultReport::kKind) {
    if (const auto mended = WithKnownStatus(*frames[1])) read = ReadBody(header.kind, *mended, message.body);
  }
  if (!read) return Malformed(std::move(header.request), "body: " + read.error().Text());
  message.request = std::move(header.request);
  message.blobs.assign(frames.begin() + 2, frames.end());
  message.minor = header.minor;
  return std::nullopt;
}

}  // namespace

namespace {

void FillRandomly(unsigned char* bytes, size_t count) {
  size_t have = 0;
  while (have < count) {
    ssize_t n = getrandom(bytes + have, count - have, 0);
    CHECK(n >= 0 || errno == EINTR) << "getrandom: " << strerror(errno);
    if (n > 0) have += static_cast<size_t>(n);
  }
}

}  // namespace

int64_t RandomNumber() {
  unsigned char bytes[8];
  FillRandomly(bytes, sizeof bytes);
  uint64_t number = 0;
  for (unsigned char b : bytes) number = number << 8 | b;
  return static_cast<int64_t>(number >> 1);
}

Id RandomId() {
  unsigned char bytes[16];
  FillRandomly(bytes, sizeof bytes);
  static const char kDigits[] = "0123456789abcdef";
  Id id;
  id.reserve(2 * sizeof bytes);
  for (unsigned char b : bytes) {
    id += kDigits[b >> 4];
    id += kDigits[b & 15];
  }
  return id;
}

std::string WithinLimit(const std::string& text, size_t bytes) {
  constexpr std::string_view kCut = "...";
  const std::string valid = IsUtf8(text) ? text : OneLine(text);
  if (valid.size() <= bytes) return valid;
  return std::string(CutText(valid, bytes - kCut.size())) + std::string(kCut);
}

Body::Body(const Body& other) = default;
Body::Body(Body&& other) noexcept = default;
Body& Body::operator=(const Body& other) = default;
Body& Body::operator=(Body&& other) noexcept = default;
Body::~Body() = default;

std::string_view KindOf(const Body& body) {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}

const LeaseClaim* ClaimOf(const Body& body) {
  return std::visit(
      []<class T>(const T& b) -> const LeaseClaim* {
        if constexpr (requires { b.claim; }) return &b.claim;
        return nullptr;
      },
      body);
}

Frames Encode(const Message& message, int major) {
  Header header;
  header.major = major;
  header.kind = KindOf(message.body);
  header.request = message.request;
  Frames frames;
  frames.reserve(2 + message.blobs.size());
  frames.push_back(MakeBlob(ToCbor(header)));
  frames.push_back(MakeBlob(ToCborWithinLimits(message.body)));
  frames.insert(frames.end(), message.blobs.begin(), message.blobs.end());
  return frames;
}

Frames WithRequest(Frames frames, std::string_view kind, const Id& request) {
  Header header;
  header.kind = kind;
  header.request = request;
  frames.at(0) = MakeBlob(ToCbor(header));
  return frames;
}

std::variant<Message, DecodeError> Decode(const Frames& frames) {
  std::variant<Message, DecodeError> decoded;
  if (std::optional<DecodeError> error = ReadMessage(frames, std::get<Message>(decoded))) decoded = std::move(*error);
  return decoded;
}

}  // namespace autotune::rpc
