// Members of a farm who reach it over TCP, with the real programs.
#include <atomic>
#include <csignal>
#include <thread>

#include "rpc/query_tracker.h"
#include "support/file.h"
#include "tests/tracker/farm.h"
#include "tests/tracker/invite.h"

namespace autotune {
namespace {

using rpc::Role;
using testing::HasSubstr;

class FarmMembers : public FarmTest {
 protected:
  // Starts a tracker for members, at a free port, and a server that joins it.
  void Start(const std::string& more = "") {
    board_ = InviteHere("board", Role::kServer);
    const std::string command = "exec " + kTools + "/rpc_tracker --listen " + Endpoint() +
                                " --listen 127.0.0.1:0 --state " + State() + more + " >" + File("tracker.log") +
                                " 2>&1";
    tracker_ = Run({"/bin/sh", "-c", command});
    ASSERT_TRUE(Soon([&] { return Count("cpu", "") == 0; }));
    StartServer();
  }
  void StartServer() {
    server_ = Run({kTools + "/rpc_server", "--join", WriteJoin(board_), "--key", "cpu"});
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
  Result<std::unique_ptr<FarmClient>> Join(const rpc::JoinFile& file, const std::string& key = "cpu",
                                           double wait_seconds = 3) {
    rpc::FarmOptions options{.tracker = rpc::ReadJoinFile(WriteJoin(file)).value().TrackerAddress(), .key = key};
    options.wait_seconds = wait_seconds;
    options.connect_seconds = 3;
    return FarmClient::Connect(options);
  }

  // Runs a command of rpc_tracker on a host without the tracker's files. Its output goes to files of this name.
  bool Elsewhere(const std::string& words, const std::string& name = "command", const std::string& variables = "") {
    const std::string command = "XDG_STATE_HOME=" + folder_ + "/elsewhere " + variables + " exec " + kTools +
                                "/rpc_tracker " + words + " >" + File(name) + " 2>" + File(name) + ".err";
    return Run({"/bin/sh", "-c", command}).Wait(30000) == ExitStatus{0, 0};
  }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::string Output(const std::string& name = "command") const { return ReadFile(File(name)).value(); }
  std::string Complaint() const { return Output("command.err"); }

  std::optional<Subprocess> tracker_, server_;
  rpc::JoinFile board_;
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
  EXPECT_TRUE(Soon([&] { return Count("cpu", "free") == 1; }, 8)) << "her lease goes on";
  EXPECT_FALSE(client->Measure(JobOf({Compile(kDouble)})).ok());
  const auto again = Join(alice);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().Text(), HasSubstr("refuses this join file"));
  // Another member is not affected, and a server's key is no client's.
  EXPECT_TRUE(std::move(Join(InviteHere("bob", Role::kClient))).value()->Measure(JobOf({Compile(kDouble)})).ok());
  const auto as_server = std::move(Join(InviteHere("gpu", Role::kServer))).value();
  EXPECT_FALSE(as_server->Measure(JobOf({Compile(kDouble)})).ok());
  ASSERT_TRUE(RevokeMember(State(), "board").ok());
  EXPECT_TRUE(Soon([&] { return Count("cpu", "") == 0; }, 8)) << "the device of a revoked server is offered";
}

// A server that dies is switched off and on; one that says goodbye is not.
TEST_F(FarmMembers, SilentOnesAreSwitchedOffAndOn) {
  const std::string command = "echo $AUTOTUNE_MEMBER $AUTOTUNE_KEY $AUTOTUNE_ADDRESS >>" + File("switched");
  ASSERT_NO_FATAL_FAILURE(Start(" --power-cycle-after 1s --power-cycle '" + command + "; exit 3'"));
  const auto switched = [&] { return test::ReadAll(File("switched")); };
  server_->Kill(SIGKILL);
  EXPECT_TRUE(Soon([&] { return Output("tracker.log").find("failed: it exited with code 3") != std::string::npos; }))
      << Output("tracker.log");
  const std::string lines = switched();
  EXPECT_THAT(lines, testing::StartsWith("board cpu 127.0.0.1\n"));
  ASSERT_NO_FATAL_FAILURE(StartServer());
  const std::string before = switched();
  server_->Kill(SIGTERM);
  EXPECT_TRUE(Soon([&] { return Count("cpu", "") == 0; }));
  usleep(2'500'000);
  EXPECT_EQ(switched(), before);
}

// A board may hang while the tracker is gone, too.
TEST_F(FarmMembers, OneThatIsSilentAtTheTrackersStartIsSwitchedAndOneThatLeftIsNot) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    ASSERT_NO_FATAL_FAILURE(Start());
    server_->Kill(signal);
    server_->Wait(10000);
    ASSERT_TRUE(Soon([&] { return Count("cpu", "") == 0; }));
    tracker_->Kill();
    tracker_->Wait(10000);
    tracker_ = Run({kTools + "/rpc_tracker", "--listen", Endpoint(), "--listen", "127.0.0.1:0", "--state", State(),
                    "--power-cycle-after", "1s", "--power-cycle",
                    "echo $AUTOTUNE_MEMBER $AUTOTUNE_KEY $AUTOTUNE_ADDRESS >>" + File("switched")});
    const auto switched = [&] { return test::ReadAll(File("switched")); };
    if (signal == SIGKILL) {
      EXPECT_TRUE(Soon([&] { return switched() == "board cpu 127.0.0.1\n"; }, 10)) << switched();
    } else {
      usleep(3'000'000);
      EXPECT_EQ(switched(), "");
    }
    tracker_->Kill();
    tracker_->Wait(10000);
    std::filesystem::remove(File("switched"));
  }
}

