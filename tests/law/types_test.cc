// A type has one definition: no two files of the product define types of the same name in the same namespace. In a
// program that contains both, code of one file may run on objects of the other, and neither compiler nor linker reports
// it. Types of unnamed namespaces are private to their file (unity_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tests/law/definitions.h"

namespace autotune::law {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// `head` is the code before a brace. Returns the name of the type that the brace defines; "" if it defines none, or a
// specialization of a template.
std::string TypeIn(const std::string& head) {
  static const std::regex form(R"(^\s*(?:template\s*<.*>\s*)?(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+)"
                               R"((?:\[\[.*\]\]\s*)?(?:alignas\s*\(.*\)\s*)?(\w+)\s*(?:final\s*)?(?::(?!:)[\s\S]*)?$)");
  std::smatch match;
  return std::regex_match(head, match, form) ? match.str(1) : "";
}

// Returns the type with its namespaces, "autotune::Expr". Types of unnamed namespaces do not count.
std::string FullType(const Definition& definition) {
  const std::string type = TypeIn(definition.head);
  const auto& scopes = definition.namespaces;
  if (type.empty() || std::find(scopes.begin(), scopes.end(), "") != scopes.end()) return "";
  std::string name;
  for (const std::string& scope : scopes) name += scope + "::";
  return name + type;
}

std::set<std::string> TypesOf(const std::string& text) { return NamesOf(text, FullType); }

std::vector<std::string> TwinTypes(const std::vector<Source>& sources) { return Twins(PlacesOf(sources, FullType)); }

TEST(Types, ATypeHasOneDefinition) {
  const Places places = PlacesInProject(FullType);
  EXPECT_GE(places.size(), 300u) << "the scan finds hardly any types";
  EXPECT_THAT(Twins(places), IsEmpty()) << "rename one, or move it into an unnamed namespace";
}

TEST(Types, AreFound) {
  EXPECT_THAT(
      TypesOf("#include <a>\nnamespace x::y {\nstruct A { struct Inner { int i; }; };\nclass B final : public A {\n};\n"
              "enum class E : uint8_t { kA };\ntemplate <class T>\nclass [[nodiscard]] R {};\n"
              "int F(A a = {}) { struct Local {}; return 0; }\nnamespace z { union U {}; }\nstruct Late {};\n}"),
      ElementsAre("x::y::A", "x::y::B", "x::y::E", "x::y::Late", "x::y::R", "x::y::z::U"));
  EXPECT_THAT(
      TypesOf("namespace x {\nnamespace {\nstruct Mine {};\n}\nclass Later;\nstruct A make() { return {}; }\n}\n"
              "template <>\nstruct std::hash<int> {};\nstruct S::Tools { int i; };\n// struct C {};\n"
              "const char* kText = \"struct D {}\";\n"),
      IsEmpty());
}

TEST(Types, SecondDefinitionsAreNamed) {
  const std::string one = "namespace autotune {\nstruct Machine { int i; };\n}";
  EXPECT_THAT(TwinTypes({{"target/a.h", one}, {"codegen/b.h", "namespace autotune { class Machine {}; }"}}),
              ElementsAre("autotune::Machine: target/a.h codegen/b.h"));
  EXPECT_THAT(TwinTypes({{"target/a.h", one}, {"ir/b.h", "namespace autotune::ir { class Machine {}; }"}}), IsEmpty());
  EXPECT_THAT(TwinTypes({{"target/a.h", one}, {"ir/b.h", "namespace autotune { struct Machine; }"}}), IsEmpty());
  EXPECT_THAT(TwinTypes({{"target/a.h", one}, {"tests/b.h", one}, {"bench/b.h", one}}), IsEmpty());
}

}  // namespace
}  // namespace autotune::law
