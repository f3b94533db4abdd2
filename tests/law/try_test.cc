// TRY must not be inside a braced list of initializers: when TRY returns, gcc 12 does not destroy the list's elements
// that have been constructed already (support/result.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "tests/law/bare.h"
#include "tests/law/tree.h"

namespace autotune::law {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns the lines where the innermost braces around a TRY or TRY_NOTE are a list. Braces are a list if they contain
// neither a semicolon nor a keyword of a statement.
std::vector<int> TriesInLists(const std::string& text) {
  struct Braces {
    bool code = false;
    std::vector<int> tries;
  };
  std::vector<Braces> open(1);
  std::vector<int> found;
  std::string bare = Bare(text), word;
  int line = 1;
  for (char c : bare) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (c == '(' && (word == "TRY" || word == "TRY_NOTE")) open.back().tries.push_back(line);
    if (word == "if" || word == "for" || word == "while" || word == "switch") open.back().code = true;
    word.clear();
    line += c == '\n';
    if (c == ';') open.back().code = true;
    if (c == '{') open.emplace_back();
    if (c == '}' && open.size() > 1) {
      if (!open.back().code) found.insert(found.end(), open.back().tries.begin(), open.back().tries.end());
      open.pop_back();
    }
  }
  return found;
}

TEST(Try, StandsInNoBracedList) {
  int files = 0;
  for (const std::string& path : ProjectFiles()) {
    if (!path.ends_with(".cc") && !path.ends_with(".h")) continue;
    ++files;
    for (int line : TriesInLists(ReadProjectFile(path)))
      ADD_FAILURE() << path << ":" << line << ": TRY inside a braced list";
  }
  EXPECT_GE(files, 20);
}

TEST(Try, ListsAreToldFromCode) {
  EXPECT_THAT(TriesInLists("Pair p{a,\n       TRY(F())};"), ElementsAre(2));
  EXPECT_THAT(TriesInLists("v.push_back({name, TRY_NOTE(F(), \"x;\")});"), ElementsAre(1));
  EXPECT_THAT(TriesInLists("return Pair{[&] { return 1; }(), g(TRY(F()))};"), ElementsAre(1));
  EXPECT_THAT(TriesInLists("Status G() { return H({1, 2}, TRY(F())); }"), IsEmpty());
  EXPECT_THAT(TriesInLists("S s{[&]() -> Status { TRY(F()); return {}; }};"), IsEmpty());
  EXPECT_THAT(TriesInLists("x = {a, \"{\", '{', R\"({)\"}; // {\nTRY(F());"), IsEmpty());
  EXPECT_THAT(TriesInLists("{ for (int i : TRY(F())) { G(i); } }"), IsEmpty());
  EXPECT_THAT(TriesInLists("if (1'000 < n) { TRY(F()); }"), IsEmpty());
}

}  // namespace
}  // namespace autotune::law
