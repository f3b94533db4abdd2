// The farm's programs of today and of the commit that tests/tracker/old_peer names, together: each finishes 48 trials.
#include "support/file.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

class OldPeer : public FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    const std::string source = AUTOTUNE_SOURCE_DIR, build = AUTOTUNE_BINARY_DIR;
    std::string commit = ReadFile(source + "/tests/tracker/old_peer").value();
    commit.resize(commit.find('\n'));
    const std::string folder = build + "/old_peer/" + commit.substr(0, 12);
    if (!std::filesystem::exists(folder + "/done") && !std::getenv("AUTOTUNE_OLD_PEER"))
      GTEST_SKIP() << "skipped: AUTOTUNE_OLD_PEER=1 builds the programs of " << commit
                   << ", which takes a minute or two";
    Subprocess made = Run({"/bin/sh", source + "/tests/tracker/old_peer.sh", commit, folder});
    const std::optional<ExitStatus> status = made.Wait(600000);
    ASSERT_TRUE(status) << "no end of the build in " << folder;
    if (status->code == 77) GTEST_SKIP() << "skipped: needs the history of the project, back to " << commit;
    ASSERT_EQ(status->code, 0) << "see " << folder << "/log";
    old_ = folder + "/build";
    std::ofstream(Artifact(), std::ios::binary) << *Compile(kDouble);
  }
  std::string Artifact() const { return folder_ + "/artifact.so"; }

  // Runs 48 trials with the programs of these folders.
  void Measure(const std::string& tracker, const std::string& server, const std::string& client) {
    // The earlier program kept its state in a file, and named the option for its address otherwise.
    const bool is_old = tracker != kTools.substr(0, kTools.rfind("/tools"));
    Subprocess t = Run({tracker + "/tools/rpc_tracker", is_old ? "--host" : "--listen", Endpoint(), "--state",
                        folder_ + (is_old ? "/state.json" : "/state")});
    Subprocess s = Run({server + "/tools/rpc_server", "--tracker", Endpoint(), "--key", "k", "--state", folder_});
    auto [read_end, write_end] = MakePipe().value();
    auto c = Subprocess::Spawn(
        {.argv = {client + "/tests/farm_client", Endpoint(), "k", Artifact(), "48"}, .fds = {{1, write_end.get()}}});
    write_end.Reset();
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(ReadAll(read_end.get()), "ok 48\n");
  }
  static std::string ReadAll(int fd) {
    std::string text;
    for (char c; read(fd, &c, 1) == 1;) text += c;
    return text;
  }

  std::string old_, new_ = AUTOTUNE_BINARY_DIR;
};

TEST_F(OldPeer, OldFarmNewClient) { Measure(old_, old_, new_); }
TEST_F(OldPeer, NewFarmOldClient) { Measure(new_, new_, old_); }
TEST_F(OldPeer, OldTrackerNewServer) { Measure(old_, new_, new_); }
TEST_F(OldPeer, OldServerNewTracker) { Measure(new_, old_, new_); }

}  // namespace
}  // namespace autotune
