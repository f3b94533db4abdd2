// Requests of HTTP, as bytes on a connection to a site with readers, operators, and all kinds of paths. Whatever comes,
// the answers are whole, have the headers that protect a browser, and show and do nothing without a right to it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <memory>
#include <set>
#include <string>

#include "http/site.h"
#include "support/check.h"
#include "support/unique_fd.h"
#include "tests/fuzz/target.h"

namespace autotune::http {
namespace {

constexpr std::string_view kViewer = "v1e3w", kOperator = "0p3r4t0r";  // tokens
constexpr std::string_view kSecret = "(the secret)";

std::atomic<int> acts = 0;

std::optional<Visitor> FindByToken(std::string_view token) {
  std::optional<Visitor> found;
  if (EqualInConstantTime(token, kViewer)) found = Visitor{"vera", false};
  if (EqualInConstantTime(token, kOperator)) found = Visitor{"olaf", true};
  return found;
}

std::unique_ptr<Site> Start() {
  const auto secret = [] { return std::make_shared<const std::string>(kSecret); };
  SiteOptions options{
      .address = "127.0.0.1:0",
      .files = {{"/", "text/html", kSecret}, {"/login", "text/html", "<form>"}, {"/page.css", "text/css", "p {}"}},
      .find = FindByToken,
      .metrics = [] { return std::string(kSecret); },
      .trouble = [] { return std::string(); },
      .act =
          [](const Visitor& who, const Json&, const Answer& answer) {
            CHECK(who.operates && who.name == "olaf");
            ++acts;
            answer(TextResponse(200, "done\n"));
          }};
  options.made["/report"] = [secret](const Answer& answer) {
    answer({.type = "text/html", .body = secret(), .has_policy = true});
  };
  auto site = Site::Start(std::move(options));
  CHECK(site.ok()) << site.error().Text();
  (*site)->Publish([] { return Json(Json::Object{{"state", std::string(kSecret)}}); });
  return std::move(*site);
}

// Sends the bytes, ends the sending side, and returns all that the server says until it ends its side, too.
std::string AnswersTo(std::string_view bytes, int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  while (!bytes.empty()) {
    const ssize_t n = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) break;  // the server has refused the rest
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  shutdown(fd.get(), SHUT_WR);
  std::string answers;
  char buffer[16384];
  for (ssize_t n = 0; (n = recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answers.append(buffer, static_cast<size_t>(n));
  return answers;
}

bool HasWord(std::string_view text, std::string_view word) {
  const auto equal = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::ranges::search(text, word, equal).begin() != text.end();
}

// Checks one answer at the beginning of the text, and removes it.
void CheckAnswer(std::string_view& text) {
  static const std::set<std::string, std::less<>> kHeaders = {"Content-Type",
                                                              "Content-Security-Policy",
                                                              "X-Content-Type-Options",
                                                              "X-Frame-Options",
                                                              "Referrer-Policy",
                                                              "Cross-Origin-Opener-Policy",
                                                              "Cross-Origin-Resource-Policy",
                                                              "Cache-Control",
                                                              "Content-Length",
                                                              "Connection",
                                                              "Allow",
                                                              "WWW-Authenticate",
                                                              "Location",
                                                              "Set-Cookie"};
  static const std::set<int> kStatuses = {200, 303, 400, 401, 403, 404, 405, 408, 413, 421, 431, 503};
  CHECK(text.starts_with("HTTP/1.1 ")) << text;
  const int status = std::atoi(std::string(text.substr(9, 3)).c_str());
  CHECK(kStatuses.contains(status)) << text;
  size_t end = text.find("\r\n\r\n"), length = 0;
  CHECK(end != std::string_view::npos) << text;
  const std::string_view head = text.substr(0, end + 2);
  text.remove_prefix(end + 4);
  bool streams = false;
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t next = head.find("\r\n", at), colon = head.find(": ", at);
    CHECK(colon < next && kHeaders.contains(head.substr(at, colon - at))) << head;
    const std::string_view name = head.substr(at, colon - at), value = head.substr(colon + 2, next - colon - 2);
    CHECK(std::ranges::all_of(value, [](unsigned char c) { return c >= ' ' && c < 0x7f; })) << head;
    if (name == "Content-Length") length = std::stoul(std::string(value));
    streams |= value == "text/event-stream";
    at = next + 2;
  }
  for (const char* must : {"frame-ancestors 'none'", "nosniff", "no-store"})
    CHECK(head.find(must) != std::string_view::npos) << head;
  if (streams) return text.remove_prefix(text.size());        // until the end of the connection
  if (text.empty() || text.starts_with("HTTP/1.1 ")) return;  // the answer to HEAD has no body
  CHECK(length <= text.size()) << head << length << " " << text.size();
  text.remove_prefix(length);
}

}  // namespace

FUZZ_TARGET(http) {
  static const std::unique_ptr<Site> site = Start();
  const int before = acts;
  const std::string answers = AnswersTo(input, site->server().port());
  for (std::string_view rest = answers; !rest.empty();) CheckAnswer(rest);
  const auto has = [&](std::string_view word) { return HasWord(input, word); };
  const bool reads = has("localhost") || has("127.") || has("[::1]") || has(kViewer) || has(kOperator);
  if (answers.find(kSecret) != std::string::npos) CHECK(reads) << answers;
  if (acts > before) {
    CHECK(has(kOperator) && has("X-Autotune")) << "an act without a right to it";
    fuzz::Reach("act", input);
  }
  if (answers.find("HTTP/1.1 200") != std::string::npos) fuzz::Reach("200", input);
  if (answers.starts_with("HTTP/1.1 40")) fuzz::Reach("refusal", input);
}

}  // namespace autotune::http
