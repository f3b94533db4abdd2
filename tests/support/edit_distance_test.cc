#include "support/edit_distance.h"

#include <gmock/gmock.h>

namespace autotune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("trials", "trial"), 1u);   // delete
  EXPECT_EQ(EditDistance("trial", "trials"), 1u);   // insert
  EXPECT_EQ(EditDistance("trials", "triads"), 1u);  // replace
  EXPECT_EQ(EditDistance("trials", "trails"), 1u);  // swap
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(EditDistance, NearWordsComeNearestFirst) {
  std::vector<std::string> words = {"--time-budget", "--trials-per-task", "--trial", "--trials", "--seed"};
  EXPECT_THAT(NearWords("--trails", words), ElementsAre("--trials", "--trial"));
  EXPECT_THAT(NearWords("--sedd", words), ElementsAre("--seed"));
  EXPECT_THAT(NearWords("frobnicate", words), IsEmpty());
}

}  // namespace
}  // namespace autotune
