// Reflection: a struct declares its fields once, and JSON, CBOR, equality, hashing and text derive from that.
//
//   struct Point { int x = 0; int y = 0; AUTOTUNE_FIELDS(x, y) };
//   ForEachField(point, [](std::string_view name, auto& value) { ... });
//
//   enum class Color { kRed, kGreen };
//   AUTOTUNE_ENUM(Color, "red", "green")        // at namespace scope; values 0..n-1 in this order
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace autotune {
namespace detail {

// "a, b, c" -> {"a", "b", "c"}
template <size_t N>
constexpr std::array<std::string_view, N> SplitNames(std::string_view list) {
  std::array<std::string_view, N> names{};
  for (size_t i = 0; i < N; ++i) {
    while (!list.empty() && list.front() == ' ') list.remove_prefix(1);
    size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    names[i] = name;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return names;
}

// Returns the places of the names in alphabetical order.
template <size_t N>
constexpr std::array<size_t, N> PlacesByName(const std::array<std::string_view, N>& names) {
  std::array<size_t, N> places{};
  for (size_t i = 0; i < N; ++i) places[i] = i;
  std::ranges::sort(places, {}, [&](size_t place) { return names[place]; });
  return places;
}
}  // namespace detail

#define AUTOTUNE_FIELDS(...)                                 \
  auto FieldsTuple() { return std::tie(__VA_ARGS__); }       \
  auto FieldsTuple() const { return std::tie(__VA_ARGS__); } \
  static constexpr std::string_view kFieldList = #__VA_ARGS__;

template <class T>
concept HasFields = requires(T& t) {
  t.FieldsTuple();
};

template <HasFields T>
constexpr auto FieldNames() {
  using U = std::remove_const_t<T>;
  return detail::SplitNames<std::tuple_size_v<decltype(std::declval<U&>().FieldsTuple())>>(U::kFieldList);
}

// Calls f(name, value) for each field in declaration order.
template <HasFields T, class F>
void ForEachField(T& object, F&& f) {
  static constexpr auto kNames = FieldNames<T>();
  std::apply(
      [&](auto&... value) {
        size_t i = 0;
        (f(kNames[i++], value), ...);
      },
      object.FieldsTuple());
}

// The same in alphabetical order of the names.
template <HasFields T, class F>
void ForEachFieldByName(T& object, F&& f) {
  static constexpr auto kNames = FieldNames<T>();
  static constexpr auto kPlaces = detail::PlacesByName(kNames);
  auto fields = object.FieldsTuple();
  [&]<size_t... I>(std::index_sequence<I...>) { (f(kNames[kPlaces[I]], std::get<kPlaces[I]>(fields)), ...); }
  (std::make_index_sequence<kNames.size()>());
}

template <class E>
struct EnumNames;  // specialised by AUTOTUNE_ENUM

#define AUTOTUNE_ENUM(E, ...)                                   \
  template <>                                                   \
  struct EnumNames<E> {                                         \
    static constexpr std::string_view kNames[] = {__VA_ARGS__}; \
  };

template <class E>
concept HasEnumNames = requires {
  EnumNames<E>::kNames[0];
};

template <HasEnumNames E>
constexpr std::string_view ToText(E value) {
  return EnumNames<E>::kNames[static_cast<size_t>(value)];
}

template <HasEnumNames E>
constexpr std::optional<E> EnumFromText(std::string_view text) {
  for (size_t i = 0; i < std::size(EnumNames<E>::kNames); ++i) {
    if (EnumNames<E>::kNames[i] == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace autotune
