#include "support/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace autotune {
namespace {

constexpr int kDefaultColumns = 80;
constexpr std::string_view kEllipsis = "...";

bool HasValue(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

// Reads one code point at the begin of `text`, which is not empty, and removes it. Each byte that begins no code point
// counts as one.
uint32_t TakeCodePoint(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t code = length == 1 ? first : first & (0x7f >> length);
  size_t taken = 1;
  for (; taken < length && taken < text.size() && (text[taken] & 0xc0) == 0x80; ++taken)
    code = code << 6 | (static_cast<unsigned char>(text[taken]) & 0x3f);
  text.remove_prefix(taken);
  return code;
}

struct Range {
  uint32_t first, last;
};
// Blocks of characters with two columns (East Asian, pictures), and of marks without a column of their own.
constexpr Range kWide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                           {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
constexpr Range kMarks[] = {{0x0300, 0x036f}, {0x200b, 0x200f}, {0xfe00, 0xfe0f}};

template <size_t N>
bool IsIn(uint32_t code, const Range (&ranges)[N]) {
  for (const Range& range : ranges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

int ColumnsOf(uint32_t code) { return IsIn(code, kMarks) ? 0 : IsIn(code, kWide) ? 2 : 1; }

// Returns the length of the first word of the text. Spaces inside single quotes end no word that begins with a quote.
size_t WordEnd(std::string_view text) {
  const size_t plain = std::min(text.find(' '), text.size());
  if (!text.starts_with('\'')) return plain;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && !quoted) {
      ++i;  // the next character stands for itself
    } else if (text[i] == '\'') {
      quoted = !quoted;
    } else if (text[i] == ' ' && !quoted) {
      return i;
    }
  }
  return quoted ? plain : text.size();  // a quote that nothing closes is an apostrophe
}

}  // namespace

bool IsTerminal(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) && !(kind && std::string_view(kind) == "dumb");
}

int TerminalWidth(int fd) {
  if (!isatty(fd)) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* text = std::getenv("COLUMNS");
  const std::string_view columns = text ? text : "";
  int value = 0;
  auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), value);
  return error == std::errc() && value > 0 ? value : kDefaultColumns;
}

int TextWidth(std::string_view text) {
  int columns = 0;
  while (!text.empty()) columns += ColumnsOf(TakeCodePoint(text));
  return columns;
}

std::string CutToWidth(std::string_view text, int columns) {
  if (TextWidth(text) <= columns) return std::string(text);
  int left = columns - static_cast<int>(kEllipsis.size());
  if (left <= 0) return std::string(kEllipsis.substr(0, columns > 0 ? static_cast<size_t>(columns) : 0));
  std::string_view rest = text;
  for (;;) {
    std::string_view next = rest;
    left -= ColumnsOf(TakeCodePoint(next));
    if (left < 0) break;
    rest = next;
  }
  return std::string(text.substr(0, text.size() - rest.size())) + std::string(kEllipsis);
}

std::string WrapWords(std::string_view text, int columns, int indent) {
  if (columns <= 0) return std::string(text);
  std::string wrapped;
  int used = 0;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = WordEnd(text);
    const std::string_view word = text.substr(0, end);
    const int width = TextWidth(word);
    if (!first && used + 1 + width > columns) {
      wrapped += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = indent;
    } else if (!first) {
      wrapped += ' ';
      ++used;
    }
    wrapped += word;
    used += width;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
}

std::string WrapLines(const std::string& text, int columns) {
  std::string wrapped;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    wrapped += WrapWords(line, columns, static_cast<int>(indent) + 2);
    if (end < text.size()) wrapped += '\n';
    begin = end + 1;
  }
  return wrapped;
}

bool ShowsColours(int fd) { return IsTerminal(fd) && !HasValue("NO_COLOR"); }

std::string Painted(std::string_view text, Colour colour, bool on) {
  if (!on) return std::string(text);
  const char* code = colour == Colour::kGain ? "32" : colour == Colour::kRemark ? "33" : "31";
  return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
}

}  // namespace autotune
