#include "http/metrics_text.h"

#include <cmath>

#include "support/printf_text.h"

namespace autotune::http {
namespace {

std::string Escape(std::string_view text, bool quotes) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\\' || (quotes && c == '"')) {
      escaped += {'\\', c};
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return Format("%.17g", value);
}

}  // namespace

void MetricsText::Begin(const std::string& name, const std::string& type, const std::string& help) {
  name_ = name;
  text_ += "# HELP " + name + " " + Escape(help, false) + "\n# TYPE " + name + " " + type + "\n";
}

void MetricsText::Add(const Labels& labels, double value, const std::string& suffix) {
  text_ += name_ + suffix;
  for (size_t i = 0; i < labels.size(); ++i)
    text_ += (i == 0 ? "{" : ",") + labels[i].first + "=\"" + Escape(labels[i].second, true) + "\"";
  text_ += (labels.empty() ? " " : "} ") + NumberText(value) + "\n";
}

}  // namespace autotune::http
