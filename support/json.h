// Json: a JSON/CBOR value, and conversion to and from any struct that declares its fields (support/fields.h).
// Unknown members are ignored and missing ones keep their default, so that formats can grow. Objects keep their keys
// sorted, so that equal values print equally. A value type, as thread-safe as std::map. Parsing and printing of text
// use nlohmann/json, which only json.cc includes. support/cbor.h has the CBOR of structs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "support/fields.h"
#include "support/result.h"

namespace autotune {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  struct Bytes {
    std::string data;
    bool operator==(const Bytes&) const = default;
  };

  Json() = default;  // null
  Json(std::nullptr_t) {}
  // The members that copy or destroy a value are compiled once, in json.cc.
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(bool value) : value_(value) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Json(T value) : value_(static_cast<int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  Json(Bytes value);
  Json(Array value);
  Json(Object value);

  template <class T>
  const T* As() const {
    return std::get_if<T>(&value_);
  }
  template <class T>
  T* As() {
    return std::get_if<T>(&value_);
  }
  bool IsNull() const { return std::holds_alternative<std::monostate>(value_); }
  // Returns the number of a float or an integer; nothing for other values.
  std::optional<double> Number() const;

  // Member of an object; null value if absent or not an object.
  const Json& operator[](std::string_view key) const;
  // Member of an object, created if absent (a null value becomes an object).
  Json& operator[](std::string_view key);

  bool operator==(const Json& other) const;

  std::string Dump(int indent = -1) const;  // JSON text; bytes become base16 strings; NaN and infinities become null
  std::string Cbor() const;
  static Result<Json> Parse(std::string_view text);  // depth-limited, one-line errors
  static Result<Json> ParseCbor(std::string_view bytes);

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Bytes, Array, Object> value_;
};

template <class T>
Json ToJson(const T& value) {
  if constexpr (std::is_same_v<T, Json>) {
    return value;
  } else if constexpr (HasEnumNames<T>) {
    return Json(ToText(value));
  } else if constexpr (std::is_same_v<T, float>) {
    return Json(static_cast<double>(value));
  } else if constexpr (std::is_constructible_v<Json, const T&>) {
    return Json(value);
  } else if constexpr (HasFields<T>) {
    Json::Object object;
    ForEachField(value, [&](std::string_view name, const auto& field) { object.emplace(name, ToJson(field)); });
    return Json(std::move(object));
  } else if constexpr (requires { value.has_value(); }) {
    return value ? ToJson(*value) : Json();
  } else if constexpr (requires { typename T::mapped_type; }) {
    Json::Object object;
    for (const auto& [key, item] : value) object.emplace(key, ToJson(item));
    return Json(std::move(object));
  } else {
    Json::Array array;
    for (const auto& item : value) array.push_back(ToJson(item));
    return Json(std::move(array));
  }
}

// Fills `out`; an error names the path of the value that does not fit ("devices[2].cores: expected an integer").
template <class T>
Status FromJson(const Json& json, T& out, const std::string& path = "");

template <class T>
Result<T> FromJson(const Json& json) {
  T value{};
  TRY(FromJson(json, value));
  return value;
}

namespace detail {
inline constexpr int kMaxJsonDepth = 128;  // of arrays and objects in each other
Error JsonMismatch(const std::string& path, std::string_view expected);
}  // namespace detail

template <class T>
Status FromJson(const Json& json, T& out, const std::string& path) {
  if constexpr (std::is_same_v<T, Json>) {
    out = json;
  } else if constexpr (std::is_same_v<T, bool>) {
    const bool* v = json.As<bool>();
    if (!v) return detail::JsonMismatch(path, "true or false");
    out = *v;
  } else if constexpr (HasEnumNames<T>) {
    const std::string* v = json.As<std::string>();
    std::optional<T> e = v ? EnumFromText<T>(*v) : std::nullopt;
    if (!e) return detail::JsonMismatch(path, "one of a fixed list of words");
    out = *e;
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t* v = json.As<int64_t>();
    if (!v || static_cast<int64_t>(static_cast<T>(*v)) != *v) return detail::JsonMismatch(path, "an integer in range");
    out = static_cast<T>(*v);
  } else if constexpr (std::is_floating_point_v<T>) {
    std::optional<double> v = json.Number();
    if (!v) return detail::JsonMismatch(path, "a number");
    out = static_cast<T>(*v);
  } else if constexpr (std::is_same_v<T, std::string>) {
    const std::string* v = json.As<std::string>();
    if (!v) return detail::JsonMismatch(path, "a string");
    out = *v;
  } else if constexpr (std::is_same_v<T, Json::Bytes>) {
    const Json::Bytes* v = json.As<Json::Bytes>();
    if (!v) return detail::JsonMismatch(path, "bytes");
    out = *v;
  } else if constexpr (HasFields<T>) {
    const auto* object = json.As<Json::Object>();
    if (!object) return detail::JsonMismatch(path, "an object");
    Status status;
    ForEachField(out, [&](std::string_view name, auto& field) {
      auto it = object->find(name);
      if (status.ok() && it != object->end()) status = FromJson(it->second, field, path + "." + std::string(name));
    });
    return status;
  } else if constexpr (requires { out.has_value(); }) {
    if (json.IsNull()) {
      out.reset();
    } else {
      TRY(FromJson(json, out.emplace(), path));
    }
  } else if constexpr (requires { typename T::mapped_type; }) {
    const auto* object = json.As<Json::Object>();
    if (!object) return detail::JsonMismatch(path, "an object");
    out.clear();
    for (const auto& [key, item] : *object) TRY(FromJson(item, out[key], path + "." + key));
  } else {
    const auto* array = json.As<Json::Array>();
    if (!array) return detail::JsonMismatch(path, "an array");
    out.clear();
    for (size_t i = 0; i < array->size(); ++i) {
      typename T::value_type item{};
      TRY(FromJson((*array)[i], item, path + "[" + std::to_string(i) + "]"));
      out.push_back(std::move(item));
    }
  }
  return {};
}

}  // namespace autotune
