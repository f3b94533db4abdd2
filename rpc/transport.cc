#include "rpc/transport.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "rpc/memory_watch.h"
#include "rpc/rules.h"
#include "support/clock.h"
#include "support/log.h"
#include "support/unique_fd.h"

namespace autotune::rpc {
namespace {

// Returns the ZeroMQ context of the process, whose io thread serves all sockets. The context is never terminated, since
// zmq_ctx_term could block the exit.
void* Context() {
  static void* context = [] {
    void* made = zmq_ctx_new();
    zmq_ctx_set(made, ZMQ_MAX_SOCKETS, 4096);
    return made;
  }();
  return context;
}

std::string LastError() { return zmq_strerror(zmq_errno()); }

void SetOption(void* socket, int option, int value) {
  int rc = zmq_setsockopt(socket, option, &value, sizeof value);
  CHECK(rc == 0) << "zmq_setsockopt " << option << ": " << LastError();
}

void SetFrameLimit(void* socket, int64_t bytes) {
  CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) == 0) << LastError();
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
  SetOption(socket, ZMQ_HANDSHAKE_IVL, 5000);
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
  }
  // Routing ids stay automatic: an id chosen by the peer could be that of another peer.
}

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

// Sends one frame without waiting. Returns false if ZeroMQ does not take it; zmq_errno tells why. Small frames are
// copied, large ones shared with ZeroMQ's io thread until they are sent.
bool SendFrame(void* socket, const Blob& frame, bool more) {
  zmq_msg_t part;
  if (frame->size() < 4096) {
    zmq_msg_init_size(&part, frame->size());
    memcpy(zmq_msg_data(&part), frame->data(), frame->size());
  } else {
    auto* handed = new HandedOver{.blob = frame};
    handed->complete.store(true, std::memory_order_release);
    zmq_msg_init_data(&part, const_cast<char*>(frame->data()), frame->size(), FreeBlob, handed);
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

// Returns the socket's events. Makes it notice first what its io thread has done: a connection made, a queue that has
// room again.
int EventsOf(void* socket) {
  int events = 0;
  size_t size = sizeof events;
  return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 ? events : 0;
}

Sent SendFrames(void* socket, const Frames& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const bool more = i + 1 < frames.size();
    if (SendFrame(socket, frames[i], more)) continue;
    // ZeroMQ refuses only the first frame: it takes a message whole or not at all.
    if (zmq_errno() != EAGAIN) return Sent::kGone;
    // zmq_msg_send does not notice anything within a millisecond of the last time, such as a connection that is new.
    EventsOf(socket);
    if (!SendFrame(socket, frames[i], more)) return zmq_errno() == EAGAIN ? Sent::kFull : Sent::kGone;
  }
  return Sent::kYes;
}

// Receives one whole message. Returns false if none has arrived. Drops the frames beyond the limit of a message, but
// for one, by which Decode notices them: a peer could send millions of empty frames.
bool ReceiveFrames(void* socket, Frames& frames) {
  constexpr size_t kMost = kMaxFrames + 2;  // a ROUTER's messages begin with the peer
  frames.clear();
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
    if (frames.size() < kMost) {
      auto* bytes = static_cast<char*>(zmq_msg_data(&part));
      frames.push_back(std::make_shared<const std::string>(bytes, zmq_msg_size(&part)));
    }
    more = zmq_msg_more(&part);
    zmq_msg_close(&part);
  }
  return true;
}

int Descriptor(void* socket) {
  int fd = -1;
  size_t size = sizeof fd;
  CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0) << LastError();
  return fd;
}

// A ZeroMQ socket watched by a loop. ZMQ_FD is edge-triggered and signals ZeroMQ's internal commands, not messages. So
// after every wake-up and every send, Drain receives messages until ZMQ_EVENTS reports none; otherwise a message could
// wait forever.
class Watched : public std::enable_shared_from_this<Watched> {
 public:
  Watched(Loop& loop, void* socket) : loop_(loop), socket_(socket) {}
  virtual ~Watched() { Close(); }
  void Close() {
    watch_.reset();
    if (socket_) zmq_close(std::exchange(socket_, nullptr));
  }
  void Start() {
    watch_ = loop_.OnReadable(Descriptor(socket_), [this] { Drain(); });
    DrainSoon();
  }

