// A helper has one definition: no two files of the product define a function of the same name and parameter types at
// namespace scope. A bug that is fixed in one of two definitions would stay in the other. Methods and operators are not
// checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/law/bare.h"
#include "tests/law/definitions.h"

namespace autotune::law {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Stripped(const std::string& text, const std::regex& what) { return std::regex_replace(text, what, ""); }

// Returns the type of a parameter: "const ir::Expr& e = {}" -> "Expr".
std::string TypeOf(std::string parameter) {
  static const std::regex qualifier(R"(\bconst\b|\w+::)"), space(R"(\s)"), reference(R"([\s&])");
  parameter = Stripped(parameter.substr(0, parameter.find('=')), qualifier);
  static const std::regex named(R"(^\s*(.*[\s&*>])\s*\w+\s*$)");
  std::smatch match;
  if (std::regex_match(parameter, match, named) && !Stripped(match[1], space).empty()) parameter = match[1];
  return Stripped(parameter, reference);
}

// `head` is the code before a brace. Returns a function's name and parameter types, "Add(Expr, int64_t)"; "" if the
// brace does not begin a function's body.
std::string SignatureOf(std::string head) {
  static const std::regex macro(R"(\b[A-Z_]+\([^()]*\)(?=\s*[\w\[]))");  // a macro before a declaration
  head = Stripped(head, macro);
  static const std::regex not_a_function(R"(^\s*(template\s*<.*>\s*)?(class|struct|union|enum|using|concept)\b)");
  if (std::regex_search(head, not_a_function)) return "";
  int angles = 0;
  size_t open = 0;
  while (open < head.size() && (head[open] != '(' || angles > 0)) {
    angles += head[open] == '<' ? 1 : head[open] == '>' ? -1 : 0;
    ++open;
  }
  if (open == head.size() || head.find('=') < open) return "";
  static const std::regex name_form(R"(([\w:~]+)\s*$)");
  std::smatch name;
  const std::string before = head.substr(0, open);
  if (!std::regex_search(before, name, name_form) || name.str(1).find(':') != std::string::npos) return "";
  if (before.find("operator") != std::string::npos || name.str(1) == "main" || name.str(1) == "decltype") return "";
  std::string signature = name.str(1) + "(", parameter;
  const std::string parameters = head.substr(open + 1, Behind(head, open) - open - 2) + ",";
  int depth = 0;
  for (char c : parameters) {
    depth += std::string("<({[").find(c) != std::string::npos ? 1 : 0;
    depth -= std::string(">)}]").find(c) != std::string::npos ? 1 : 0;
    if (c != ',' || depth > 0) {
      parameter += c;
      continue;
    }
    signature += (signature.ends_with('(') ? "" : ", ") + TypeOf(parameter);
    parameter.clear();
  }
  return signature + ")";
}

std::string Signature(const Definition& definition) { return SignatureOf(definition.head); }

std::set<std::string> FunctionsOf(const std::string& text) { return NamesOf(text, Signature); }

std::vector<std::string> TwinFunctions(const std::vector<Source>& sources) {
  return Twins(PlacesOf(sources, Signature));
}

TEST(Twins, AHelperHasOneDefinition) {
  Places places = PlacesInProject(Signature);
  EXPECT_GE(places.size(), 1000u) << "the scan finds hardly any functions";
  int stubs = 0;
  for (auto& [function, files] : places) stubs += static_cast<int>(std::erase(files, "service/no_llvm.cc"));
  EXPECT_GE(stubs, 5) << "the file that takes the place of codegen/llvm/ has moved";
  EXPECT_THAT(Twins(places), IsEmpty()) << "give the helper one home: ir/, arith/, support/ or its component";
}

TEST(Twins, FunctionsAreFound) {
  EXPECT_THAT(FunctionsOf("#include <a>\nnamespace x {\nnamespace {\n"
                          "int64_t Half(int64_t a) { if (a) { return a / 2; } return 0; }  // f() {\n}\n"
                          "static bool Any(const std::vector<std::pair<Name, Expr>>& list, const ir::Name& n = {}) {}\n"
                          "template <class T>\nstd::optional<T> Find(std::span<const T> in, F&& f) {\n}\n}"),
              ElementsAre("Any(vector<pair<Name,Expr>>, Name)", "Find(span<T>, F)", "Half(int64_t)"));
  EXPECT_THAT(FunctionsOf("struct S { int F() { return 1; } };\nint S::F(int) {}\nint G(int);\nint H(S s = {});\n"
                          "constexpr int k[] = {1};\nauto f = [](int a) { return a; };\nenum class E { kA };\n"
                          "bool operator==(S, S) { return true; }\nint main(int, char**) {}\n#define F(x) { x }\n"),
              IsEmpty());
}

TEST(Twins, SecondDefinitionsAreNamed) {
  const std::string one = "namespace { int Half(int a) { return a / 2; } }";
  EXPECT_THAT(TwinFunctions({{"ir/a.cc", one}, {"te/b.cc", "static int Half(const int b) { return b >> 1; }"}}),
              ElementsAre("Half(int): ir/a.cc te/b.cc"));
  EXPECT_THAT(TwinFunctions({{"ir/a.cc", one}, {"te/b.cc", "double Half(double b) { return b / 2; }"}}), IsEmpty());
  EXPECT_THAT(TwinFunctions({{"ir/a.cc", one}, {"ir/a.h", "int Half(int a);"}}), IsEmpty());
  EXPECT_THAT(TwinFunctions({{"ir/a.cc", one}, {"tests/b.cc", one}, {"bench/b.cc", one}}), IsEmpty());
}

}  // namespace
}  // namespace autotune::law
