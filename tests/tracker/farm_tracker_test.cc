// A tracker in its own process, with servers and clients that come and go.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "rpc/join_file.h"
#include "rpc/transport.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/loop.h"
#include "tests/tracker/farm.h"
#include "tests/tracker/invite.h"

namespace autotune {
namespace {

using testing::HasSubstr;

class FarmTracker : public FarmTest {};

TEST_F(FarmTracker, HoldsADevice) {
  const char* endpoint = std::getenv("AUTOTUNE_TEST_CHILD");
  if (!endpoint) GTEST_SKIP() << "runs only as the child process of another test";
  EndWithParent();
  endpoint_ = endpoint;
  auto client = Client("cpu");
  (void)client->Measure(JobOf({Compile(kDouble)}));
  pause();
}

TEST_F(FarmTracker, RegisteringAndCounting) {
  Subprocess tracker = StartTracker();
  auto first = StartServer("pi:4"), second = StartServer("pi:4");
  ASSERT_TRUE(Soon([&] { return Count("pi:4") == 2; }));
  auto client = Client("pi:4");
  ASSERT_TRUE(client);
  auto results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(Count("pi:4"), 1);  // the client keeps its device for its next job
  EXPECT_EQ(Count("pi:4", "busy"), 1);
  client.reset();  // gives its device back
  EXPECT_TRUE(Soon([&] { return Count("pi:4") == 2; }));
  second.Kill();
  EXPECT_TRUE(Soon([&] { return Count("pi:4", "") == 1; }));
  first.Kill(SIGTERM);
  auto ended = first.Wait(10000);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->ok()) << ended->Text();
  EXPECT_TRUE(Soon([&] { return Count("pi:4", "") == 0; }));
}

// One server states an address at which nobody listens, another one the address of the first server.
TEST_F(FarmTracker, AServerAtAWrongAddressIsNamedAndGrantedToNobody) {
  Subprocess tracker = StartTracker();
  auto good = StartServer("good");
  ASSERT_TRUE(Soon([&] { return Count("good", "") == 1; }));
  const int64_t seen = BootMillis();
  ASSERT_TRUE(Soon([&] { return Count("good") == 1; }));
  EXPECT_LE(BootMillis() - seen, 1000);
  const std::string taken = rpc::QueryStatus("ipc://" + Endpoint(), "good", 1)->devices.at(0).endpoint;
  Loop loop;
  std::vector<std::unique_ptr<rpc::DealerSocket>> sockets;
  std::vector<Loop::Watch> reports;
  std::string told;  // by the tracker, to the server at the unused port
  for (const std::string& address : {std::string("tcp://127.0.0.1:1"), taken}) {
    rpc::ServerReport report{.server = rpc::RandomId(), .incarnation = "1", .ready = true};
    report.device = {.key = address == taken ? "taken" : "wrong", .endpoint = address};
    rpc::DealerSocket::Handlers handlers;
    handlers.on_message = [&, address](const rpc::Message& message) {
      const auto* reply = message.As<rpc::ReportReply>();
      if (reply && address != taken) told = reply->unreachable;
    };
    sockets.push_back(rpc::DealerSocket::Connect(loop, "ipc://" + Endpoint(), std::move(handlers)).value());
    reports.push_back(loop.Every(100, [&socket = *sockets.back(), report] { socket.Send({"", report, {}}); }));
  }
  std::jthread reporting([&] { loop.Run(); });
  ASSERT_TRUE(Soon([&] { return Count("wrong", "") + Count("wrong", "unreachable") == 1; }));
  const int64_t began = BootMillis();
  for (const char* key : {"wrong", "taken"}) {
    EXPECT_TRUE(Soon([&] { return Count(key, "unreachable") == 1; }));
    EXPECT_LE(BootMillis() - began, 6000) << key;
    auto client = Client(key, /*wait_seconds=*/0.2);
    EXPECT_FALSE(client->Measure(JobOf({Compile(kDouble)})).ok());
  }
  const rpc::StatusReply status = rpc::QueryStatus("ipc://" + Endpoint(), "", 1).value();
  std::map<std::string, std::string> why;
  for (const rpc::DeviceStatus& device : status.devices) why[device.key] = device.why;
  EXPECT_THAT(why["wrong"], HasSubstr("nobody answers the tracker at the server's address tcp://127.0.0.1:1"));
  EXPECT_THAT(why["taken"], HasSubstr("another program answers at the server's address " + taken));
  EXPECT_EQ(why["good"], "");
  EXPECT_EQ(status.grants, 0);
  loop.Stop();
  reporting.join();
  EXPECT_EQ(told, why["wrong"]);
}

TEST_F(FarmTracker, UnknownKeysAreRefusedWithNearMisses) {
  Subprocess tracker = StartTracker();
  auto server = StartServer("rpi4");
  ASSERT_TRUE(Soon([&] { return Count("rpi4") == 1; }));
  usleep(3000000);  // the tracker's grace period after its start must end first
  auto client = Client("rp4");
  auto results = client->Measure(JobOf({Compile(kDouble)}));
  ASSERT_FALSE(results.ok());
  EXPECT_THAT(results.error().Text(), HasSubstr("no device has the key `rp4`; did you mean `rpi4` (1 free)?"));
}

TEST_F(FarmTracker, ManyClientsShareTheDevicesAndAKilledOnesLeaseExpires) {
  Subprocess tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  Subprocess holder = RunSelf("FarmTracker.HoldsADevice", 1);
  ASSERT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }));
  // A client with a short wait gets an answer in time, with the reason.
  auto impatient = Client("cpu", 0.2)->Measure(JobOf({Compile(kDouble)}));
  ASSERT_FALSE(impatient.ok());
  EXPECT_THAT(impatient.error().Text(), HasSubstr("1 of 1 devices `cpu` busy"));
  holder.Kill();
  ASSERT_TRUE(holder.Wait(10000));
  auto results = Client("cpu")->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(results->front().status, TrialStatus::kOk);
}

