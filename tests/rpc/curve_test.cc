// Keys: who is let in over TCP, join files, and the proofs of grants.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>

#include "rpc/capability.h"
#include "rpc/join_file.h"
#include "rpc/tracker_keys.h"
#include "rpc/transport.h"
#include "support/file.h"
#include "support/unique_fd.h"
#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

bool IsRefused(const DealerSocket& dealer) { return dealer.refused() != DealerSocket::Refused::kNo; }

// A listener with two members, which answers pings.
struct Lab {
  Lab() {
    Listener listener("127.0.0.1:0");
    listener.keys = keys;
    listener.allowed = allowed;
    router = std::move(RouterSocket::Bind(loop, listener,
                                          {.on_message =
                                               [this](const From& from, const Message& message) {
                                                 last = from;
                                                 Answer(from.peer, message.request);
                                               }}))
                 .value();
  }
  void Answer(const Peer& peer, const Id& request) {
    StatusReply status;
    status.next_key = next_key.value_or("");
    router->Send(peer, {request, next_key ? Body(status) : Body(Pong{"yes"}), {}});
  }
  Address AddressFor(const CurveKeys& own) const { return {{router->endpoint()}, keys.public_key, own}; }
  // Returns "yes", "refused" if the handshake is, the text of a refusal, or "" if nothing answers.
  std::string Ask(const Address& address, int64_t patience_ms = 3000,
                  DealerSocket::Peers peers = DealerSocket::Peers::kMember) {
    std::string answer;
    std::unique_ptr<DealerSocket> dealer;
    dealer = DealerSocket::Connect(loop, address,
                                   {.on_message =
                                        [&](const Message& m) {
                                          if (auto* pong = m.As<Pong>()) answer = pong->payload;
                                          if (m.As<StatusReply>()) answer = "yes";
                                          if (auto* refusal = m.As<Refusal>()) answer = refusal->text;
                                          loop.Stop();
                                        },
                                    .on_connected =
                                        [&] {
                                          dealer->Send({"q", Ping{}, {}});
                                        }},
                                   peers)
                 .value();
    const auto patience = loop.After(patience_ms, [&] { loop.Stop(); });
    const auto look = loop.Every(20, [&] {
      if (IsRefused(*dealer)) loop.Stop();
    });
    loop.Run();
    return answer.empty() && IsRefused(*dealer) ? "refused" : answer;
  }

  const CurveKeys keys = NewCurveKeys(), alice = NewCurveKeys(), board = NewCurveKeys();
  std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>(AllowList::Entries{
      {alice.public_key, {"alice", {Role::kClient}}}, {board.public_key, {"board", {Role::kServer}}}});
  Loop loop;
  std::unique_ptr<RouterSocket> router;
  From last;
  std::optional<std::string> next_key;  // that the answers tell
};

TEST(Curve, MembersAreLetInUnderTheirNamesAndStrangersAreNot) {
  Lab lab;
  EXPECT_EQ(lab.Ask(lab.AddressFor(lab.alice)), "yes");
  EXPECT_EQ(lab.last.identity, lab.alice.public_key);
  EXPECT_EQ(lab.last.name, "alice");
  EXPECT_EQ(lab.last.address, "127.0.0.1");
  EXPECT_TRUE(lab.last.roles.Has(Role::kClient));
  EXPECT_FALSE(lab.last.roles.Has(Role::kServer));
  EXPECT_FALSE(lab.last.roles.Has(Role::kAdmin));
  EXPECT_EQ(lab.Ask(lab.AddressFor(lab.board)), "yes");
  EXPECT_TRUE(lab.last.roles.Has(Role::kServer));
  lab.last = {};
  EXPECT_EQ(lab.Ask(lab.AddressFor(NewCurveKeys())), "refused");
  Address wrong = lab.AddressFor(lab.alice);
  wrong.public_key = NewCurveKeys().public_key;
  EXPECT_EQ(lab.Ask(wrong), "refused");
  EXPECT_EQ(lab.last.identity, "");
}

