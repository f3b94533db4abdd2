// Screen: as much of a terminal as a live line needs. It has a width, wraps long lines, and understands returns, line
// ends, erasing, colours and the switch that turns wrapping off. It has no height: nothing scrolls away. ASCII only.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

namespace autotune::test {

class Screen {
 public:
  // `reflows`: a resized terminal wraps its lines again, as most do. Without it, each row is cut, as xterm does.
  // `keeps_cleared`: if the screen is erased from the first column on, its rows move into the history, as in tmux,
  // which does so for the top row of the screen. This screen knows no top row, so each one counts as such.
  Screen(int width, bool reflows, bool keeps_cleared = false)
      : width_(static_cast<size_t>(width)), reflows_(reflows), keeps_cleared_(keeps_cleared) {}

  void Feed(const std::string& bytes) {
    for (char c : bytes) {
      if (!sequence_.empty() || c == '\033') {
        sequence_ += c;
        const bool ends = sequence_.size() > 2 && c >= '@' && c <= '~';
        if (ends) Control(std::exchange(sequence_, ""));
      } else if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        NextRow();
      } else {
        Put(c);
      }
    }
  }

  void Resize(int width) {
    const size_t now = static_cast<size_t>(width);
    if (!reflows_) {
      for (Row& row : rows_) row.text.resize(std::min(row.text.size(), now));
      column_ = std::min(column_, now - 1);
      width_ = now;
      return;
    }
    // Join the rows of each line, and wrap it again. The cursor stays on its character.
    std::vector<Row> rows;
    size_t cursor_row = 0, cursor_column = 0;
    for (size_t i = 0; i < rows_.size();) {
      std::string line;
      size_t cursor = std::string::npos;
      bool goes_on = true;
      for (; goes_on && i < rows_.size(); ++i) {
        if (i == row_) cursor = line.size() + column_;
        line += rows_[i].text;
        goes_on = rows_[i].wrapped;
      }
      const size_t first = rows.size();
      for (size_t at = 0; at == 0 || at < line.size(); at += now)
        rows.push_back({line.substr(at, now), at + now < line.size()});
      if (cursor == std::string::npos) continue;
      cursor_row = std::min(first + cursor / now, rows.size() - 1);
      cursor_column = cursor % now;
    }
    rows_ = std::move(rows), row_ = cursor_row, column_ = cursor_column, width_ = now;
  }

  // The rows that are not empty, from the top.
  std::vector<std::string> Rows() const {
    std::vector<std::string> shown;
    for (const Row& row : rows_) {
      if (row.text.find_first_not_of(' ') != std::string::npos) shown.push_back(row.text);
    }
    return shown;
  }

 private:
  struct Row {
    std::string text;
    bool wrapped = false;  // the line goes on in the next row
  };

  void NextRow() {
    if (++row_ == rows_.size()) rows_.emplace_back();
  }
  void Put(char c) {
    if (column_ == width_ && wraps_) {
      rows_[row_].wrapped = true;
      NextRow();
      column_ = 0;
    }
    column_ = std::min(column_, width_ - 1);
    std::string& text = rows_[row_].text;
    text.resize(std::max(text.size(), column_ + 1), ' ');
    text[column_++] = c;
  }
  void Control(const std::string& sequence) {
    if (sequence == "\033[?7l") wraps_ = false;
    if (sequence == "\033[?7h") wraps_ = true;
    if (sequence == "\033[C") column_ = std::min(column_ + 1, width_ - 1);
    if (sequence != "\033[J" && sequence != "\033[K") return;
    if (sequence == "\033[J" && column_ == 0 && keeps_cleared_) {
      row_ = rows_.size();
      rows_.emplace_back();
      return;
    }
    Row& row = rows_[row_];
    row.text.resize(std::min(row.text.size(), column_));
    if (sequence == "\033[K") return;
    row.wrapped = false;
    rows_.resize(row_ + 1);
  }

  size_t width_;
  const bool reflows_, keeps_cleared_;
  std::vector<Row> rows_ = {Row()};
  size_t row_ = 0, column_ = 0;
  bool wraps_ = true;
  std::string sequence_;
};

}  // namespace autotune::test
