// Two tuners use one database. One tuner is killed at random times, and so are build workers and runners of the second
// one. No reported trial is lost, the runs' records are not mixed, and the file stays undamaged.
// AUTOTUNE_KILL_SECONDS: duration of the test in seconds, default 5 (scripts/kill_tuners.sh sets ten minutes).
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "records/open.h"
#include "support/rng.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::DescendantsOf;
using test::Process;
using test::ReadAll;

constexpr int kTrialsEach = 60;

// A tuner that is restarted when it has finished, each time with another seed.
struct Tuner {
  std::string name;
  int seed = 0;
  std::optional<Subprocess> process = {};
  int starts = 0;
};

class TwoTuners : public test::CliTest {
 protected:
  void Begin(Tuner& tuner) {
    ++tuner.starts;
    tuner.process = Start({"--model", SmallModel(), "--trials", std::to_string(kTrialsEach), "--search", "random",
                           "--seed", std::to_string(tuner.seed), "--db", db_, "--json"},
                          tuner.name);
  }
  // Checks that all trials that the tuner has reported are in the database.
  void Note(const Tuner& tuner) {
    int64_t& most = reported_[tuner.seed];
    most = std::max(most, test::TrialsReported(ReadAll(File(tuner.name + ".out"))));
    EXPECT_GE(TrialsOfSeed(tuner.seed), most) << "trials of " << tuner.name << " are lost";
  }
  // If the tuner has finished, starts it again with another seed. Fails if it ended with an error.
  void GoOn(Tuner& tuner) {
    if (!tuner.process->Poll()) return;
    CliResult result = Finish(*tuner.process, tuner.name);
    EXPECT_EQ(result.code, 0) << tuner.name << ": " << result.Text();
    Note(tuner);
    EXPECT_EQ(TrialsOfSeed(tuner.seed), kTrialsEach);
    tuner.seed += 2;
    Begin(tuner);
  }
  int64_t TrialsOfSeed(uint64_t seed) {
    int64_t n = 0;
    ForEach([&](const Record& record) { n += record.seed == seed && IsTrial(record); });
    return n;
  }
  template <class F>
  void ForEach(F use) {
    auto store = OpenStore(db_);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    for (int64_t cursor = 0;;) {
      auto page = (*store)->Scan({}, cursor, 500);
      ASSERT_TRUE(page.ok()) << page.error().Text();
      if (page->records.empty()) return;
      cursor = page->cursor;
      for (const Record& record : page->records) use(record);
    }
  }

  std::map<uint64_t, int64_t> reported_;
};

TEST_F(TwoTuners, OneIsKilledAgainAndAgain) {
  const char* asked = std::getenv("AUTOTUNE_KILL_SECONDS");
  double seconds = asked ? std::atof(asked) : 5;
  using Clock = std::chrono::steady_clock;
  auto after = [](double s) { return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(s * 1000)); };
  Rng rng(static_cast<uint64_t>(getpid()));
  Tuner survivor{"survivor", 2}, victim{"victim", 3};
  Begin(survivor);
  Begin(victim);
  auto end = after(seconds), next_kill = after(1.5), next_part = after(2);
  int kills = 0, parts = 0;
  while (Clock::now() < end) {
    usleep(20000);
    GoOn(survivor);
    GoOn(victim);
    if (Clock::now() >= next_kill) {
      victim.process->Kill();
      ASSERT_TRUE(victim.process->Wait(30000));
      ++kills;
      Note(victim);
      Begin(victim);
      next_kill = after(0.5 + 3 * rng.Uniform());
    }
    if (Clock::now() >= next_part) {
      std::vector<Process> killable;
      for (const Process& process : DescendantsOf(survivor.process->pid())) {
        if (process.Is("--build-worker") || process.Is("--runner")) killable.push_back(process);
      }
      if (!killable.empty()) {
        kill(killable[static_cast<size_t>(rng.Below(static_cast<int64_t>(killable.size())))].pid, SIGKILL);
        ++parts;
      }
      next_part = after(1 + 2 * rng.Uniform());
    }
  }
  for (Tuner* tuner : {&survivor, &victim}) {
    kill(tuner->process->pid(), SIGINT);
    std::optional<ExitStatus> status = tuner->process->Wait(60000);
    ASSERT_TRUE(status) << tuner->name << " did not end after SIGINT";
    // Code 0: it had just finished. Ended by the signal: it had just begun and had nothing to save.
    EXPECT_TRUE(status->code == 130 || status->code == 0 || status->signal == SIGINT)
        << tuner->name << " " << status->Text() << ReadAll(File(tuner->name + ".err"));
    Note(*tuner);
  }
  std::printf("%d kills of the victim, %d of the survivor's workers and runners; %d and %d starts\n", kills, parts,
              victim.starts, survivor.starts);
  EXPECT_GE(kills, 1);
  EXPECT_GE(parts, 1);

  std::map<uint64_t, std::set<std::string>> runs_of_seed;
  std::map<uint64_t, int64_t> trials;
  std::set<std::string> ids;
  ForEach([&](const Record& record) {
    EXPECT_TRUE(ids.insert(record.id).second);
    runs_of_seed[record.seed].insert(record.run);
    trials[record.seed] += IsTrial(record);
    EXPECT_TRUE(ValidateRecord(record).ok());
    EXPECT_EQ(record.error.empty(), record.status == TrialStatus::kOk) << record.error;
  });
  std::set<std::string> runs;
  for (const auto& [seed, names] : runs_of_seed) {
    EXPECT_TRUE(reported_.count(seed)) << "records of seed " << seed << ", which no tuner used";
    EXPECT_EQ(names.size(), 1u) << "seed " << seed;
    for (const std::string& name : names) EXPECT_TRUE(runs.insert(name).second) << "two seeds share run " << name;
    EXPECT_LE(trials[seed], kTrialsEach);
    EXPECT_GE(trials[seed], reported_[seed]);
  }
  auto store = OpenStore(db_);
  ASSERT_TRUE(store.ok()) << store.error().Text();
  Status whole = (*store)->Check();
  EXPECT_TRUE(whole.ok()) << whole.error().Text();
}

}  // namespace
}  // namespace autotune
