#include "http/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/http/client.h"

namespace autotune::http {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kViewer[] = "0123abcd", kOperator[] = "4567cdef";

std::optional<Visitor> FindByToken(std::string_view token) {
  std::optional<Visitor> found;
  if (EqualInConstantTime(token, kViewer)) found = Visitor{"vera", false};
  if (EqualInConstantTime(token, kOperator)) found = Visitor{"olaf", true};
  return found;
}

std::unique_ptr<Site> Start(FindVisitor find = FindByToken, std::string* trouble = nullptr) {
  auto site =
      Site::Start({.address = "127.0.0.1:0",
                   .files = {{"/", "text/html", "<p>page</p>"},
                             {"/login", "text/html", "<p hidden>wrong</p><form>"},
                             {"/page.css", "text/css", "p {}"},
                             {"/page.js", "text/javascript", "run()"}},
                   .find = std::move(find),
                   .metrics = [] { return std::string("up 1\n"); },
                   .trouble = [trouble] { return trouble ? *trouble : ""; },
                   .act = [](const Visitor& who, const Json& wish,
                             Answer answer) { answer(TextResponse(200, who.name + " wants " + wish.Dump())); }});
  EXPECT_TRUE(site.ok()) << (site.ok() ? "" : site.error().Text());
  return std::move(*site);
}

// As if a proxy had sent the request from another host.
constexpr char kElsewhere[] = "X-Forwarded-For: 10.0.0.7\r\n";
std::string Bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }

TEST(Site, MakesPagesForReadersOnly) {
  int asked = 0;
  SiteOptions options{.address = "127.0.0.1:0", .files = {}, .find = FindByToken};
  options.made["/made"] = [&](Answer answer) {
    ++asked;
    answer({.type = "text/html", .body = std::make_shared<const std::string>("<p>made"), .has_policy = true});
  };
  auto site = Site::Start(std::move(options));
  ASSERT_TRUE(site.ok());
  const int port = (*site)->server().port();
  const std::string made = Fetch(port, "GET", "/made?x=1");
  EXPECT_THAT(made, HasSubstr("<p>made"));
  EXPECT_THAT(made, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(made, Not(HasSubstr("script-src")));
  EXPECT_THAT(made, HasSubstr("X-Frame-Options: DENY"));
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/made", kElsewhere)), 401);
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/made", kElsewhere + Bearer(kViewer))), 200);
  EXPECT_EQ(StatusIn(Fetch(port, "POST", "/made", "", "x")), 405);
  EXPECT_EQ(asked, 2) << "nothing is made for those who may not read";
}

TEST(Site, ServesItsPathsToReadersOfThisHost) {
  std::string trouble;
  const auto site = Start(FindByToken, &trouble);
  site->Publish([] { return Json(Json::Object{{"a", 1}}); });
  const int port = site->server().port();
  const auto body = [&](const char* path) { return BodyIn(Fetch(port, "GET", path)); };
  EXPECT_EQ(body("/"), "<p>page</p>");
  EXPECT_EQ(body("/page.js"), "run()");
  EXPECT_EQ(body("/status.json"), "{\"a\":1}");
  EXPECT_EQ(body("/metrics"), "up 1\n");
  EXPECT_EQ(body("/healthz"), "ok\n");
  trouble = "the loop stands still";
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/healthz")), 503);
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/nothing")), 404);
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/../etc/passwd")), 404);
  EXPECT_EQ(StatusIn(Fetch(port, "DELETE", "/")), 405);
  EXPECT_EQ(StatusIn(Fetch(port, "OPTIONS", "/act")), 405) << "no origin is allowed to ask before it sends";
  EXPECT_EQ(StatusIn(Fetch(port, "POST", "/", "", "x")), 405);
}

TEST(Site, OthersNeedAToken) {
  const auto site = Start();
  const int port = site->server().port();
  const auto get = [&](const std::string& path, const std::string& headers) {
    return StatusIn(Fetch(port, "GET", path, headers));
  };
  for (const char* path : {"/", "/events", "/status.json", "/metrics", "/page.js", "/nothing"}) {
    EXPECT_EQ(get(path, kElsewhere), 401) << path;
    EXPECT_EQ(get(path, kElsewhere + Bearer("wrong")), 401) << path;
    EXPECT_EQ(get(path, kElsewhere + Bearer("0123abce")), 401) << path;
    EXPECT_EQ(get(path, Bearer("wrong")), 401) << "a wrong token is refused on this host, too";
  }
  for (const char* path : {"/", "/status.json", "/metrics"}) {
    EXPECT_EQ(get(path, kElsewhere + Bearer(kViewer)), 200) << path;
    EXPECT_EQ(get(path, std::string(kElsewhere) + "Cookie: a=b; autotune_token=0123abcd; c=d\r\n"), 200) << path;
    EXPECT_EQ(get(path, std::string(kElsewhere) + "Cookie: xautotune_token=0123abcd\r\n"), 401) << path;
  }
  EXPECT_EQ(get("/healthz", kElsewhere), 200);
  EXPECT_THAT(Fetch(port, "GET", "/", kElsewhere), HasSubstr("<form>"));
  EXPECT_EQ(get("/page.css", kElsewhere), 200) << "of the form";
}

// A page of another site whose name resolves to 127.0.0.1 must not read for its server.
TEST(Site, AForeignHostNameIsNotThisHost) {
  const auto site = Start();
  const int port = site->server().port();
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "127.evil", "::1", ""})
    EXPECT_EQ(StatusIn(Fetch(port, "GET", "/status.json", "Host: " + std::string(host) + "\r\n")), 421) << host;
  for (const char* host : {"localhost", "localhost:9191", "127.0.0.1:80", "127.1.2.3", "[::1]:9191", "[::1]"})
    EXPECT_EQ(StatusIn(Fetch(port, "GET", "/status.json", "Host: " + std::string(host) + "\r\n")), 200) << host;
  EXPECT_EQ(StatusIn(Fetch(port, "GET", "/status.json", "Host: farm.example\r\n" + Bearer(kViewer))), 200);
}

