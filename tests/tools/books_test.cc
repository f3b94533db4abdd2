// The books of a real farm: the ledger of the simulator (tests/simulator/ledger) reads what tracker, server and tuner
// write while server and tracker are killed in mid-batch. Books with a false, doubled or missing line are noticed.
#include <gmock/gmock.h>
#include <signal.h>

#include "records/open.h"
#include "tests/simulator/ledger/farm_log.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

using Books = std::vector<std::string>;  // the text of each file

class FarmBooks : public test::FarmTest {
 protected:
  void SetUp() override {
    events_ = testing::TempDir() + "books-XXXXXX";
    ASSERT_TRUE(mkdtemp(events_.data()));
    setenv("AUTOTUNE_FARM_EVENTS", events_.c_str(), 1);
    FarmTest::SetUp();
  }
  void TearDown() override {
    unsetenv("AUTOTUNE_FARM_EVENTS");
    std::filesystem::remove_all(events_);
    FarmTest::TearDown();
  }
  Books Read() const { return ReadFarmLogs(events_).value(); }
  // Returns the number of lines of this kind that a party wrote.
  size_t Count(const std::string& party, const std::string& kind) const {
    size_t count = 0;
    for (const std::string& file : Read()) {
      for (const std::string& line : test::Lines(file))
        count += line.find("\"party\":\"" + party + "\"") != std::string::npos &&
                 line.find("\"kind\":\"" + kind + "\"") != std::string::npos;
    }
    return count;
  }
  static void KillAndWait(Subprocess& process, int signal) {
    kill(process.pid(), signal);
    ASSERT_TRUE(process.Wait(30000));
  }
  void RunAndKill();

  std::string events_;
};

// Tunes while the server is killed in mid-batch and starts again, and then the tracker.
void FarmBooks::RunAndKill() {
  Subprocess tuner =
      Start({"tune", "--op", "matmul:24,20,12", "--trials", "16", "--tracker", socket_, "--key", "pi"}, "tuner");
  ASSERT_TRUE(test::Soon([&] { return Count("server", "began") >= 2; }));
  KillAndWait(servers_.back(), SIGKILL);
  StartServer();
  ASSERT_TRUE(test::Soon([&] { return Count("tracker", "leased") >= 2 && Count("server", "leased") >= 2; }));
  KillAndWait(*tracker_, SIGKILL);
  StartTracker();
  const test::CliResult tuned = Finish(tuner, "tuner");
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  KillAndWait(servers_.back(), SIGTERM);
  KillAndWait(*tracker_, SIGTERM);
}

std::set<std::string> BrokenIn(const Books& books) { return LedgerOf(books).value().BrokenPromises(); }

// Returns the books without line `number` of file `file`, or with it twice.
Books With(Books books, size_t file, size_t number, int copies) {
  const std::vector<std::string> lines = test::Lines(books[file]);
  books[file].clear();
  for (size_t i = 0; i < lines.size(); ++i) {
    for (int copy = 0; copy < (i == number ? copies : 1); ++copy) books[file] += lines[i] + "\n";
  }
  return books;
}

std::string TextOf(const std::string& line, const std::string& field) {
  const Json json = Json::Parse(line).value();
  const auto* text = json[field].As<std::string>();
  return text ? *text : "";
}

// Gives the second lease of the tracker the token of the first, in all books.
Books WithOneTokenTwice(Books books) {
  std::vector<std::string> leases, tokens;
  const auto token = [](const std::string& line) { return Json::Parse(line).value()["token"].Dump(); };
  for (const std::string& file : books) {
    for (const std::string& line : test::Lines(file)) {
      if (TextOf(line, "party") != "tracker" || TextOf(line, "kind") != "leased") continue;
      leases.push_back(TextOf(line, "lease"));
      tokens.push_back(token(line));
    }
  }
  for (std::string& file : books) {
    std::string text;
    for (std::string line : test::Lines(file)) {
      if (TextOf(line, "lease") == leases.at(1) && line.find(tokens[1]) != std::string::npos)
        line.replace(line.find(tokens[1]), tokens[1].size(), tokens[0]);
      text += line + "\n";
    }
    file = text;
  }
  return books;
}

TEST_F(FarmBooks, AreWholeAndEachFalseLineIsNamed) {
  ASSERT_NO_FATAL_FAILURE(RunAndKill());
  const Books books = Read();
  const Ledger ledger = LedgerOf(books).value();
  EXPECT_THAT(ledger.violations(), IsEmpty());
  EXPECT_EQ(ledger.issued(), ledger.answered());
  EXPECT_GE(ledger.issued(), 16);
  EXPECT_GT(ledger.losses(), 0);
  EXPECT_GT(ledger.leased_ms(), 0);

  const std::set<std::string> kCounted = {"leased", "returned", "lost", "issued", "answered", "began", "ended"};
  std::map<std::string, int> lines_of;
  // Each line of the books counts. Only a killed server leaves a run without an end, whose beginning nobody misses.
  for (size_t file = 0; file < books.size(); ++file) {
    const std::vector<std::string> lines = test::Lines(books[file]);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string kind = TextOf(lines[i], "kind");
      if (!kCounted.contains(kind)) continue;
      if (kind == "lost" && TextOf(lines[i], "party") == "client") continue;  // the tracker says it, too
      ++lines_of[kind];
      const std::set<std::string> doubled = BrokenIn(With(books, file, i, 2)),
                                  missing = BrokenIn(With(books, file, i, 0));
      EXPECT_THAT(doubled, Not(IsEmpty())) << "twice: " << lines[i];
      if (kind == "began" && i + 1 == lines.size()) continue;
      EXPECT_THAT(missing, Not(IsEmpty())) << "without: " << lines[i];
      if (kind != "answered") continue;
      EXPECT_THAT(doubled, Contains("answered-once"));
      EXPECT_THAT(missing, Contains("progress"));
    }
  }
  for (const std::string& kind : kCounted) EXPECT_GT(lines_of[kind], 0) << kind;
  EXPECT_THAT(BrokenIn(WithOneTokenTwice(books)), AllOf(Contains("tokens-grow"), Contains("fencing")));
}

}  // namespace
}  // namespace autotune
