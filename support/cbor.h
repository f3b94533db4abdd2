// CBOR (RFC 8949) of any struct that declares its fields (support/fields.h), without making a Json. ToCbor writes the
// same bytes as ToJson(value).Cbor(). FromCbor reads as FromJson does: it ignores members that the struct lacks, and
// leaves fields alone that the bytes lack. Each struct has a table of its fields. One loop reads all structs, and one
// writes them. So a program that takes messages of many kinds runs little code, which stays in the processor's caches.
// A struct may carry its bytes already (rpc/encoded.h); they are copied then. Thread-safe.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "support/fields.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune {

// What reading refuses beside malformed bytes. It counts for all texts, names and those in unknown members included.
struct CborLimits {
  size_t text_bytes = SIZE_MAX;
  bool only_utf8 = false;
};

namespace detail {

class CborReader;

// How values of one type are written and read.
struct CborType {
  void (*append)(std::string& out, const void* value);
  bool (*read)(CborReader& reader, void* value);
};
struct CborField {
  std::string_view name;
  const CborType* type;
};

// Each value begins with a head, a byte of three bits for its type and five for its argument.
enum class CborMajor : uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };

void AppendCborArray(std::string& out, size_t items);  // the head, which the items follow
void AppendCborMap(std::string& out, size_t members);
void AppendCbor(std::string& out, std::nullptr_t);
void AppendCbor(std::string& out, bool value);
void AppendCbor(std::string& out, int64_t value);
void AppendCbor(std::string& out, double value);
void AppendCbor(std::string& out, std::string_view text);
void AppendCbor(std::string& out, const Json& value);
// A map of the fields, whose values are in the same order.
void AppendCbor(std::string& out, std::span<const CborField> fields, const void* const* values);

// Reads what AppendCbor writes, and arrays and maps of indefinite length. Tags, strings of indefinite length and keys
// that are no texts are errors. Memory is allocated for bytes that are there, whatever length a head announces.
// A function that reads returns false after an error, and nothing may be read then.
class CborReader {
 public:
  CborReader(std::string_view bytes, const CborLimits& limits) : rest_(bytes), size_(bytes.size()), limits_(limits) {}

  bool Read(bool& out);
  bool Read(int64_t& out);
  bool Read(double& out);
  bool Read(Json::Bytes& out);
  bool Read(Json& out);
  // The text lives as long as the bytes.
  bool Read(std::string_view& out, std::string_view expected = "a string");
  bool Read(std::span<const CborField> fields, void* const* values);  // members of a map, those that are there
  bool ReadEnd();                                                     // nothing follows
  bool SkipNull();                                                    // if the next value is null

  // An array or a map: Begin, then Next before each item. Next returns false after the last one, and after an error,
  // which End tells from the last one.
  struct Items {
    uint64_t count = 0, read = 0;
    bool indefinite = false, ended = false;
  };
  bool BeginArray(Items& items);
  bool BeginMap(Items& items);
  bool Next(Items& items);
  bool NextMember(Items& items, std::string_view& key);
  static bool End(const Items& items) { return items.ended; }

  // Notes that a value that was read is not what is expected. Returns false.
  bool Mismatch(std::string_view expected);
  // Notes in which member or item the error is. Returns false.
  bool Inside(std::string_view member);
  bool Inside(uint64_t item);
  Error TakeError();

 private:
  struct Head {
    CborMajor major = CborMajor::kUnsigned;
    uint8_t info = 0;
    uint64_t argument = 0;
  };
  bool ReadHead(Head& head);
  bool ReadBytes(const Head& head, std::string_view& out);
  bool ReadText(const Head& head, std::string_view& out);
  bool ReadKey(std::string_view& key);
  bool ReadArray(const Head& head, Json& out);
  bool ReadMap(const Head& head, Json& out);
  bool ReadSimple(const Head& head, Json& out);
  bool Begin(const Head& head, Items& items);
  bool Fail(std::string why);
  bool Invalid(const std::string& why);
  bool Malformed();

  std::string_view rest_;
  size_t size_;
  CborLimits limits_;
  int depth_ = 0;
  std::string error_, path_;
  bool is_mismatch_ = false;
};

template <class T>
void AppendCborOf(std::string& out, const T& value);
template <class T>
bool ReadCborOf(CborReader& reader, T& out);

template <class T>
inline constexpr CborType kCborType = {
    .append = [](std::string& out, const void* value) { AppendCborOf(out, *static_cast<const T*>(value)); },
    .read = [](CborReader& reader, void* value) { return ReadCborOf(reader, *static_cast<T*>(value)); }};

// The fields of T in alphabetical order. Members are written in this order.
template <HasFields T>
struct CborFields {
  static constexpr auto kNames = FieldNames<T>();
  static constexpr auto kPlaces = PlacesByName(kNames);
  using Tuple = decltype(std::declval<T&>().FieldsTuple());
  template <size_t I>
  using Field = std::remove_cvref_t<std::tuple_element_t<kPlaces[I], Tuple>>;
  using Indices = std::make_index_sequence<kNames.size()>;

