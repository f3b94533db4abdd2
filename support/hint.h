// Hints: what a user can do about an error. The error's message says what is wrong; commands print each hint on a line
// of its own. A hint is a note of the error, so callers that add notes keep it. Thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "support/result.h"

namespace autotune {

inline constexpr std::string_view kHint = "hint: ";  // the begin of a note that is a hint

// WithHint(Err("there is no database ", path), "name one with --db")
inline Error WithHint(Error error, const std::string& hint) { return std::move(error).Note(std::string(kHint) + hint); }

// Puts words before the message of an error: "cannot start: MESSAGE". The error keeps its notes, and so its hints.
inline Error Prefixed(const std::string& words, Error error) {
  error.message = words + error.message;
  return error;
}

}  // namespace autotune
