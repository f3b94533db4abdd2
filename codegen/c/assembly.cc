#include "codegen/c/assembly.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "codegen/c/c99.h"

namespace autotune::c {
namespace {

struct Line {
  std::string_view text;  // without space at its ends
  bool is_label = false;
};

std::vector<Line> LinesOf(const std::string& assembly) {
  std::vector<Line> lines;
  for (size_t at = 0; at < assembly.size();) {
    const size_t end = std::min(assembly.find('\n', at), assembly.size());
    std::string_view text(assembly.data() + at, end - at);
    at = end + 1;
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
    const bool is_label = text.ends_with(':');
    if (is_label) text.remove_suffix(1);
    lines.push_back({text, is_label});
  }
  return lines;
}

// Returns the label that an instruction may jump to: its last operand.
std::string_view JumpTarget(const Line& line) {
  const size_t last = line.text.find_last_of(" \t,");
  const std::string_view operand = last == std::string_view::npos ? std::string_view() : line.text.substr(last + 1);
  return operand.starts_with(".L") ? operand : std::string_view();
}

// Returns true if an instruction accesses memory relative to the stack pointer, or relative to the frame pointer in
// functions that have one.
bool UsesFrame(std::string_view text, const std::string& triple, bool frame_pointer) {
  if (text.starts_with('.') || text.starts_with('#') || text.starts_with("lea")) return false;
  auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (triple.starts_with("x86_64")) return has("(%rsp") || (frame_pointer && has("(%rbp"));
  if (triple.starts_with("aarch64")) return has("[sp");
  return has("(sp)");
}

}  // namespace

void CountSpills(const std::string& assembly, const std::string& triple, BuildFacts& facts) {
  const std::vector<Line> lines = LinesOf(assembly);
  std::map<std::string_view, size_t> labels;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].is_label) labels[lines[i].text] = i;
  }
  std::vector<char> in_loop(lines.size(), 0);  // by line: 1 if the line is in a loop over register buffers
  for (size_t mark = 0; mark < lines.size(); ++mark) {
    if (lines[mark].text.find(kLoopMark) == std::string_view::npos || lines[mark].is_label) continue;
    // Finds the innermost loop around the mark: the shortest range of lines from a label to a jump back to this label.
    size_t first = mark, last = mark, shortest = std::numeric_limits<size_t>::max();
    for (size_t i = mark; i < lines.size() && !lines[i].text.starts_with(".size"); ++i) {
      const auto label = labels.find(JumpTarget(lines[i]));
      if (label == labels.end() || label->second > mark || i - label->second >= shortest) continue;
      first = label->second, last = i, shortest = last - first;
    }
    std::fill(in_loop.begin() + static_cast<std::ptrdiff_t>(first),
              in_loop.begin() + static_cast<std::ptrdiff_t>(last) + 1, 1);
  }
  bool frame_pointer = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view text = lines[i].text;
    if (text.starts_with(".type")) frame_pointer = false;
    if (text == "movq\t%rsp, %rbp") frame_pointer = true;
    if (lines[i].is_label || !UsesFrame(text, triple, frame_pointer)) continue;
    ++facts.spills;
    facts.spills_in_register_loops += in_loop[i];
  }
}

}  // namespace autotune::c