  static constexpr auto kFields = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<CborField, sizeof...(I)>{{{kNames[kPlaces[I]], &kCborType<Field<I>>}...}};
  }
  (Indices());
};

// Calls f with the addresses of the fields of an object, in the order of CborFields.
template <class T, class F>
auto WithCborValues(T& object, const F& f) {
  using Plain = std::remove_const_t<T>;
  using Address = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  const auto fields = object.FieldsTuple();
  return [&]<size_t... I>(std::index_sequence<I...>) {
    const Address values[] = {&std::get<CborFields<Plain>::kPlaces[I]>(fields)...};
    return f(values);
  }
  (typename CborFields<Plain>::Indices());
}

template <class T>
void AppendCborOf(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, Json> || std::is_same_v<T, bool>) {
    AppendCbor(out, value);
  } else if constexpr (HasEnumNames<T>) {
    AppendCbor(out, ToText(value));
  } else if constexpr (std::is_integral_v<T>) {
    AppendCbor(out, static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendCbor(out, static_cast<double>(value));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    AppendCbor(out, std::string_view(value));
  } else if constexpr (std::is_constructible_v<Json, const T&>) {
    AppendCbor(out, Json(value));
  } else if constexpr (HasFields<T>) {
    if constexpr (requires { value.cbor(); }) {
      if (!value.cbor().empty()) {
        out += value.cbor();
        return;
      }
    }
    WithCborValues(value, [&](const void* const* values) { AppendCbor(out, CborFields<T>::kFields, values); });
  } else if constexpr (requires { value.has_value(); }) {
    value ? AppendCborOf(out, *value) : AppendCbor(out, nullptr);
  } else if constexpr (requires { typename T::mapped_type; }) {
    static_assert(
        requires { typename T::key_compare; }, "CBOR has the members in the order of their names");
    AppendCborMap(out, value.size());
    for (const auto& [key, item] : value) {
      AppendCbor(out, std::string_view(key));
      AppendCborOf(out, item);
    }
  } else {
    AppendCborArray(out, value.size());
    for (const auto& item : value) AppendCborOf(out, item);
  }
}

template <class T>
bool ReadCborOf(CborReader& reader, T& out) {
  if constexpr (std::is_same_v<T, Json> || std::is_same_v<T, Json::Bytes> || std::is_same_v<T, bool>) {
    return reader.Read(out);
  } else if constexpr (HasEnumNames<T>) {
    constexpr std::string_view kExpected = "one of a fixed list of words";
    std::string_view word;
    if (!reader.Read(word, kExpected)) return false;
    const std::optional<T> value = EnumFromText<T>(word);
    if (!value) return reader.Mismatch(kExpected);
    out = *value;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    int64_t value = 0;
    if (!reader.Read(value)) return false;
    if (static_cast<int64_t>(static_cast<T>(value)) != value) return reader.Mismatch("an integer in range");
    out = static_cast<T>(value);
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    double value = 0;
    if (!reader.Read(value)) return false;
    out = static_cast<T>(value);
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::string_view text;
    if (!reader.Read(text)) return false;
    out = text;
    return true;
  } else if constexpr (HasFields<T>) {
    return WithCborValues(out, [&](void* const* values) { return reader.Read(CborFields<T>::kFields, values); });
  } else if constexpr (requires { out.has_value(); }) {
    out.reset();
    return reader.SkipNull() || ReadCborOf(reader, out.emplace());
  } else if constexpr (requires { typename T::mapped_type; }) {
    out.clear();
    CborReader::Items items;
    if (!reader.BeginMap(items)) return false;
    for (std::string_view key; reader.NextMember(items, key);)
      if (!ReadCborOf(reader, out[std::string(key)])) return reader.Inside(key);
    return CborReader::End(items);
  } else {
    out.clear();
    CborReader::Items items;
    if (!reader.BeginArray(items)) return false;
    while (reader.Next(items))
      if (!ReadCborOf(reader, out.emplace_back())) return reader.Inside(items.read - 1);
    return CborReader::End(items);
  }
}
}  // namespace detail

template <class T>
std::string ToCbor(const T& value) {
  constexpr size_t kUsual = 1000;  // bytes; malloc keeps blocks up to this size ready for each thread [chosen]
  std::string out;
  out.reserve(kUsual);
  detail::AppendCborOf(out, value);
  return out;
}

// Fills `out`; an error names the path of the value that does not fit ("devices[2].cores: expected an integer").
template <class T>
Status FromCbor(std::string_view bytes, T& out, const CborLimits& limits = {}) {
  detail::CborReader reader(bytes, limits);
  if (detail::ReadCborOf(reader, out) && reader.ReadEnd()) return {};
  return reader.TakeError();
}

}  // namespace autotune
