#include "tools/autotune/live_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "support/terminal.h"
#include "support/utf8.h"

namespace autotune::tools {
namespace {

// Control sequences of terminals (ECMA-48, and DEC's private mode 7).
// Erases from the first column of this row to the end of the screen, and leaves the cursor there. It erases the rows
// below from the second column on: tmux takes "erase below" in the first column of the first row for "erase the
// screen", and then moves all rows into the history.
constexpr char kEraseFromLine[] = "\r\033[C\033[J\r\033[K";
constexpr char kNoWrap[] = "\033[?7l", kWrap[] = "\033[?7h";

}  // namespace

LiveLine::LiveLine(int fd) : fd_(fd), on_terminal_(IsTerminal(fd)) {}

LiveLine::~LiveLine() { Show(""); }

void LiveLine::Show(const std::string& text) {
  if (!on_terminal_) return;
  std::lock_guard lock(mutex_);
  if (text.empty()) Erase();
  text_ = OneLine(text);
  Draw();
}

void LiveLine::Redraw() {
  std::lock_guard lock(mutex_);
  Draw();
}

int LiveLine::Width() {
  const int width = TerminalWidth(fd_);
  // The rows that the line gained when the terminal became narrower pushed others off the screen.
  if (drawn_ > width && width > 0) rows_above_ = std::max<int64_t>(0, rows_above_ - (drawn_ - 1) / width);
  drawn_ = std::min(drawn_, width);
  return width;
}

void LiveLine::Erase() {
  if (drawn_ == 0) return;
  Width();
  Write(kEraseFromLine);
  drawn_ = 0;
}

// Writes all in one call, so that the terminal shows no half of it.
void LiveLine::Draw() {
  if (text_.empty()) return;
  const int width = Width();
  const int64_t safe = (rows_above_ + 1) * kLeastColumns;
  // One column less, since a character in the last column would make some terminals wrap.
  const std::string line = CutToWidth(text_, static_cast<int>(std::min<int64_t>(width, safe)) - 1);
  drawn_ = TextWidth(line);
  std::string bytes = kEraseFromLine;
  bytes += kNoWrap + line;
  Write(bytes + "\r" + kWrap);
}

void LiveLine::Write(const std::string& bytes) const {
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the terminal is gone
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace autotune::tools
