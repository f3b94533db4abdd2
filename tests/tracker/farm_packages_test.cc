// Packages that a server keeps for the next sessions of their clients, with the real programs over TCP.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <list>
#include <thread>

#include "rpc/remote_device.h"
#include "support/file.h"
#include "support/rng.h"
#include "tests/tracker/farm.h"
#include "tests/tracker/invite.h"

namespace autotune {
namespace {

using rpc::RemoteDevice;
using rpc::Role;
using testing::HasSubstr;

// Hands on the bytes of all connections to a port of this host, and counts those that go there.
class CountingRelay {
 public:
  CountingRelay() {
    sockaddr_in address = Local(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~CountingRelay() {
    stop_ = true;
    thread_.join();
  }
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  void SetTarget(int port) { target_ = port; }
  int64_t TakeBytes() { return bytes_.exchange(0); }

 private:
  static sockaddr_in Local(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  void Accept() {
    UniqueFd caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd target(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Local(target_);
    if (caller && connect(target.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      pairs_.emplace_back(std::move(caller), std::move(target));
  }
  // Hands on what has arrived. Returns false if an end is closed.
  bool Move(int from, int to, bool counts) {
    static char bytes[1 << 16];
    const ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (counts) bytes_ += n;
    for (ssize_t sent = 0; sent < n;) {
      const ssize_t more = send(to, bytes + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += more;
    }
    return n > 0;
  }
  void Run() {
    while (!stop_) {
      std::vector<pollfd> ends = {{listener_.get(), POLLIN, 0}};
      for (const auto& [caller, target] : pairs_) {
        ends.push_back({caller.get(), POLLIN, 0});
        ends.push_back({target.get(), POLLIN, 0});
      }
      if (poll(ends.data(), ends.size(), 20) <= 0) continue;
      size_t i = 1;
      std::erase_if(pairs_, [&](const auto& pair) {
        const bool to = ends[i++].revents != 0, back = ends[i++].revents != 0;
        return (to && !Move(pair.first.get(), pair.second.get(), true)) ||
               (back && !Move(pair.second.get(), pair.first.get(), false));
      });
      if (ends[0].revents) Accept();
    }
  }
  const UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
  std::atomic<int> target_{0};
  std::atomic<int64_t> bytes_{0};
  std::list<std::pair<UniqueFd, UniqueFd>> pairs_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class FarmPackages : public FarmTest {
 protected:
  static constexpr int64_t kBytes = 7 << 20;  // of the library

  void SetUp() override {
    FarmTest::SetUp();
    board_ = InviteHere("board", Role::kServer);
    alice_ = InviteHere("alice", Role::kClient);
    tracker_ = Run(
        {kTools + "/rpc_tracker", "--listen", Endpoint(), "--listen", "127.0.0.1:0", "--state", folder_ + "/state"});
    ASSERT_TRUE(Soon([&] { return Count("cpu", "") == 0; }));
    library_ = *Compile(kDouble);
    Rng rng(1);
    while (std::ssize(library_) < kBytes) library_ += static_cast<char>(rng.Next());
  }
  rpc::JoinFile InviteHere(const std::string& name, Role role) {
    return Invite(folder_ + "/state", name, role).value();
  }
  std::string WriteJoin(rpc::JoinFile file) {
    file.tracker = ReadFarmMembers(folder_ + "/state")->endpoints;
    const std::string path = folder_ + "/" + file.name + ".join";
    EXPECT_TRUE(ReplaceFileDurably(path, file.Text()).ok());
    return path;
  }
  void StartServer(const std::string& more = "") {
    if (server_) {
      server_->Kill();
      server_->Wait(10000);
      ASSERT_TRUE(Soon([&] { return Count("cpu") == 0; }));
    }
    const std::string command = "exec " + kTools + "/rpc_server --join " + WriteJoin(board_) +
                                " --key cpu --listen 127.0.0.1:" + std::to_string(port_) + " --state " + folder_ +
                                "/board --advertise " + relay_.endpoint() + more + " 2>" + folder_ + "/server.log";
    relay_.SetTarget(port_);
    server_ = Run({"/bin/sh", "-c", command});
    ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; })) << Log();
    relay_.TakeBytes();
  }
  std::string Log() const { return ReadFile(folder_ + "/server.log").value(); }
  std::string Kept() const { return folder_ + "/board/server-cpu-0.packages"; }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(Kept())) files.push_back(entry.path());
    return files;
  }
  // Loads the library in a session, and calls its kernel. Returns the number of bytes that went to the server, divided
  // by the size of the library.
  double ShareOfSession(const rpc::JoinFile& member) {
    {
      RemoteDevice::Options options{.farm = {.key = "cpu", .wait_seconds = 10}};
      options.farm.tracker = rpc::ReadJoinFile(WriteJoin(member)).value().TrackerAddress();
      const auto device = RemoteDevice::Connect(options);
      EXPECT_TRUE(device.ok()) << device.error().Text();
      const auto module = (*device)->LoadModule(library_, 1);
      EXPECT_TRUE(module.ok()) << module.error().Text();
      if (module.ok()) {
        EXPECT_TRUE((*module)->GetFunction("k").ok());
      }
    }
    EXPECT_TRUE(Soon([&] { return Count("cpu") == 1; }));
    return static_cast<double>(relay_.TakeBytes()) / kBytes;
  }

  CountingRelay relay_;
  // By default the system gives programs ports from 32768 on, so it does not give this one to another program.
  const int port_ = 20000 + getpid() % 10000;
  rpc::JoinFile board_, alice_;
  std::optional<Subprocess> tracker_, server_;
  std::string library_;
};

TEST_F(FarmPackages, AreSentOnce) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  EXPECT_GT(ShareOfSession(alice_), 1.0);
  EXPECT_LT(ShareOfSession(alice_), 0.01);
  EXPECT_GT(ShareOfSession(InviteHere("bob", Role::kClient)), 1.0) << "bob has not sent it";
  ASSERT_NO_FATAL_FAILURE(StartServer());
  EXPECT_LT(ShareOfSession(alice_), 0.01) << "the server was restarted";
  for (const auto& file : Files())
    EXPECT_EQ(std::filesystem::status(file.parent_path()).permissions(), std::filesystem::perms::owner_all);
  // The twin: a server that may keep none.
  ASSERT_NO_FATAL_FAILURE(StartServer(" --package-cache 0"));
  for (int i = 0; i < 2; ++i) EXPECT_GT(ShareOfSession(alice_), 1.0);
}

TEST_F(FarmPackages, ThatAreDamagedAreSentAgain) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  EXPECT_GT(ShareOfSession(alice_), 1.0);
  const auto files = Files();
  ASSERT_EQ(files.size(), 28u);
  std::filesystem::resize_file(files[3], 1000);
  std::fstream(files[20]).write("damage", 6);
  EXPECT_GT(ShareOfSession(alice_), 0.03);
  EXPECT_LT(ShareOfSession(alice_), 0.01);
}

TEST_F(FarmPackages, KeepToTheirQuota) {
  ASSERT_NO_FATAL_FAILURE(StartServer(" --package-cache 0.002"));
  for (int i = 0; i < 2; ++i) EXPECT_GT(ShareOfSession(alice_), 0.5);
  uintmax_t bytes = 0;
  for (const auto& file : Files()) bytes += std::filesystem::file_size(file);
  EXPECT_GT(bytes, uintmax_t{1 << 20});
  EXPECT_LE(bytes, uintmax_t{2147484});
}

TEST_F(FarmPackages, NeedNoPlaceToBeKept) {
  std::filesystem::create_directories(folder_ + "/board");
  std::ofstream(Kept()) << "a file";
  ASSERT_NO_FATAL_FAILURE(StartServer());
  for (int i = 0; i < 2; ++i) EXPECT_GT(ShareOfSession(alice_), 1.0);
  const std::string log = Log(), line = "packages are not kept";
  ASSERT_THAT(log, HasSubstr(line));
  EXPECT_EQ(log.find(line, log.find(line) + 1), std::string::npos) << log;
}

}  // namespace
}  // namespace autotune