// The books of a tracker whose folder for events is usable, and of one whose folder is not.
TEST_F(FarmTracker, EventsThatCannotBeWrittenStopNoAnswer) {
  for (const bool usable : {true, false}) {
    const std::string events = folder_ + "/events";
    usable ? void(std::filesystem::create_directory(events)) : void(std::filesystem::remove_all(events));
    setenv("AUTOTUNE_FARM_EVENTS", events.c_str(), 1);
    Subprocess tracker = StartTracker();
    unsetenv("AUTOTUNE_FARM_EVENTS");
    auto server = StartServer("cpu");
    ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
    const auto results = Client("cpu")->Measure(JobOf({Compile(kDouble)}));
    ASSERT_TRUE(results.ok()) << results.error().Text();
    ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; })) << "the lease has ended";
    std::string books;
    if (usable)
      for (const auto& file : std::filesystem::directory_iterator(events)) books += ReadFile(file.path()).value();
    for (const char* kind : {"leased", "returned"})
      EXPECT_EQ(books.find("\"kind\":\"" + std::string(kind) + "\"") != std::string::npos, usable) << kind << books;
    server.Kill();
    tracker.Kill();
    ASSERT_TRUE(server.Wait(10000) && tracker.Wait(10000));
  }
}

TEST_F(FarmTracker, TheTrackerIsRestartedInMidJob) {
  std::optional<Subprocess> tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  auto client = Client("cpu");
  std::vector<Blob> artifacts(14, Compile(kDouble));
  MeasureJob job = JobOf(artifacts);
  for (auto& c : job.candidates) c.min_repeat_ms = 50;
  std::atomic<int> count = 0;
  auto measured = std::async(std::launch::async,
                             [&] { return client->Measure(job, {.on_result = [&](const TrialResult&) { ++count; }}); });
  ASSERT_TRUE(Soon([&] { return count > 2; }));
  tracker->Kill();
  tracker->Wait(10000);
  tracker = StartTracker();
  // The lease survives: the server reports it, so the new tracker knows who holds the device.
  EXPECT_TRUE(Soon([&] { return Count("cpu", "busy") == 1; }));
  auto results = measured.get();
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(14, TrialStatus::kOk));
  EXPECT_EQ(count, 14);
  auto status = client->Status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->epoch, 2);
  // A new request is granted after the recovery.
  client.reset();
  results = Client("cpu")->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok()) << results.error().Text();
}

