// LiveLine: a line at the bottom of a terminal that is replaced again and again. Thread-safe.
//
// A terminal that becomes narrower wraps the line that it shows into several rows, and a program that then only returns
// to the begin of the row leaves the others behind. Four rules prevent this:
// - The cursor waits at the first column of the line. Terminals keep it there when they wrap the line again, so that
//   "erase below the cursor" reaches all rows of the line.
// - The line is shorter than the terminal is wide, by the width that the terminal has at this moment.
// - The terminal does not wrap while the line is written. It may have become narrower since its width was read.
// - The line fits, at kLeastColumns columns, into the rows that are certainly above it, and its own. A terminal such as
//   tmux moves as many rows into its history as the line gains, from the top of the screen. If the line itself were
//   among them, nothing could erase it.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

namespace autotune::tools {

class LiveLine {
 public:
  // Writes to the terminal `fd`. If `fd` is no terminal, all functions do nothing.
  explicit LiveLine(int fd);
  // Erases the line. No other thread may call Redraw any more.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;

  bool on_terminal() const { return on_terminal_; }
  // Replaces the line. Control characters in `text` are escaped. An empty text erases the line.
  void Show(const std::string& text);
  // Draws the line for the present width of the terminal. Call it when the terminal has another size (SIGWINCH).
  void Redraw();
  // Calls `print` while the line is erased, and draws the line again. `print` must write whole lines, at least `lines`
  // of them to this terminal.
  template <class Print>
  void Beside(const Print& print, int64_t lines = 0) {
    std::lock_guard lock(mutex_);
    Erase();
    print();
    rows_above_ += lines;
    Draw();
  }

  // The narrowest terminal for which the last rule holds, in columns.
  static constexpr int kLeastColumns = 40;

 private:
  int Width();  // of the terminal; notes how many rows above are left if it has become narrower
  void Erase();
  void Draw();
  void Write(const std::string& bytes) const;

  const int fd_;
  const bool on_terminal_;
  std::mutex mutex_;
  std::string text_;        // empty: no line is shown
  int drawn_ = 0;           // columns of the line on the terminal; 0: none is shown
  int64_t rows_above_ = 0;  // on the screen, at least
};

}  // namespace autotune::tools
