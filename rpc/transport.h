// ZeroMQ sockets on a Loop: a RouterSocket listens and answers peers, a DealerSocket connects to one peer. No other
// files use ZeroMQ. SetOptions in transport.cc sets their options and explains each. A socket may be used only on the
// thread of its loop. There is no encryption and no authentication, so only ipc:// and tcp://127.0.0.1 are
// accepted. Any user of this host can reach a tcp endpoint.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/from.h"
#include "rpc/message.h"
#include "support/loop.h"

namespace autotune::rpc {

// Completes an endpoint: "127.0.0.1:9190" and "localhost:9190" -> "tcp://127.0.0.1:9190", "/path" -> "ipc:///path". The
// error says why an endpoint is refused.
Result<std::string> NormalizeEndpoint(const std::string& text);

enum class Sent {
  kYes,   // ZeroMQ has taken the message
  kFull,  // the peer is connected, but 64 messages wait for it; this one is dropped
  kGone,  // the peer has left
};

class RouterSocket {
 public:
  struct Handlers {
    std::function<void(const From&, Message)> on_message;
    // Called after a malformed message; the refusal has been sent to the peer.
    std::function<void(const Peer&, const Refusal&)> on_malformed = {};
    // If this is set, and the process has allocated 32 MiB beyond what this returns and beyond its memory at the
    // beginning, the socket closes all connections and listens anew, since peers may send parts of messages without
    // end. Honest peers connect again and repeat what is unanswered.
    std::function<int64_t()> kept_bytes = {};
    // Called at half of that. Closes other connections of this process by which strangers may take memory. Returns
    // whether there were any; if this frees the memory, the socket closes nothing.
    std::function<bool()> close_others = {};
  };
  // Listens at the endpoint. TCP port 0 or "*" means a free port; endpoint() returns its number.
  static Result<std::unique_ptr<RouterSocket>> Bind(Loop& loop, const std::string& endpoint, Handlers handlers);
  ~RouterSocket();
  const std::string& endpoint() const;
  Sent Send(const Peer& peer, const Message& message);

  struct Impl;

 private:
  explicit RouterSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class DealerSocket {
 public:
  enum class Peers {
    kMember,
    kStranger,  // at an address that anyone may have chosen: frames have 4 KiB at most, and no message lingers
  };
  struct Handlers {
    std::function<void(Message)> on_message;
    std::function<void()> on_connected = {};
    std::function<void()> on_disconnected = {};  // ZeroMQ reconnects by itself, without limit
  };
  static Result<std::unique_ptr<DealerSocket>> Connect(Loop& loop, const std::string& endpoint, Handlers handlers,
                                                       Peers peers = Peers::kMember);
  ~DealerSocket();
  // Returns false if there is no connection or the peer does not read. Then the message is dropped, and the caller
  // should repeat it in on_connected.
  bool Send(const Message& message);

  struct Impl;

 private:
  explicit DealerSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace autotune::rpc