TEST_F(FarmMembers, AreAdministeredFromElsewhere) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string admin = " --join " + WriteJoin(InviteHere("ann", Role::kAdmin));
  ASSERT_TRUE(Elsewhere("invite carol --role client" + admin, "carol.join")) << Output("carol.join.err");
  const rpc::JoinFile carol = rpc::ReadJoinFile(File("carol.join")).value();
  EXPECT_EQ(carol.tracker, ReadFarmMembers(State())->endpoints);
  for (const auto& file : std::filesystem::recursive_directory_iterator(State())) {
    if (!file.is_regular_file()) continue;
    EXPECT_THAT(ReadFile(file.path()).value(), testing::Not(HasSubstr(carol.keys.secret_key))) << file.path();
  }
  ASSERT_TRUE(std::move(Join(carol)).value()->Measure(JobOf({Compile(kDouble)})).ok());
  EXPECT_TRUE(Elsewhere("members" + admin));
  EXPECT_THAT(Output(), testing::AllOf(HasSubstr("ann    admin   invited 20"), HasSubstr("carol  client  invited 20")));

  const std::string hers = " --join " + File("carol.join");
  for (const std::string words : {"members", "invite eve --role admin", "revoke ann", "drain cpu", "release 1"}) {
    EXPECT_FALSE(Elsewhere(words + hers)) << words;
    EXPECT_THAT(Complaint(), HasSubstr("is that of the client carol; only administrators may")) << words;
  }
  EXPECT_TRUE(Elsewhere("status --json" + hers));
  const rpc::Address her_address = carol.TrackerAddress();
  const auto forbidden = rpc::QueryTracker(her_address, {.body = rpc::MemberRevoke{"ann"}, .first_minor = 5});
  ASSERT_FALSE(forbidden.ok());
  EXPECT_THAT(forbidden.error().Text(), HasSubstr("the sender may not send a member_revoke"));
  const auto too_old = rpc::QueryTracker(her_address, {.body = rpc::MemberRevoke{"ann"}, .first_minor = 99});
  ASSERT_FALSE(too_old.ok());
  EXPECT_THAT(too_old.error().Text(), HasSubstr(", which knows no member_revoke (hint: install a later rpc_tracker"));

  EXPECT_TRUE(Elsewhere("drain cpu" + admin));
  EXPECT_EQ(Count("cpu", "drained"), 1);
  EXPECT_TRUE(Elsewhere("undrain cpu --state " + State()));  // on the tracker's host
  EXPECT_EQ(Count("cpu"), 1);
  EXPECT_TRUE(Elsewhere("revoke carol", "command", "AUTOTUNE_JOIN=" + File("ann.join")));
  EXPECT_FALSE(Join(carol).ok()) << "the answer came before the revocation";
  EXPECT_THAT(Output("tracker.log"), testing::AllOf(HasSubstr("member ann (admin) was invited on this host\n"),
                                                    HasSubstr("member carol (client) was invited by ann\n"),
                                                    HasSubstr("member carol (client) was revoked by ann\n")));
  EXPECT_FALSE(Elsewhere("revoke carol --state " + State()));
  EXPECT_THAT(Complaint(), HasSubstr("there is no member carol"));
  EXPECT_FALSE(Elsewhere("drain cpu --state " + folder_ + admin));
  EXPECT_THAT(Complaint(), HasSubstr("--state excludes --tracker and --join"));
  EXPECT_FALSE(Elsewhere("drain cpu --state " + folder_));
  EXPECT_THAT(Complaint(), HasSubstr("no tracker has run with the state folder " + folder_));
}