 protected:
  virtual void Receive(Frames frames) = 0;
  void DrainSoon() {
    if (std::exchange(drain_posted_, true)) return;
    loop_.Post([weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->drain_posted_ = false;
        self->Drain();
      }
    });
  }
  void Drain() {
    auto self = shared_from_this();  // a handler may destroy the socket
    Frames frames;
    for (int n = 0; socket_; ++n) {
      if (!(EventsOf(socket_) & ZMQ_POLLIN)) return;
      // After 128 messages, let timers and other sockets run before the next ones.
      if (n == 128) return DrainSoon();
      if (ReceiveFrames(socket_, frames)) Receive(std::move(frames));
    }
  }

  Loop& loop_;
  void* socket_;
  Loop::Watch watch_;
  bool drain_posted_ = false;
};

// Calls a handler for each event that ZeroMQ reports about the connections of a socket.
class Monitor : public Watched {
 public:
  // Each of the two sockets that this takes needs a descriptor, so it fails if there is none.
  static Result<std::shared_ptr<Monitor>> Start(Loop& loop, void* socket, int events,
                                                std::function<void(int)> on_event) {
    std::string address = "inproc://monitor-" + RandomId();
    if (zmq_socket_monitor(socket, address.c_str(), events)) return Err("cannot watch a socket: ", LastError());
    void* pair = zmq_socket(Context(), ZMQ_PAIR);
    if (!pair) {
      Error error = Err("cannot make a ZeroMQ socket: ", LastError());
      zmq_socket_monitor(socket, nullptr, 0);
      return error;
    }
    SetOption(pair, ZMQ_LINGER, 0);
    CHECK(zmq_connect(pair, address.c_str()) == 0) << LastError();
    auto monitor = std::make_shared<Monitor>(loop, pair, socket, std::move(on_event));
    monitor->Watched::Start();
    return monitor;
  }
  Monitor(Loop& loop, void* pair, void* observed, std::function<void(int)> on_event)
      : Watched(loop, pair), observed_(observed), on_event_(std::move(on_event)) {}
  ~Monitor() override { Stop(); }
  // Stops the monitor. Must be called before the observed socket is closed: if ZeroMQ's io thread has a report that
  // nobody reads, the thread waits forever, and with it every socket of the process.
  void Stop() {
    if (observed_) zmq_socket_monitor(std::exchange(observed_, nullptr), nullptr, 0);
    Close();
  }

 private:
  void Receive(Frames frames) override {
    if (frames[0]->size() < 2) return;
    uint16_t event;
    memcpy(&event, frames[0]->data(), sizeof event);
    on_event_(event);
  }
  void* observed_;
  std::function<void(int)> on_event_;
};

// Returns whether somebody listens at an ipc endpoint. libzmq would take the socket away from them.
bool IsTaken(const std::string& endpoint) {
  if (!endpoint.starts_with("ipc://")) return false;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  endpoint.copy(address.sun_path, sizeof address.sun_path - 1, 6);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

Result<void*> NewSocket(int type) {
  void* socket = zmq_socket(Context(), type);
  if (!socket) return Err("cannot make a ZeroMQ socket: ", LastError());
  SetOptions(socket, type == ZMQ_ROUTER);
  return socket;
}

}  // namespace

Result<std::string> NormalizeEndpoint(const std::string& text) {
  std::string rest = text;
  if (rest.starts_with("/")) rest = "ipc://" + rest;
  if (rest.starts_with("ipc://")) {
    std::string path = rest.substr(6);
    if (!path.starts_with("/")) return Err("endpoint ", text, ": an ipc path must be absolute");
    // sun_path holds 108 bytes, and ZeroMQ cuts off longer paths without an error.
    if (path.size() > 107) return Err("endpoint ", text, ": an ipc path has at most 107 bytes");
    return rest;
  }
  if (rest.starts_with("tcp://")) rest = rest.substr(6);
  if (rest.find("://") != std::string::npos) return Err("endpoint ", text, ": only ipc:// and tcp:// are known");
  size_t colon = rest.rfind(':');
  if (colon == std::string::npos) return Err("endpoint ", text, ": expected HOST:PORT or an absolute path");
  std::string host = rest.substr(0, colon), port = rest.substr(colon + 1);
  bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (port != "*" && !(digits && std::stoi(port) <= 65535)) return Err("endpoint ", text, ": bad port '", port, "'");
  if (host == "localhost") host = "127.0.0.1";
  if (host != "127.0.0.1") {
    return Err("endpoint ", text, ": refused, since connections are not authenticated and anyone who reaches the port ",
               "could run code here; only ipc:///path and 127.0.0.1 are allowed (forward the port over ssh instead)");
  }
  return "tcp://127.0.0.1:" + (port == "0" ? "*" : port);
}

