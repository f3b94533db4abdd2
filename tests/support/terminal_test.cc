// Texts that must fit into a terminal, and the width of one.
#include "support/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>

#include <cstdlib>

#include "support/unique_fd.h"

namespace autotune {
namespace {

TEST(Terminal, CountsColumnsNotBytes) {
  EXPECT_EQ(TextWidth(""), 0);
  EXPECT_EQ(TextWidth("conv2d"), 6);
  EXPECT_EQ(TextWidth("f\xc3\xbcr"), 3);                    // "für"
  EXPECT_EQ(TextWidth("e\xcc\x81"), 1);                     // e and a combining accent
  EXPECT_EQ(TextWidth("\xe5\xb1\x82\xf0\x9f\x9a\x80"), 4);  // a Chinese character and a picture
  EXPECT_EQ(TextWidth("\xff\xe5"), 2) << "bytes that are not UTF-8 count one column each";
}

TEST(Terminal, CutsAtTheWidthAndSaysSo) {
  EXPECT_EQ(CutToWidth("conv2d", 6), "conv2d");
  EXPECT_EQ(CutToWidth("conv2d", 5), "co...");
  EXPECT_EQ(CutToWidth("conv2d", 2), "..");
  EXPECT_EQ(CutToWidth("conv2d", 0), "");
  EXPECT_EQ(CutToWidth("conv2d", -3), "");
  EXPECT_EQ(CutToWidth("\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82", 5), "\xe5\xb1\x82...") << "never half a character";
  for (int columns = 0; columns < 12; ++columns)
    EXPECT_LE(TextWidth(CutToWidth("\xe5\xb1\x82 a \xe5\xb1\x82\xc3\xbc", columns)), columns);
}

TEST(Terminal, WrapsBetweenWords) {
  EXPECT_EQ(WrapWords("one two three", 0), "one two three");
  EXPECT_EQ(WrapWords("one two three", 13), "one two three");
  EXPECT_EQ(WrapWords("one two three", 12), "one two\n  three");
  EXPECT_EQ(WrapWords("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(WrapWords("  a  b", 80), "  a  b") << "spaces stay";
  EXPECT_EQ(WrapWords("incomprehensible words", 5), "incomprehensible\n  words");
}

class Pty : public ::testing::Test {
 protected:
  void SetUp() override {
    int master = -1, slave = -1;
    winsize size{.ws_row = 24, .ws_col = 97};
    ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
    master_ = UniqueFd(master), slave_ = UniqueFd(slave);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }
  void TearDown() override {
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
  }
  UniqueFd master_, slave_;
};

TEST_F(Pty, WidthIsThePresentOne) {
  EXPECT_EQ(TerminalWidth(slave_.get()), 97);
  setenv("COLUMNS", "50", 1);
  EXPECT_EQ(TerminalWidth(slave_.get()), 97) << "COLUMNS is what the shell saw earlier";
  winsize none{};
  ASSERT_EQ(ioctl(master_.get(), TIOCSWINSZ, &none), 0);
  EXPECT_EQ(TerminalWidth(slave_.get()), 50);
  setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(TerminalWidth(slave_.get()), 80);
  UniqueFd file(open("/dev/null", O_RDONLY));
  EXPECT_EQ(TerminalWidth(file.get()), 0);
}

TEST_F(Pty, ColoursAreForTerminalsThatWantThem) {
  UniqueFd file(open("/dev/null", O_WRONLY));
  EXPECT_TRUE(ShowsColours(slave_.get()));
  EXPECT_FALSE(ShowsColours(file.get()));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ShowsColours(slave_.get()));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(ShowsColours(slave_.get()));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ShowsColours(slave_.get()));
  setenv("TERM", "xterm", 1);
  EXPECT_EQ(Painted("fast", Colour::kGain, true), "\033[32mfast\033[0m");
  EXPECT_EQ(Painted("fast", Colour::kGain, false), "fast");
}

// A command that a message suggests is pasted into a shell, where a line end inside of quotes is part of the word.
TEST(WrapWords, KeepsQuotedWordsWhole) {
  EXPECT_EQ(WrapWords("run it: autotune run 'my net.tar' now", 24), "run it: autotune run\n  'my net.tar' now");
  EXPECT_EQ(WrapWords("a 'it'\\''s my net' b", 6), "a\n  'it'\\''s my net'\n  b");
  // An apostrophe is no quote.
  EXPECT_EQ(WrapWords("the machine's peak of 'tis", 12), "the\n  machine's\n  peak of\n  'tis");
}

TEST(WrapLines, WrapsEachLineAtItsIndent) {
  EXPECT_EQ(WrapLines("one two three\n  four five six\nseven", 10),
            "one two\n  three\n  four\n    five\n    six\nseven");
  EXPECT_EQ(WrapLines("one two three\nfour\n", 0), "one two three\nfour\n");
}

}  // namespace
}  // namespace autotune