// Such artifacts are too large for one message.
TEST_F(FarmMembers, UploadLargeBatches) {
  ASSERT_NO_FATAL_FAILURE(Start());
  auto client = std::move(Join(InviteHere("alice", Role::kClient))).value();
  const auto padded = [](int64_t bytes) {
    std::string artifact(*Compile(kDouble));
    artifact.resize(static_cast<size_t>(bytes), 'x');
    return rpc::MakeBlob(std::move(artifact));
  };
  const auto results = client->Measure(JobOf(
      {padded(rpc::kMaxBlobBytes + 1), padded(rpc::kMaxUploadedBlobBytes), padded(rpc::kMaxUploadedBlobBytes + 1)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->at(0).status, TrialStatus::kOk) << results->at(0).error;
  EXPECT_EQ(results->at(1).status, TrialStatus::kOk) << results->at(1).error;
  EXPECT_EQ(results->at(2).status, TrialStatus::kUploadFailed);
  EXPECT_THAT(results->at(2).error, HasSubstr("at most 8388608"));
}

TEST_F(FarmMembers, LearnTheTrackersNextKey) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string admin = " --join " + WriteJoin(InviteHere("ann", Role::kAdmin));
  const rpc::JoinFile alice = InviteHere("alice", Role::kClient), dave = InviteHere("dave", Role::kClient);
  auto client = std::move(Join(alice)).value();
  ASSERT_TRUE(client->Measure(JobOf({Compile(kDouble)})).ok());
  const std::string before = ReadFarmMembers(State())->keys.public_key;
  ASSERT_TRUE(Elsewhere("rotate --for 4s" + admin)) << Complaint();
  EXPECT_THAT(Output(), HasSubstr("the tracker has a new key from 20"));
  const rpc::JoinFile bob = InviteHere("bob", Role::kClient);
  EXPECT_TRUE(Join(bob).ok()) << "while the earlier key holds";
  ASSERT_TRUE(Soon([&] { return ReadFarmMembers(State())->keys.public_key != before; }, 10));
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }, 10)) << "the server and alice's lease";
  ASSERT_TRUE(client->Measure(JobOf({Compile(kDouble)})).ok());
  client.reset();
  EXPECT_TRUE(Join(bob).ok());
  EXPECT_TRUE(Join(InviteHere("carol", Role::kClient)).ok());
  const auto away = Join(dave);
  ASSERT_FALSE(away.ok());
  EXPECT_THAT(away.error().Text(), HasSubstr("has another key than this join file says"));
  // A server that is started again with its old join file has kept the key.
  server_->Kill();
  server_->Wait(10000);
  server_ = Run({kTools + "/rpc_server", "--join", File("board.join"), "--key", "cpu2"});
  EXPECT_TRUE(Soon([&] { return Count("cpu2") == 1; }, 10));
}