TEST(Site, OnlyOperatorsAct) {
  const auto site = Start();
  const int port = site->server().port();
  const std::string json = "Content-Type: application/json\r\nX-Autotune: 1\r\n";
  const auto act = [&](const std::string& headers, const std::string& body = "{\"do\":1}") {
    return Fetch(port, "POST", "/act", headers, body);
  };
  const std::string cookie = "Cookie: autotune_token=4567cdef\r\n", own = "Origin: http://127.0.0.1\r\n";
  EXPECT_EQ(BodyIn(act(json + Bearer(kOperator))), "olaf wants {\"do\":1}");
  EXPECT_EQ(BodyIn(act(json + cookie + own)), "olaf wants {\"do\":1}");
  EXPECT_EQ(StatusIn(act(json)), 401) << "also on this host";
  EXPECT_EQ(StatusIn(act(json + Bearer(kViewer))), 403);
  EXPECT_EQ(StatusIn(act(json + Bearer("wrong"))), 401);
  EXPECT_EQ(StatusIn(act(json + cookie)), 403) << "without an origin";
  for (const char* origin :
       {"http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil", "file://"}) {
    const std::string header = "Origin: " + std::string(origin) + "\r\n";
    EXPECT_EQ(StatusIn(act(json + cookie + header)), 403) << origin;
    EXPECT_EQ(StatusIn(act(json + Bearer(kOperator) + header)), 403) << origin;
  }
  EXPECT_EQ(StatusIn(act(cookie + own + "Content-Type: text/plain\r\nX-Autotune: 1\r\n")), 403);
  EXPECT_EQ(StatusIn(act(cookie + own + "Content-Type: application/json\r\n")), 403);
  EXPECT_EQ(StatusIn(act(json + Bearer(kOperator), "[1]")), 400);
  EXPECT_EQ(StatusIn(act(json + Bearer(kOperator), "{")), 400);
}

TEST(Site, TheFormKeepsARightTokenInACookie) {
  const auto site = Start();
  const int port = site->server().port();
  EXPECT_THAT(Fetch(port, "GET", "/login"), HasSubstr("<p hidden>wrong</p><form>"));
  const std::string right = Fetch(port, "POST", "/login", "Origin: http://127.0.0.1\r\n", "token=0123abcd");
  EXPECT_EQ(StatusIn(right), 303);
  EXPECT_THAT(right, HasSubstr("Set-Cookie: autotune_token=0123abcd; HttpOnly; SameSite=Strict"));
  for (const char* form : {"token=0123abce", "token=", "", "x=0123abcd", "token=0123abcd%0d%0aSet-Cookie:x"}) {
    const std::string wrong = Fetch(port, "POST", "/login", "Origin: http://127.0.0.1\r\n", form);
    EXPECT_THAT(wrong, Not(HasSubstr("Set-Cookie"))) << form;
    EXPECT_EQ(StatusIn(wrong), 401) << form;
    EXPECT_THAT(wrong, HasSubstr("<p>wrong</p><form>")) << "the form says why it comes again";
  }
  EXPECT_EQ(StatusIn(Fetch(port, "POST", "/login", "Origin: http://evil.example\r\n", "token=0123abcd")), 403);
}

// A reader whose token is revoked gets nothing more, also on a connection from before.
TEST(Site, AStreamEndsWithItsToken) {
  std::atomic<bool> revoked = false;
  const auto site =
      Start([&](std::string_view token) { return FindByToken(token == kViewer && revoked ? "" : token); });
  const auto publish = [&](int n) { site->Publish([n] { return Json(Json::Object{{"n", n}}); }); };
  publish(1);
  RawClient vera(site->server().port()), olaf(site->server().port()), here(site->server().port());
  const std::string begin = "GET /events HTTP/1.1\r\nHost: localhost\r\n";
  vera.Send(begin + kElsewhere + Bearer(kViewer) + "\r\n");
  olaf.Send(begin + kElsewhere + Bearer(kOperator) + "\r\n");
  here.Send(begin + "\r\n");
  for (RawClient* reader : {&vera, &olaf, &here}) EXPECT_THAT(reader->ReadUntil("\"n\":1}"), HasSubstr("\"n\":1}"));
  publish(2);
  EXPECT_THAT(vera.ReadUntil("\"n\":2}"), HasSubstr("\"n\":2}"));
  revoked = true;
  publish(3);
  for (RawClient* reader : {&olaf, &here}) EXPECT_THAT(reader->ReadUntil("\"n\":3}"), HasSubstr("\"n\":3}"));
  EXPECT_THAT(vera.ReadAll(), Not(HasSubstr("\"n\":3}")));
  EXPECT_TRUE(vera.closed());
  EXPECT_FALSE(olaf.closed() || here.closed());
}

TEST(Site, WithoutTokensItListensHereOnly) {
  const auto site = Start(nullptr);
  EXPECT_EQ(StatusIn(Fetch(site->server().port(), "GET", "/")), 200);
  EXPECT_EQ(StatusIn(Fetch(site->server().port(), "GET", "/", kElsewhere)), 401);
  EXPECT_EQ(StatusIn(Fetch(site->server().port(), "POST", "/login", "", "token=x")), 405);
  const auto open = Site::Start({.address = "0.0.0.0:0", .files = {}});
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().Text(), HasSubstr("other hosts"));
}

}  // namespace
}  // namespace autotune::http
