// The page of a real tracker with a real device server: who may read and act, and what /metrics and /status.json say.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "rpc/query_tracker.h"
#include "support/file.h"
#include "support/json.h"
#include "support/subprocess.h"
#include "tests/http/client.h"
#include "tests/http/metrics_parser.h"

namespace autotune {
namespace {

using http::BodyIn;
using http::Fetch;
using http::StatusIn;
using testing::HasSubstr;

const std::string kPrograms = std::string(AUTOTUNE_BINARY_DIR) + "/tools";
constexpr char kElsewhere[] = "X-Forwarded-For: 10.0.0.7\r\n";  // as if a proxy had sent it
constexpr char kActs[] = "Content-Type: application/json\r\nX-Autotune: 1\r\n";

template <class F>
bool Soon(F condition, int64_t ms = 30000) {
  for (const int64_t end = BootMillis() + ms; BootMillis() < end; usleep(20000))
    if (condition()) return true;
  return condition();
}

class FarmPage : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "page-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("AUTOTUNE_HOST_LOCK", (folder_ + "/lock").c_str(), 1);
    StartTracker("127.0.0.1:0");
  }
  void TearDown() override {
    server_.reset();
    tracker_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string State() const { return folder_ + "/state"; }

  std::unique_ptr<Subprocess> Spawn(std::vector<std::string> argv, const std::string& out) {
    argv[0] = kPrograms + "/" + argv[0];
    const UniqueFd file(open((folder_ + "/" + out).c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    auto child = Subprocess::Spawn({.argv = std::move(argv), .fds = {{1, file.get()}, {2, file.get()}}});
    EXPECT_TRUE(child.ok());
    return std::make_unique<Subprocess>(std::move(child).value());
  }
  void StartTracker(const std::string& address) {
    tracker_ = Spawn({"rpc_tracker", "--state", State(), "--http", address}, "tracker.out");
    const std::string begin = "page at http://127.0.0.1:";
    std::string text;
    ASSERT_TRUE(Soon([&] {
      text = ReadFile(folder_ + "/tracker.out").value();
      return text.find(begin) != std::string::npos && text.ends_with('\n');
    })) << text;
    port_ = std::stoi(text.substr(text.find(begin) + begin.size()));
  }
  void StartServer() {
    server_ = Spawn({"rpc_server", "--tracker", "ipc://" + State() + "/socket", "--key", "pi"}, "server.out");
    ASSERT_TRUE(Soon([&] { return StateOfDevice() == "free"; })) << ReadFile(folder_ + "/server.out").value();
  }
  Json Status() { return Json::Parse(BodyIn(Fetch(port_, "GET", "/status.json"))).value(); }
  Json Device() {
    const Json status = Status();
    const auto* devices = status["devices"].As<Json::Object>();
    return devices && devices->size() == 1 ? devices->begin()->second : Json();
  }
  std::string StateOfDevice() {
    const Json device = Device();
    const auto* state = device["state"].As<std::string>();
    return state ? *state : "";
  }
  std::string Invite(const std::string& name, const std::string& role) {
    const std::string file = name + ".token";
    auto command = Spawn({"rpc_tracker", "invite", name, "--role", role, "--state", State()}, file);
    EXPECT_TRUE(command->Wait(20000));
    const std::string said = ReadFile(folder_ + "/" + file).value();
    EXPECT_THAT(said, HasSubstr("note: with this token, " + name + " may read"));
    // The note may come first or last, since both streams go to this file.
    const size_t note = said.find("note:");
    const std::string token = note == 0 ? said.substr(said.find('\n') + 1, 64) : said.substr(0, 64);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos) << said;
    return token;
  }
  int Read(const std::string& token) {
    return StatusIn(Fetch(port_, "GET", "/status.json", kElsewhere + ("Authorization: Bearer " + token + "\r\n")));
  }
  std::string Act(const std::string& token, const std::string& wish) {
    return Fetch(port_, "POST", "/act", kActs + ("Authorization: Bearer " + token + "\r\n"), wish);
  }

  std::string folder_;
  int port_ = 0;
  std::unique_ptr<Subprocess> tracker_, server_;
};

TEST_F(FarmPage, ShowsDevicesAndMetrics) {
  StartServer();
  EXPECT_EQ(Device()["key"], Json("pi"));
  EXPECT_EQ(BodyIn(Fetch(port_, "GET", "/healthz")), "ok\n");
  EXPECT_THAT(Fetch(port_, "GET", "/"), HasSubstr("<script src=\"/farm.js\">"));
  EXPECT_THAT(Fetch(port_, "GET", "/farm.js"), HasSubstr("'use strict';"));
  EXPECT_THAT(Fetch(port_, "GET", "/chart.js"), HasSubstr("Chart.js v3"));
  const http::Metrics read = http::MetricsParser::Parse(BodyIn(Fetch(port_, "GET", "/metrics")));
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.samples.at("autotune_devices{key=\"pi\",state=\"free\"}"), 1);
  if (std::system("command -v promtool >/dev/null") == 0) {  // of Debian's package prometheus
    const std::string check = "promtool check metrics < " + folder_ + "/metrics";
    std::ofstream(folder_ + "/metrics") << BodyIn(Fetch(port_, "GET", "/metrics"));
    EXPECT_EQ(std::system(check.c_str()), 0);
  }
  server_->Kill(SIGTERM);
  EXPECT_TRUE(Soon([&] { return Status()["devices"].As<Json::Object>()->empty(); }));
}

TEST_F(FarmPage, TokensOpenItAndRevocationsCloseIt) {
  EXPECT_EQ(Read("0123"), 401);
  const std::string token = Invite("vera", "viewer");
  EXPECT_TRUE(Soon([&] { return Read(token) == 200; }));
  std::string wrong = token;
  wrong[63] = wrong[63] == '0' ? '1' : '0';
  EXPECT_EQ(Read(wrong), 401);
  EXPECT_EQ(StatusIn(Fetch(port_, "GET", "/status.json", kElsewhere)), 401);
  const std::string members = ReadFile(State() + "/members.json").value();
  EXPECT_EQ(members.find(token), std::string::npos) << "the tracker keeps no token";
  http::RawClient stream(port_);
  stream.Send("GET /events HTTP/1.1\r\nHost: farm\r\n" + std::string(kElsewhere) + "Authorization: Bearer " + token +
              "\r\n\r\n");
  EXPECT_THAT(stream.ReadUntil("event: patch"), HasSubstr("event: patch"));
  EXPECT_TRUE(Spawn({"rpc_tracker", "revoke", "vera", "--state", State()}, "revoke.out")->Wait(20000));
  EXPECT_TRUE(Soon([&] { return Read(token) == 401; }));
  stream.ReadAll();
  EXPECT_TRUE(stream.closed()) << "what its owner still reads ends, too";
}

TEST_F(FarmPage, OperatorsDrainAndOthersDoNot) {
  StartServer();
  const std::string viewer = Invite("vera", "viewer"), operates = Invite("olaf", "operator");
  const std::string drain = R"({"do":"drain","pattern":"pi","note":"new fans"})";
  ASSERT_TRUE(Soon([&] { return Read(viewer) == 200 && Read(operates) == 200; }));
  EXPECT_EQ(StatusIn(Act(viewer, drain)), 403);
  EXPECT_EQ(StatusIn(Act("0123", drain)), 401);
  EXPECT_EQ(StatusIn(Fetch(port_, "POST", "/act", kActs, drain)), 401);
  EXPECT_EQ(
      StatusIn(Fetch(port_, "POST", "/act",
                     kActs + ("Cookie: autotune_token=" + operates + "\r\nOrigin: http://evil.example\r\n"), drain)),
      403);
  EXPECT_EQ(StateOfDevice(), "free");
  EXPECT_EQ(BodyIn(Act(operates, drain)), R"({"done":"pi is drained"})");
  EXPECT_TRUE(Soon([&] { return StateOfDevice() == "drained"; }));
  EXPECT_EQ(Device()["why"], Json("drained by olaf: new fans"));
  EXPECT_EQ(StatusIn(Act(operates, R"({"do":"drain","pattern":"nothing"})")), 409);
  EXPECT_EQ(StatusIn(Act(operates, R"({"do":"release","lease":"abc"})")), 409);
  EXPECT_EQ(StatusIn(Act(operates, R"({"do":"explode"})")), 400);
  EXPECT_EQ(StatusIn(Act(operates, R"({"do":"undrain","pattern":"pi"})")), 200);
  EXPECT_TRUE(Soon([&] { return StateOfDevice() == "free"; }));
}

TEST_F(FarmPage, AnAddressOfNobodyIsRefused) {
  auto second = Spawn({"rpc_tracker", "--state", folder_ + "/other", "--http", "farm.example:80"}, "second.out");
  ASSERT_TRUE(second->Wait(20000));
  EXPECT_THAT(ReadFile(folder_ + "/second.out").value(), HasSubstr("--http: 'farm.example:80' is no HOST:PORT"));
}

// Each of many strange connections is answered or closed, and the tracker goes on lending.
TEST_F(FarmPage, StrangersDoNotDisturbTheTracker) {
  StartServer();
  std::vector<std::unique_ptr<http::RawClient>> idle;
  for (int i = 0; i < 500; ++i) idle.push_back(std::make_unique<http::RawClient>(port_));
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<http::RawClient>(port_, 4096));  // readers that never read
    idle.back()->Send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const rpc::Address address("ipc://" + State() + "/socket");
  for (int i = 0; i < 20; ++i) {
    const int64_t begin = BootMillis();
    EXPECT_TRUE(rpc::QueryStatus(address, "", 5).ok());
    EXPECT_LT(BootMillis() - begin, 2000);
  }
  EXPECT_EQ(StateOfDevice(), "free");
}

}  // namespace
}  // namespace autotune