// What keeps a server from joining is in its log at once.
TEST_F(FarmMembers, OfAServerAreToldWhyTheyAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Start());
  rpc::JoinFile gpu = InviteHere("gpu", Role::kServer), lost = gpu;
  lost.tracker_key = rpc::NewCurveKeys().public_key;
  lost.name = "lost";
  ASSERT_TRUE(RevokeMember(State(), "gpu").ok());
  for (const auto& [file, why] :
       {std::pair{gpu, "refuses this join file: the member was revoked"}, {lost, "has another key than this join"}}) {
    const std::string log = File(file.name + ".log");
    const int64_t began = BootMillis();
    Subprocess server = Run(
        {"/bin/sh", "-c", "exec " + kTools + "/rpc_server --join " + WriteJoin(file) + " --key gpu >" + log + " 2>&1"});
    const auto told = [&, why = std::string(why)] { return Output(file.name + ".log").find(why) != std::string::npos; };
    EXPECT_TRUE(Soon([&] { return std::filesystem::exists(log) && told(); }, 5)) << Output(file.name + ".log");
    EXPECT_LT(BootMillis() - began, 3000) << "a second, and the start of the server";
    server.Kill();
  }
}

// A client waits in vain. Returns how long it takes until its wait tells this text, or -1 after 10 s.
int64_t TimeUntilTold(FarmClient& client, const std::string& text) {
  std::atomic<bool> told = false;
  const int64_t began = BootMillis();
  std::jthread measuring([&] {
    (void)client.Measure(JobOf({Compile(kDouble)}), {.on_wait = [&](const rpc::DeviceWait& wait) {
                           if (wait.text.find(text) != std::string::npos) told = true;
                         }});
  });
  const int64_t time = Soon([&] { return told.load(); }, 10) ? BootMillis() - began : -1;
  client.Cancel();
  return time;
}

// A server states a wrong address, or one that is closed to the others: tuner, status and both logs name it.
TEST_F(FarmMembers, AreToldWhyTheyDoNotReachAServer) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto start = [&](const std::string& words) {
    const std::string command = "exec " + kTools + "/rpc_server --join " + WriteJoin(InviteHere("gpu", Role::kServer)) +
                                words + " >" + File("server.log") + " 2>&1";
    return Run({"/bin/sh", "-c", command});
  };
  auto client = std::move(Join(InviteHere("alice", Role::kClient), "gpu", 60)).value();
  const auto in = [&](const std::string& name, const std::string& text) {
    return Soon([&] { return Output(name).find(text) != std::string::npos; }, 3);
  };
  const auto status = [&] {
    const rpc::StatusReply reply = rpc::QueryStatus("ipc://" + Endpoint(), "gpu").value();
    return reply.devices.empty() ? rpc::DeviceStatus() : reply.devices[0];
  };
  {
    const std::string refused =
        "nobody answers the tracker at the server's address tcp://127.0.0.1:1 (connection refused)";
    const int64_t began = BootMillis();
    Subprocess server = start(" --key gpu --advertise 127.0.0.1:1");
    ASSERT_TRUE(Soon([&] { return status().state == "unreachable"; }, 10));
    EXPECT_LE(BootMillis() - began, 6000);
    EXPECT_EQ(status().why, refused);
    const int64_t told = TimeUntilTold(*client, refused);
    EXPECT_TRUE(told >= 0 && told < 2000) << told;
    EXPECT_TRUE(in("tracker.log", refused)) << Output("tracker.log");
    EXPECT_TRUE(in("tracker.log", "to help: open port 1 on the server's host")) << Output("tracker.log");
    EXPECT_TRUE(in("server.log", refused)) << Output("server.log");
    server.Kill();
    server.Wait(10000);
  }
  Subprocess server = start(" --key gpu");
  ASSERT_TRUE(Soon([&] { return Count("gpu") == 1; }, 10));
  kill(server.pid(), SIGSTOP);  // the tracker has reached it, and the client does not
  const std::string silent = "(accepts connections, but no server of this farm answers)";
  const int64_t told = TimeUntilTold(*client, silent);
  EXPECT_TRUE(told >= 0 && told < 6000) << told;
  EXPECT_THAT(status().why, testing::AllOf(HasSubstr("the client alice ("), HasSubstr(silent)));
  EXPECT_TRUE(in("tracker.log", silent)) << Output("tracker.log");
  kill(server.pid(), SIGCONT);
  EXPECT_TRUE(in("server.log", silent)) << Output("server.log");
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