TEST(Curve, AMemberMayBeRevokedAndInvitedWhileItIsConnected) {
  Lab lab;
  std::vector<std::string> answers;
  std::unique_ptr<DealerSocket> dealer;
  int connected = 0;
  dealer = DealerSocket::Connect(lab.loop, lab.AddressFor(lab.alice),
                                 {.on_message =
                                      [&](const Message& m) {
                                        answers.push_back(m.As<Pong>() ? "yes" : m.As<Refusal>()->text);
                                        lab.loop.Stop();
                                      },
                                  .on_connected =
                                      [&] {
                                        ++connected;
                                        dealer->Send({"q", Ping{}, {}});
                                      }})
               .value();
  const auto patience = lab.loop.After(10000, [&] { lab.loop.Stop(); });
  lab.loop.Run();
  const AllowList::Entries nobody, all = {{lab.alice.public_key, {"alice", {Role::kClient}}}};
  lab.allowed->Set(nobody);
  dealer->Send({"q", Ping{}, {}});
  lab.loop.Run();
  lab.allowed->Set(all);
  dealer->Send({"q", Ping{}, {}});
  lab.loop.Run();
  EXPECT_THAT(answers, testing::ElementsAre("yes", HasSubstr("was revoked"), "yes"));
  EXPECT_EQ(connected, 1);
  EXPECT_EQ(lab.Ask(lab.AddressFor(lab.board)), "refused");
}

// A member with a connection to a lab.
struct Connected {
  Connected(Lab& lab, const CurveKeys& own) {
    dealer = DealerSocket::Connect(lab.loop, lab.AddressFor(own),
                                   {.on_message = [&lab](const Message&) { lab.loop.Stop(); },
                                    .on_connected =
                                        [this] {
                                          dealer->Send({"q", Ping{}, {}});
                                        },
                                    .on_disconnected =
                                        [this, &lab] {
                                          lost = true;
                                          lab.loop.Stop();
                                        }})
                 .value();
    lab.loop.Run();  // until the answer
  }
  std::unique_ptr<DealerSocket> dealer;
  bool lost = false;
};

// One who asks again, and one who says nothing more. Those who are members still keep their connections.
TEST(Curve, TheConnectionsOfARevokedMemberAreClosed) {
  for (const bool asks : {true, false}) {
    Lab lab;
    Connected alice(lab, lab.alice), board(lab, lab.board);
    ASSERT_FALSE(alice.lost || board.lost);
    lab.allowed->Set({{lab.board.public_key, {"board", {Role::kServer}}}});
    if (asks) {
      alice.dealer->Send({"q", Ping{}, {}});
    } else {
      lab.router->CloseRevoked();
    }
    const auto patience = lab.loop.After(5000, [&] { lab.loop.Stop(); });
    for (int stops = 0; !alice.lost && stops < 3; ++stops) lab.loop.Run();
    EXPECT_TRUE(alice.lost) << asks;
    EXPECT_FALSE(board.lost) << asks;
    EXPECT_EQ(lab.Ask(lab.AddressFor(lab.alice)), "refused");
  }
}

// A connection that was closed meanwhile may have given its descriptor to another member.
TEST(Curve, OnlyTheConnectionsOfTheRevokedAreClosed) {
  Lab lab;
  auto alice = std::make_unique<Connected>(lab, lab.alice);
  alice.reset();
  const auto pause = lab.loop.After(200, [&] { lab.loop.Stop(); });
  lab.loop.Run();
  Connected board(lab, lab.board);
  lab.allowed->Set({{lab.board.public_key, {"board", {Role::kServer}}}});
  lab.router->CloseRevoked();
  const auto patience = lab.loop.After(1000, [&] { lab.loop.Stop(); });
  lab.loop.Run();
  EXPECT_FALSE(board.lost);
}

// A refused member tries again, since it may be invited, or the tracker restored from a backup.
TEST(Curve, AMemberThatIsInvitedLateGetsIn) {
  Lab lab;
  const CurveKeys late = NewCurveKeys();
  bool answered = false;
  std::unique_ptr<DealerSocket> dealer;
  dealer = DealerSocket::Connect(lab.loop, lab.AddressFor(late),
                                 {.on_message =
                                      [&](const Message&) {
                                        answered = true;
                                        lab.loop.Stop();
                                      },
                                  .on_connected =
                                      [&] {
                                        dealer->Send({"q", Ping{}, {}});
                                      }})
               .value();
  const auto invited = lab.loop.After(300, [&] {
    EXPECT_TRUE(IsRefused(*dealer));
    lab.allowed->Set({{late.public_key, {"late", {Role::kClient}}}});
  });
  const auto patience = lab.loop.After(10000, [&] { lab.loop.Stop(); });
  lab.loop.Run();
  EXPECT_TRUE(answered);
  EXPECT_FALSE(IsRefused(*dealer));
}

