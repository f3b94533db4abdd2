// Requests and responses of HTTP, as handlers see them. Plain values.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autotune::http {

struct Request {
  std::string method;                                             // "GET", "POST"; HEAD arrives as "GET"
  std::string path;                                               // without the query
  std::string host, origin, content_type, authorization, cookie;  // headers; empty: absent
  bool forwarded = false;                                         // a proxy says that it has forwarded the request
  bool from_page = false;  // has the header X-Autotune, which a script of another origin cannot send
  bool local = false;      // the connection comes from this host
  std::string body;
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;                        // null: empty
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
  // Instead of the body, the server sends the published state, or the state and all changes.
  bool sends_state = false, streams = false;
  // Of a stream, called on the server's thread before each event: whether its reader may still read. Null: always.
  std::function<bool()> goes_on = {};
  bool has_policy = false;  // the body is HTML that says itself which scripts may run, and it is in no frame
};

// Answers a request, once. For any thread.
using Answer = std::function<void(Response)>;

inline Response TextResponse(int status, std::string text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::move(text))};
}

}  // namespace autotune::http
