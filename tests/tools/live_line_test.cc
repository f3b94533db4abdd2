// The live line of a terminal leaves no row behind, whatever the terminal's width is and becomes.
#include "tools/autotune/live_line.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "tests/tools/cli.h"
#include "tests/tools/screen.h"

namespace autotune::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int64_t kManyRows = 1000;  // above the line, so that it may be as long as the terminal is wide
constexpr int kWidths[] = {110, 60, 200, 80, 61, 60, 59, 110, 30, 200, 12};

// Returns what a program has written to the terminal by now; waits up to `milliseconds` for the first byte.
std::string Written(int master, int milliseconds = 0) {
  std::string all;
  pollfd ready{.fd = master, .events = POLLIN};
  while (poll(&ready, 1, all.empty() ? milliseconds : 0) == 1) {
    char bytes[4096];
    const ssize_t n = read(master, bytes, sizeof bytes);
    if (n <= 0) break;
    all.append(bytes, static_cast<size_t>(n));
  }
  return all;
}

void SetWidth(int terminal, int width) {
  const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(width)};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

enum class Kind { kReflows, kCuts, kKeepsCleared };

class LiveLineOn : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    int master = -1, slave = -1;
    ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    master_ = UniqueFd(master), slave_ = UniqueFd(slave);
    SetWidth(master, 110);
  }
  void Update() { screen_.Feed(Written(master_.get())); }
  void Print(const std::string& text) {
    ASSERT_EQ(write(slave_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  UniqueFd master_, slave_;
  Screen screen_{110, GetParam() != Kind::kCuts, GetParam() == Kind::kKeepsCleared};
};

TEST_P(LiveLineOn, ShowsOneRowThatIsShorterThanTheTerminal) {
  tools::LiveLine line(slave_.get());
  line.Beside([] {}, kManyRows);
  for (int width : kWidths) {
    SetWidth(master_.get(), width);
    screen_.Resize(width);
    line.Show("1/64 trials " + std::string(300, 'x'));
    Update();
    ASSERT_THAT(screen_.Rows(), ElementsAre(AllOf(StartsWith("1/64 tri"), SizeIs(width - 1)))) << width;
  }
  line.Show("");
  Update();
  EXPECT_THAT(screen_.Rows(), IsEmpty());
}

TEST_P(LiveLineOn, LeavesNoRowBehindWhenTheTerminalIsResized) {
  tools::LiveLine line(slave_.get());
  std::mt19937 random(1);
  std::vector<std::string> printed;
  int width = 110;
  for (int i = 0; i < 300; ++i) {
    line.Show("live " + std::string(random() % 250, 'y'));
    Update();
    // The terminal wraps its lines at once, the program learns of the new width later, and may draw in between.
    if (random() % 2) screen_.Resize(width = kWidths[random() % std::size(kWidths)]);
    if (random() % 2) line.Redraw();
    Update();
    SetWidth(master_.get(), width);
    if (random() % 4 == 0) {
      line.Beside([&] { Print("note\r\n"); });
      printed.push_back("note");
    }
    line.Redraw();
    Update();
    ASSERT_THAT(screen_.Rows(), SizeIs(printed.size() + 1)) << "after step " << i;
  }
  line.Show("");
  Update();
  EXPECT_EQ(screen_.Rows(), printed);
}

TEST_P(LiveLineOn, IsNoLongerThanTheRowsAboveItAllow) {
  tools::LiveLine line(slave_.get());
  const auto shown_at = [&](int width) {
    SetWidth(master_.get(), width);
    screen_.Resize(width);
    line.Show(std::string(300, 'x'));
    Update();
    return screen_.Rows().back().size();
  };
  EXPECT_EQ(shown_at(200), 39u);
  line.Beside([&] { Print("one\r\n"); }, 1);
  EXPECT_EQ(shown_at(200), 79u);
  EXPECT_EQ(shown_at(80), 79u);
  EXPECT_EQ(shown_at(70), 39u) << "79 columns take two rows of 70, which push the row above off the screen";
  EXPECT_EQ(shown_at(200), 39u);
  line.Beside([&] { Print("two\r\n"); }, 1);
  EXPECT_EQ(shown_at(200), 79u);
}

INSTANTIATE_TEST_SUITE_P(Terminals, LiveLineOn, ::testing::Values(Kind::kReflows, Kind::kCuts, Kind::kKeepsCleared),
                         [](const auto& info) {
                           return info.param == Kind::kReflows ? "ThatReflow"
                                  : info.param == Kind::kCuts  ? "ThatCut"
                                                               : "ThatKeepWhatIsCleared";
                         });

// The usual way, a return and "erase to the end of the row", leaves rows behind, and the screen of these tests sees it.
TEST(Screen, SeesRowsThatAreLeftBehind) {
  Screen screen(110, /*reflows=*/true);
  screen.Feed("\r\033[K" + std::string(100, 'x'));
  EXPECT_THAT(screen.Rows(), SizeIs(1));
  screen.Resize(60);
  screen.Feed("\r\033[K" + std::string(59, 'x'));
  EXPECT_THAT(screen.Rows(), SizeIs(2));
  screen.Feed("\r\033[K" + std::string(100, 'x') + "\r\033[K");
  EXPECT_THAT(screen.Rows(), SizeIs(2)) << "rows that nothing erases any more";
}

// "Erase below" in the first column leaves rows behind in tmux.
TEST(Screen, SeesRowsThatMoveIntoTheHistory) {
  for (bool keeps_cleared : {false, true}) {
    Screen screen(110, /*reflows=*/true, keeps_cleared);
    screen.Feed("one\r\033[Jtwo\r");
    EXPECT_THAT(screen.Rows(), SizeIs(keeps_cleared ? 2 : 1));
    screen.Feed("\033[C\033[J\r\033[Kthree");
    EXPECT_EQ(screen.Rows().back(), "three");
    EXPECT_THAT(screen.Rows(), SizeIs(keeps_cleared ? 2 : 1));
  }
}

TEST(LiveLine, IsForTerminalsOnly) {
  UniqueFd file(open("/dev/null", O_WRONLY));
  EXPECT_FALSE(tools::LiveLine(file.get()).on_terminal());
}

// A whole run on a terminal that is resized in mid-run.
class TerminalRun : public CliTest {
 protected:
  // Runs autotune with all its output on a terminal, and changes the width every 0.7 s. Returns the last screen.
  Screen RunOnTerminal(const std::vector<std::string>& arguments) {
    winsize size{.ws_row = 40, .ws_col = 110};
    int master = -1;
    setenv("TERM", "xterm", 1);
    const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
    if (pid == 0) {
      const std::string program = kTools + "/autotune";
      std::vector<char*> argv = {const_cast<char*>(program.c_str())};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    Screen screen(110, /*reflows=*/true);
    UniqueFd terminal(master);
    int status = 0;
    for (size_t i = 0; waitpid(pid, &status, WNOHANG) == 0 && i < 400; ++i) {
      screen.Feed(Written(master, 100));
      if (LiveRows(screen) > 0) ++live_;
      most_ = std::max(most_, LiveRows(screen));
      if (i % 7 == 6) {
        const int width = kWidths[i / 7 % std::size(kWidths)];
        screen.Resize(width);
        SetWidth(master, width);
      }
    }
    screen.Feed(Written(master, 100));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    screen.Resize(400);
    return screen;
  }
  // Counts rows that only a live line begins with.
  static int LiveRows(const Screen& screen) {
    int rows = 0;
    for (const std::string& row : screen.Rows()) rows += row.find(" trials  ker") != std::string::npos;
    return rows;
  }

  int live_ = 0, most_ = 0;  // looks at the screen that saw a live line; most live lines seen at once
};

TEST_F(TerminalRun, LeavesNoRowBehindWhenItIsResized) {
  const Screen screen = RunOnTerminal({"--model", SmallModel(), "--trials", "24", "--wide"});
  EXPECT_GE(live_, 3) << "the run must have shown its live line";
  EXPECT_EQ(most_, 1);
  std::vector<std::string> tuning, ends;
  for (const std::string& row : screen.Rows()) {
    EXPECT_THAT(row, AllOf(Not(HasSubstr("trials/s")), Not(HasSubstr("comparing")), Not(HasSubstr("confirmed"))));
    if (row.starts_with("tuning small ")) tuning.push_back(row);
    if (row.starts_with("24/24 trials")) ends.push_back(row);
  }
  EXPECT_THAT(tuning, SizeIs(1));
  EXPECT_THAT(ends, SizeIs(1)) << "it has as many words as the width had room for";
}

}  // namespace
}  // namespace autotune::test
