#include "support/json.h"

#include <nlohmann/json.hpp>

namespace autotune {
namespace {

using Nlohmann = nlohmann::json;

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
    if (stack_.size() >= detail::kMaxJsonDepth) {
      error = "nested deeper than " + std::to_string(detail::kMaxJsonDepth) + " levels";
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

Result<Json> Json::Parse(std::string_view text) {
  Builder builder;
  if (Nlohmann::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  return Err("not valid JSON: ", builder.error.empty() ? "malformed" : builder.error);
}
Error detail::JsonMismatch(const std::string& path, std::string_view expected) {
  return Err(path.empty() ? "value" : path.front() == '.' ? path.substr(1) : path, ": expected ", expected);
}

}  // namespace autotune
