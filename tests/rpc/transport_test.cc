#include "rpc/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "support/json.h"
#include "support/rng.h"
#include "support/unique_fd.h"
#include "tests/rpc/bytes.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

TEST(Endpoint, IsCompletedOrRefused) {
  auto normal = [](const std::string& text) {
    auto r = NormalizeEndpoint(text);
    return r.ok() ? *r : r.error().Text();
  };
  EXPECT_EQ(normal("127.0.0.1:9190"), "tcp://127.0.0.1:9190");
  EXPECT_EQ(normal("tracker.lab:9190"), "tcp://tracker.lab:9190");
  EXPECT_EQ(normal("tcp://10.0.0.7:0"), "tcp://10.0.0.7:*");
  EXPECT_EQ(normal("*:9190"), "tcp://*:9190");
  EXPECT_EQ(normal("[fd00::7]:9190"), "tcp://[fd00::7]:9190");
  EXPECT_EQ(normal("[fe80::1%eth0]:9190"), "tcp://[fe80::1%eth0]:9190");
  EXPECT_EQ(normal("/run/x"), "ipc:///run/x");
  EXPECT_EQ(normal("ipc:///run/x"), "ipc:///run/x");
  EXPECT_THAT(normal("fd00::7:9190"), HasSubstr("an IPv6 address needs brackets"));
  EXPECT_THAT(normal("[fd00::7;x]:9190"), HasSubstr("bad host"));
  EXPECT_THAT(normal("a b:9190"), HasSubstr("bad host"));
  EXPECT_THAT(normal(":9190"), HasSubstr("bad host"));
  EXPECT_THAT(normal("127.0.0.1:99999"), HasSubstr("bad port"));
  EXPECT_THAT(normal("127.0.0.1"), HasSubstr("expected HOST:PORT"));
  EXPECT_THAT(normal("udp://127.0.0.1:1"), HasSubstr("only ipc:// and tcp://"));
  EXPECT_THAT(normal("ipc://relative"), HasSubstr("must be absolute"));
  EXPECT_THAT(normal("/" + std::string(107, 'x')), HasSubstr("at most 107"));
}

// An echo server and its clients, on one event loop.
struct Echo {
  Echo() {
    router = std::move(RouterSocket::Bind(
                           loop, path,
                           {.on_message =
                                [this](const From& from, Message message) {
                                  last_peer = from.peer;
                                  last_identity = from.identity;
                                  if (auto* ping = message.As<Ping>()) {
                                    router->Send(from.peer, {message.request, Pong{ping->payload}, message.blobs});
                                  }
                                },
                            .on_malformed = [this](const Peer&, const Refusal&) { ++malformed; }}))
                 .value();
    watchdog = loop.After(20000, [this] {
      ADD_FAILURE() << "no event for 20 seconds";
      loop.Stop();
    });
  }
  void RunFor(int64_t ms) {
    auto end = loop.After(ms, [this] { loop.Stop(); });
    loop.Run();
  }
  // Makes one round trip over a new connection.
  Message Ask(const Message& message) {
    std::unique_ptr<DealerSocket> dealer;
    Message answer;
    dealer = std::move(DealerSocket::Connect(loop, router->endpoint(),
                                             {.on_message =
                                                  [&](Message m) {
                                                    answer = std::move(m);
                                                    loop.Stop();
                                                  },
                                              .on_connected = [&] { dealer->Send(message); }}))
                 .value();
    loop.Run();
    return answer;
  }

  const std::string path = testing::TempDir() + "echo-" + RandomId();
  Loop loop;
  std::unique_ptr<RouterSocket> router;
  Loop::Watch watchdog;
  Peer last_peer;
  std::string last_identity;
  int malformed = 0;
};

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}
UniqueFd ConnectRaw(const Echo& echo) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = SocketAddress(echo.path);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}
void SendRaw(int fd, const std::string& bytes) {
  ssize_t ignored = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  (void)ignored;
}

