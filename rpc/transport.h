// ZeroMQ sockets on a Loop: a RouterSocket listens and answers peers, a DealerSocket connects to one. No other file
// uses ZeroMQ. All its options are set in one function of transport.cc, each with its reason. A socket belongs to its
// loop's thread. There is no encryption and no authentication, so only ipc:// and tcp://127.0.0.1 are accepted. Any
// user of this host can reach a tcp endpoint.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/message.h"
#include "support/loop.h"

namespace autotune::rpc {

using Peer = std::string;  // ZeroMQ's routing id of one connection: a peer that connects again gets a new one

// "127.0.0.1:9190", "localhost:9190", "tcp://127.0.0.1:9190", "ipc:///path", "/path" -> the full form, or an error that
// says why it is refused.
Result<std::string> NormalizeEndpoint(const std::string& text);

class RouterSocket {
 public:
  struct Handlers {
    std::function<void(const Peer&, Message)> on_message;
    // After a malformed message, already answered with a refusal.
    std::function<void(const Peer&, const Refusal&)> on_malformed = {};
  };
  // tcp port 0 or "*" takes a free one; endpoint() tells which.
  static Result<std::unique_ptr<RouterSocket>> Bind(Loop& loop, const std::string& endpoint, Handlers handlers);
  ~RouterSocket();
  const std::string& endpoint() const;
  // False: that peer is gone, or so slow that its queue is full; the message is dropped.
  bool Send(const Peer& peer, const Message& message);

  struct Impl;

 private:
  explicit RouterSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class DealerSocket {
 public:
  struct Handlers {
    std::function<void(Message)> on_message;
    std::function<void()> on_connected = {};
    std::function<void()> on_disconnected = {};  // ZeroMQ connects again by itself, for ever
  };
  static Result<std::unique_ptr<DealerSocket>> Connect(Loop& loop, const std::string& endpoint, Handlers handlers);
  ~DealerSocket();
  // False: not connected, or the peer does not read; the message is dropped. Repeat it in on_connected.
  bool Send(const Message& message);

  struct Impl;

 private:
  explicit DealerSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace autotune::rpc
