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

}  // namespace autotune::http
