#include "support/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autotune {
namespace {

// Returns the length in bytes of the well-formed sequence at the front; 0 if there is none.
size_t SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  uint8_t lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                  : lead >= 0xe0 && lead <= 0xef ? 3
                  : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                 : 0;
  // The range of the second byte depends on the first, to exclude overlong forms, surrogates and numbers beyond
  // U+10FFFF.
  uint8_t low = lead == 0xe0   ? 0xa0
                : lead == 0xf0 ? 0x90
                               : 0x80,
          high = lead == 0xed   ? 0x9f
                 : lead == 0xf4 ? 0x8f
                                : 0xbf;
  for (size_t i = 1; i < length; ++i, low = 0x80, high = 0xbf) {
    if (byte(i) < low || byte(i) > high) return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  constexpr uint64_t kNotAscii = 0x8080808080808080;
  uint64_t eight = 0;
  while (text.size() >= sizeof eight) {
    std::memcpy(&eight, text.data(), sizeof eight);
    if (eight & kNotAscii) break;
    text.remove_prefix(sizeof eight);
  }
  while (!text.empty()) {
    size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view CutText(std::string_view text, size_t bytes) {
  size_t end = std::min(text.size(), bytes);
  while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80) --end;  // a byte inside of a character
  return text.substr(0, end);
}

std::string OneLine(std::string_view text) {
  static const char kDigits[] = "0123456789abcdef";
  std::string line;
  while (!text.empty()) {
    size_t length = SequenceLength(text);
    auto c = static_cast<uint8_t>(text[0]);
    // U+0080 to U+009F control terminals, too: U+009B begins a command.
    const bool is_c1 = length == 2 && c == 0xc2 && static_cast<uint8_t>(text[1]) < 0xa0;
    if (length == 0 || c < 0x20 || c == 0x7f || is_c1) {
      line += std::string("\\x") + kDigits[c >> 4] + kDigits[c & 15];
      length = 1;
    } else {
      line += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return line;
}

}  // namespace autotune
