#include "support/json.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/half.h"

namespace autotune {
namespace {

using Nlohmann = nlohmann::json;
constexpr int kMaxDepth = 128;

std::string Base16(const std::string& bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : bytes) {
    text += kDigits[c >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

Nlohmann ForText(const Json& json) {
  if (auto* v = json.As<bool>()) return *v;
  if (auto* v = json.As<int64_t>()) return *v;
  if (auto* v = json.As<double>()) return *v;
  if (auto* v = json.As<std::string>()) return *v;
  if (auto* v = json.As<Json::Bytes>()) return Base16(v->data);
  if (auto* v = json.As<Json::Array>()) {
    Nlohmann array = Nlohmann::array();
    for (const Json& item : *v) array.push_back(ForText(item));
    return array;
  }
  if (auto* v = json.As<Json::Object>()) {
    Nlohmann object = Nlohmann::object();
    for (const auto& [key, item] : *v) object[key] = ForText(item);
    return object;
  }
  return nullptr;
}

// Builds a Json while the parser runs, so that hostile nesting is refused before it is stored.
class Builder : public nlohmann::json_sax<Nlohmann> {
 public:
  bool null() override { return Put(Json()); }
  bool boolean(bool v) override { return Put(Json(v)); }
  bool number_integer(int64_t v) override { return Put(Json(v)); }
  bool number_unsigned(uint64_t v) override {
    return v > static_cast<uint64_t>(INT64_MAX) ? Put(Json(static_cast<double>(v)))
                                                : Put(Json(static_cast<int64_t>(v)));
  }
  bool number_float(double v, const std::string&) override { return Put(Json(v)); }
  bool string(std::string& v) override { return Put(Json(std::move(v))); }
  bool binary(Nlohmann::binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return Push(Json(Json::Object{})); }
  bool start_array(size_t) override { return Push(Json(Json::Array{})); }
  bool end_object() override { return Pop(); }
  bool end_array() override { return Pop(); }
  bool key(std::string& v) override {
    stack_.back().key = std::move(v);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (error.empty()) error = "malformed at byte " + std::to_string(position);
    return false;
  }

  Json root;
  std::string error;

 private:
  struct Level {
    Json value;
    std::string key;
  };
  bool Put(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (auto* array = stack_.back().value.As<Json::Array>()) {
      array->push_back(std::move(value));
    } else {
      stack_.back().value.As<Json::Object>()->insert_or_assign(std::move(stack_.back().key), std::move(value));
    }
    return true;
  }
  bool Push(Json value) {
    if (stack_.size() >= kMaxDepth) {
      error = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    stack_.push_back({std::move(value), {}});
    return true;
  }
  bool Pop() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return Put(std::move(value));
  }
  std::vector<Level> stack_;
};

// --- CBOR (RFC 8949): each value begins with a head, a byte of three bits for its type and five for its argument.
// -----

enum class Major : uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };
constexpr uint8_t kFalse = 20, kTrue = 21, kNull = 22, kHalf = 25, kFloat = 26, kDouble = 27, kIndefinite = 31;
constexpr uint8_t kBreak = 0xff;  // ends an array or map of indefinite length

// Appends the `width` low bytes of a number, the highest first.
void AppendNumber(std::string& out, uint64_t number, int width) {
  for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
}

void AppendHead(std::string& out, Major major, uint64_t argument) {
  const auto type = static_cast<uint8_t>(static_cast<uint8_t>(major) << 5);
  if (argument < 24) {
    out += static_cast<char>(type | argument);
    return;
  }
  const int log = argument <= UINT8_MAX ? 0 : argument <= UINT16_MAX ? 1 : argument <= UINT32_MAX ? 2 : 3;
  out += static_cast<char>(type | (24 + log));
  AppendNumber(out, argument, 1 << log);
}

void AppendText(std::string& out, Major major, std::string_view bytes) {
  AppendHead(out, major, bytes.size());
  out += bytes;
}

// In the shortest of the three formats that loses nothing; of the shortest one, NaN and infinities only.
void AppendFloat(std::string& out, double value) {
  constexpr uint8_t kSimple = static_cast<uint8_t>(Major::kSimple) << 5;
  if (!std::isfinite(value)) {
    out += static_cast<char>(kSimple | kHalf);
    AppendNumber(out, std::isnan(value) ? 0x7e00 : value > 0 ? 0x7c00 : 0xfc00, 2);
  } else if (std::abs(value) <= FLT_MAX && static_cast<double>(static_cast<float>(value)) == value) {
    out += static_cast<char>(kSimple | kFloat);
    AppendNumber(out, std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
  } else {
    out += static_cast<char>(kSimple | kDouble);
    AppendNumber(out, std::bit_cast<uint64_t>(value), 8);
  }
}

// Reads what AppendCbor writes, and arrays and maps of indefinite length. Tags, strings of indefinite length and keys
// that are no texts are errors. Memory is allocated for bytes that are there, whatever length a head announces.
class CborReader {
 public:
  explicit CborReader(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  Status ReadAll(Json& out) {
    TRY(Read(out, 0));
    return rest_.empty() ? Status() : Malformed();
  }

 private:
  struct Head {
    Major major = Major::kUnsigned;
    uint8_t info = 0;
    uint64_t argument = 0;
  };

  Error Malformed() const { return Err("malformed at byte ", size_ - rest_.size()); }

  Result<Head> ReadHead() {
    if (rest_.empty()) return Malformed();
    const auto first = static_cast<uint8_t>(rest_.front());
    Head head{static_cast<Major>(first >> 5), static_cast<uint8_t>(first & 31), static_cast<uint64_t>(first & 31)};
    const size_t width = head.info >= 24 && head.info <= 27 ? size_t{1} << (head.info - 24) : 0;
    if ((head.info > 27 && head.info != kIndefinite) || rest_.size() <= width) return Malformed();
    if (width > 0) head.argument = 0;
    for (size_t i = 1; i <= width; ++i) head.argument = head.argument << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(1 + width);
    return head;
  }
  Result<std::string_view> ReadString(const Head& head) {
    if (head.info == kIndefinite) return Err("a string of indefinite length");
    if (head.argument > rest_.size()) return Malformed();
    const std::string_view bytes = rest_.substr(0, head.argument);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // Returns whether an array or map has another item after `count` ones.
  Result<bool> HasMore(const Head& head, uint64_t count) {
    if (head.info != kIndefinite) return count < head.argument;
    if (rest_.empty()) return Malformed();
    if (static_cast<uint8_t>(rest_.front()) != kBreak) return true;
    rest_.remove_prefix(1);
    return false;
  }
  // `depth`: number of arrays and maps around the value.
  Status Read(Json& out, int depth) {
    const Head head = TRY(ReadHead());
    if (depth == kMaxDepth && (head.major == Major::kArray || head.major == Major::kMap))
      return Err("nested deeper than ", kMaxDepth, " levels");
    switch (head.major) {
      case Major::kUnsigned:
      case Major::kNegative:
        if (head.info == kIndefinite) return Malformed();
        out = Integer(head);
        return {};
      case Major::kBytes:
        out = Json(Json::Bytes());
        out.As<Json::Bytes>()->data = TRY(ReadString(head));
        return {};
      case Major::kText:
        out = Json(TRY(ReadString(head)));
        return {};
      case Major::kArray:
        return ReadArray(head, out, depth);
      case Major::kMap:
        return ReadMap(head, out, depth);
      case Major::kTag:
        return Malformed();
      case Major::kSimple:
        return ReadSimple(head, out);
    }
    return Malformed();
  }
  // A number beyond the range of int64_t becomes a float.
  static Json Integer(const Head& head) {
    const bool is_negative = head.major == Major::kNegative;
    if (head.argument > static_cast<uint64_t>(INT64_MAX))
      return Json(is_negative ? -1.0 - static_cast<double>(head.argument) : static_cast<double>(head.argument));
    const auto value = static_cast<int64_t>(head.argument);
    return Json(is_negative ? ~value : value);
  }
  Status ReadArray(const Head& head, Json& out, int depth) {
    out = Json(Json::Array());
    auto& items = *out.As<Json::Array>();
    while (TRY(HasMore(head, items.size()))) TRY(Read(items.emplace_back(), depth + 1));
    return {};
  }
  Status ReadMap(const Head& head, Json& out, int depth) {
    out = Json(Json::Object());
    auto& fields = *out.As<Json::Object>();
    for (uint64_t count = 0; TRY(HasMore(head, count)); ++count) {
      const Head key = TRY(ReadHead());
      if (key.major != Major::kText) return Malformed();
      // We write keys in their order, so each usually comes after all others.
      const auto field = fields.try_emplace(fields.end(), std::string(TRY(ReadString(key))));
      TRY(Read(field->second, depth + 1));
    }
    return {};
  }
  Status ReadSimple(const Head& head, Json& out) {
    switch (head.info) {
      case kFalse:
      case kTrue:
        out = Json(head.info == kTrue);
        return {};
      case kNull:
        out = Json();
        return {};
      case kHalf:
        out = Json(static_cast<double>(HalfFromBits(static_cast<uint16_t>(head.argument))));
        return {};
      case kFloat:
        out = Json(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(head.argument))));
        return {};
      case kDouble:
        out = Json(std::bit_cast<double>(head.argument));
        return {};
      default:
        return Malformed();
    }
  }

  std::string_view rest_;
  size_t size_;
};

}  // namespace

std::optional<double> Json::Number() const {
  if (auto* v = As<int64_t>()) return static_cast<double>(*v);
  if (auto* v = As<double>()) return *v;
  return std::nullopt;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json null;
  const Object* object = As<Object>();
  if (!object) return null;
  auto it = object->find(key);
  return it == object->end() ? null : it->second;
}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(Bytes value) : value_(std::move(value)) {}
Json::Json(Array value) : value_(std::move(value)) {}
Json::Json(Object value) : value_(std::move(value)) {}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

Json& Json::operator[](std::string_view key) {
  if (IsNull()) value_ = Object{};
  Object* object = As<Object>();
  CHECK(object) << "operator[] of a Json that is not an object";
  return object->try_emplace(std::string(key)).first->second;
}

std::string Json::Dump(int indent) const {
  return ForText(*this).dump(indent, ' ', false, Nlohmann::error_handler_t::replace);
}

void detail::AppendCborArray(std::string& out, size_t items) { AppendHead(out, Major::kArray, items); }
void detail::AppendCborMap(std::string& out, size_t members) { AppendHead(out, Major::kMap, members); }
void detail::AppendCbor(std::string& out, std::nullptr_t) { AppendHead(out, Major::kSimple, kNull); }
void detail::AppendCbor(std::string& out, bool value) { AppendHead(out, Major::kSimple, value ? kTrue : kFalse); }
void detail::AppendCbor(std::string& out, int64_t value) {
  AppendHead(out, value < 0 ? Major::kNegative : Major::kUnsigned, static_cast<uint64_t>(value < 0 ? ~value : value));
}
void detail::AppendCbor(std::string& out, double value) { AppendFloat(out, value); }
void detail::AppendCbor(std::string& out, std::string_view text) { AppendText(out, Major::kText, text); }

void detail::AppendCbor(std::string& out, const Json& json) {
  if (const auto* v = json.As<bool>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<int64_t>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<double>()) {
    AppendCbor(out, *v);
  } else if (const auto* v = json.As<std::string>()) {
    AppendCbor(out, std::string_view(*v));
  } else if (const auto* v = json.As<Json::Bytes>()) {
    AppendText(out, Major::kBytes, v->data);
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

std::string Json::Cbor() const { return ToCbor(*this); }

Result<Json> Json::Parse(std::string_view text) {
  Builder builder;
  if (Nlohmann::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  return Err("not valid JSON: ", builder.error.empty() ? "malformed" : builder.error);
}
Result<Json> Json::ParseCbor(std::string_view bytes) {
  Json root;
  if (const Status read = CborReader(bytes).ReadAll(root); !read.ok())
    return Err("not valid CBOR: ", read.error().message);
  return root;
}

Error detail::JsonMismatch(const std::string& path, std::string_view expected) {
  return Err(path.empty() ? "value" : path.front() == '.' ? path.substr(1) : path, ": expected ", expected);
}

}  // namespace autotune