// A tracker may be killed while a member connects to it. Its successor lets the member in.
// A port of this host, whose test accepts the connections.
struct BarePort {
  BarePort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
          getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
          listen(listener.get(), 8) == 0);
    endpoint = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const UniqueFd listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  std::string endpoint;
};

TEST(Curve, APeerThatEndsDuringAHandshakeRefusesNobody) {
  const BarePort port;
  const UniqueFd& listener = port.listener;
  Loop loop;
  int ended = 0, most = 1;
  const auto accept_some = loop.OnReadable(listener.get(), [&] {
    const UniqueFd connection(accept(listener.get(), nullptr, nullptr));
    if (connection && ++ended == most) loop.Stop();
  });
  const auto dealer =
      DealerSocket::Connect(loop, {{port.endpoint}, NewCurveKeys().public_key, NewCurveKeys()}, {.on_message = {}})
          .value();
  const auto run = [&](int64_t ms) {
    const auto patience = loop.After(ms, [&] { loop.Stop(); });
    loop.Run();
  };
  run(5000);
  EXPECT_EQ(ended, 1);
  run(30);  // until the socket knows
  EXPECT_FALSE(IsRefused(*dealer));
  most = 5;  // it is another program
  run(10000);
  EXPECT_TRUE(IsRefused(*dealer));
}

// Who has learned the next key follows the listener; whoever was away, or does not take the peer for its tracker, needs
// a new join file.
TEST(Curve, AMemberFollowsItsTrackerToTheNextKey) {
  for (const auto peers : {DealerSocket::Peers::kTracker, DealerSocket::Peers::kMember}) {
    const bool learns = peers == DealerSocket::Peers::kTracker;
    Lab lab;
    const CurveKeys next = NewCurveKeys();
    lab.next_key = next.public_key;
    Address address = lab.AddressFor(lab.alice);
    address.keys_file = testing::TempDir() + "keys-" + RandomId() + "/alice.json";
    int answers = 0;
    std::unique_ptr<DealerSocket> dealer;
    const auto ask = [&] { dealer->Send({"q", Ping{}, {}}); };
    dealer = DealerSocket::Connect(lab.loop, address,
                                   {.on_message =
                                        [&](const Message&) {
                                          ++answers;
                                          lab.loop.Stop();
                                        },
                                    .on_connected = ask,
                                    .on_refused = [&] { lab.loop.Stop(); }},
                                   peers)
                 .value();
    const auto run = [&] {
      const auto patience = lab.loop.After(10000, [&] { lab.loop.Stop(); });
      lab.loop.Run();
    };
    run();
    EXPECT_EQ(answers, 1);
    EXPECT_EQ(WithKnownKeys(address).next_key, learns ? next.public_key : "");
    lab.router->ChangeKeys(next);
    lab.next_key = "";
    run();
    EXPECT_EQ(answers, learns ? 2 : 1);
    EXPECT_EQ(dealer->refused(), learns ? DealerSocket::Refused::kNo : DealerSocket::Refused::kOtherKey);
    dealer.reset();
    // A later process of the same member knows the key, and the earlier one is void for it.
    EXPECT_EQ(WithKnownKeys(address).public_key, learns ? next.public_key : address.public_key);
    EXPECT_EQ(lab.Ask(address, 3000, peers), learns ? "yes" : "refused");
    lab.router->ChangeKeys(lab.keys);
    EXPECT_EQ(lab.Ask(address, 3000, peers), learns ? "refused" : "yes");
    std::filesystem::remove_all(std::filesystem::path(address.keys_file).parent_path());
  }
}

TEST(Curve, DamagedKeysOfATrackerDoNotCount) {
  Address address({"tcp://127.0.0.1:1"}, NewCurveKeys().public_key, NewCurveKeys());
  address.keys_file = testing::TempDir() + "keys-" + RandomId();
  for (const std::string text : {"{", "{}", "{\"key\":\"x\"}", "[]"}) {
    ASSERT_TRUE(WriteFile(address.keys_file, text).ok());
    EXPECT_EQ(WithKnownKeys(address).public_key, address.public_key) << text;
  }
  std::filesystem::remove(address.keys_file);
  // The file belongs to one join file: another one of this member, or of this tracker, has another file.
  const std::string mine = TrackerKeysFile("me", "tracker");
  EXPECT_NE(mine, TrackerKeysFile("me", "another"));
  EXPECT_NE(mine, TrackerKeysFile("you", "tracker"));
  EXPECT_EQ(mine, TrackerKeysFile("me", "tracker"));
}

