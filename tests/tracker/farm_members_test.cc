// Members of a farm who reach it over TCP, with the real programs.
#include "tests/tracker/farm.h"
#include "tracker/members.h"

namespace autotune {
namespace {

using rpc::Role;
using testing::HasSubstr;

class FarmMembers : public FarmTest {
 protected:
  // Starts a tracker for members, at a free port, and a server that joins it.
  void Start() {
    const rpc::JoinFile board = InviteHere("board", Role::kServer);
    tracker_ = Run({kTools + "/rpc_tracker", "--listen", Endpoint(), "--listen", "127.0.0.1:0", "--state", State()});
    ASSERT_TRUE(Soon([&] { return Count("cpu", "") == 0; }));
    server_ = Run({kTools + "/rpc_server", "--join", WriteJoin(board), "--key", "cpu"});
    ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  }
  std::string State() const { return folder_ + "/state"; }
  rpc::JoinFile InviteHere(const std::string& name, Role role) { return Invite(State(), name, role).value(); }
  // Writes a join file with the port that the tracker has found.
  std::string WriteJoin(rpc::JoinFile file) {
    file.tracker = ReadFarmMembers(State())->endpoints;
    const std::string path = folder_ + "/" + file.name + ".join";
    EXPECT_TRUE(ReplaceFileDurably(path, file.Text()).ok());  // for its owner alone
    return path;
  }
  Result<std::unique_ptr<FarmClient>> Join(const rpc::JoinFile& file) {
    rpc::FarmOptions options{.tracker = rpc::ReadJoinFile(WriteJoin(file)).value().TrackerAddress(), .key = "cpu"};
    options.wait_seconds = options.connect_seconds = 3;
    return FarmClient::Connect(options);
  }

  std::optional<Subprocess> tracker_, server_;
};

TEST_F(FarmMembers, MeasureUntilTheyAreRevoked) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const rpc::JoinFile alice = InviteHere("alice", Role::kClient);
  auto client = std::move(Join(alice)).value();
  const auto results = client->Measure(JobOf({Compile(kDouble), Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->at(0).status, TrialStatus::kOk) << results->at(0).error;
  EXPECT_EQ(results->at(1).status, TrialStatus::kOk);
  ASSERT_EQ(Count("cpu", "busy"), 1);
  EXPECT_EQ(rpc::QueryStatus("ipc://" + Endpoint()).value().devices.at(0).tenant, "alice");

  ASSERT_TRUE(RevokeMember(State(), "alice").ok());
  EXPECT_TRUE(Soon([&] { return Count("cpu", "free") == 1; }, 3)) << "her lease goes on";
  EXPECT_FALSE(client->Measure(JobOf({Compile(kDouble)})).ok());
  const auto again = Join(alice);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().Text(), HasSubstr("refuses this join file"));
  // Another member is not affected, and a server's key is no client's.
  EXPECT_TRUE(std::move(Join(InviteHere("bob", Role::kClient))).value()->Measure(JobOf({Compile(kDouble)})).ok());
  const auto as_server = std::move(Join(InviteHere("gpu", Role::kServer))).value();
  EXPECT_FALSE(as_server->Measure(JobOf({Compile(kDouble)})).ok());
  ASSERT_TRUE(RevokeMember(State(), "board").ok());
  EXPECT_TRUE(Soon([&] { return Count("cpu", "") == 0; }, 3)) << "the device of a revoked server is offered";
}

TEST_F(FarmMembers, KeepTheirLeasesOverARestartOfTheTracker) {
  ASSERT_NO_FATAL_FAILURE(Start());
  auto client = std::move(Join(InviteHere("alice", Role::kClient))).value();
  ASSERT_TRUE(client->Measure(JobOf({Compile(kDouble)})).ok());
  const std::string endpoint = ReadFarmMembers(State())->endpoints.at(0);
  tracker_->Kill();
  tracker_->Wait(10000);
  tracker_ = Run({kTools + "/rpc_tracker", "--listen", Endpoint(), "--listen", endpoint, "--state", State()});
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }, 10));
  const auto results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->at(0).status, TrialStatus::kOk) << results->at(0).error;
}

}  // namespace
}  // namespace autotune
