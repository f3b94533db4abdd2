// Reads metrics in the text format of Prometheus, version 0.0.4, strictly. It shares no code with the writer.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace autotune::http {

struct Metrics {
  std::map<std::string, double> samples;     // by the text before the value: name{label="value",...}
  std::map<std::string, std::string> types;  // by metric
  std::string fault;                         // the first line that is wrong, and why; empty: all is right
};

class MetricsParser {
 public:
  static Metrics Parse(const std::string& text) {
    MetricsParser parser;
    if (!text.empty() && text.back() != '\n') parser.out_.fault = "the last line does not end";
    std::istringstream lines(text);
    for (std::string line; parser.out_.fault.empty() && std::getline(lines, line);) {
      const std::string why = parser.Line(line);
      if (!why.empty()) parser.out_.fault = why + ": " + line;
    }
    if (parser.out_.fault.empty()) parser.out_.fault = parser.CheckHistograms();
    return parser.out_;
  }

 private:
  static bool IsName(const std::string& text, bool colons) {
    if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
    for (const char c : text)
      if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (colons && c == ':'))) return false;
    return true;
  }

  std::string Line(const std::string& line) {
    if (line.empty()) return "";
    if (line.starts_with("# ")) {
      std::istringstream words(line.substr(2));
      std::string what, name, type;
      words >> what >> name >> type;
      if (what != "HELP" && what != "TYPE") return "";  // a comment
      if (!IsName(name, true)) return "no name of a metric";
      if (what == "HELP") return helped_.insert(name).second ? "" : "a second HELP";
      if (type != "counter" && type != "gauge" && type != "histogram" && type != "summary" && type != "untyped")
        return "no type";
      if (!out_.types.emplace(name, type).second) return "a second TYPE";
      if (type == "counter" && !name.ends_with("_total")) return "a counter is called _total";
      current_ = name;
      return "";
    }
    return Sample(line);
  }

  std::string Sample(const std::string& line) {
    size_t at = line.find_first_of("{ ");
    if (at == std::string::npos) return "no value";
    const std::string name = line.substr(0, at);
    if (!IsName(name, true)) return "no name";
    const bool histogram = !current_.empty() && out_.types[current_] == "histogram";
    const bool belongs = histogram
                             ? name == current_ + "_bucket" || name == current_ + "_sum" || name == current_ + "_count"
                             : name == current_;
    if (!belongs) return "the sample does not follow its TYPE";
    std::set<std::string> labels;
    if (line[at] == '{') {
      ++at;
      while (line[at] != '}') {
        const size_t equals = line.find("=\"", at);
        if (equals == std::string::npos) return "no label";
        const std::string label = line.substr(at, equals - at);
        if (!IsName(label, false) || !labels.insert(label).second) return "a wrong label";
        at = equals + 2;
        for (; at < line.size() && line[at] != '"'; ++at) {
          if (line[at] != '\\') continue;
          if (++at >= line.size() || (line[at] != '\\' && line[at] != '"' && line[at] != 'n')) return "a wrong escape";
        }
        if (++at >= line.size()) return "a label does not end";
        if (line[at] == ',') ++at;
      }
      ++at;
    }
    if (at >= line.size() || line[at] != ' ') return "no space before the value";
    const std::string number = line.substr(at + 1);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0') return "no number";
    if (out_.types[current_] == "counter" && !(value >= 0)) return "a counter below 0";
    if (!out_.samples.emplace(line.substr(0, at), value).second) return "a second sample";
    if (name == current_ + "_bucket") buckets_[current_].push_back(value);
    return "";
  }

  std::string CheckHistograms() {
    for (const auto& [name, type] : out_.types) {
      if (type != "histogram") continue;
      const std::string infinite = name + "_bucket{le=\"+Inf\"}";
      if (!out_.samples.contains(infinite) || !out_.samples.contains(name + "_sum")) return name + " is not complete";
      if (out_.samples[infinite] != out_.samples[name + "_count"]) return name + ": +Inf is not the count";
      if (!std::is_sorted(buckets_[name].begin(), buckets_[name].end())) return name + " does not grow";
    }
    return "";
  }

  Metrics out_;
  std::string current_;
  std::set<std::string> helped_;
  std::map<std::string, std::vector<double>> buckets_;
};

}  // namespace autotune::http