TEST(Curve, TheNextEndpointIsTriedIfOneIsSilent) {
  Lab lab;
  Address address = lab.AddressFor(lab.alice);
  address.endpoints.insert(address.endpoints.begin(), "tcp://127.0.0.1:1");  // nobody listens at port 1
  EXPECT_EQ(lab.Ask(address, 5000), "yes");
}

// Over a slow link, a handshake may take longer than the time to the next attempt at another endpoint.
TEST(Curve, AHandshakeUnderWayIsNotBegunAnewForAnotherEndpoint) {
  Lab lab;
  const BarePort slow;
  Address address = lab.AddressFor(NewCurveKeys());  // unknown to the lab, which is asked every second
  address.endpoints.push_back(slow.endpoint);
  std::vector<UniqueFd> accepted;
  const auto accept_some = lab.loop.OnReadable(
      slow.listener.get(), [&] { accepted.emplace_back(accept(slow.listener.get(), nullptr, nullptr)); });
  int refusals = 0;
  const auto dealer = DealerSocket::Connect(lab.loop, address, {.on_message = {}}).value();
  const auto end = lab.loop.After(2500, [&] {
    refusals = static_cast<int>(IsRefused(*dealer));
    lab.loop.Stop();
  });
  lab.loop.Run();
  EXPECT_EQ(refusals, 1);
  EXPECT_EQ(accepted.size(), 1u);
}

// libzmq names an endpoint by its address after the first connection.
TEST(Curve, AConnectionToANameIsMadeAgain) {
  Lab lab;
  Address address = lab.AddressFor(lab.alice);
  address.endpoints = {"tcp://127.0.0.1:1", "tcp://localhost:" + PortOf(lab.router->endpoint())};
  int answers = 0;
  std::unique_ptr<DealerSocket> dealer;
  dealer = DealerSocket::Connect(lab.loop, address,
                                 {.on_message =
                                      [&](const Message&) {
                                        ++answers;
                                        lab.loop.Stop();
                                      },
                                  .on_connected =
                                      [&] {
                                        dealer->Send({"q", Ping{}, {}});
                                      }})
               .value();
  for (int i = 1; i <= 3; ++i) {
    const auto patience = lab.loop.After(10000, [&] { lab.loop.Stop(); });
    lab.loop.Run();
    EXPECT_EQ(answers, i);
    EXPECT_EQ(dealer->endpoint(), address.endpoints[1]);
    lab.router->ChangeKeys(lab.keys);
  }
}

TEST(Curve, NothingListensOrConnectsOverTcpWithoutKeys) {
  Loop loop;
  const auto listening = RouterSocket::Bind(loop, "127.0.0.1:0", {.on_message = [](const From&, const Message&) {}});
  ASSERT_FALSE(listening.ok());
  EXPECT_THAT(listening.error().Text(), HasSubstr("refusing to listen on tcp://127.0.0.1:*: anyone who reaches"));
  const auto connecting = DealerSocket::Connect(loop, "127.0.0.1:9190", {});
  ASSERT_FALSE(connecting.ok());
  EXPECT_THAT(connecting.error().Text(), HasSubstr("needs the keys of a join file"));
}

