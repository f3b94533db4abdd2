#include "rpc/zeromq.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "rpc/rules.h"
#include "support/check.h"

namespace autotune::rpc {
namespace {

// A blob that ZeroMQ's io thread releases. ThreadSanitizer does not see how ZeroMQ synchronizes that thread with the
// sender. `complete` synchronizes them once more, so that ThreadSanitizer reports no race.
struct HandedOver {
  Blob blob;
  std::atomic<bool> complete{false};
};

void FreeBlob(void*, void* hint) {
  auto* handed = static_cast<HandedOver*>(hint);
  CHECK(handed->complete.load(std::memory_order_acquire));
  delete handed;
}

// Sends a frame, without waiting. Returns false if ZeroMQ does not take it; zmq_errno tells why. Small frames are
// copied, large ones shared with ZeroMQ's io thread until they are sent. `blob`: has the bytes; null: they are copied.
bool SendFrame(void* socket, std::string_view bytes, const Blob& blob, bool more) {
  constexpr size_t kLarge = 4096;
  zmq_msg_t part;
  if (bytes.size() < kLarge || !blob) {
    zmq_msg_init_size(&part, bytes.size());
    memcpy(zmq_msg_data(&part), bytes.data(), bytes.size());
  } else {
    auto* handed = new HandedOver{.blob = blob};
    handed->complete.store(true, std::memory_order_release);
    zmq_msg_init_data(&part, const_cast<char*>(bytes.data()), bytes.size(), FreeBlob, handed);
  }
  int rc;
  do {
    rc = zmq_msg_send(&part, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
  } while (rc < 0 && zmq_errno() == EINTR);
  if (rc >= 0) return true;
  const int error = zmq_errno();
  zmq_msg_close(&part);
  errno = error;
  return false;
}

// Sets all options of a socket.
void SetOptions(void* socket, bool router) {
  // A closed socket still sends its queued messages (LeaseEnd) for up to a second, in the background. Process exit does
  // not wait for that, since the context is never terminated.
  SetOption(socket, ZMQ_LINGER, 1000);
  // A frame may be 4 KiB larger than the largest artifact. A peer that announces a larger frame is disconnected before
  // memory is allocated.
  SetFrameLimit(socket, kMaxBlobBytes + 4096);
  // Each peer has a queue of 64 messages. If a peer does not read, its queue fills, and further sends to it fail.
  SetOption(socket, ZMQ_SNDHWM, 64);
  // Messages that arrive are read without a limit. If a queue of them could be full, libzmq 4.3 would stop reading from
  // a peer, and if this peer then left, its next heartbeat, or a PING of the peer that is read later, would abort the
  // process (an assertion of stream_engine_base.cpp). MemoryWatch limits what waits.
  SetOption(socket, ZMQ_RCVHWM, 0);
  // A connection that never finishes ZeroMQ's handshake (a port scanner) holds its descriptor for 5 s at most.
  SetOption(socket, ZMQ_HANDSHAKE_IVL, Holds(Rule::kHandshakes) ? 5000 : 0);
  // After a tracker's restart, a thousand servers may reconnect at once.
  SetOption(socket, ZMQ_BACKLOG, 4096);
  if (router) {
    // Sending to a peer that has left returns an error; by default ZeroMQ drops the message silently.
    SetOption(socket, ZMQ_ROUTER_MANDATORY, 1);
  } else {
    // Queue no messages while there is no connection, so that a restarted tracker gets no outdated ones. The owner of
    // the socket repeats unanswered messages in on_connected.
    SetOption(socket, ZMQ_IMMEDIATE, 1);
    // Reconnect at first after 50 ms, later at least once a second, without end.
    SetOption(socket, ZMQ_RECONNECT_IVL, 50);
    SetOption(socket, ZMQ_RECONNECT_IVL_MAX, 1000);
    // Heartbeats every second, each answered within 3 s, disconnect a frozen peer after 4 s at most. They also tell the
    // listener to disconnect this side after 3 s without one. TCP alone does not notice that a peer's process hangs.
    SetOption(socket, ZMQ_HEARTBEAT_IVL, 1000);
    SetOption(socket, ZMQ_HEARTBEAT_TIMEOUT, 3000);
    SetOption(socket, ZMQ_HEARTBEAT_TTL, 3000);
    // TCP repeats the first packet of a connection after 1 s, and then after 2, 4 and 8 s. During a break of the link,
    // new attempts keep to about one packet a second. The answer may take 2 s over a slow link. [chosen]
    SetOption(socket, ZMQ_CONNECT_TIMEOUT, 2500);
  }
  // Routing ids stay automatic: an id chosen by the peer could be that of another peer.
}

}  // namespace

void* ZeroMqContext() {
  static void* context = [] {
    void* made = zmq_ctx_new();
    zmq_ctx_set(made, ZMQ_MAX_SOCKETS, 4096);
    return made;
  }();
  return context;
}

std::string ZeroMqError() { return zmq_strerror(zmq_errno()); }

void SetOption(void* socket, int option, int value) {
  int rc = zmq_setsockopt(socket, option, &value, sizeof value);
  CHECK(rc == 0) << "zmq_setsockopt " << option << ": " << ZeroMqError();
}

void SetOption(void* socket, int option, const std::string& value) {
  int rc = zmq_setsockopt(socket, option, value.data(), value.size());
  CHECK(rc == 0) << "zmq_setsockopt " << option << ": " << ZeroMqError();
}

void SetFrameLimit(void* socket, int64_t bytes) {
  CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) == 0) << ZeroMqError();
}

