// The commands of `autotune` print through their console, which keeps results apart from notes and from the live line.
// Nothing below them prints, and the libraries for programs of others leave the process alone.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "tests/law/bare.h"
#include "tests/law/law.h"
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

bool IsSource(const std::string& path) { return path.ends_with(".cc") || path.ends_with(".h"); }

bool IsBelowTools(const std::string& path) {
  for (const auto& layer : Layers()) {
    for (const std::string& folder : layer) {
      if (folder != "tools" && path.starts_with(folder + "/")) return true;
    }
  }
  return false;
}

// The main functions of child processes.
const std::map<std::string, std::string> kChildren = {{"rpc/runner.cc", "the runner, which its server reads"}};

TEST(Console, ComponentsPrintNothing) {
  int seen = 0;
  for (const std::string& path : ProjectFiles()) {
    if (!IsSource(path) || !IsBelowTools(path)) continue;
    ++seen;
    EXPECT_EQ(PrintsByItself(Bare(ReadProjectFile(path))), kChildren.count(path) > 0)
        << path << ": only tools/ and the files in kChildren print";
  }
  EXPECT_GT(seen, 300);
  EXPECT_FALSE(IsBelowTools("tools/autotune/console.cc"));
}

// Whether the code ends the process or decides what its signals do.
bool TakesTheProcess(const std::string& text) {
  static const std::regex kPattern(
      R"((^|[^\w.>])(std::)?(_?exit|_Exit|quick_exit|abort|signal|sigaction|pthread_sigmask)\()");
  return std::regex_search(text, kPattern) || text.find("StopOnSignals") != std::string::npos;
}

TEST(Console, LibrariesLeaveTheProcessAlone) {
  int seen = 0;
  for (const std::string& path : ProjectFiles()) {
    if (!IsSource(path) || !(path.starts_with("api/") || path.starts_with("service/"))) continue;
    ++seen;
    EXPECT_FALSE(TakesTheProcess(Bare(ReadProjectFile(path))))
        << path << " ends the process or handles its signals, which belong to the program that loads the library";
  }
  EXPECT_GT(seen, 20);
}

TEST(Console, TakingTheProcessIsSeen) {
  for (const char* text :
       {"exit(1);", " std::abort();", "_exit(code)", "signal(SIGINT, f)", "StopOnSignals signals(1);"})
    EXPECT_TRUE(TakesTheProcess(text)) << text;
  for (const char* text : {"run.exit(1)", "has_exit(1)", "int signal = 0;", "on_signal(1)"})
    EXPECT_FALSE(TakesTheProcess(text)) << text;
}

}  // namespace
}  // namespace autotune::law
