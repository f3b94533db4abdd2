// No function of the product has more than kMaxLines lines. A longer function does several things, and each of them
// should be a function with its own name. The functions in kExceptions may be longer, for the reason given there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "tests/law/bare.h"
#include "tests/law/tree.h"

namespace autotune::law {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kMaxLines = 80;  // from the first line of the signature to the closing brace

// Keys: file and function; value: the reason.
const std::map<std::pair<std::string, std::string>, std::string> kExceptions = {
    {{"graph/to_te.cc", "Compute"}, "a table: one case per operator; the compiler names a missing one"},
};

struct Function {
  std::string name;
  int line = 0;  // line of the signature
  int lines = 0;
};

// Kinds of a pair of braces. A container (namespace, class) holds functions. kOther: any other braces, and all braces
// inside a function.
enum class Braces { kContainer, kFunction, kOther };

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool HasWord(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    // The "class" in "<class T>" does not count: it begins a template's parameter.
    if ((at == 0 || std::isspace(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '>') &&
        (end == text.size() || !IsWordChar(text[end])))
      return true;
  }
  return false;
}

// Returns the kind of a brace. `head` is the text between it and the last semicolon or brace before it.
Braces KindOf(const std::string& head) {
  const size_t parenthesis = head.find('(');
  if (parenthesis == std::string::npos) {
    for (const char* word : {"namespace", "class", "struct", "union", "enum", "extern"}) {
      if (HasWord(head, word)) return Braces::kContainer;
    }
    return Braces::kOther;
  }
  return HasWord(head.substr(0, parenthesis), "alignas") ? Braces::kContainer : Braces::kFunction;
}

// Returns the name before the first parenthesis of a signature, with its class.
std::string NameIn(const std::string& head) {
  size_t end = head.find('(');
  if (size_t op = head.find("operator"); op < end) {
    if (head.compare(op, 10, "operator()") == 0) end = op + 10;
  } else {
    while (end > 0 && std::isspace(static_cast<unsigned char>(head[end - 1]))) --end;
  }
  const size_t space = head.find_last_of(" \n*&>", end - 1);
  return head.substr(space == std::string::npos ? 0 : space + 1, end - (space == std::string::npos ? 0 : space + 1));
}

// Returns the text with empty lines in place of preprocessor directives.
std::string WithoutDirectives(const std::string& text) {
  std::string result;
  bool directive = false;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    directive = directive || line.find_first_not_of(' ') == line.find('#');
    bool starts = !line.empty() && line.find_first_not_of(' ') != std::string::npos;
    if (!starts) directive = false;
    if (!directive) result += line;
    if (directive) directive = line.ends_with('\\');
    result += '\n';
    begin = end + 1;
  }
  return result;
}

// Returns whether `head` ends with an access specifier, which is no part of the signature after it.
bool EndsSpecifier(const std::string& head) {
  return head.ends_with("public:") || head.ends_with("private:") || head.ends_with("protected:");
}

// Returns the functions in a C++ source, in order. Lambdas and local classes belong to the function around them.
std::vector<Function> FunctionsIn(const std::string& source) {
  const std::string text = WithoutDirectives(Bare(source));
  std::vector<Function> functions;
  std::vector<Braces> open;
  std::string head;
  int line = 1, head_line = 1, parentheses = 0;
  bool inside = false;  // inside braces that are not a container
  auto restart = [&] { head.clear(), head_line = line; };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' && (inside || parentheses == 0)) {
      open.push_back(inside ? Braces::kOther : KindOf(head));
      if (!inside && open.back() == Braces::kFunction) functions.push_back({NameIn(head), head_line, 0});
      inside = open.back() != Braces::kContainer;
      restart();
    } else if (c == '}' && !open.empty() && (inside || parentheses == 0)) {
      const bool function = open.back() == Braces::kFunction;
      open.pop_back();
      inside = !open.empty() && open.back() != Braces::kContainer;
      if (function) functions.back().lines = line - functions.back().line + 1;
      restart();
    } else if ((c == ';' || EndsSpecifier(head + c)) && parentheses == 0) {
      restart();
    } else if (c == '\n') {
      ++line;
      // An empty line ends the text before a signature, such as a macro without a semicolon. A blanked comment is an
      // empty line, too.
      if (parentheses == 0 && text.find_first_not_of(" ", i + 1) == text.find('\n', i + 1)) head.clear();
      if (head.find_first_not_of(" \n") == std::string::npos) restart();
      head += c;
    } else {
      if (!inside) parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
      head += c;
    }
  }
  return functions;
}

