// Reads and writes the files of tests/schedule/golden: a function, steps, the function after them, and traces whose
// last step is refused, each with its message. Header-only.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schedule/step.h"

namespace autotune::zoo {

struct Golden {
  std::string before, trace, after;
  std::vector<std::pair<std::string, std::string>> fails;  // trace and message
};

// Returns the names of all kinds of steps, in the order of `Step`.
inline std::vector<std::string> StepNames() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return std::vector<std::string>{std::string(std::variant_alternative_t<I, AnyStep>::kName)...};
  }
  (std::make_index_sequence<std::variant_size_v<AnyStep>>());
}

inline std::vector<std::filesystem::path> GoldenFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(AUTOTUNE_SOURCE_DIR "/tests/schedule/golden")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline Golden ReadGolden(const std::filesystem::path& path) {
  std::ifstream in(path);
  Golden golden;
  int section = 0;
  std::string line, trace;
  while (std::getline(in, line)) {
    if (line.starts_with("--- ")) {
      ++section;
    } else if (section == 3 && line.starts_with("=>")) {
      golden.fails.push_back({trace, line.substr(std::min<size_t>(3, line.size()))});
      trace.clear();
    } else {
      (section == 0 ? golden.before : section == 1 ? golden.trace : section == 2 ? golden.after : trace) += line + "\n";
    }
  }
  return golden;
}

inline void WriteGolden(const std::filesystem::path& path, const Golden& golden) {
  std::ofstream out(path);
  out << golden.before << "--- trace\n" << golden.trace << "--- after\n" << golden.after << "--- fails\n";
  for (const auto& [trace, message] : golden.fails) out << trace << "=> " << message << "\n";
}

}  // namespace autotune::zoo
