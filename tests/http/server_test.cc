#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "http/merge_patch.h"
#include "support/rng.h"
#include "support/sanitized.h"
#include "tests/http/client.h"

namespace autotune::http {
namespace {

using testing::HasSubstr;
using testing::Not;

std::unique_ptr<Server> Echo(Limits limits = {}) {
  auto server =
      Server::Start({.address = "127.0.0.1:0", .limits = limits, .on_request = [](const Request& r, Answer answer) {
                       if (r.path == "/events") return answer({.streams = true});
                       if (r.path == "/state") return answer({.sends_state = true});
                       if (r.path == "/never") return;
                       answer(TextResponse(200, r.method + " " + r.path + " " + r.body));
                     }});
  EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().Text());
  return std::move(*server);
}

template <class F>
bool Soon(F condition, int64_t ms = 20000) {
  for (const int64_t end = BootMillis() + ms; BootMillis() < end; usleep(5000))
    if (condition()) return true;
  return condition();
}

TEST(HttpServer, AnswersRequestsAndKeepsConnections) {
  const auto server = Echo();
  RawClient client(server->port());
  client.Send("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\nPOST /d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
  const std::string both = client.ReadUntil("POST /d xyz");
  EXPECT_THAT(both, HasSubstr("GET /a "));
  EXPECT_THAT(both, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
  EXPECT_FALSE(client.closed());
  EXPECT_EQ(StatusIn(Fetch(server->port(), "GET", "/")), 200);
}

TEST(HttpServer, AHeadRequestGetsNoBody) {
  const auto server = Echo();
  const std::string response = Fetch(server->port(), "HEAD", "/long");
  EXPECT_EQ(StatusIn(response), 200);
  EXPECT_THAT(response, HasSubstr("Content-Length: 10"));
  EXPECT_EQ(BodyIn(response), "");
  EXPECT_EQ(BodyIn(Fetch(server->port(), "GET", "/long")), "GET /long ");
}

TEST(HttpServer, WhatIsTooLargeOrMalformedGetsItsStatus) {
  const auto server = Echo();
  const auto status = [&](const std::string& bytes) {
    RawClient client(server->port());
    client.Send(bytes);
    client.EndSending();
    return StatusIn(client.ReadAll());
  };
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(7000, 'a') + "\r\n\r\n"), 200);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(9000, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"), 413);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\n\r\n"), 400) << "no host";
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), 400) << "two hosts";
  EXPECT_EQ(status("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/9.7\r\nHost: x\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HT"), 400);
  EXPECT_EQ(status("\x16\x03\x01\x02"), 400) << "TLS";
  EXPECT_EQ(status(std::string(4, '\0')), 400);
}

TEST(HttpServer, AThousandMalformedRequestsHarmNobody) {
  const auto server = Echo();
  Rng rng(1);
  const std::string good = "GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nAccept: */*\r\n\r\nbody";
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    for (int64_t changes = 1 + rng.Below(8); changes > 0; --changes) {
      const auto at = static_cast<size_t>(rng.Below(static_cast<int64_t>(bytes.size())));
      switch (rng.Below(3)) {
        case 0:
          bytes[at] = static_cast<char>(rng.Below(256));
          break;
        case 1:
          bytes.insert(at, std::string(1 + static_cast<size_t>(rng.Below(20)), static_cast<char>(rng.Below(256))));
          break;
        default:
          bytes.resize(at + 1);
      }
    }
    RawClient client(server->port());
    client.Send(bytes);
    client.EndSending();
    const std::string response = client.ReadAll();
    const int status = StatusIn(response);
    EXPECT_TRUE(status == 200 || (status >= 400 && status < 504)) << response << " for " << bytes;
    refused += status >= 400;
  }
  EXPECT_GE(refused, 100);
  EXPECT_EQ(StatusIn(Fetch(server->port(), "GET", "/")), 200);
  EXPECT_TRUE(Soon([&] { return server->Connections() == 0; })) << server->Connections();
}

TEST(HttpServer, IdleConnectionsEndAndMakeRoom) {
  const auto server = Echo({.connections = 64, .request_ms = 1000});
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 500; ++i) {
    idle.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(idle.back()->connected());
    if (i % 2) idle.back()->Send("GET / HT");
  }
  EXPECT_LE(server->Connections(), 64u + 64u);
  EXPECT_EQ(StatusIn(Fetch(server->port(), "GET", "/")), 200) << "a request takes the place of an idle connection";
  for (const auto& client : idle) EXPECT_EQ(StatusIn(client->ReadAll()), 408);
  EXPECT_TRUE(Soon([&] { return server->Connections() == 0; }));
}

