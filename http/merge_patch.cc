#include "http/merge_patch.h"

namespace autotune::http {

Json MergePatch(const Json& before, const Json& after) {
  const auto* old = before.As<Json::Object>();
  const auto* now = after.As<Json::Object>();
  Json::Object patch;
  if (!now) return patch;
  for (const auto& [key, value] : *now) {
    const Json& earlier = before[key];
    if (value.IsNull() || earlier == value) continue;
    if (earlier.As<Json::Object>() && value.As<Json::Object>()) {
      patch.emplace(key, MergePatch(earlier, value));
    } else {
      patch.emplace(key, WithoutNulls(value));
    }
  }
  if (!old) return patch;
  for (const auto& [key, value] : *old)
    if (!value.IsNull() && after[key].IsNull()) patch.emplace(key, nullptr);
  return patch;
}

Json WithoutNulls(Json value) {
  auto* members = value.As<Json::Object>();
  if (!members) return value;
  std::erase_if(*members, [](const auto& member) { return member.second.IsNull(); });
  for (auto& [key, member] : *members) member = WithoutNulls(std::move(member));
  return value;
}

int64_t MemoryOf(const Json& value) {
  constexpr int64_t kNode = 48;  // of a tree, beside its value
  constexpr size_t kShort = 16;  // a text that is shorter needs no memory of its own
  const auto of_text = [](const std::string& text) {
    return text.size() < kShort ? 0 : static_cast<int64_t>(text.capacity()) + 16;
  };
  int64_t bytes = sizeof(Json);
  if (const auto* text = value.As<std::string>()) bytes += of_text(*text);
  if (const auto* items = value.As<Json::Array>())
    for (const Json& item : *items) bytes += MemoryOf(item);
  if (const auto* members = value.As<Json::Object>())
    for (const auto& [key, member] : *members)
      bytes += kNode + static_cast<int64_t>(sizeof key) + of_text(key) + MemoryOf(member);
  return bytes;
}

}  // namespace autotune::http