struct RouterSocket::Impl : Watched {
  Impl(Loop& loop, void* socket, Handlers handlers) : Watched(loop, socket), handlers(std::move(handlers)) {}

  void Receive(Frames frames) override {
    Peer peer = *frames[0];
    frames.erase(frames.begin());
    auto decoded = Decode(frames);
    if (auto* message = std::get_if<Message>(&decoded)) {
      const From from{.peer = peer, .identity = {}, .roles = kUnauthenticated};
      return handlers.on_message(from, std::move(*message));
    }
    auto& error = std::get<DecodeError>(decoded);
    Send(peer, {error.request, error.refusal, {}}, error.major);
    if (handlers.on_malformed) handlers.on_malformed(peer, error.refusal);
  }
  Sent Send(const Peer& peer, const Message& message, int major = kWireMajor) {
    if (!socket_) return Sent::kGone;
    Frames frames = Encode(message, major);
    frames.insert(frames.begin(), std::make_shared<const std::string>(peer));
    const Sent sent = SendFrames(socket_, frames);
    DrainSoon();
    return sent;
  }
  // Stops listening for a second after accept has failed. Without free descriptors, libzmq would call accept in a busy
  // loop.
  void OnEvent(int event) {
    if (event != ZMQ_EVENT_ACCEPT_FAILED || rebind) return;
    Log(LogLevel::kError, "cannot accept connections on ", endpoint, " (descriptors used up?); trying again in 1 s");
    zmq_unbind(socket_, endpoint.c_str());
    rebind = loop_.Every(1000, [this] {
      if (zmq_bind(socket_, endpoint.c_str()) == 0) rebind.reset();
    });
  }

  Status Watch() {
    monitor = TRY(Monitor::Start(loop_, socket_, ZMQ_EVENT_ACCEPT_FAILED,
                                 [weak = std::weak_ptr(std::static_pointer_cast<Impl>(shared_from_this()))](int event) {
                                   if (auto self = weak.lock()) self->OnEvent(event);
                                 }));
    Start();
    return {};
  }

  // The memory that neither the socket's owner keeps nor the process had at the beginning.
  int64_t Unexplained() const { return MemoryWatch::Allocated() - handlers.kept_bytes() - explained; }
  void LookAtMemory() {
    // After a flood of small messages, the allocator keeps their memory.
    if (!trim && MemoryWatch::Freed() > kMostFreed) TrimSoon();
    const int64_t bytes = Unexplained();
    if (bytes <= kMostUnexplained / 2 || !socket_ || !Holds(Rule::kMemoryWatch)) return;
    if (handlers.close_others && handlers.close_others()) {
      others_closed_at = BootMillis();
      TrimSoon();
    }
    // The io thread frees their memory soon, unless these connections take more.
    const bool frees = BootMillis() - others_closed_at < kPatienceMs;
    if (bytes <= (frees ? 3 * kMostUnexplained : kMostUnexplained)) return;
    Log(LogLevel::kWarning, "unfinished messages take ", bytes >> 20, " MiB: closing all connections on ", endpoint,
        "; peers connect again");
    monitor->Stop();
    monitor.reset();
    watch_.reset();
    SetOption(socket_, ZMQ_LINGER, 0);
    zmq_close(std::exchange(socket_, nullptr));
    closed_at = BootMillis();
    rebind = loop_.Every(2, [this] { ListenAnew(); });
  }
  void TrimSoon() {
    trim = loop_.After(kPatienceMs, [this] {
      MemoryWatch::Return();
      trim.reset();
    });
  }
  // Tries to listen at the endpoint that the closed socket still may hold. Waits until the io thread has freed what the
  // connections had sent. What then is left belongs to the owner, since nothing arrives without a socket.
  void ListenAnew() {
    const int64_t left = Unexplained();
    if (left > kMostUnexplained / 4 && BootMillis() - closed_at < kPatienceMs) return;
    Result<void*> made = NewSocket(ZMQ_ROUTER);
    if (!made.ok()) return;
    if (zmq_bind(*made, endpoint.c_str())) {
      zmq_close(*made);
      return;
    }
    socket_ = *made;
    if (!Watch()) {  // there is no descriptor
      zmq_close(std::exchange(socket_, nullptr));
      return;
    }
    explained += std::max<int64_t>(0, left);
    rebind.reset();
  }

