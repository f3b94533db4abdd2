#include "support/utf8.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

TEST(Utf8, WellFormedTextOnly) {
  for (const char* good : {"", "plain",
                           "Gr\xc3\xbc\xc3\x9f"
                           "e",
                           "\xe2\x82\xac", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xc3("}) {
    EXPECT_FALSE(IsUtf8(bad)) << OneLine(bad);
  }
}

TEST(Utf8, TextIsCutBetweenCharacters) {
  EXPECT_EQ(CutText("Gerät", 9), "Gerät");
  EXPECT_EQ(CutText("Gerät", 5), "Gerä");
  EXPECT_EQ(CutText("Gerät", 4), "Ger") << "the fourth byte is the first half of a character";
  EXPECT_EQ(CutText("ä", 1), "");
  EXPECT_EQ(CutText("", 3), "");
}

TEST(Utf8, OneLineShowsEverythingAndChangesOnlyWhatCannotBeShown) {
  EXPECT_EQ(OneLine("node 'a\\b' \"q\" \xe2\x82\xac"), "node 'a\\b' \"q\" \xe2\x82\xac");
  EXPECT_EQ(OneLine(std::string_view("a\nb\0c\x7f", 6)), "a\\x0ab\\x00c\\x7f");
  EXPECT_EQ(OneLine("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(OneLine("\xc2\x9b"
                    "2J\xc2\xa0\xc2\x80"),
            "\\xc2\\x9b2J\xc2\xa0\\xc2\\x80");
  EXPECT_EQ(OneLine(OneLine("x\r\n\xff")), OneLine("x\r\n\xff"));
}

}  // namespace
}  // namespace autotune
