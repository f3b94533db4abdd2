// Checks whether untrusted text is UTF-8, and makes it printable on one line. Stateless, thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace autotune {

// Returns true if the text is well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing
// beyond U+10FFFF.
bool IsUtf8(std::string_view text);

// Returns the longest beginning of UTF-8 text that has at most this many bytes and ends with a whole character.
std::string_view CutText(std::string_view text, size_t bytes);

// Returns the text with control characters, line ends and bytes that are not UTF-8 escaped, as in \x1f. Printable text,
// including backslashes, is unchanged.
std::string OneLine(std::string_view text);

}  // namespace autotune
