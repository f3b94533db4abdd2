// A whole tuning run in tmux, a real terminal, which is resized in mid-run: no row of the live line is left in the
// screen or in its history, and the table fits.
#include <gmock/gmock.h>

#include <cstdlib>

#include "support/shell.h"
#include "tests/tools/cli.h"
#include "tools/autotune/live_line.h"

namespace autotune::test {
namespace {

using ::testing::SizeIs;

class Tmux : public CliTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    if (std::system("tmux -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "tmux is not installed";
  }
  void TearDown() override {
    Command("kill-server");
    CliTest::TearDown();
  }
  // Runs a command of tmux, on a server of this test. Returns what it prints.
  std::string Command(const std::string& words) const {
    const std::string out = File("tmux.out");
    const int code = std::system(
        ("tmux -S " + ShellWord(File("socket")) + " -f /dev/null " + words + " > " + ShellWord(out) + " 2> /dev/null")
            .c_str());
    return code == 0 ? ReadAll(out) : "";
  }
  void Resize(int width) const { Command("resize-window -x " + std::to_string(width) + " -y 30"); }
  // The screen and its history.
  std::vector<std::string> Rows() const { return Lines(Command("capture-pane -p -S -")); }
  // Rows of a live line. The last line of the search has no speed.
  static std::vector<std::string> LiveRows(const std::vector<std::string>& rows) {
    std::vector<std::string> live;
    for (const std::string& row : rows) {
      for (const char* part : {" trials/s", " confirmed ", " %  comparing "}) {
        if (row.find(part) != std::string::npos) live.push_back(row);
      }
    }
    return live;
  }
};

INSTANTIATE_TEST_SUITE_P(Widths, Tmux, ::testing::Values(60, 80, 110, 200));

TEST_P(Tmux, ALiveLineLeavesNoRowBehind) {
  constexpr int kLeast = tools::LiveLine::kLeastColumns;
  const int width = GetParam();
  const int widths[] = {width + 50, std::max(kLeast, width / 2), width, std::max(kLeast, width - 20), width + 1};
  const std::string done = File("done");
  const std::string tune =
      kTools + "/autotune --model " + SmallModel() + " --trials 24; touch " + ShellWord(done) + "; sleep 600";
  Command("new-session -d -x " + std::to_string(width) + " -y 30 " + ShellWord(tune));
  size_t seen = 0, most = 0;
  // Resizes until the search has ended. What follows takes a second or more, so the table finds a width that stays.
  bool searches = true;
  for (int i = 0; i < 1200 && !std::filesystem::exists(done); ++i) {
    usleep(200000);
    const std::vector<std::string> shown = Rows(), live = LiveRows(shown);
    for (const std::string& row : shown) searches &= !row.starts_with("24/24 ");
    seen += !live.empty();
    most = std::max(most, live.size());
    Resize(searches ? widths[i % std::size(widths)] : width);
  }
  ASSERT_TRUE(Soon([&] { return std::filesystem::exists(done); }));
  EXPECT_GE(seen, 1u) << "the run must have shown its live line";
  EXPECT_EQ(most, 1u);
  EXPECT_THAT(LiveRows(Rows()), SizeIs(0)) << Command("capture-pane -p -S -");
  // Only the last line of the search is left, whose begin a narrow live line shares.
  const std::vector<std::string> rows = Rows();
  EXPECT_EQ(std::ranges::count_if(rows, [](const std::string& row) { return row.find(" trials  ker") != row.npos; }),
            1);
  // The rows of the table follow each other, so none is wrapped.
  const auto head =
      std::ranges::find_if(rows, [](const std::string& row) { return row.starts_with("task     calls"); });
  ASSERT_GT(rows.end() - head, kSmallTasks + 1);
  for (auto row = head + 1; row <= head + kSmallTasks; ++row)
    EXPECT_THAT(row->substr(0, 8), ::testing::MatchesRegex("[0-9a-f]+")) << *row;
  EXPECT_THAT(*(head + kSmallTasks + 1), ::testing::StartsWith("times: "));
}

// The screen of these tests sees rows that are left behind.
TEST_P(Tmux, RowsLeftBehindAreSeen) {
  const std::string line = "1/2 trials  kernels 1 ms  2.5 trials/s";
  Command("new-session -d -x " + std::to_string(GetParam()) + " -y 30 " +
          ShellWord("printf '" + line + "\\r\\n" + line + "'; sleep 600"));
  EXPECT_TRUE(Soon([&] { return LiveRows(Rows()).size() > 1; }, 5)) << Command("capture-pane -p -S -");
}

}  // namespace
}  // namespace autotune::test
