// `autotune bench` locks its host so that it measures alone. If it does not get the lock, it reports that its times may
// be disturbed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "support/host_lock.h"
#include "tests/tools/cli.h"

namespace autotune::test {
namespace {

using ::testing::HasSubstr;

class Bench : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    package_ = File("net.tar");
    CliResult compiled = Run({"compile", "--model", SmallModel(), "--no-records", "-o", package_});
    ASSERT_EQ(compiled.code, 0) << compiled.Text();
  }
  std::optional<HostLock> Take(HostLock::Mode mode) { return std::move(HostLock::TryAcquire(mode)).value(); }
  std::vector<std::string> Command(const std::string& wait) {
    return {"bench", package_, "--threads", "1", "--seconds", "0.02", "--json", "--wait", wait};
  }
  bool SoonHolds(const std::string& name, const std::string& text) {
    return Soon([&] { return ReadAll(File(name)).find(text) != std::string::npos; });
  }

  std::string package_;
};

bool Undisturbed(const std::string& out) {
  auto line = Json::Parse(out);
  EXPECT_TRUE(line.ok() && (*line)["undisturbed"].As<bool>()) << out;
  return line.ok() && *(*line)["undisturbed"].As<bool>();
}

TEST_F(Bench, WaitsForOthersOrSaysSo) {
  CliResult alone = Run(Command("0"));
  EXPECT_EQ(alone.code, 0) << alone.Text();
  EXPECT_TRUE(Undisturbed(alone.out));
  EXPECT_EQ(alone.err, "");

  std::optional<HostLock> build = Take(HostLock::Mode::kShared);
  CliResult beside = Run(Command("0"));
  EXPECT_EQ(beside.code, 0) << beside.Text();
  EXPECT_FALSE(Undisturbed(beside.out));
  EXPECT_EQ(beside.err, "note: these times may be disturbed: " + HostLock::HeldText() + "\n");

  Subprocess child = Start(Command("100"), "waiting");
  EXPECT_TRUE(SoonHolds("waiting.err", "note: waiting for this host since "));
  EXPECT_THAT(ReadAll(File("waiting.err")), HasSubstr(": " + HostLock::HeldText() + "\n"));
  EXPECT_EQ(ReadAll(File("waiting.out")), "");
  build.reset();
  CliResult waited = Finish(child, "waiting");
  EXPECT_EQ(waited.code, 0) << waited.Text();
  EXPECT_TRUE(Undisturbed(waited.out));

  setenv("AUTOTUNE_HOST_LOCK", "/no/such/lock", 1);
  CliResult without = Run(Command("100"));
  EXPECT_EQ(without.code, 0) << without.Text();
  EXPECT_FALSE(Undisturbed(without.out));
  EXPECT_THAT(without.err, HasSubstr("/no/such/lock"));
  EXPECT_EQ(Lines(without.err).size(), 1u) << without.err;
}

TEST_F(Bench, ServesWithoutKeepingTheHost) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd in(ends[0]), to(ends[1]);
  Subprocess child =
      Start({"bench", package_, "--threads", "1", "--serve", "--json", "--wait", "0"}, "serve", in.get());
  auto ask = [&](const std::string& text) {
    return write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  };
  ASSERT_TRUE(ask("run 2\n"));
  ASSERT_TRUE(SoonHolds("serve.out", "\n")) << ReadAll(File("serve.err"));
  EXPECT_TRUE(Undisturbed(ReadAll(File("serve.out"))));
  // While the server waits for the next line, another process may lock the host.
  std::optional<HostLock> other = Take(HostLock::Mode::kExclusive);
  EXPECT_TRUE(other);
  ASSERT_TRUE(ask("run 1\n"));
  EXPECT_TRUE(SoonHolds("serve.out", "\"undisturbed\":false")) << ReadAll(File("serve.out"));
  other.reset();
  ASSERT_TRUE(ask("run 1\n"));
  EXPECT_TRUE(Soon([&] { return Lines(ReadAll(File("serve.out"))).size() == 3; }));
  EXPECT_TRUE(Undisturbed(Lines(ReadAll(File("serve.out"))).back()));
  to.Reset();
  CliResult served = Finish(child, "serve");
  EXPECT_EQ(served.code, 0) << served.Text();
  EXPECT_EQ(Lines(served.out).size(), 3u);
  EXPECT_EQ(Lines(served.err).size(), 1u) << served.err;  // one warning in all
}

}  // namespace
}  // namespace autotune::test
