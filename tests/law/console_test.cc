// The commands of `autotune` print through their console, which keeps results apart from notes and from the live line.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "tests/law/tree.h"

namespace autotune::law {
namespace {

const std::map<std::string, std::string> kPrinters = {
    {"tools/autotune/console.cc", "the console"},
    {"tools/autotune/main.cc", "the help of a command line without a command"},
};

bool PrintsByItself(const std::string& text) {
  static const std::regex kPattern(R"((^|[^\w])(std::)?(printf|puts|putchar|fprintf|fputs|fwrite)\(|std::(cout|cerr))");
  return std::regex_search(text, kPattern);
}

TEST(Console, OnlyTheConsolePrints) {
  std::set<std::string> found;
  for (const std::string& path : ProjectFiles()) {
    if (!path.starts_with("tools/autotune/") || !(path.ends_with(".cc") || path.ends_with(".h"))) continue;
    if (!PrintsByItself(ReadProjectFile(path))) continue;
    found.insert(path);
    EXPECT_TRUE(kPrinters.count(path)) << path << " prints by itself: use the console (tools/autotune/console.h)";
  }
  for (const auto& [path, what] : kPrinters)
    EXPECT_TRUE(found.count(path)) << path << " prints nothing (" << what << "): remove it from kPrinters";
}

TEST(Console, PrintingIsSeen) {
  for (const char* text : {"std::printf(\"%d\", 1)", "  fprintf(stderr, text)", "std::cout << 1", "fputs(x, stdout)"})
    EXPECT_TRUE(PrintsByItself(text)) << text;
  for (const char* text : {"std::snprintf(text, n, \"\")", "console.Result(text)", "std::fgets(line, n, stdin)"})
    EXPECT_FALSE(PrintsByItself(text)) << text;
}

}  // namespace
}  // namespace autotune::law
