// What this project uses of ZeroMQ's C interface: sockets with our options, and whole messages. Only transport.cc,
// dealer_socket.cc and zap.cc include this.
#pragma once
#include <zmq.h>

#include <string>

#include "rpc/curve_keys.h"
#include "rpc/message.h"
#include "rpc/transport.h"
#include "support/result.h"

namespace autotune::rpc {

// Returns the ZeroMQ context of the process, whose io thread serves all sockets. The context is never terminated, since
// zmq_ctx_term could block the exit.
void* ZeroMqContext();
std::string ZeroMqError();  // text of the latest error of this thread

void SetOption(void* socket, int option, int value);
void SetOption(void* socket, int option, const std::string& value);
void SetFrameLimit(void* socket, int64_t bytes);

// Makes a ROUTER or DEALER socket with all its options.
Result<void*> NewSocket(int type);
// The events that tell whether a connection was made.
inline constexpr int kHandshakeEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                        ZMQ_EVENT_DISCONNECTED;
// Returns whether the endpoint needs a socket for IPv6. An IPv4 address does not. Behind a name or "*", there may be
// IPv6 as well.
bool NeedsIpv6(const std::string& endpoint);
void SetCurveKey(void* socket, int option, const std::string& key);
void SetClientKeys(void* socket, const CurveKeys& own, const std::string& listener);  // of the one who connects
// Lets a DEALER keep its connection through a break of the link of up to 3 s. Before it connects.
void BearBreaks(void* socket);

// Sends a whole message, without waiting. A ROUTER sends it `to` a peer.
Sent SendFrames(void* socket, const Frames& frames, const Peer* to = nullptr);
struct Origin {
  std::string user;     // the User-Id that ZAP gave the sender; empty: none
  std::string address;  // IP address of the sender; empty: it is on this host
  int descriptor = -1;  // of the connection over TCP, which may have ended since
};
// Receives one whole message. Returns false if none has arrived. Drops the frames beyond the limit of a message, but
// for one, by which Decode notices them: a peer could send millions of empty frames.
bool ReceiveFrames(void* socket, Frames& frames, Origin* origin = nullptr);

// Returns the socket's events. Makes it notice first what its io thread has done: a connection made, a queue that has
// room again.
int EventsOf(void* socket);
int Descriptor(void* socket);

}  // namespace autotune::rpc
