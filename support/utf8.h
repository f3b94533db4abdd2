// Text of strangers: whether it is UTF-8, and how to show it on one line. Stateless, thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace autotune {

// Well-formed as Unicode 15 table 3-7 says: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool IsUtf8(std::string_view text);

// The text with control characters, line ends too, and bytes that are no UTF-8 as \x1f. Printable text is unchanged,
// backslashes included.
std::string OneLine(std::string_view text);

}  // namespace autotune
