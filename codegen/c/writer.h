// Writer: lines of source text with their indentation. Not thread-safe. Internal to codegen/c.
#pragma once
#include <string>
#include <string_view>

namespace autotune::c {

class Writer {
 public:
  void Line(std::string_view text) {
    if (!text.empty()) text_.append(static_cast<size_t>(2 * depth_), ' ').append(text);
    text_ += '\n';
  }
  // A line that begins a block, and the brace that ends it.
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
  std::string text_;
  int depth_ = 0;
};

}  // namespace autotune::c