bool IsProduct(const std::string& path) {
  for (const char* other : {"tests/", "bench/", "scripts/", "examples/"}) {
    if (path.starts_with(other)) return false;
  }
  return path.ends_with(".cc") || path.ends_with(".h");
}

TEST(FunctionLength, NoFunctionIsTooLong) {
  size_t count = 0;
  std::set<std::pair<std::string, std::string>> needed;
  for (const std::string& path : ProjectFiles()) {
    if (!IsProduct(path)) continue;
    for (const Function& f : FunctionsIn(ReadProjectFile(path))) {
      ++count;
      if (f.lines <= kMaxLines) continue;
      needed.insert({path, f.name});
      EXPECT_TRUE(kExceptions.contains({path, f.name}))
          << path << ":" << f.line << ": " << f.name << " has " << f.lines << " lines, of at most " << kMaxLines
          << ": split it into several functions";
    }
  }
  EXPECT_GE(count, 3000u) << "the scan finds too few functions";
  for (const auto& [function, reason] : kExceptions) {
    EXPECT_TRUE(needed.contains(function))
        << function.first << ": " << function.second << " is short enough: remove the exception";
  }
}

// Returns name:line:lines for each function.
std::vector<std::string> Found(const std::string& source) {
  std::vector<std::string> found;
  for (const Function& f : FunctionsIn(source)) {
    found.push_back(f.name + ":" + std::to_string(f.line) + ":" + std::to_string(f.lines));
  }
  return found;
}

TEST(FunctionLength, FunctionsAreFoundAndCounted) {
  EXPECT_THAT(Found("int F() { return 1; }"), ElementsAre("F:1:1"));
  EXPECT_THAT(Found("namespace a {\n\nint F(int a,\n      int b) {\n  return a;\n}\n}\n"), ElementsAre("F:3:4"));
  EXPECT_THAT(Found("class A {\n public:\n  A() : b_(1), c_{2} {}\n  int F() const override {\n    if (b_) {\n    }\n"
                    "    return 1;\n  }\n};\nstruct B Make() {\n}\n"),
              testing::Contains("F:4:5"));
  EXPECT_THAT(Found("struct B Make() {\n}"), ElementsAre("Make:1:2"));
  EXPECT_THAT(Found("bool X::operator()(int a) {\n}\nbool operator==(A a, B b) {\n}"),
              ElementsAre("X::operator():1:2", "operator==:3:2"));
  EXPECT_THAT(Found("auto F() -> int {\n}"), ElementsAre("F:1:2"));
  EXPECT_THAT(Found("class A {\n public:\n  int F() {\n  }\n};"), ElementsAre("F:3:2"));
}

TEST(FunctionLength, LambdasAndBracesBelongToTheFunctionAround) {
  EXPECT_THAT(
      Found("void F() {\n  auto g = [](int x) {\n    return x;\n  };\n  struct L { int M() { return 1; } };\n}"),
      ElementsAre("F:1:6"));
  EXPECT_THAT(Found("void F(std::vector<int> v = {},\n       int n = 1) {\n  G({1, 2});\n}"), ElementsAre("F:1:4"));
}

TEST(FunctionLength, CommentsMacrosAndDataDoNotCount) {
  EXPECT_THAT(Found("FIELDS(a, b)\n\n// about F\nvoid F() {\n}"), ElementsAre("F:4:2"));
  EXPECT_THAT(Found("// {\nconst char* kText = R\"({ ( {)\";\nint kTable[] = {1, 2};\n#define M(x) \\\n  { x \\\n  (\n"
                    "void F() {\n}"),
              ElementsAre("F:7:2"));
  EXPECT_THAT(Found("struct A {\n  int b = 1;\n};\nenum class E { kA };\nint F();\n"), IsEmpty());
}

TEST(FunctionLength, ALongFunctionIsNoticed) {
  auto lines = [](int n) {
    std::string text = "int F() {\n";
    for (int i = 0; i < n - 2; ++i) text += "  G();\n";
    return FunctionsIn(text + "}\n").at(0).lines;
  };
  EXPECT_EQ(lines(kMaxLines), kMaxLines);
  EXPECT_EQ(lines(kMaxLines + 1), kMaxLines + 1);
}

TEST(FunctionLength, TheProductIsToldFromTheRest) {
  EXPECT_TRUE(IsProduct("tuner/search.cc"));
  EXPECT_FALSE(IsProduct("tests/law/law.cc"));
  EXPECT_FALSE(IsProduct("docs/ir.md"));
}

}  // namespace
}  // namespace autotune::law