TEST(HttpServer, ARequestThatDripsEnds) {
  const auto server = Echo({.request_ms = 500});
  RawClient client(server->port());
  const int64_t begin = BootMillis();
  for (int i = 0; i < 100 && client.Send("G"); ++i) {
    if (StatusIn(client.ReadUntil("\r\n\r\n", 20)) != 0) break;
  }
  EXPECT_EQ(StatusIn(client.ReadUntil("\r\n\r\n")), 408);
  EXPECT_LT(BootMillis() - begin, 5000);
}

TEST(HttpServer, AHandlerThatDoesNotAnswerGets503) {
  const auto server = Echo({.answer_ms = 200});
  EXPECT_EQ(StatusIn(Fetch(server->port(), "GET", "/never")), 503);
}

TEST(HttpServer, StreamsGetTheStateAndItsChanges) {
  const auto server = Echo();
  server->Publish([] { return Json(Json::Object{{"a", 1}, {"b", "x"}}); });
  RawClient client(server->port());
  client.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\"b\":\"x\"}\n\n"), HasSubstr("event: state\ndata: {\"a\":1,\"b\":\"x\"}"));
  server->Publish([] { return Json(Json::Object{{"a", 2}, {"b", "x"}}); });
  const std::string text = client.ReadUntil("\"a\":2}\n\n");
  EXPECT_THAT(text, HasSubstr("event: patch\ndata: {\"a\":2}\n\n"));
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(Fetch(server->port(), "GET", "/state"), HasSubstr("{\"a\":2,\"b\":\"x\"}"));
}

TEST(HttpServer, ASlowReaderGetsTheLatestStateAndIsCutOff) {
  const auto server = Echo({.write_ms = kSanitized ? 15000 : 1500});
  RawClient slow(server->port(), 4096), fast(server->port());
  for (RawClient* client : {&slow, &fast}) client->Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto large = [](int n) { return Json(Json::Object{{"n", n}, {"text", std::string(200000, 'a' + n % 26)}}); };
  for (int n = 0; n < 40; ++n) {
    server->Publish([&large, n] { return large(n); });
    const std::string latest = "\"n\":" + std::to_string(n) + ",";
    EXPECT_THAT(fast.ReadUntil(latest), HasSubstr(latest));
    fast.Clear();
  }
  EXPECT_TRUE(Soon([&] { return server->Connections() == 1; }, 60000)) << "the slow one is cut off";
  EXPECT_EQ(StatusIn(Fetch(server->port(), "GET", "/")), 200);
}

// Readers who never read must not hold a version of the state each.
TEST(HttpServer, ReadersWhoHoldOldTextsAreCutOffBeyondALimit) {
  const auto server = Echo({.held_bytes = 1 << 20, .write_ms = 60000});
  std::vector<std::unique_ptr<RawClient>> slow;
  int64_t most = 0;
  for (int n = 0; n < 30; ++n) {
    slow.push_back(std::make_unique<RawClient>(server->port(), 4096));
    slow.back()->Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    server->Publish([n] { return Json(Json::Object{{"text", std::string(600000, static_cast<char>('a' + n % 26))}}); });
    Fetch(server->port(), "GET", "/");  // so the server has taken the state
    most = std::max(most, server->Memory());
  }
  // The state, its texts, and what slow readers hold.
  EXPECT_LT(most, 6 * 600000 + (2 << 20));
  EXPECT_GT(most, 600000);
  EXPECT_TRUE(Soon([&] { return server->Connections() < 10; })) << server->Connections();
}

TEST(HttpServer, StreamsHaveALimit) {
  const auto server = Echo({.streams = 2});
  server->Publish([] { return Json(Json::Object{{"a", 1}}); });
  std::vector<std::unique_ptr<RawClient>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::make_unique<RawClient>(server->port()));
    readers.back()->Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(StatusIn(readers.back()->ReadUntil("\r\n\r\n")), i < 2 ? 200 : 503);
  }
  readers.erase(readers.begin());
  EXPECT_TRUE(Soon([&] {
    RawClient reader(server->port());
    reader.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    return StatusIn(reader.ReadUntil("\r\n\r\n")) == 200;
  })) << "a reader that leaves makes room";
}

