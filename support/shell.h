// Words of a shell's command line, for commands that messages suggest. Thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace autotune {

// Returns `word` as a POSIX shell reads it as one word: unchanged if no character is special, else in single quotes.
std::string ShellWord(std::string_view word);

}  // namespace autotune
