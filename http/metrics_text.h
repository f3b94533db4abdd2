// MetricsText writes metrics in the text format of Prometheus, version 0.0.4. Not thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autotune::http {

class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // Begins a metric. Its samples follow. `type`: "counter", "gauge" or "histogram".
  void Begin(const std::string& name, const std::string& type, const std::string& help);
  // `suffix` of the metric's name: of a histogram "_bucket", "_sum" or "_count".
  void Add(const Labels& labels, double value, const std::string& suffix = "");
  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

}  // namespace autotune::http
