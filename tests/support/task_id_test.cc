#include "support/task_id.h"

#include <gmock/gmock.h>

namespace autotune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string HashOf(std::string begin) { return begin + std::string(32 - begin.size(), '0'); }

TEST(TaskId, IsTheFirstDigitsOfTheHash) {
  Hash128 hash{0x0123456789abcdefULL, 0xfedcba9876543210ULL};
  EXPECT_EQ(ShortTaskId(hash), "01234567");
  EXPECT_EQ(ShortTaskId(hash.Hex()), "01234567");
}

TEST(TaskId, PrefixesAreLowerCaseHexDigits) {
  EXPECT_TRUE(IsTaskIdPrefix("0"));
  EXPECT_TRUE(IsTaskIdPrefix(HashOf("abcdef")));
  EXPECT_FALSE(IsTaskIdPrefix(""));
  EXPECT_FALSE(IsTaskIdPrefix("ABC"));
  EXPECT_FALSE(IsTaskIdPrefix("conv2d"));
  EXPECT_FALSE(IsTaskIdPrefix(HashOf("abcdef") + "0"));
}

TEST(TaskId, OnePrefixMeansOneTask) {
  std::vector<std::string> hashes = {HashOf("12345678a"), HashOf("12345678b"), HashOf("9"), HashOf("9")};
  EXPECT_EQ(FindTask(hashes, "9").value(), HashOf("9")) << "a task that is listed twice is not ambiguous";
  EXPECT_EQ(FindTask(hashes, "12345678b").value(), HashOf("12345678b"));
  Result<std::string> none = FindTask(hashes, "77");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().Text(), HasSubstr("begins with 77"));
}

TEST(TaskId, AnAmbiguousPrefixNamesTheTasksWithDigitsThatTellThemApart) {
  std::vector<std::string> hashes = {HashOf("12345678a"), HashOf("12345678b"), HashOf("12")};
  Result<std::string> two = FindTask(hashes, "12345678");
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(two.error().Text(), AllOf(HasSubstr("2 tasks"), HasSubstr("12345678a, 12345678b (hint: ")));
  Result<std::string> three = FindTask(hashes, "12");
  ASSERT_FALSE(three.ok());
  EXPECT_THAT(three.error().Text(), AllOf(HasSubstr("3 tasks"), HasSubstr("120000000, 12345678a")));
  std::vector<std::string> many;
  for (char c : std::string("0123456789")) many.push_back(HashOf(std::string("a") + c));
  Result<std::string> ten = FindTask(many, "a");
  ASSERT_FALSE(ten.ok());
  EXPECT_THAT(ten.error().Text(),
              AllOf(HasSubstr("10 tasks"), HasSubstr("a4000000, ... (hint: "), Not(HasSubstr("a5"))));
}

}  // namespace
}  // namespace autotune
