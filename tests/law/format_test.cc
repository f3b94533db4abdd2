// Every source file is formatted as .clang-format says. The tests check nothing if clang-format is not installed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/law/tree.h"

namespace autotune::law {
namespace {

// Returns the files that clang-format would change; "" if there are none.
std::string Misformatted(const std::vector<std::string>& files) {
  std::string command = "cd '" AUTOTUNE_SOURCE_DIR "' && clang-format --style=file --dry-run -Werror";
  for (const std::string& file : files) command += " '" + file + "'";
  FILE* pipe = popen((command + " 2>&1 | grep ': error: code should be' | cut -d: -f1 | uniq").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  pclose(pipe);
  return output;
}

bool HaveClangFormat() { return std::system("command -v clang-format >/dev/null") == 0; }

TEST(Format, EverySourceIsFormatted) {
  if (!HaveClangFormat()) return;
  std::vector<std::string> files;
  for (const std::string& path : ProjectFiles()) {
    if (path.ends_with(".cc") || path.ends_with(".h")) files.push_back(path);
  }
  ASSERT_GE(files.size(), 20u);
  EXPECT_EQ(Misformatted(files), "") << "to format these files: cmake --build build --target format";
}

TEST(Format, ABadlyFormattedFileIsNoticed) {
  if (!HaveClangFormat()) return;
  std::string path = AUTOTUNE_BINARY_DIR "/tests/badly_formatted.cc";
  std::ofstream(path) << "int  f( ){return 1 ;}\n";
  EXPECT_EQ(Misformatted({path}), path + "\n");
}

}  // namespace
}  // namespace autotune::law
