#include "service/claimed_run.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <set>
#include <utility>

#include "records/open.h"
#include "records/sqlite.h"
#include "tests/tools/cli.h"

namespace autotune::tools {
namespace {

using test::CliResult;
using testing::HasSubstr;

TEST(ClaimedRun, IsReleasedAtItsEnd) {
  auto store = OpenStore(kMemoryStore).value();
  auto first = ClaimedRun::Take(*store, "run", {}).value();
  const auto refused = ClaimedRun::Take(*store, "run", {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(),
              HasSubstr("this run is under way in process " + std::to_string(getpid()) + " on host "));
  first.reset();
  EXPECT_TRUE(ClaimedRun::Take(*store, "run", {}).ok());
}

// An owner on another host that is gone costs one wait; one that renews its claim is named.
TEST(ClaimedRun, WatchesAnOwnerOnAnotherHost) {
  auto store = OpenStore(kMemoryStore).value();
  RunOwner remote = NewRunOwner();
  remote.host = "mill", remote.processes = "another host";
  ASSERT_TRUE(store->Claim("run", remote, 300).value().granted);
  std::string waited_for;
  ClaimedRun::Options options;
  options.on_wait = [&](const std::string& owner, int64_t) { waited_for = owner; };
  EXPECT_TRUE(ClaimedRun::Take(*store, "run", options).ok());
  EXPECT_EQ(waited_for, remote.Text());

  ASSERT_TRUE(store->Claim("other run", remote, 2500).value().granted);
  options.on_wait = [&](const std::string&, int64_t) { (void)store->Claim("other run", remote, 2500); };
  const auto refused = ClaimedRun::Take(*store, "other run", options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(), HasSubstr("under way in " + remote.Text()));
}

class OneOwner : public test::CliTest {
 protected:
  int64_t Renewals() {
    Connection connection(db_);
    EXPECT_TRUE(connection.Open(1000).ok());
    Query query = Query::Make(connection, "SELECT renewals FROM claim").value();
    return query.Step().value() ? query.IntAt(0) : -1;
  }
  std::vector<std::string> Command() const {
    return {"--model", test::kExample, "--trials", "24", "--search", "random", "--db", db_, "--json"};
  }
};

TEST_F(OneOwner, RenewsItsClaim) {
  auto store = OpenStore(db_).value();
  auto held = ClaimedRun::Take(*store, "run", {.renewal_ms = 10}).value();
  EXPECT_TRUE(test::Soon([&] { return Renewals() >= 2; }));
  held.reset();
  EXPECT_EQ(Renewals(), -1);
}

// The same command runs twice at once, and the first one is killed.
TEST_F(OneOwner, TheSecondCommandNamesTheFirstAndFollowsItsDeath) {
  Subprocess first = Start(Command(), "first");
  ASSERT_TRUE(test::Soon([&] { return test::TrialsReported(test::ReadAll(File("first.out"))) > 0 || first.Poll(); }));
  ASSERT_FALSE(first.Poll()) << test::ReadAll(File("first.err"));
  const CliResult second = Run(Command());
  EXPECT_EQ(second.code, 1) << second.Text();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  EXPECT_THAT(second.err,
              HasSubstr("under way in process " + std::to_string(first.pid()) + " on host " + std::string(host)));
  ASSERT_FALSE(first.Poll()) << "the first command had ended before the second one was refused";
  first.Kill();
  ASSERT_TRUE(first.Wait(30000));

  const CliResult third = Run(Command());
  EXPECT_EQ(third.code, 0) << third.Text();
  auto store = OpenStore(db_).value();
  std::set<std::string> runs;
  std::set<std::pair<std::string, std::string>> pairs;
  int64_t trials = 0;
  const RecordPage all = store->Scan({}, 0, 10000).value();
  for (const Record& record : all.records) {
    runs.insert(record.run);
    if (!IsTrial(record)) continue;
    ++trials;
    if (!record.disturbed.empty()) continue;  // it is measured again when the machine is quiet
    EXPECT_TRUE(pairs.insert({record.task, record.alternative + record.trace}).second)
        << "measured twice: " << record.trace;
  }
  EXPECT_EQ(runs.size(), 1u);
  EXPECT_EQ(trials, 24);
}

}  // namespace
}  // namespace autotune::tools
