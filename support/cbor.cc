#include "support/cbor.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "support/half.h"
#include "support/utf8.h"

namespace autotune {
namespace detail {
namespace {

constexpr uint8_t kFalse = 20, kTrue = 21, kNull = 22, kHalf = 25, kFloat = 26, kDouble = 27, kIndefinite = 31;
constexpr uint8_t kBreak = 0xff;  // ends an array or map of indefinite length

// Writes a head whose argument has `width` bytes, the highest first; 0: the argument is in the first byte.
void AppendBytes(std::string& out, CborMajor major, uint8_t info, uint64_t argument, int width) {
  char bytes[9] = {static_cast<char>(static_cast<uint8_t>(major) << 5 | info)};
  for (int i = 0; i < width; ++i) bytes[width - i] = static_cast<char>(argument >> (8 * i));
  out.append(bytes, static_cast<size_t>(1 + width));
}

void AppendHead(std::string& out, CborMajor major, uint64_t argument) {
  if (argument < 24) return AppendBytes(out, major, static_cast<uint8_t>(argument), 0, 0);
  const int log = argument <= UINT8_MAX ? 0 : argument <= UINT16_MAX ? 1 : argument <= UINT32_MAX ? 2 : 3;
  AppendBytes(out, major, static_cast<uint8_t>(24 + log), argument, 1 << log);
}

void AppendText(std::string& out, CborMajor major, std::string_view bytes) {
  AppendHead(out, major, bytes.size());
  out += bytes;
}

}  // namespace

void AppendCborArray(std::string& out, size_t items) { AppendHead(out, CborMajor::kArray, items); }
void AppendCborMap(std::string& out, size_t members) { AppendHead(out, CborMajor::kMap, members); }
void AppendCbor(std::string& out, std::nullptr_t) { AppendHead(out, CborMajor::kSimple, kNull); }
void AppendCbor(std::string& out, bool value) { AppendHead(out, CborMajor::kSimple, value ? kTrue : kFalse); }
void AppendCbor(std::string& out, int64_t value) {
  if (value < 0) return AppendHead(out, CborMajor::kNegative, static_cast<uint64_t>(~value));
  AppendHead(out, CborMajor::kUnsigned, static_cast<uint64_t>(value));
}
// In the shortest of the three formats that loses nothing; of the shortest one, NaN and infinities only.
void AppendCbor(std::string& out, double value) {
  if (!std::isfinite(value)) {
    AppendBytes(out, CborMajor::kSimple, kHalf, std::isnan(value) ? 0x7e00 : value > 0 ? 0x7c00 : 0xfc00, 2);
  } else if (std::abs(value) <= FLT_MAX && static_cast<double>(static_cast<float>(value)) == value) {
    AppendBytes(out, CborMajor::kSimple, kFloat, std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
  } else {
    AppendBytes(out, CborMajor::kSimple, kDouble, std::bit_cast<uint64_t>(value), 8);
  }
}
void AppendCbor(std::string& out, std::string_view text) { AppendText(out, CborMajor::kText, text); }

void AppendCbor(std::string& out, const Json& json) {
  if (const auto* v = json.As<bool>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<int64_t>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<double>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<std::string>()) {
    AppendCbor(out, std::string_view(*v));
  } else if (const auto* v = json.As<Json::Bytes>()) {
    AppendText(out, CborMajor::kBytes, v->data);
  } else if (const auto* v = json.As<Json::Array>()) {
    AppendCborArray(out, v->size());
    for (const Json& item : *v) AppendCbor(out, item);
  } else if (const auto* v = json.As<Json::Object>()) {
    AppendCborMap(out, v->size());
    for (const auto& [key, item] : *v) {
      AppendCbor(out, std::string_view(key));
      AppendCbor(out, item);
    }
  } else {
    AppendCbor(out, nullptr);
  }
}

void AppendCbor(std::string& out, std::span<const CborField> fields, const void* const* values) {
  AppendCborMap(out, fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    AppendCbor(out, fields[i].name);
    fields[i].type->append(out, values[i]);
  }
}

// --- Reading ---------------------------------------------------------------------------------------------------------

bool CborReader::Fail(std::string why) {
  error_ = std::move(why);
  return false;
}
bool CborReader::Invalid(const std::string& why) { return Fail("not valid CBOR: " + why); }
bool CborReader::Malformed() { return Invalid("malformed at byte " + std::to_string(size_ - rest_.size())); }

bool CborReader::Mismatch(std::string_view expected) {
  is_mismatch_ = true;
  return Fail(std::string(expected));
}
bool CborReader::Inside(std::string_view member) {
  if (is_mismatch_) path_ = "." + std::string(member) + path_;
  return false;
}
bool CborReader::Inside(uint64_t item) {
  if (is_mismatch_) path_ = "[" + std::to_string(item) + "]" + path_;
  return false;
}
Error CborReader::TakeError() { return is_mismatch_ ? JsonMismatch(path_, error_) : Err(error_); }

bool CborReader::ReadHead(Head& head) {
  if (rest_.empty()) return Malformed();
  const auto first = static_cast<uint8_t>(rest_.front());
  head = {static_cast<CborMajor>(first >> 5), static_cast<uint8_t>(first & 31), static_cast<uint64_t>(first & 31)};
  const size_t width = head.info >= 24 && head.info <= 27 ? size_t{1} << (head.info - 24) : 0;
  if ((head.info > 27 && head.info != kIndefinite) || rest_.size() <= width) return Malformed();
  if (width > 0) head.argument = 0;
  for (size_t i = 1; i <= width; ++i) head.argument = head.argument << 8 | static_cast<uint8_t>(rest_[i]);
  rest_.remove_prefix(1 + width);
  return true;
}

bool CborReader::ReadBytes(const Head& head, std::string_view& out) {
  if (head.info == kIndefinite) return Invalid("a string of indefinite length");
  if (head.argument > rest_.size()) return Malformed();
  out = rest_.substr(0, head.argument);
  rest_.remove_prefix(out.size());
  return true;
}

bool CborReader::ReadText(const Head& head, std::string_view& out) {
  if (!ReadBytes(head, out)) return false;
  if (out.size() > limits_.text_bytes) {
    return Fail("a text of " + std::to_string(out.size()) + " bytes; " + std::to_string(limits_.text_bytes) +
                " is the limit");
  }
  return !limits_.only_utf8 || IsUtf8(out) || Fail("a text that is not UTF-8");
}

bool CborReader::ReadKey(std::string_view& key) {
  Head head;
  if (!ReadHead(head)) return false;
  return head.major == CborMajor::kText ? ReadText(head, key) : Malformed();
}

bool CborReader::Begin(const Head& head, Items& items) {
  if (depth_ == kMaxJsonDepth) return Invalid("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  ++depth_;
  items = {.count = head.argument, .indefinite = head.info == kIndefinite};
  return true;
}
bool CborReader::BeginArray(Items& items) {
  Head head;
  if (!ReadHead(head)) return false;
  return head.major == CborMajor::kArray ? Begin(head, items) : Mismatch("an array");
}
bool CborReader::BeginMap(Items& items) {
  Head head;
  if (!ReadHead(head)) return false;
  return head.major == CborMajor::kMap ? Begin(head, items) : Mismatch("an object");
}
bool CborReader::Next(Items& items) {
  if (items.indefinite) {
    if (rest_.empty()) return Malformed();
    items.ended = static_cast<uint8_t>(rest_.front()) == kBreak;
    if (items.ended) rest_.remove_prefix(1);
  } else {
    items.ended = items.read == items.count;
  }
  if (items.ended) --depth_;
  ++items.read;
  return !items.ended;
}
bool CborReader::NextMember(Items& items, std::string_view& key) { return Next(items) && ReadKey(key); }

bool CborReader::Read(std::span<const CborField> fields, void* const* values) {
  Items items;
  if (!BeginMap(items)) return false;
  size_t next = 0;
  for (std::string_view key; NextMember(items, key);) {
    // We write members in their order, so each usually is the one after the last.
    const auto is_it = [&](const CborField& field) { return field.name == key; };
    auto field = std::find_if(fields.begin() + static_cast<std::ptrdiff_t>(next), fields.end(), is_it);
    if (field == fields.end()) field = std::find_if(fields.begin(), fields.end(), is_it);
    if (field == fields.end()) {
      Json ignored;
      if (!Read(ignored)) return false;
      continue;
    }
    const auto at = static_cast<size_t>(field - fields.begin());
    if (!field->type->read(*this, values[at])) return Inside(key);
    next = at + 1;
  }
  return End(items);
}

bool CborReader::Read(bool& out) {
  Head head;
  if (!ReadHead(head)) return false;
  if (head.major != CborMajor::kSimple || (head.info != kFalse && head.info != kTrue)) return Mismatch("true or false");
  out = head.info == kTrue;
  return true;
}

bool CborReader::Read(int64_t& out) {
  Head head;
  if (!ReadHead(head)) return false;
  const bool is_negative = head.major == CborMajor::kNegative;
  if ((head.major != CborMajor::kUnsigned && !is_negative) || head.argument > static_cast<uint64_t>(INT64_MAX))
    return Mismatch("an integer in range");
  if (head.info == kIndefinite) return Malformed();
  const auto value = static_cast<int64_t>(head.argument);
  out = is_negative ? ~value : value;
  return true;
}

bool CborReader::Read(double& out) {
  Json number;
  if (!Read(number)) return false;
  const std::optional<double> value = number.Number();
  if (!value) return Mismatch("a number");
  out = *value;
  return true;
}

bool CborReader::Read(std::string_view& out, std::string_view expected) {
  Head head;
  if (!ReadHead(head)) return false;
  return head.major == CborMajor::kText ? ReadText(head, out) : Mismatch(expected);
}

bool CborReader::Read(Json::Bytes& out) {
  Head head;
  std::string_view bytes;
  if (!ReadHead(head)) return false;
  if (head.major != CborMajor::kBytes) return Mismatch("bytes");
  if (!ReadBytes(head, bytes)) return false;
  out.data = bytes;
  return true;
}

bool CborReader::SkipNull() {
  constexpr uint8_t kNullByte = static_cast<uint8_t>(CborMajor::kSimple) << 5 | kNull;
  if (rest_.empty() || static_cast<uint8_t>(rest_.front()) != kNullByte) return false;
  rest_.remove_prefix(1);
  return true;
}

bool CborReader::ReadEnd() { return rest_.empty() || Malformed(); }

bool CborReader::Read(Json& out) {
  Head head;
  std::string_view bytes;
  if (!ReadHead(head)) return false;
  switch (head.major) {
    case CborMajor::kUnsigned:
    case CborMajor::kNegative: {
      if (head.info == kIndefinite) return Malformed();
      const bool is_negative = head.major == CborMajor::kNegative;
      if (head.argument > static_cast<uint64_t>(INT64_MAX)) {
        // A number beyond the range of int64_t becomes a float.
        const auto number = static_cast<double>(head.argument);
        out = Json(is_negative ? -1.0 - number : number);
      } else {
        const auto value = static_cast<int64_t>(head.argument);
        out = Json(is_negative ? ~value : value);
      }
      return true;
    }
    case CborMajor::kBytes:
      if (!ReadBytes(head, bytes)) return false;
      out = Json(Json::Bytes{std::string(bytes)});
      return true;
    case CborMajor::kText:
      if (!ReadText(head, bytes)) return false;
      out = Json(bytes);
      return true;
    case CborMajor::kArray:
      return ReadArray(head, out);
    case CborMajor::kMap:
      return ReadMap(head, out);
    case CborMajor::kTag:
      return Malformed();
    case CborMajor::kSimple:
      return ReadSimple(head, out);
  }
  return Malformed();
}

bool CborReader::ReadArray(const Head& head, Json& out) {
  Items items;
  if (!Begin(head, items)) return false;
  out = Json(Json::Array());
  auto& array = *out.As<Json::Array>();
  while (Next(items))
    if (!Read(array.emplace_back())) return false;
  return End(items);
}

bool CborReader::ReadMap(const Head& head, Json& out) {
  Items items;
  if (!Begin(head, items)) return false;
  out = Json(Json::Object());
  auto& fields = *out.As<Json::Object>();
  for (std::string_view key; NextMember(items, key);)
    if (!Read(fields.try_emplace(fields.end(), std::string(key))->second)) return false;
  return End(items);
}

bool CborReader::ReadSimple(const Head& head, Json& out) {
  switch (head.info) {
    case kFalse:
    case kTrue:
      out = Json(head.info == kTrue);
      return true;
    case kNull:
      out = Json();
      return true;
    case kHalf:
      out = Json(static_cast<double>(HalfFromBits(static_cast<uint16_t>(head.argument))));
      return true;
    case kFloat:
      out = Json(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(head.argument))));
      return true;
    case kDouble:
      out = Json(std::bit_cast<double>(head.argument));
      return true;
    default:
      return Malformed();
  }
}

}  // namespace detail

std::string Json::Cbor() const { return ToCbor(*this); }

Result<Json> Json::ParseCbor(std::string_view bytes) {
  Json root;
  TRY(FromCbor(bytes, root));
  return root;
}

}  // namespace autotune