// ZMTP 3.0: the greeting and the READY command of a socket without security. `properties`: further ones.
std::string Handshake(const std::string& socket_type = "DEALER", const std::string& properties = "") {
  std::string greeting = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
  greeting.resize(64, '\0');
  const std::string type = std::string("\0\0\0\6", 4) + socket_type;
  std::string ready = std::string("\x05READY\x0bSocket-Type", 18) + type + properties;
  return greeting + std::string("\x04", 1) + static_cast<char>(ready.size()) + ready;
}
std::string Frame(const std::string& bytes, bool more) {
  return std::string(1, more ? 1 : 0) + static_cast<char>(bytes.size()) + bytes;
}

// Receives until `text` has arrived, or for some seconds.
std::string ReceiveUntil(Echo& echo, int fd, const std::string& text) {
  std::string received;
  char bytes[4096];
  for (int i = 0; i < 1000 && received.find(text) == std::string::npos; ++i) {
    echo.RunFor(5);
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) received.append(bytes, static_cast<size_t>(n));
  }
  return received;
}
// Connects and completes the handshake: libzmq accepts messages only after it has sent its own READY.
UniqueFd ConnectAsDealer(Echo& echo, const std::string& properties = "") {
  UniqueFd fd = ConnectRaw(echo);
  SendRaw(fd.get(), Handshake("DEALER", properties));
  EXPECT_THAT(ReceiveUntil(echo, fd.get(), "ROUTER"), HasSubstr("READY"));
  return fd;
}

TEST(Transport, EchoesMessagesWithBlobs) {
  Echo echo;
  Message answer = echo.Ask({"q", Ping{"hello"}, {Bytes(std::string(3 << 20, 'x')), Bytes(""), Bytes("small")}});
  ASSERT_TRUE(answer.As<Pong>());
  EXPECT_EQ(answer.request, "q");
  EXPECT_EQ(answer.As<Pong>()->payload, "hello");
  ASSERT_EQ(answer.blobs.size(), 3u);
  EXPECT_EQ(answer.blobs[0]->size(), size_t{3} << 20);
  EXPECT_EQ(*answer.blobs[2], "small");
}

