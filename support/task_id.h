// Task ids: the short name of a tuning task, the first digits of its hash. Tables, packages and profiles print the id.
// Commands accept any prefix of the hash. Thread-safe.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "support/hash.h"
#include "support/result.h"

namespace autotune {

// Among 1,000 tasks, two share their first 8 hex digits with a probability of 1e-4. FindTask then asks for more digits.
inline constexpr size_t kTaskIdDigits = 8;

std::string ShortTaskId(const Hash128& hash);
// `hash`: the 32 lower-case digits of a hash, as records store it.
std::string ShortTaskId(std::string_view hash);

// Returns whether `text` can be a prefix of a task's hash: 1 to 32 lower-case hex digits.
bool IsTaskIdPrefix(std::string_view text);

// Returns the one hash in `hashes` (32 digits each, in any order, duplicates allowed) that begins with `prefix`.
// Errors: no hash matches, or several do. The error then lists these, five at most, with enough digits to distinguish
// them.
Result<std::string> FindTask(std::span<const std::string> hashes, std::string_view prefix);

}  // namespace autotune
