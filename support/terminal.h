// The terminal that this process prints to: its width, its colours, and texts that fit into it. Thread-safe.
#pragma once
#include <string>
#include <string_view>

namespace autotune {

// Returns true if `fd` is a terminal that moves its cursor on request. TERM=dumb names one that cannot.
bool IsTerminal(int fd);

// Returns the present number of columns of the terminal `fd`. If the system does not know it, returns the value of
// COLUMNS, or 80. Returns 0 if `fd` is no terminal.
int TerminalWidth(int fd);

// Returns the number of columns that a terminal needs for UTF-8 text without control characters.
int TextWidth(std::string_view text);

// Returns the text if it fits into `columns`, else its beginning and "...".
std::string CutToWidth(std::string_view text, int columns);

// Returns the text with line ends in place of spaces, so that its lines fit into `columns` as far as its words do.
// Later lines begin with `indent` spaces. Words that a shell quotes, 'my net.tar', stay whole. Unchanged if `columns`
// is 0.
std::string WrapWords(std::string_view text, int columns, int indent = 2);

// Wraps each line of the text that is longer than `columns`, as WrapWords does; its other lines begin two spaces after
// the first one. Unchanged if `columns` is 0.
std::string WrapLines(const std::string& text, int columns);

// The colours of messages, by what they mean.
enum class Colour { kGain, kRemark, kFault };

// Returns true if texts for `fd` should have colours: it is a terminal, and NO_COLOR (no-color.org) is unset or empty.
bool ShowsColours(int fd);

// Returns the text with the escape sequences of the colour around it; unchanged if `on` is false.
std::string Painted(std::string_view text, Colour colour, bool on);

}  // namespace autotune
