#include "support/task_id.h"
#include "support/hint.h"

#include <algorithm>
#include <set>

namespace autotune {
namespace {

constexpr size_t kHashDigits = 32;
constexpr size_t kListed = 5;  // hashes that an error lists, at most

// Returns the least number of digits that distinguishes all these hashes, but at least kTaskIdDigits.
size_t DistinctDigits(const std::set<std::string>& hashes) {
  size_t digits = kTaskIdDigits;
  for (auto next = hashes.begin(), hash = next++; next != hashes.end(); hash = next++) {
    size_t common = std::mismatch(hash->begin(), hash->end(), next->begin(), next->end()).first - hash->begin();
    digits = std::max(digits, common + 1);
  }
  return digits;
}

}  // namespace

std::string ShortTaskId(const Hash128& hash) { return ShortTaskId(hash.Hex()); }

std::string ShortTaskId(std::string_view hash) { return std::string(hash.substr(0, kTaskIdDigits)); }

bool IsTaskIdPrefix(std::string_view text) {
  return !text.empty() && text.size() <= kHashDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::string> FindTask(std::span<const std::string> hashes, std::string_view prefix) {
  std::set<std::string> found;
  for (const std::string& hash : hashes) {
    if (hash.starts_with(prefix)) found.insert(hash);
  }
  if (found.empty()) return Err("no task has an id that begins with ", prefix);
  if (found.size() == 1) return *found.begin();
  size_t digits = DistinctDigits(found), listed = 0;
  std::string names;
  for (const std::string& hash : found) {
    if (++listed > kListed) break;
    names += (names.empty() ? "" : ", ") + hash.substr(0, digits);
  }
  return WithHint(Err(found.size(), " tasks have an id that begins with ", prefix, ": ", names,
                      found.size() > kListed ? ", ..." : ""),
                  "give more digits");
}

}  // namespace autotune
