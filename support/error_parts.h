// Takes an error apart for people: its text in one line, and its hints. Stateless, thread-safe.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "support/hint.h"
#include "support/result.h"
#include "support/utf8.h"

namespace autotune {

// An error without its hints, in one line, and its hints.
struct ErrorParts {
  std::string text;
  std::vector<std::string> hints;
};
inline ErrorParts PartsOf(Error error) {
  ErrorParts parts;
  for (const std::string& note : error.notes) {
    if (note.starts_with(kHint)) parts.hints.push_back(OneLine(note.substr(kHint.size())));
  }
  std::erase_if(error.notes, [](const std::string& note) { return note.starts_with(kHint); });
  parts.text = OneLine(error.Text());
  return parts;
}

// Returns the error and its hints as one sentence, for the middle of other texts.
inline std::string SentenceOf(const Error& error) {
  ErrorParts parts = PartsOf(error);
  for (const std::string& hint : parts.hints) parts.text += "; " + hint;
  return parts.text;
}

}  // namespace autotune
