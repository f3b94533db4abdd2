// Limits of the texts and lists in messages. A struct states them beside its fields, one for each text, list and map:
//
//   struct Note { Id id; std::vector<std::string> lines; AUTOTUNE_FIELDS(id, lines)
//                 AUTOTUNE_LIMITS({"id", kIdBytes}, {"lines", kTextBytes, 100}) };
//
// A message of a struct with an unlimited field does not compile. Decode refuses what exceeds a limit, and Encode cuts
// it, so that the peer takes the message: some texts come from candidates and drivers.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/device_state.h"
#include "support/fields.h"
#include "support/machine_description.h"
#include "support/result.h"
#include "support/utf8.h"

namespace autotune::rpc {

inline constexpr size_t kTextBytes = 4096;  // texts for people, and names of kernels
inline constexpr size_t kNameBytes = 256;   // names that people choose, and addresses
inline constexpr size_t kIdBytes = 64;      // the ids that a peer makes up

struct Limit {
  std::string_view field;
  size_t bytes = 0;  // of the text, of each text of a list, of each key of a map
  size_t items = 0;  // of the list or map
};
#define AUTOTUNE_LIMITS(...) static constexpr ::autotune::rpc::Limit kLimits[] = {__VA_ARGS__};

// The limits of T. Structs of lower layers, which know no messages, have theirs here.
template <class T>
struct LimitsOf {
  static constexpr auto Get() {
    if constexpr (requires { T::kLimits; }) {
      return std::to_array(T::kLimits);
    } else {
      return std::array<Limit, 0>();
    }
  }
};
template <>
struct LimitsOf<DeviceState> {
  static constexpr auto Get() { return std::to_array<Limit>({{"throttled", kNameBytes, 64}}); }
};
template <>
struct LimitsOf<MachineDescription> {
  static constexpr auto Get() {
    return std::to_array<Limit>(
        {{"architecture", kIdBytes}, {"model", kNameBytes}, {"core", kNameBytes}, {"features", kIdBytes, 128}});
  }
};

namespace detail {
template <class T>
inline constexpr bool kIsText = std::is_same_v<T, std::string>;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;

template <class T>
constexpr Limit LimitOf(std::string_view field) {
  for (const Limit& limit : LimitsOf<T>::Get())
    if (limit.field == field) return limit;
  return {};
}

// Returns the limit of each field, in the order of their declaration.
template <HasFields T>
constexpr auto LimitsOfFields() {
  constexpr auto names = FieldNames<T>();
  std::array<Limit, names.size()> limits;
  std::ranges::transform(names, limits.begin(), LimitOf<T>);
  return limits;
}

// Returns whether each text, list and map among the fields of T has a limit, and each limit a field.
template <HasFields T>
consteval bool IsLimited() {
  constexpr auto names = FieldNames<T>();
  using Fields = std::remove_cvref_t<decltype(std::declval<T&>().FieldsTuple())>;
  const bool fields = [&]<size_t... I>(std::index_sequence<I...>) {
    const auto limited = []<class Field>(std::string_view name, std::type_identity<Field>) {
      const Limit limit = LimitOf<T>(name);
      if constexpr (kIsText<Field>) return limit.bytes > 0 && limit.items == 0;
      if constexpr (kIsList<Field>) return limit.items > 0;
      if constexpr (kIsMap<Field>) return limit.items > 0 && limit.bytes > 0;
      return limit.items == 0 && limit.bytes == 0;
    };
    return (limited(names[I], std::type_identity<std::remove_cvref_t<std::tuple_element_t<I, Fields>>>()) && ...);
  }
  (std::make_index_sequence<names.size()>());
  for (const Limit& limit : LimitsOf<T>::Get())
    if (std::ranges::find(names, limit.field) == names.end()) return false;
  return fields;
}
}  // namespace detail

// Calls text(name, text, bytes) for each text of a message, and list(name, list, items) for each list and map.
template <class T, class Text, class List>
void ForEachLimited(T& message, const Text& text, const List& list) {
  using Plain = std::remove_const_t<T>;
  static_assert(detail::IsLimited<Plain>(), "state the limit of each text, list and map (AUTOTUNE_LIMITS)");
  static constexpr auto kLimits = detail::LimitsOfFields<Plain>();
  const Limit* next = kLimits.data();
  ForEachField(message, [&](std::string_view name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const Limit& limit = *next++;
    const auto visit = [&](auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (detail::kIsText<Value>) {
        text(name, value, limit.bytes);
      } else if constexpr (HasFields<Value>) {
        if constexpr (requires { value.cbor(); })
          if (!value.cbor().empty()) return;  // it was encoded within its limits
        ForEachLimited(value, text, list);
      }
    };
    if constexpr (detail::kIsList<Field>) {
      list(name, field, limit.items);
      if constexpr (!std::is_arithmetic_v<typename Field::value_type>)
        for (auto& item : field) visit(item);
    } else if constexpr (detail::kIsMap<Field>) {
      list(name, field, limit.items);
      for (auto& [key, value] : field) text(name, key, limit.bytes);
    } else {
      visit(field);
    }
  });
}

// Returns an error if a text of the message is too long or not UTF-8, or a list has too many items. Whoever knows that
// all texts are UTF-8 passes false.
template <class T>
Status CheckLimits(const T& message, bool checks_utf8 = true) {
  Status status;
  ForEachLimited(
      message,
      [&](std::string_view name, const std::string& text, size_t bytes) {
        if (!status.ok()) return;
        if (text.size() > bytes) status = Err(name, ": a text of ", text.size(), " bytes; ", bytes, " is the limit");
        if (checks_utf8 && !IsUtf8(text)) status = Err(name, ": a text that is not UTF-8");
      },
      [&](std::string_view name, const auto& list, size_t items) {
        if (status.ok() && list.size() > items)
          status = Err(name, ": a list of ", list.size(), " items; ", items, " is the limit");
      });
  return status;
}

// Cuts a text, and escapes it if it is not UTF-8.
std::string WithinLimit(const std::string& text, size_t bytes);

// Cuts what is too long, and escapes what is not UTF-8.
template <class T>
void CutToLimits(T& message) {
  ForEachLimited(
      message,
      [](std::string_view, auto& text, size_t bytes) {
        // A map's keys are constant. Ours are words of this program.
        if constexpr (!std::is_const_v<std::remove_reference_t<decltype(text)>>) text = WithinLimit(text, bytes);
      },
      [](std::string_view, auto& list, size_t items) {
        if (list.size() > items) list.erase(std::next(list.begin(), static_cast<std::ptrdiff_t>(items)), list.end());
      });
}

}  // namespace autotune::rpc
