// Site: a live page and what belongs to it, on a Server. It answers
//
//   /             the page; without the right to read, a form that takes a token
//   /events       the published state and its changes, as server-sent events
//   /status.json  the published state
//   /me           who reads
//   /metrics      in the text format of Prometheus
//   /healthz      "ok", or why the program is not well with the status 503; for everybody
//   /login        takes the form's token and keeps it in a cookie
//   /act          takes what an operator asks for, as JSON; only if the site has actions
//   its files     scripts and styles
//   further ones  that are made when somebody asks
//
// docs/security.md says who may read and act. Thread-safe.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/access.h"
#include "http/server.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune::http {

struct File {
  std::string path, type;
  std::string_view bytes;  // must stay
};

struct SiteOptions {
  std::string address;  // see ServerOptions
  Limits limits = {};
  std::vector<File> files;  // "/" is the page, "/login" the form
  FindVisitor find = {};    // null: there are no tokens, and the site may listen on this host only
  // All of these are called on the server's thread.
  // By path: answers a reader, at once or later. For pages that are made when somebody asks for them.
  std::map<std::string, std::function<void(Answer answer)>> made = {};
  std::function<std::string()> metrics = {};  // null: there are none
  std::function<std::string()> trouble = {};  // why the program is not well; "": it is
  // Does what an operator asks for. It must not wait, and may answer later. Null: nobody may act.
  std::function<void(const http::Visitor&, const Json& wish, Answer answer)> act = {};
};

class Site {
 public:
  static Result<std::unique_ptr<Site>> Start(SiteOptions options);
  ~Site();
  Server& server() { return *server_; }
  // See Server::Publish.
  void Publish(std::function<Json()> make) { server_->Publish(std::move(make)); }

 private:
  explicit Site(SiteOptions options) : options_(std::move(options)) {}
  void Serve(const Request& request, const Answer& answer);
  Response Get(const Request& request) const;
  Response LogIn(const Request& request) const;
  void Act(const Request& request, const Answer& answer) const;
  const File* Find(std::string_view path) const;

  const SiteOptions options_;
  std::unique_ptr<Server> server_;
};

}  // namespace autotune::http
