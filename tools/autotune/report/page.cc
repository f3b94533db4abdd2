#include "tools/autotune/report/page.h"

#include "tools/autotune/report/page_text.h"

namespace autotune::tools::report {
namespace {

// Escapes what HTML or a script would not take for text. All of it occurs in strings of the JSON only.
std::string Escaped(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = std::string_view(json).substr(i, 3);
    if (json[i] == '<') {
      text += "\\u003c";
    } else if (json[i] == '>') {
      text += "\\u003e";
    } else if (json[i] == '&') {
      text += "\\u0026";
    } else if (rest == "\u2028" || rest == "\u2029") {
      text += rest == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += json[i];
    }
  }
  return text;
}

}  // namespace

std::string PageOf(const Json& data) { return std::string(kPageBegin) + Escaped(data.Dump()) + std::string(kPageEnd); }

void LimitSchedules(Report& report, size_t bytes) {
  size_t used = 0, left_out = 0;
  for (Kernel& kernel : report.kernels) {
    used += kernel.trace.size();
    if (used <= bytes) continue;
    used -= kernel.trace.size();
    left_out += !kernel.trace.empty();
    kernel.trace.clear();
  }
  if (left_out > 0) {
    report.notes.push_back("the schedules of " + std::to_string(left_out) +
                           " kernels are left out, so that this page stays small; --json has them all");
  }
}

Result<Json> DataOfPage(std::string_view page) {
  // The element in which kPageBegin ends, so that other versions' pages can be read, too.
  constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">", kClose = "</script>";
  const size_t begin = page.find(kOpen);
  if (begin == std::string_view::npos) return Err("the page is no report of autotune");
  const size_t end = page.find(kClose, begin);
  if (end == std::string_view::npos) return Err("the page ends within its data");
  return Json::Parse(page.substr(begin + kOpen.size(), end - begin - kOpen.size()));
}

}  // namespace autotune::tools::report