// The tracker refuses to start if it cannot store its epoch, or if another one uses its state.
TEST_F(FarmTracker, AStateFolderThatCannotBeUsedIsNamed) {
  const auto start = [&](const std::string& state, const std::string& socket) {
    const std::string log = folder_ + "/errors";
    const UniqueFd errors(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    auto tracker = Subprocess::Spawn(
        {.argv = {kTools + "/rpc_tracker", "--listen", socket, "--state", state}, .fds = {{2, errors.get()}}});
    const auto ended = tracker->Wait(10000);
    EXPECT_TRUE(ended && ended->code == 1);
    return ReadFile(log).value();
  };
  Subprocess tracker = Run({kTools + "/rpc_tracker", "--listen", Endpoint(), "--state", folder_ + "/new/state"});
  EXPECT_TRUE(Soon([&] { return std::filesystem::exists(folder_ + "/new/state/state.json"); }));
  EXPECT_EQ(std::filesystem::status(folder_ + "/new/state").permissions(), std::filesystem::perms::owner_all);
  EXPECT_THAT(start(folder_ + "/new/state", folder_ + "/other"),
              HasSubstr("error: another tracker uses the state folder " + folder_ + "/new/state\nhint: name another"));
  ASSERT_TRUE(WriteFile(folder_ + "/file", "").ok());
  EXPECT_THAT(start(folder_ + "/file", folder_ + "/other"), HasSubstr("is a file\nhint: name a folder with --state\n"));
  EXPECT_THAT(start(folder_ + "/file/state", folder_ + "/other"), HasSubstr("Not a directory"));
  // It is not a second one at this socket, either.
  EXPECT_THAT(start(folder_ + "/second", Endpoint()), HasSubstr("another program listens there"));
}

// The ends of holds are times of day in the tracker's file, so they come while no tracker runs, too. Holds that nobody
// can have asked for are left out.
TEST_F(FarmTracker, AHoldMayEndWhileTheTrackerIsGone) {
  const std::string later = std::to_string(WallMillis() + 3600000), past = std::to_string(WallMillis() - 1000);
  const auto hold = [](const std::string& pattern, const std::string& how, const std::string& until) {
    return R"({"pattern":")" + pattern + R"(","how":")" + how + R"(","note":"","who":"ann@lab","until":)" + until + "}";
  };
  std::filesystem::create_directory(folder_ + "/state");
  std::filesystem::permissions(folder_ + "/state", std::filesystem::perms::owner_all);
  std::ofstream(folder_ + "/state/state.json")
      << R"({"epoch":3,"keys":{},"holds":[)" + hold("over", "lock", past) + "," + hold("later", "drain", later) + "," +
             hold("endless", "lock", "0") + "," + hold("unknown", "paint", "0") + "," + hold("a b", "drain", "0") +
             "]}";
  const auto tracker = StartTracker();
  ASSERT_TRUE(Soon([&] { return rpc::QueryStatus("ipc://" + Endpoint(), "", 1).ok(); }));
  const std::vector<rpc::DeviceHold> holds = rpc::QueryStatus("ipc://" + Endpoint(), "", 5).value().holds;
  ASSERT_EQ(holds.size(), 2u);
  EXPECT_EQ(holds[0].pattern, "endless");
  EXPECT_EQ(holds[0].for_ms, 0);
  EXPECT_EQ(holds[1].pattern, "later");
  EXPECT_NEAR(static_cast<double>(holds[1].for_ms), 3600000, 60000);
}

TEST_F(FarmTracker, TheServerOutlivesTheTracker) {
  std::optional<Subprocess> tracker = StartTracker();
  auto server = StartServer("cpu");
  ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  tracker->Kill();
  tracker->Wait(10000);
  std::filesystem::remove(folder_ + "/state/state.json");
  usleep(1500000);
  tracker = StartTracker();
  EXPECT_TRUE(Soon([&] { return Count("cpu", "") == 1; }));
}

TEST_F(FarmTracker, OutOfDescriptorsTheTrackerNeitherSpinsNorDies) {
  auto [out, in] = std::move(MakePipe()).value();
  const std::string state = folder_ + "/state";
  const rpc::JoinFile member = Invite(state, "alice", rpc::Role::kClient).value();
  const std::string command =
      "ulimit -n 48; exec " + kTools + "/rpc_tracker --listen 127.0.0.1:0 --listen " + Endpoint() + " --state " + state;
  auto tracker = std::move(Subprocess::Spawn({.argv = {"/bin/sh", "-c", command}, .fds = {{1, in.get()}}})).value();
  in.Reset();
  std::string text;
  size_t at = std::string::npos;
  for (char c; (at = text.find("tcp://")) == std::string::npos || text.find(',', at) == std::string::npos;) {
    ASSERT_EQ(read(out.get(), &c, 1), 1) << text;
    text += c;
  }
  const std::string endpoint = text.substr(at, text.find(',', at) - at);
  const rpc::Address address_of_tracker({endpoint}, member.tracker_key, member.keys);
  ASSERT_TRUE(rpc::QueryStatus(address_of_tracker).ok());
  auto cpu_ticks = [&] {
    std::ifstream stat("/proc/" + std::to_string(tracker.pid()) + "/stat");
    std::string word;
    long ticks = 0;
    for (int field = 1; stat >> word; ++field) ticks += field == 14 || field == 15 ? std::stol(word) : 0;
    return ticks;
  };
  std::vector<UniqueFd> strangers;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 100; ++i) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  usleep(200000);
  long before = cpu_ticks();
  usleep(2000000);
  EXPECT_LT(cpu_ticks() - before, 100);  // of 200 ticks; a busy I/O thread would take them all
  strangers.clear();
  EXPECT_TRUE(Soon([&] { return rpc::QueryStatus(address_of_tracker, "", 1).ok(); }));
}