TEST(Transport, ASocketIsItsUsersWhateverTheUmaskIs) {
  const mode_t before = umask(0);
  Echo echo;
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat(echo.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// ZeroMQ hands on whatever User-Id a peer states over ipc.
TEST(Transport, APeerOverIpcHasNoIdentity) {
  Echo echo;
  const UniqueFd liar = ConnectAsDealer(echo, std::string("\7User-Id\0\0\0\5alice", 17));
  const Frames ping = Encode({"q", Ping{"who"}, {}});
  SendRaw(liar.get(), Frame(std::string(*ping[0]), true) + Frame(std::string(*ping[1]), false));
  EXPECT_THAT(ReceiveUntil(echo, liar.get(), "who"), HasSubstr("who"));
  EXPECT_EQ(echo.last_identity, "");
}

// ZeroMQ may know a new connection later than its monitor does. Of the connections of this test, 1 in 1,500 is such a
// one.
TEST(Transport, TheFirstMessageOnANewConnectionIsSent) {
  Echo echo;
  int unsent = 0;
  for (int i = 0; i < 3000; ++i) {
    std::unique_ptr<DealerSocket> dealer;
    auto on_connected = [&] {
      unsent += !dealer->Send({"", Ping{}, {}});
      echo.loop.Stop();
    };
    dealer = std::move(DealerSocket::Connect(echo.loop, echo.router->endpoint(),
                                             {.on_message = [](const Message&) {}, .on_connected = on_connected}))
                 .value();
    dealer->Send({"", Ping{}, {}});  // too early
    echo.loop.Run();
  }
  EXPECT_EQ(unsent, 0);
}

TEST(Transport, TheRouterKnowsWhenAPeerHasLeft) {
  Echo echo;
  echo.Ask({"q", Ping{"hello"}, {}});
  // Closing the socket closes the connection after a short time.
  Sent sent = Sent::kYes;
  for (int i = 0; i < 200 && sent == Sent::kYes; ++i) {
    echo.RunFor(10);
    sent = echo.router->Send(echo.last_peer, {"", Ping{}, {}});
  }
  EXPECT_EQ(sent, Sent::kGone);
}

TEST(Transport, AFullQueueIsNotAPeerThatHasLeft) {
  Echo echo;
  const UniqueFd peer = ConnectAsDealer(echo);  // does not read
  const std::string header =
      Json(Json::Object{{"major", kWireMajor}, {"minor", 0}, {"kind", "ping"}, {"request", "r"}}).Cbor();
  SendRaw(peer.get(), Frame(header, true) + Frame(Json(Json::Object{}).Cbor(), false));
  for (int i = 0; i < 500 && echo.last_peer.empty(); ++i) echo.RunFor(10);
  ASSERT_FALSE(echo.last_peer.empty());
  const Message large{"", Ping{}, {Bytes(std::string(1 << 20, 'x'))}};
  Sent sent = Sent::kYes;
  for (int i = 0; i < 1000 && sent == Sent::kYes; ++i) sent = echo.router->Send(echo.last_peer, large);
  EXPECT_EQ(sent, Sent::kFull);
}

TEST(Transport, AMessageOfTooManyFramesIsRefused) {
  Echo echo;
  const Message answer = echo.Ask({"q", Ping{}, std::vector<Blob>(20000, Bytes(""))});
  ASSERT_TRUE(answer.As<Refusal>());
  EXPECT_THAT(answer.As<Refusal>()->text, HasSubstr("at most 256 frames"));
  EXPECT_TRUE(echo.Ask({"q", Ping{}, std::vector<Blob>(kMaxFrames - 2, Bytes(""))}).As<Pong>());
}

// A socket is closed while much of its data is unsent, because the peer does not read. Then the peer leaves. ZeroMQ's
// only I/O thread reports this to a monitor that no longer exists; the thread must go on, since it serves all other
// sockets.
TEST(Transport, APeerThatLeavesAClosedSocketStopsNobodyElse) {
  Echo echo;
  const std::string path = echo.path + "-deaf";
  const sockaddr_un address = SocketAddress(path);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  UniqueFd deaf;  // speaks as a listener, and does not read
  std::thread accepting([&] {
    deaf.Reset(accept(listener.get(), nullptr, nullptr));
    SendRaw(deaf.get(), Handshake("ROUTER"));
  });
  std::unique_ptr<DealerSocket> dealer;
  int sent = 0;
  auto on_connected = [&] {
    Message large{"1", Ping{""}, {Bytes(std::string(1 << 20, 'x'))}};
    while (sent < 1000 && dealer->Send(large)) ++sent;
    echo.loop.Stop();
  };
  dealer =
      std::move(DealerSocket::Connect(echo.loop, path, {.on_message = [](Message) {}, .on_connected = on_connected}))
          .value();
  echo.loop.Run();
  accepting.join();
  unlink(path.c_str());
  EXPECT_GT(sent, 10);
  EXPECT_LT(sent, 1000);  // the rest waits in the socket's queue
  dealer.reset();
  deaf.Reset();
  echo.RunFor(50);
  EXPECT_NE(echo.Ask({"2", Ping{"still there"}, {}}).As<Pong>(), nullptr);
}

TEST(Transport, ASecondListenerIsRefused) {
  Echo echo;
  auto second = RouterSocket::Bind(echo.loop, echo.router->endpoint(), {.on_message = [](const From&, Message) {}});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().Text(), HasSubstr("another program listens there"));
}

TEST(Transport, TheClientConnectsAgainToARestartedRouter) {
  Loop loop;
  int connected = 0, pongs = 0;
  std::unique_ptr<RouterSocket> router;
  std::string endpoint = testing::TempDir() + "restarted-" + RandomId();
  auto start = [&] {
    router = std::move(RouterSocket::Bind(loop, endpoint,
                                          {.on_message =
                                               [&](const From& f, Message m) {
                                                 router->Send(f.peer, {m.request, Pong{}, {}});
                                               }}))
                 .value();
    endpoint = router->endpoint();
  };
  start();
  std::unique_ptr<DealerSocket> dealer;
  Loop::Watch restart;
  dealer = std::move(DealerSocket::Connect(loop, endpoint,
                                           {.on_message =
                                                [&](Message) {
                                                  if (++pongs == 2) return loop.Stop();
                                                  router.reset();
                                                },
                                            .on_connected =
                                                [&] {
                                                  ++connected;
                                                  dealer->Send({"q", Ping{}, {}});
                                                },
                                            .on_disconnected =
                                                [&] {
                                                  restart = loop.After(100, [&] {
                                                    EXPECT_FALSE(dealer->Send({"lost", Ping{}, {}}));  // not queued
                                                    start();
                                                  });
                                                }}))
               .value();
  auto watchdog = loop.After(20000, [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(pongs, 2);
  EXPECT_EQ(connected, 2);
}

TEST(Transport, GarbageOnTheRealSocketHarmsNobody) {
  Echo echo;
  Rng rng(3);
  std::vector<UniqueFd> open;
  for (int i = 0; i < 200; ++i) {
    open.push_back(ConnectRaw(echo));
    std::string bytes = rng.Below(2) ? Handshake() : "";
    for (int64_t n = rng.Below(300); n > 0; --n) bytes += static_cast<char>(rng.Next());
    if (rng.Below(4) == 0) bytes.resize(static_cast<size_t>(rng.Below(static_cast<int64_t>(bytes.size()) + 1)));
    SendRaw(open.back().get(), bytes);
    if (rng.Below(2)) open.back().Reset();
    if (i % 20 == 0) echo.RunFor(1);
  }
  // Frames that announce 2^62 bytes, announce a size just above the limit, or never end.
  for (const std::string& head : {std::string("\x02\x40\0\0\0\0\0\0\0", 9), std::string("\x02\0\0\0\0\0\x50\0\0", 9),
                                  std::string("\x03\0\0\0\0\0\x30\0\0", 9)}) {
    open.push_back(ConnectAsDealer(echo));
    SendRaw(open.back().get(), head + "some of it");
  }
  // An HTTP request, as a browser sends it.
  open.push_back(ConnectRaw(echo));
  SendRaw(open.back().get(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  echo.RunFor(50);
  EXPECT_TRUE(echo.Ask({"q", Ping{"still here"}, {}}).As<Pong>());
}

TEST(Transport, MalformedMessagesAreCountedAndRefused) {
  Echo echo;
  UniqueFd fd = ConnectAsDealer(echo);
  SendRaw(fd.get(), Frame("no header", true) + Frame("no body", false) + Frame("a single frame", false));
  EXPECT_THAT(ReceiveUntil(echo, fd.get(), "at least two frames"), HasSubstr("malformed"));
  EXPECT_EQ(echo.malformed, 2);
  EXPECT_TRUE(echo.Ask({"q", Ping{}, {}}).As<Pong>());
}

TEST(Transport, AnotherMajorVersionIsToldSo) {
  Echo echo;
  UniqueFd fd = ConnectAsDealer(echo);
  std::string header = Json(Json::Object{{"major", 9}, {"minor", 0}, {"kind", "ping"}, {"request", "r"}}).Cbor();
  SendRaw(fd.get(), Frame(header, true) + Frame(Json(Json::Object{}).Cbor(), false));
  std::string ours = std::to_string(kWireMajor) + "." + std::to_string(kWireMinor);
  EXPECT_THAT(ReceiveUntil(echo, fd.get(), "9.0"), HasSubstr("this side speaks wire version " + ours + ", not 9.0"));
}

// A tracker makes connections for whoever reports to it. Without free descriptors, one fails and the process goes on.
TEST(Transport, AConnectionWithoutDescriptorsFails) {
  Loop loop;
  const auto end = loop.After(1, [&] { loop.Stop(); });
  loop.Run();  // the loop makes its own descriptors at its first use
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  int failed = 0, made = 0;
  for (rlim_t spare = 0; spare < 12; ++spare) {
    const int next = dup(0);
    close(next);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next) + spare;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto connected =
        DealerSocket::Connect(loop, "ipc:///nobody-listens-here", {}, DealerSocket::Peers::kStranger);
    setrlimit(RLIMIT_NOFILE, &before);
    ++(connected.ok() ? made : failed);
    EXPECT_THAT(connected.ok() ? "" : connected.error().Text(), testing::AnyOf("", HasSubstr("Too many open files")));
  }
  EXPECT_GE(failed, 2);
  EXPECT_GE(made, 1);
}

}  // namespace
}  // namespace autotune::rpc
