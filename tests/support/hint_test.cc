// Hints survive what callers do to an error.
#include "support/hint.h"

#include <gtest/gtest.h>

#include "support/edit_distance.h"

namespace autotune {
namespace {

TEST(Hint, StaysBesideTheMessage) {
  Error error = WithHint(Err("there is no file x"), "name another one");
  EXPECT_EQ(error.message, "there is no file x");
  error = Prefixed("cannot start: ", std::move(error).Note("while loading"));
  EXPECT_EQ(error.Text(), "cannot start: there is no file x (hint: name another one; while loading)");
  EXPECT_EQ(Prefixed("cannot start: ", OutOfMemory("x")).kind, ErrorKind::kOutOfMemory);
}

TEST(Hint, SuggestsNearWordsOnly) {
  const std::vector<std::string> words = {"width", "height"};
  EXPECT_EQ(WithSuggestion(Err("unknown"), "widht", words).Text(), "unknown (hint: did you mean width?)");
  EXPECT_EQ(WithSuggestion(Err("unknown"), "colour", words).Text(), "unknown");
}

}  // namespace
}  // namespace autotune
