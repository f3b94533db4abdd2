// ZeroMQ sockets on a Loop: a RouterSocket listens and answers peers, a DealerSocket connects to one peer. A socket may
// be used only on the thread of its loop. Connections over TCP use CURVE: they are encrypted, and each side proves that
// it has a key that the other one knows (rpc/address.h, rpc/allow_list.h). Over ipc there is no authentication; the
// socket is its user's alone (mode 0600).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/address.h"
#include "rpc/allow_list.h"
#include "rpc/from.h"
#include "rpc/message.h"
#include "support/loop.h"

namespace autotune::rpc {

enum class Sent {
  kYes,   // ZeroMQ has taken the message
  kFull,  // the peer is connected, but 64 messages wait for it; this one is dropped
  kGone,  // the peer has left
};

// Where a RouterSocket listens.
struct Listener {
  Listener() = default;
  Listener(std::string endpoint) : endpoints{std::move(endpoint)} {}
  Listener(const char* endpoint) : endpoints{endpoint} {}

  std::vector<std::string> endpoints;        // all ipc or all TCP
  CurveKeys keys;                            // of the listener, for TCP
  std::shared_ptr<const AllowList> allowed;  // for TCP
};

class RouterSocket {
 public:
  struct Handlers {
    std::function<void(From&&, Message&&)> on_message;
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
  // Listens. TCP port 0 or "*" means a free port; endpoints() has its number. Before it returns for TCP, the socket has
  // refused a connection of this process without a key that is allowed. Errors: an endpoint is invalid or taken; TCP
  // without keys; a stranger is let in.
  static Result<std::unique_ptr<RouterSocket>> Bind(Loop& loop, Listener listener, Handlers handlers);
  ~RouterSocket();
  const std::vector<std::string>& endpoints() const;
  const std::string& endpoint() const { return endpoints().front(); }
  Sent Send(const Peer& peer, const Message& message);
  Sent Send(const Peer& peer, const Frames& frames);  // of Encode
  // Listens with other keys from now on. All connections end, and peers who know the new public key connect again.
  void ChangeKeys(CurveKeys keys);
  // Closes the connections of members that are not on the list of those who are allowed any more, in 0.3 s, so that
  // what was sent to them arrives. The connection of a member that has never sent a message stays open.
  void CloseRevoked();

  struct Impl;

 private:
  explicit RouterSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class DealerSocket {
 public:
  enum class Peers {
    kTracker,  // what it says of its next key is believed and kept (rpc/tracker_keys.h)
    kMember,
    kUploads,   // a server to which chunks are sent: a short break of the link does not end the connection, since all
                // chunks that are under way would be sent again
    kStranger,  // at an address that anyone may have chosen: frames have 4 KiB at most, and no message lingers
  };
  struct Handlers {
    std::function<void(Message)> on_message;
    std::function<void()> on_connected = {};
    std::function<void()> on_disconnected = {};  // the socket reconnects by itself, without limit
    std::function<void()> on_refused = {};       // called when refused() has changed; the socket tries on
  };
  // Connects to the endpoint of the address that answers first; all are tried at once. If the address has a next key,
  // both keys of the listener are tried in turns.
  static Result<std::unique_ptr<DealerSocket>> Connect(Loop& loop, const Address& address, Handlers handlers,
                                                       Peers peers = Peers::kMember);
  ~DealerSocket();
  // Returns false if there is no connection or the peer does not read. Then the message is dropped, and the caller
  // should repeat it in on_connected.
  bool Send(const Message& message);
  // Returns the endpoint to which the socket is connected or tries to connect.
  const std::string& endpoint() const;
  // Why no connection can be made, although somebody answers there. A peer that ends during a handshake, such as a
  // tracker that is restarted, refuses nobody.
  enum class Refused {
    kNo,
    kUnknown,   // the peer does not know the key of this process
    kOtherKey,  // the peer has another key than the address says, or is another program
  };
  Refused refused() const;

  struct Impl;

 private:
  explicit DealerSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace autotune::rpc
