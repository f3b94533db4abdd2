// Every step, before -> after, and what it refuses. A file of tests/schedule/golden is: a function; the steps; the
// function afterwards; traces whose last step is refused, each with the message. AUTOTUNE_UPDATE_GOLDENS=1 rewrites
// what follows from the steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

struct Golden {
  std::string before, trace, after;
  std::vector<std::pair<std::string, std::string>> fails;  // trace, message
};

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(AUTOTUNE_SOURCE_DIR "/tests/schedule/golden")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Golden Read(const std::filesystem::path& path) {
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

void Write(const std::filesystem::path& path, const Golden& golden) {
  std::ofstream out(path);
  out << golden.before << "--- trace\n" << golden.trace << "--- after\n" << golden.after << "--- fails\n";
  for (const auto& [trace, message] : golden.fails) out << trace << "=> " << message << "\n";
}

TEST(Golden, StepsBeforeAndAfter) {
  bool update = getenv("AUTOTUNE_UPDATE_GOLDENS") != nullptr;
  std::set<size_t> legal, refused;  // step types seen
  for (const auto& path : Files()) {
    SCOPED_TRACE(path.filename());
    Golden golden = Read(path);
    auto before = ParsePrimFunc(golden.before);
    ASSERT_TRUE(before.ok()) << before.error().Text();
    Schedule schedule = zoo::Scheduled(*before, golden.trace);
    zoo::ExpectSame(*before, schedule.func());
    for (const Step& step : schedule.trace()) legal.insert(step.index());
    if (update) {
      golden.trace = ToText(schedule.trace());
      golden.after = ToText(schedule.func());
    }
    EXPECT_EQ(ToText(schedule.trace()), golden.trace);
    EXPECT_EQ(ToText(schedule.func()), golden.after);
    EXPECT_FALSE(golden.fails.empty());
    for (auto& [trace, message] : golden.fails) {
      std::string error = zoo::ErrorOf(*before, trace);
      EXPECT_NE(error, "") << trace << "is legal";
      if (update) message = error;
      EXPECT_EQ(error, message) << trace;
      auto steps = ParseTrace(trace);
      if (steps.ok()) refused.insert(steps->back().index());
    }
    if (update) Write(path, golden);
  }
  for (size_t i = 0; i < std::variant_size_v<Step>; ++i) {
    EXPECT_TRUE(legal.contains(i)) << "no golden has step type " << i;
    EXPECT_TRUE(refused.contains(i)) << "no golden refuses step type " << i;
  }
}

}  // namespace
}  // namespace autotune
