// No source file is longer than 500 lines: a longer file has several concerns, and each of them should have its own
// file.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/law/tree.h"

namespace autotune::law {
namespace {

constexpr int64_t kMaxFileLines = 500;

bool IsSource(const std::string& path) {
  for (const char* end : {".cc", ".h", ".c", ".py", ".sh", ".cmake", "CMakeLists.txt"}) {
    if (path.ends_with(end)) return true;
  }
  return false;
}

int64_t LinesOf(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') + (!text.empty() && text.back() != '\n');
}

TEST(Length, NoSourceIsTooLong) {
  int files = 0;
  for (const std::string& path : ProjectFiles()) {
    if (!IsSource(path)) continue;
    ++files;
    int64_t lines = LinesOf(ReadProjectFile(path));
    EXPECT_LE(lines, kMaxFileLines) << path << " is too long: move one of its concerns to a new file";
  }
  EXPECT_GE(files, 20);
}

// A first reader must get through the README.
TEST(Length, TheReadmeIsShort) { EXPECT_LT(LinesOf(ReadProjectFile("README.md")), 150); }

TEST(Length, LinesAreCounted) {
  EXPECT_EQ(LinesOf(""), 0);
  EXPECT_EQ(LinesOf("a"), 1);
  EXPECT_EQ(LinesOf("a\n\n"), 2);
  EXPECT_EQ(LinesOf("a\n\nb"), 3);
  EXPECT_TRUE(IsSource("tests/law/length_test.cc"));
  EXPECT_FALSE(IsSource("docs/ir.md"));
}

}  // namespace
}  // namespace autotune::law