TEST(HttpServer, AnAnswerAfterTheEndIsDropped) {
  Answer kept;
  auto server = Server::Start(
      {.address = "127.0.0.1:0", .on_request = [&](const Request&, Answer answer) { kept = std::move(answer); }});
  RawClient client((*server)->port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Soon([&] { return (*server)->Connections() == 1; }));
  client.ReadUntil("\r\n", 200);
  server->reset();
  ASSERT_TRUE(kept);
  kept(TextResponse(200, "late"));
  EXPECT_EQ(client.ReadAll(), "");
}

TEST(HttpServer, WrongAddressesAreNamed) {
  for (const char* address : {"", "x", "farm:80", "1.2.3.4", "127.0.0.1:99999", "127.0.0.1:-1", ":80"}) {
    const auto server = Server::Start({.address = address, .on_request = [](const Request&, Answer) {}});
    EXPECT_FALSE(server.ok()) << address;
  }
  const auto first = Echo();
  const auto second = Server::Start(
      {.address = "127.0.0.1:" + std::to_string(first->port()), .on_request = [](const Request&, Answer) {}});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().Text(), HasSubstr("cannot listen at 127.0.0.1:"));
  EXPECT_TRUE(first->is_local());
}

Json RandomJson(Rng& rng, int depth) {
  switch (rng.Below(depth > 0 ? 5 : 3)) {
    case 0:
      return Json(rng.Below(3));
    case 1:
      return Json(std::string(static_cast<size_t>(rng.Below(2)), 'x'));
    case 2:
      return Json(Json::Array{Json(rng.Below(2))});
    default: {
      Json::Object object;
      for (int64_t n = rng.Below(4); n > 0; --n)
        object[std::string(1, static_cast<char>('a' + rng.Below(4)))] = RandomJson(rng, depth - 1);
      return object;
    }
  }
}
// As RFC 7396 says it.
Json Patched(Json target, const Json& patch) {
  const auto* members = patch.As<Json::Object>();
  if (!members) return patch;
  Json::Object object;
  if (const auto* old = target.As<Json::Object>()) object = *old;
  for (const auto& [key, value] : *members) {
    if (value.IsNull()) {
      object.erase(key);
    } else {
      object[key] = Patched(object.contains(key) ? object[key] : Json(), value);
    }
  }
  return object;
}

TEST(MergePatch, TurnsOneStateIntoTheOther) {
  Rng rng(7);
  int empty = 0;
  for (int i = 0; i < 2000; ++i) {
    Json before = Json::Object{{"s", RandomJson(rng, 4)}}, after = Json::Object{{"s", RandomJson(rng, 4)}};
    const Json patch = MergePatch(before, after);
    EXPECT_EQ(Patched(before, patch), after) << before.Dump() << " " << after.Dump() << " " << patch.Dump();
    EXPECT_EQ(MergePatch(after, after).Dump(), "{}");
    empty += patch.As<Json::Object>()->empty();
    EXPECT_EQ(patch.As<Json::Object>()->empty(), before == after);
  }
  EXPECT_LT(empty, 1900);
}

TEST(MergePatch, NamesWhatDiffers) {
  const auto parse = [](const char* text) { return Json::Parse(text).value(); };
  const auto patch = [&](const char* before, const char* after) {
    return MergePatch(parse(before), parse(after)).Dump();
  };
  EXPECT_EQ(patch(R"({"a":1,"b":{"c":2,"d":3}})", R"({"a":1,"b":{"c":2,"d":4,"e":5}})"), R"({"b":{"d":4,"e":5}})");
  EXPECT_EQ(patch(R"({"a":1,"b":{"c":2}})", R"({"b":{}})"), R"({"a":null,"b":{"c":null}})");
  EXPECT_EQ(patch(R"({"a":[1,2]})", R"({"a":[1,3]})"), R"({"a":[1,3]})");
  EXPECT_EQ(patch(R"({"a":{"b":1}})", R"({"a":7})"), R"({"a":7})");
  EXPECT_EQ(patch(R"({"a":7})", R"({"a":{"b":1,"c":null}})"), R"({"a":{"b":1}})");
  EXPECT_EQ(patch(R"({"a":null})", R"({"a":null})"), "{}");
  EXPECT_EQ(patch(R"({"a":{"b":1}})", R"({"a":{"b":1}})"), "{}");
}

}  // namespace
}  // namespace autotune::http