  static constexpr int64_t kPatienceMs = 300;            // peers give a broken connection up after 500 ms
  static constexpr int64_t kMostUnexplained = 32 << 20;  // [chosen]
  static constexpr int64_t kMostFreed = 8 << 20;         // [chosen]
  Handlers handlers;
  std::string endpoint;
  std::shared_ptr<Monitor> monitor;
  Loop::Watch rebind, trim;
  std::optional<MemoryWatch> memory;
  int64_t explained = 0;                        // bytes
  int64_t closed_at = 0, others_closed_at = 0;  // milliseconds
};

RouterSocket::RouterSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
RouterSocket::~RouterSocket() {
  impl_->memory.reset();
  impl_->rebind.reset();
  impl_->trim.reset();
  if (impl_->monitor) impl_->monitor->Stop();
  impl_->Close();
}
const std::string& RouterSocket::endpoint() const { return impl_->endpoint; }
Sent RouterSocket::Send(const Peer& peer, const Message& message) { return impl_->Send(peer, message); }

Result<std::unique_ptr<RouterSocket>> RouterSocket::Bind(Loop& loop, const std::string& endpoint, Handlers handlers) {
  std::string address = TRY(NormalizeEndpoint(endpoint));
  if (IsTaken(address)) return Err("cannot listen on ", address, ": another program listens there");
  void* socket = TRY(NewSocket(ZMQ_ROUTER));
  auto impl = std::make_shared<Impl>(loop, socket, std::move(handlers));
  if (zmq_bind(socket, address.c_str())) {
    return Err("cannot listen on ", address, ": ", LastError(),
               zmq_errno() == EADDRINUSE ? " (is another one running there?)" : "");
  }
  char bound[256];
  size_t size = sizeof bound;
  CHECK(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) == 0) << LastError();
  impl->endpoint = bound;
  TRY(impl->Watch());
  if (impl->handlers.kept_bytes) {
    impl->explained = MemoryWatch::Allocated() - impl->handlers.kept_bytes();
    impl->memory.emplace(loop, [raw = impl.get()] { raw->LookAtMemory(); });
  }
  return std::unique_ptr<RouterSocket>(new RouterSocket(std::move(impl)));
}

struct DealerSocket::Impl : Watched {
  Impl(Loop& loop, void* socket, Handlers handlers) : Watched(loop, socket), handlers(std::move(handlers)) {}

  void Receive(Frames frames) override {
    auto decoded = Decode(frames);
    // A malformed message gets no refusal here, or two sides could refuse each other's refusals forever.
    if (auto* message = std::get_if<Message>(&decoded)) handlers.on_message(std::move(*message));
  }

  Handlers handlers;
  std::shared_ptr<Monitor> monitor;

  bool Send(const Message& message) {
    const Sent sent = SendFrames(socket_, Encode(message));
    DrainSoon();
    return sent == Sent::kYes;
  }
};

DealerSocket::DealerSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
DealerSocket::~DealerSocket() {
  impl_->monitor->Stop();
  impl_->Close();
}
bool DealerSocket::Send(const Message& message) { return impl_->Send(message); }

Result<std::unique_ptr<DealerSocket>> DealerSocket::Connect(Loop& loop, const std::string& endpoint, Handlers handlers,
                                                            Peers peers) {
  std::string address = TRY(NormalizeEndpoint(endpoint));
  void* socket = TRY(NewSocket(ZMQ_DEALER));
  if (peers == Peers::kStranger) {
    SetFrameLimit(socket, 4096);
    SetOption(socket, ZMQ_LINGER, 0);
  }
  auto impl = std::make_shared<Impl>(loop, socket, std::move(handlers));
  int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
  impl->monitor = TRY(Monitor::Start(loop, socket, events, [weak = std::weak_ptr<Impl>(impl)](int event) {
    auto self = weak.lock();  // null if the socket was destroyed
    if (!self) return;
    auto& f = event == ZMQ_EVENT_DISCONNECTED ? self->handlers.on_disconnected : self->handlers.on_connected;
    if (f) f();
  }));
  impl->Start();
  if (zmq_connect(socket, address.c_str())) {
    Error error = Err("cannot connect to ", address, ": ", LastError());
    impl->monitor->Stop();
    return error;
  }
  return std::unique_ptr<DealerSocket>(new DealerSocket(std::move(impl)));
}

}  // namespace autotune::rpc
