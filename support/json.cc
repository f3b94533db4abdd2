#include "support/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

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

Nlohmann Encode(const Json& json, bool binary) {
  if (auto* v = json.As<bool>()) return *v;
  if (auto* v = json.As<int64_t>()) return *v;
  if (auto* v = json.As<double>()) return *v;
  if (auto* v = json.As<std::string>()) return *v;
  if (auto* v = json.As<Json::Bytes>()) {
    if (binary) return Nlohmann::binary(std::vector<uint8_t>(v->data.begin(), v->data.end()));
    return Base16(v->data);
  }
  if (auto* v = json.As<Json::Array>()) {
    Nlohmann array = Nlohmann::array();
    for (const Json& item : *v) array.push_back(Encode(item, binary));
    return array;
  }
  if (auto* v = json.As<Json::Object>()) {
    Nlohmann object = Nlohmann::object();
    for (const auto& [key, item] : *v) object[key] = Encode(item, binary);
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
  bool binary(Nlohmann::binary_t& v) override { return Put(Json(Json::Bytes{std::string(v.begin(), v.end())})); }
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

// Returns true if CBOR bytes hold a string of indefinite length. Such strings are refused: nlohmann reads their chunks
// recursively, as deep as the input says, and this program never writes one. The scan goes from item to item and
// ignores nesting. Truncated input returns false, since the parser reports it.
bool HasIndefiniteString(std::string_view bytes) {
  constexpr uint8_t kBytes = 2, kText = 3, kIndefinite = 31;
  for (size_t at = 0; at < bytes.size();) {
    auto head = static_cast<uint8_t>(bytes[at++]);
    uint8_t major = head >> 5, info = head & 31;
    bool is_string = major == kBytes || major == kText;
    if (is_string && info == kIndefinite) return true;
    uint64_t argument = info;
    if (info >= 24 && info <= 27) {
      size_t width = size_t{1} << (info - 24);
      argument = 0;
      for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
        argument = argument << 8 | static_cast<uint8_t>(bytes[at + i]);
      at += width;
    }
    if (!is_string) continue;
    if (at > bytes.size() || argument > bytes.size() - at) return false;
    at += argument;
  }
  return false;
}

Result<Json> ParseWith(std::string_view input, nlohmann::detail::input_format_t format, const char* what) {
  Builder builder;
  bool ok = Nlohmann::sax_parse(input.begin(), input.end(), &builder, format);
  if (!ok) return Err("not valid ", what, ": ", builder.error.empty() ? "malformed" : builder.error);
  return std::move(builder.root);
}

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
  return Encode(*this, false).dump(indent, ' ', false, Nlohmann::error_handler_t::replace);
}

std::string Json::Cbor() const {
  std::string out;
  Nlohmann::to_cbor(Encode(*this, true), nlohmann::detail::output_adapter<char>(out));
  return out;
}

Result<Json> Json::Parse(std::string_view text) {
  return ParseWith(text, nlohmann::detail::input_format_t::json, "JSON");
}
Result<Json> Json::ParseCbor(std::string_view bytes) {
  if (HasIndefiniteString(bytes)) return Err("not valid CBOR: a string of indefinite length");
  return ParseWith(bytes, nlohmann::detail::input_format_t::cbor, "CBOR");
}

Error detail::JsonMismatch(const std::string& path, std::string_view expected) {
  return Err(path.empty() ? "value" : path.front() == '.' ? path.substr(1) : path, ": expected ", expected);
}

}  // namespace autotune