TEST_F(FarmTracker, EndpointsBeyondThisHostAreRefused) {
  auto [out, in] = std::move(MakePipe()).value();
  auto spawn = [&](std::vector<std::string> argv) {
    return std::move(Subprocess::Spawn({.argv = std::move(argv), .fds = {{2, in.get()}}})).value();
  };
  EXPECT_EQ(spawn({kTools + "/rpc_tracker", "--listen", "0.0.0.0:9190", "--state", folder_ + "/none"}).Wait(10000),
            (ExitStatus{1, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--tracker", "10.0.0.1:9190", "--key", "x"}).Wait(10000),
            (ExitStatus{1, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--tracker", Endpoint()}).Wait(10000), (ExitStatus{2, 0}));
  EXPECT_EQ(spawn({kTools + "/rpc_server", "--no-such-option"}).Wait(10000), (ExitStatus{2, 0}));
  in.Reset();
  std::string text;
  char bytes[512];
  for (ssize_t n; (n = read(out.get(), bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
  EXPECT_THAT(text, HasSubstr("refusing to listen on tcp://0.0.0.0:9190: this farm has no members\nhint: make some "
                              "first: rpc_tracker invite"));
  EXPECT_THAT(text, HasSubstr("10.0.0.1:9190: a tracker is reached over TCP with a join file only"));
  EXPECT_FALSE(FarmClient::Connect({.tracker = "example.org:1", .key = "x"}).ok());
  auto silent = FarmClient::Connect({.tracker = Endpoint(), .key = "x", .connect_seconds = 0.2});
  ASSERT_FALSE(silent.ok());
  EXPECT_THAT(silent.error().Text(), HasSubstr("no tracker answers"));
}

}  // namespace
}  // namespace autotune
