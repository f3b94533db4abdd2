// A type has one definition: no two files of the product define types of the same name in the same namespace. A program
// that contains both would be wrong without a word from the compiler or the linker. Types of unnamed namespaces are
// private to their file (unity_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/law/bare.h"
#include "tests/law/law.h"
#include "tests/law/tree.h"

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

// Returns the types that a source defines at namespace scope, "autotune::Expr", except those of unnamed namespaces.
std::set<std::string> TypesOf(const std::string& text) {
  static const std::regex directive(R"(\n\s*#([^\n\\]|\\\n|\\.)*)"), scope(R"(\bnamespace\b\s*([\w:]*)\s*$)");
  const std::string code = std::regex_replace(Bare(text), directive, "\n");
  std::set<std::string> types;
  std::vector<std::string> scopes;  // the names of the namespaces around; "" for an unnamed one
  std::string head;
  for (size_t i = 0; i < code.size();) {
    std::smatch match;
    if (code[i] == '(') {  // a parameter list, whose default arguments may contain braces
      const size_t end = Behind(code, i);
      head += code.substr(i, end - i);
      i = end;
      continue;
    }
    if (code[i] == '{' && std::regex_search(head, match, scope)) {
      scopes.push_back(match.str(1));
      ++i;
    } else if (code[i] == '{') {
      const bool is_private = std::find(scopes.begin(), scopes.end(), "") != scopes.end();
      if (std::string type = TypeIn(head); !type.empty() && !is_private) {
        std::string name;
        for (const std::string& outer : scopes) name += outer + "::";
        types.insert(name + type);
      }
      i = Behind(code, i);
    } else if (code[i] == '}' || code[i] == ';') {
      if (code[i] == '}' && !scopes.empty()) scopes.pop_back();
      ++i;
    } else {
      head += code[i++];
      continue;
    }
    head.clear();
  }
  return types;
}

using Places = std::map<std::string, std::vector<std::string>>;  // for each type, the files that define it

// Collects the types that the components' sources define.
Places TypesOf(const std::vector<Source>& sources) {
  std::set<std::string> components;
  for (const std::vector<std::string>& layer : Layers()) components.insert(layer.begin(), layer.end());
  Places places;
  for (const Source& source : sources) {
    if (!source.path.ends_with(".cc") && !source.path.ends_with(".h")) continue;
    if (!components.contains(source.path.substr(0, source.path.find('/')))) continue;
    for (const std::string& type : TypesOf(source.text)) places[type].push_back(source.path);
  }
  return places;
}

// Returns "autotune::Machine: a.h b.h" for each type with several definitions.
std::vector<std::string> TwinTypes(const Places& places) {
  std::vector<std::string> twins;
  for (const auto& [type, paths] : places) {
    if (paths.size() < 2) continue;
    std::string line = type + ":";
    for (const std::string& path : paths) line += " " + path;
    twins.push_back(line);
  }
  return twins;
}

TEST(Types, ATypeHasOneDefinition) {
  std::vector<Source> sources;
  for (const std::string& path : ProjectFiles()) {
    if (path.ends_with(".cc") || path.ends_with(".h")) sources.push_back({path, ReadProjectFile(path)});
  }
  const Places places = TypesOf(sources);
  EXPECT_GE(places.size(), 300u) << "the scan finds hardly any types";
  EXPECT_THAT(TwinTypes(places), IsEmpty()) << "rename one, or move it into an unnamed namespace";
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
  EXPECT_THAT(TwinTypes(TypesOf({{"target/a.h", one}, {"codegen/b.h", "namespace autotune { class Machine {}; }"}})),
              ElementsAre("autotune::Machine: target/a.h codegen/b.h"));
  EXPECT_THAT(TwinTypes(TypesOf({{"target/a.h", one}, {"ir/b.h", "namespace autotune::ir { class Machine {}; }"}})),
              IsEmpty());
  EXPECT_THAT(TwinTypes(TypesOf({{"target/a.h", one}, {"ir/b.h", "namespace autotune { struct Machine; }"}})),
              IsEmpty());
  EXPECT_THAT(TwinTypes(TypesOf({{"target/a.h", one}, {"tests/b.h", one}, {"bench/b.h", one}})), IsEmpty());
}

}  // namespace
}  // namespace autotune::law
