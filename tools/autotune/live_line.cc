#include "tools/autotune/live_line.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "support/terminal.h"
#include "support/utf8.h"

namespace autotune::tools {
namespace {

// Control sequences of terminals (ECMA-48, and DEC's private mode 7).
constexpr char kEraseFromLine[] = "\r\033[J";  // to the first column; erase from there to the end of the screen
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

void LiveLine::Erase() {
  if (!text_.empty()) Write(kEraseFromLine);
}

// Writes all in one call, so that the terminal shows no half of it.
void LiveLine::Draw() {
  if (text_.empty()) return;
  const int columns = TerminalWidth(fd_) - 1;  // a character in the last column would make some terminals wrap
  Write(std::string(kEraseFromLine) + kNoWrap + CutToWidth(text_, columns) + "\r" + kWrap);
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
