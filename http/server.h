// Server: serves HTTP/1.1 in a thread of its own, for the live pages of this program's user. It has limits for
// everything that a stranger may send or hold, and sends a policy with each response by which a browser runs no script
// but those of this server. It decides nothing about access: that is the handler's part (http/site.h). It knows no TLS.
//
// The program publishes a state, a JSON object. Streams (server-sent events) get the whole state as the event `state`,
// then a merge patch as the event `patch` for each further one. A reader who is too slow for a patch gets the whole
// state instead, so that each stream holds at most one event. All methods are thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "http/message.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune::http {

struct Limits {
  size_t connections = 256;       // a further one takes the place of one that waits for a request, or gets 503
  size_t streams = 200;           // a further one gets 503
  size_t header_bytes = 8 << 10;  // of a request
  size_t body_bytes = 4 << 10;
  int64_t request_ms = 10000;    // time for a request to arrive
  int64_t idle_ms = 30000;       // time between two requests of a connection
  int64_t held_bytes = 8 << 20;  // of texts on their way to readers; those who hold old ones are cut off beyond that
  int64_t write_ms = 20000;      // time for a response or an event to leave
  int64_t answer_ms = 10000;     // time for the handler to answer
};

struct ServerOptions {
  // Where to listen: HOST:PORT with an IP address, `localhost` or `*` as HOST; port 0 is a free one.
  std::string address;
  Limits limits = {};
  // Called on the server's thread, so it must return quickly. It may answer later.
  std::function<void(const Request& request, Answer answer)> on_request;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();  // closes all connections
  Server(const Server&) = delete;

  const std::string& host() const;  // the IP address at which it listens, of IPv6 in brackets
  int port() const;
  bool is_local() const;    // only this host can connect
  std::string Url() const;  // of this host: "http://127.0.0.1:9191/"
  // Replaces the state. `make` runs on the server's thread; it is dropped if a later one comes before that.
  void Publish(std::function<Json()> make);
  size_t Connections() const;  // that are open
  int64_t Memory() const;      // about how much it takes, in bytes, as of the latest state

  struct Impl;

 private:
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace autotune::http