TEST(Curve, JoinFilesAreCheckedWhenTheyAreRead) {
  JoinFile file{.name = "alice",
                .role = "client",
                .tracker = {"tcp://10.0.0.7:9190"},
                .tracker_key = NewCurveKeys().public_key,
                .keys = NewCurveKeys()};
  const auto parse = [](const JoinFile& f) { return ParseJoinFile(f.Text(), "alice.join"); };
  ASSERT_TRUE(parse(file).ok());
  EXPECT_EQ(parse(file)->Text(), file.Text());
  const auto expect_bad = [&](const std::function<void(JoinFile&)>& spoil, const std::string& why) {
    JoinFile bad = file;
    spoil(bad);
    const auto parsed = parse(bad);
    ASSERT_FALSE(parsed.ok()) << why;
    EXPECT_THAT(parsed.error().Text(),
                testing::AllOf(HasSubstr("alice.join is not a usable join file"), HasSubstr(why)));
  };
  expect_bad([](JoinFile& f) { f.keys.public_key = NewCurveKeys().public_key; }, "do not belong together");
  expect_bad([](JoinFile& f) { f.keys.secret_key.pop_back(); }, "40 characters");
  expect_bad([](JoinFile& f) { f.tracker_key = "x"; }, "the tracker's key");
  expect_bad([](JoinFile& f) { f.next_tracker_key = "x"; }, "the tracker's key");
  expect_bad([](JoinFile& f) { f.tracker.clear(); }, "without an endpoint");
  expect_bad([](JoinFile& f) { f.tracker = {"nowhere"}; }, "expected HOST:PORT");
  expect_bad([](JoinFile& f) { f.role = "king"; }, "unknown role 'king'");
  expect_bad([](JoinFile& f) { f.name = "a b"; }, "no name");
  expect_bad([](JoinFile& f) { f.format = 2; }, "its format is 2");
  EXPECT_FALSE(ParseJoinFile("{", "x").ok());

  const std::string path = testing::TempDir() + "alice-" + RandomId() + ".join";
  ASSERT_TRUE(WriteFile(path, file.Text()).ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(ReadJoinFile(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const auto open = ReadJoinFile(path);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().Text(), HasSubstr("other users of this host may read"));
  std::filesystem::remove(path);
}

TEST(Capability, ProvesExactlyWhatWasGranted) {
  const std::string key = NewGrantKey(), alice = NewCurveKeys().public_key, bob = NewCurveKeys().public_key;
  const Capability granted{"lease", {3, 7}, "incarnation", 10000, alice};
  const std::string proof = ProofOf(granted, key);
  EXPECT_EQ(proof.size(), 64u);
  EXPECT_TRUE(IsProof(proof, granted, key));
  std::vector<Capability> others(6, granted);
  others[0].lease = "leas";
  others[1].token.epoch = 4;
  others[2].token.counter = 70;
  others[3].incarnation = "later";
  others[4].ttl_ms = 100000;
  others[5].client_key = bob;
  for (const Capability& other : others) EXPECT_FALSE(IsProof(proof, other, key));
  EXPECT_FALSE(IsProof(proof, granted, NewGrantKey()));
  EXPECT_FALSE(IsProof("", granted, key));
  EXPECT_FALSE(IsProof("", granted, ""));  // without a key, nothing is proven
}

// Trackers and servers of other versions make the same proof of the same grant. The digits are from Python's hashlib.
TEST(Capability, TheProofIsThatOfOtherVersions) {
  const std::string key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  EXPECT_EQ(ProofOf({"lease", {3, 7}, "incarnation", 10000, "client"}, key),
            "152311b25045dcf4eef247e12015315f695a13a94b1eaa5ce793b36fcbef83bf");
  EXPECT_NE(ProofOf({"lease", {3, 7}, "incarnation", 1000, "0client"}, key),
            "152311b25045dcf4eef247e12015315f695a13a94b1eaa5ce793b36fcbef83bf");
}

TEST(ServerSession, AnAuthenticatedClientProvesItsLease) {
  const std::string grant_key = NewGrantKey();
  const From alice{.peer = "alice", .identity = NewCurveKeys().public_key, .roles = {Role::kClient}};
  const From eve{.peer = "eve", .identity = NewCurveKeys().public_key, .roles = {Role::kClient}};
  ServerWorld w(
      {.server = ServerWorld::kServer, .incarnation = "i1", .device = {.key = "cpu"}, .grant_key = grant_key});
  MeasureRequest batch = ServerWorld::Batch(1, 1);
  LeaseClaim& claim = batch.claim;
  const auto expect_forbidden = [&](const From& from) {
    w.sent.clear();
    w.SayAs(from, batch);
    EXPECT_THAT(w.RefusalText(), HasSubstr("not granted to the owner of this key"));
    EXPECT_FALSE(w.session.Busy());
  };
  expect_forbidden(alice);
  claim.proof = ProofOf({claim.lease, claim.token, claim.incarnation, claim.ttl_ms, alice.identity}, grant_key);
  expect_forbidden(eve);  // has overheard it
  // A server that was restarted has another key, and says why the lease has ended: its client then takes another
  // device.
  claim.incarnation = "i0";
  w.sent.clear();
  w.SayAs(alice, batch);
  EXPECT_THAT(w.RefusalText(), HasSubstr("lease_lost: this lease has ended: the server was restarted"));
  claim.incarnation = "i1";
  w.SayAs(alice, batch);
  EXPECT_TRUE(w.session.Busy());
  // Nobody else ends her lease, either.
  w.SayAs(eve, LeaseEnd{claim});
  EXPECT_TRUE(w.session.Busy());
  w.SayAs(alice, LeaseEnd{claim});
  EXPECT_FALSE(w.session.Busy());
  EXPECT_EQ(w.tracker.back().As<ServerReport>()->grant_key, grant_key);
}

}  // namespace
}  // namespace autotune::rpc