Result<void*> NewSocket(int type) {
  void* socket = zmq_socket(ZeroMqContext(), type);
  if (!socket) return Err("cannot make a ZeroMQ socket: ", ZeroMqError());
  SetOptions(socket, type == ZMQ_ROUTER);
  return socket;
}

bool NeedsIpv6(const std::string& endpoint) {
  if (!IsTcp(endpoint)) return false;
  const std::string host = endpoint.substr(6, endpoint.rfind(':') - 6);
  return host.find_first_not_of("0123456789.") != std::string::npos;
}

void SetCurveKey(void* socket, int option, const std::string& key) {
  CHECK(zmq_setsockopt(socket, option, key.c_str(), key.size() + 1) == 0) << ZeroMqError();  // with its zero
}
void SetClientKeys(void* socket, const CurveKeys& own, const std::string& listener) {
  SetCurveKey(socket, ZMQ_CURVE_SERVERKEY, listener);
  SetCurveKey(socket, ZMQ_CURVE_PUBLICKEY, own.public_key);
  SetCurveKey(socket, ZMQ_CURVE_SECRETKEY, own.secret_key);
}

void BearBreaks(void* socket) {
  // TCP repeats what a break has lost, but it may wait as long again as the break has lasted.
  SetOption(socket, ZMQ_HEARTBEAT_TIMEOUT, 7000);
  SetOption(socket, ZMQ_HEARTBEAT_TTL, 7000);
}

int EventsOf(void* socket) {
  int events = 0;
  size_t size = sizeof events;
  return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 ? events : 0;
}

Sent SendFrames(void* socket, const Frames& frames, const Peer* to) {
  const auto send = [socket](std::string_view bytes, const Blob& blob, bool more) {
    if (SendFrame(socket, bytes, blob, more)) return Sent::kYes;
    // ZeroMQ refuses only the first frame: it takes a message whole or not at all.
    if (zmq_errno() != EAGAIN) return Sent::kGone;
    // zmq_msg_send does not notice anything within a millisecond of the last time, such as a connection that is new.
    EventsOf(socket);
    if (SendFrame(socket, bytes, blob, more)) return Sent::kYes;
    return zmq_errno() == EAGAIN ? Sent::kFull : Sent::kGone;
  };
  Sent sent = to ? send(*to, nullptr, true) : Sent::kYes;
  for (size_t i = 0; i < frames.size() && sent == Sent::kYes; ++i)
    sent = send(*frames[i], frames[i], i + 1 < frames.size());
  return sent;
}

namespace {

// Copies what a thread of libzmq has written. Larger frames stay where they are.
#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not see how libzmq hands the bytes over, and would examine each of them as a race.
__attribute__((no_sanitize("thread"))) std::string CopyOf(const volatile char* from, size_t bytes) {
  std::string copy(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) copy[i] = from[i];
  return copy;
}
constexpr size_t kMostCopied = SIZE_MAX;
#else
std::string CopyOf(const char* from, size_t bytes) { return {from, bytes}; }
constexpr size_t kMostCopied = 64 << 10;  // libzmq receives smaller ones into memory that they share [chosen]
#endif

// A message of libzmq, freed with the last blob that needs it.
struct Received {
  Received() { zmq_msg_init(&message); }
  ~Received() { zmq_msg_close(&message); }
  Received(const Received&) = delete;
  zmq_msg_t message;
};

// Returns the bytes of a frame, which this may take away.
Blob TakeFrame(zmq_msg_t* frame) {
  auto* bytes = static_cast<char*>(zmq_msg_data(frame));
  const size_t count = zmq_msg_size(frame);
  if (count <= kMostCopied) return MakeBlob(CopyOf(bytes, count));
  auto taken = std::make_shared<Received>();
  zmq_msg_move(&taken->message, frame);
  return MakeBlob(std::string_view(bytes, count), std::move(taken));
}

}  // namespace

bool ReceiveFrames(void* socket, Frames& frames, Origin* origin) {
  constexpr size_t kMost = kMaxFrames + 2;  // a ROUTER's messages begin with the peer
  constexpr size_t kUsual = 3;              // peer, header and body
  frames.clear();
  frames.reserve(kUsual);
  if (origin) *origin = {};
  for (int more = 1; more;) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    int rc;
    do {
      rc = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT);
    } while (rc < 0 && zmq_errno() == EINTR);
    if (rc < 0) {
      zmq_msg_close(&part);
      return false;
    }
    if (origin && frames.size() == 1) {
      const auto get = [&](const char* name) {
        const char* text = zmq_msg_gets(&part, name);
        return std::string(text ? text : "");
      };
      *origin = {.user = get("User-Id"), .address = get("Peer-Address"), .descriptor = zmq_msg_get(&part, ZMQ_SRCFD)};
    }
    more = zmq_msg_more(&part);
    if (frames.size() < kMost) frames.push_back(TakeFrame(&part));
    zmq_msg_close(&part);
  }
  return true;
}

int Descriptor(void* socket) {
  int fd = -1;
  size_t size = sizeof fd;
  CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0) << ZeroMqError();
  return fd;
}

}  // namespace autotune::rpc
