#include "support/shell.h"

#include <algorithm>
#include <cctype>

namespace autotune {
namespace {

bool IsPlain(char c) {
  constexpr std::string_view kPlain = "-_./:,=+@%^";
  return std::isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != std::string_view::npos;
}

}  // namespace

std::string ShellWord(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, IsPlain)) return std::string(word);
  std::string quoted = "'";
  for (char c : word) {
    // No character can be escaped within single quotes. So a single quote ends them, follows escaped, and begins them
    // again.
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace autotune
