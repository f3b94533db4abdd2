// Writer: lines of source text with their indentation. Not thread-safe. Internal to codegen/c.
#pragma once
#include <string>
#include <string_view>

namespace autotune::c {

class Writer {
 public:
  // Adds a line. Breaks a long line after a comma.
  void Line(std::string_view text) {
    constexpr size_t kWidth = 120, kContinued = 4;
    size_t indent = static_cast<size_t>(2 * depth_);
    for (size_t room = kWidth - indent; text.size() > room; room = kWidth - indent) {
      const size_t at = CommaBefore(text, room);
      if (at == 0) break;
      text_.append(indent, ' ').append(text.substr(0, at)).append("\n");
      text.remove_prefix(at + 1);
      indent = static_cast<size_t>(2 * depth_) + kContinued;
    }
    if (!text.empty()) text_.append(indent, ' ').append(text);
    text_ += '\n';
  }
  // Open adds a line that begins a block, Close the brace that ends it.
  void Open(std::string_view head) {
    Line(std::string(head) + " {");
    ++depth_;
  }
  void Close(std::string_view after = "") {
    --depth_;
    Line("}" + std::string(after));
  }
  void Else() {
    --depth_;
    Open("} else");
  }
  const std::string& text() const { return text_; }

 private:
  // Returns the place after the last comma that is followed by a space, within the first `room` characters and outside
  // of string literals; 0 if there is none.
  static size_t CommaBefore(std::string_view text, size_t room) {
    size_t end = 0;
    bool quoted = false;
    for (size_t i = 0; i + 1 < text.size() && i < room; ++i) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = !quoted;
      else if (!quoted && text[i] == ',' && text[i + 1] == ' ')
        end = i + 1;
    }
    return end;
  }

  std::string text_;
  int depth_ = 0;
};

}  // namespace autotune::c
