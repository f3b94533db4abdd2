#include "rpc/transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <unordered_map>

#include "rpc/memory_watch.h"
#include "rpc/rules.h"
#include "rpc/watched_socket.h"
#include "rpc/zap.h"
#include "support/clock.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/log.h"
#include "support/unique_fd.h"

namespace autotune::rpc {
namespace {

constexpr char kRevoked[] = "this member was revoked; ask the farm's administrator for a new join file";

// Returns whether somebody listens at an ipc endpoint. libzmq would take the socket away from them.
bool IsTaken(const std::string& endpoint) {
  if (!endpoint.starts_with("ipc://")) return false;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  endpoint.copy(address.sun_path, sizeof address.sun_path - 1, 6);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

// Who connects to an ipc socket has all rights of this user, so nobody else may, whatever the umask is.
void Restrict(const std::string& endpoint) {
  if (endpoint.starts_with("ipc://")) chmod(endpoint.c_str() + 6, S_IRUSR | S_IWUSR);
}

// Returns an address of this host at which a socket listens that is bound to all of its addresses.
std::string OwnAddress(std::string endpoint) {
  for (const auto& [all, one] : {std::pair{"tcp://0.0.0.0:", "tcp://127.0.0.1:"}, {"tcp://[::]:", "tcp://[::1]:"}})
    if (endpoint.starts_with(all)) return one + endpoint.substr(std::string_view(all).size());
  return endpoint;
}

// Connects to a listener as a stranger: with a key that it has never seen or, if it lets everybody in who knows its
// key, without one. Returns an error unless the listener refuses that. A mistake here would open the farm to everybody.
Status CheckRefusal(const std::string& endpoint, const Listener& listener) {
  constexpr int kPatienceMs = 5000;  // the longest handshake
  void* socket = zmq_socket(ZeroMqContext(), ZMQ_DEALER);
  if (!socket) return Err("cannot make a ZeroMQ socket: ", ZeroMqError());
  SetOption(socket, ZMQ_LINGER, 0);
  SetOption(socket, ZMQ_IPV6, NeedsIpv6(endpoint));
  if (!listener.allowed->AllowsEverybody()) SetClientKeys(socket, NewCurveKeys(), listener.keys.public_key);
  Loop loop;
  std::optional<bool> let_in;
  auto monitor = Monitor::Start(loop, socket, kHandshakeEvents, [&](const SocketEvent& happened) {
    if (!let_in) let_in = happened.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    loop.Stop();
  });
  if (!monitor) {
    zmq_close(socket);
    return monitor.error();
  }
  const auto patience = loop.After(kPatienceMs, [&] { loop.Stop(); });
  if (zmq_connect(socket, OwnAddress(endpoint).c_str()) == 0) loop.Run();
  (*monitor)->Stop();
  zmq_close(socket);
  if (!let_in) return Err("cannot check that ", endpoint, " refuses strangers: it does not answer");
  if (*let_in) return Err("refusing to listen on ", endpoint, ": it let in a stranger");
  return {};
}

// Returns an address as endpoints have it. A socket for IPv6 has IPv4 addresses as "::ffff:10.0.0.7".
std::string HostText(const std::string& address) {
  constexpr std::string_view kIpv4 = "::ffff:";
  if (address.starts_with(kIpv4) && address.find('.') != std::string::npos) return address.substr(kIpv4.size());
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

// Returns the number by which Linux (since 4.12) tells a socket from all others, also from those that later get the
// same descriptor; 0: it has none.
uint64_t CookieOf(int descriptor) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

// Breaks a connection of libzmq. It cannot close one connection of a ROUTER, but it notices that its descriptor does
// not work any more. Its thread may close the descriptor at any time and get the same one for another connection. A
// duplicate stays with one socket, and the cookie tells whether this is the one that is meant.
void Break(int descriptor, uint64_t cookie) {
  const UniqueFd same(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (same.get() >= 0 && CookieOf(same.get()) == cookie) shutdown(same.get(), SHUT_RDWR);
}

}  // namespace

struct RouterSocket::Impl : Watched {
  Impl(Loop& loop, void* socket, Listener listener, Handlers handlers)
      : Watched(loop, socket), listener(std::move(listener)), handlers(std::move(handlers)) {}

  // Sets the keys of a socket that listens at TCP.
  void Protect(void* socket) const {
    if (!domain) return;
    SetOption(socket, ZMQ_CURVE_SERVER, 1);
    SetCurveKey(socket, ZMQ_CURVE_SECRETKEY, listener.keys.secret_key);
    SetOption(socket, ZMQ_ZAP_DOMAIN, domain->name());
    SetOption(socket, ZMQ_IPV6, std::any_of(listener.endpoints.begin(), listener.endpoints.end(), NeedsIpv6));
  }
  Status BindAll() {
    for (const std::string& wanted : listener.endpoints) {
      if (IsTaken(wanted)) return Err("cannot listen on ", wanted, ": another program listens there");
      if (zmq_bind(socket_, wanted.c_str())) {
        return Err("cannot listen on ", wanted, ": ", ZeroMqError(),
                   zmq_errno() == EADDRINUSE ? " (is another one running there?)" : "");
      }
      Restrict(wanted);
      char bound[256];
      size_t size = sizeof bound;
      CHECK(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, bound, &size) == 0) << ZeroMqError();
      endpoints.emplace_back(bound);
    }
    return {};
  }
  void Unbind(void* socket) const {
    for (const std::string& endpoint : endpoints) zmq_unbind(socket, endpoint.c_str());
  }
  bool BindAgain(void* socket) const {
    for (const std::string& endpoint : endpoints) {
      if (zmq_bind(socket, endpoint.c_str()) == 0) {
        Restrict(endpoint);
        continue;
      }
      Unbind(socket);
      return false;
    }
    return true;
  }

  void Receive(Frames frames, const Origin& origin) override {
    // Over ipc, a peer may state any User-Id in its handshake.
    From from{.peer = std::string(*frames[0]),
              .identity = domain ? origin.user : "",
              .name = {},
              .roles = kUnauthenticated,
              .address = domain ? HostText(origin.address) : ""};
    const Peer& peer = from.peer;
    frames.erase(frames.begin());
    auto decoded = Decode(frames);
    if (listener.allowed) {
      const auto member = listener.allowed->Find(origin.user);  // it may have been revoked meanwhile
      if (domain && !listener.allowed->AllowsEverybody()) Remember(origin);
      if (!member) {
        CloseRevoked();
        const auto* message = std::get_if<Message>(&decoded);
        Send(peer, {message ? message->request : "", Refusal{code::kForbidden, kRevoked}, {}});
        return;
      }
      from.name = member->name;
      from.roles = member->roles;
    }
    if (auto* message = std::get_if<Message>(&decoded))
      return handlers.on_message(std::move(from), std::move(*message));
    auto& error = std::get<DecodeError>(decoded);
    Send(peer, {error.request, error.refusal, {}}, error.major);
    if (handlers.on_malformed) handlers.on_malformed(peer, error.refusal);
  }
  Sent Send(const Peer& peer, const Message& message, int major = kWireMajor) {
    return socket_ ? Send(peer, Encode(message, major)) : Sent::kGone;
  }
  Sent Send(const Peer& peer, const Frames& frames) {
    if (!socket_) return Sent::kGone;
    const Sent sent = SendFrames(socket_, frames, &peer);
    DrainSoon();
    return sent;
  }
  // Remembers who sends over a connection, since only messages tell.
  void Remember(const Origin& origin) {
    const auto known = connected.find(origin.descriptor);
    if (known != connected.end() && known->second.user == origin.user) return;
    if (monitor) monitor->ReceiveNow();  // an earlier connection may have had this descriptor
    if (const auto now = connected.find(origin.descriptor); now != connected.end())
      now->second = {origin.user, CookieOf(origin.descriptor)};
  }
  void CloseRevoked() {
    if (revoking) return;
    revoking = loop_.After(kPatienceMs, [this] {
      revoking.reset();
      for (const auto& [descriptor, connection] : connected)
        if (!connection.user.empty() && !listener.allowed->Find(connection.user)) Break(descriptor, connection.cookie);
    });
  }
  // Counts the connections. Stops listening for a second after accept has failed. Without free descriptors, libzmq
  // would call accept in a busy loop.
  void OnEvent(const SocketEvent& happened) {
    if (happened.event == ZMQ_EVENT_ACCEPTED && connected.emplace(happened.descriptor, Connection()).second)
      of_connections += BytesOfConnection();
    if (happened.event == ZMQ_EVENT_DISCONNECTED && connected.erase(happened.descriptor) > 0)
      of_connections -= BytesOfConnection();
    if (happened.event != ZMQ_EVENT_ACCEPT_FAILED || rebind) return;
    Log(LogLevel::kError, "cannot accept connections on ", Joined(endpoints),
        " (descriptors used up?); trying again in 1 s");
    Unbind(socket_);
    rebind = loop_.Every(1000, [this] {
      if (BindAgain(socket_)) rebind.reset();
    });
  }

  // Listens with other keys from now on. All connections end, and peers connect again.
  void ChangeKeys(CurveKeys keys) {
    listener.keys = std::move(keys);
    if (!socket_) return;  // ListenAnew uses them
    Protect(socket_);
    if (rebind) return;  // it does not listen at present
    Unbind(socket_);
    constexpr int64_t kAgainMs = 5;  // the io thread frees the port soon
    rebind = loop_.Every(kAgainMs, [this] {
      if (BindAgain(socket_)) rebind.reset();
    });
  }

  Status Watch() {
    monitor = TRY(Monitor::Start(
        loop_, socket_, ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED,
        [weak = std::weak_ptr(std::static_pointer_cast<Impl>(shared_from_this()))](const SocketEvent& happened) {
          if (auto self = weak.lock()) self->OnEvent(happened);
        },
        kCollectEventsMs));
    Start();
    return {};
  }

  // What libzmq 4.3 takes for one connection: a queue of 256 messages of 64 bytes in each direction, two more to the
  // ZAP handler over TCP, two buffers of 8 KiB, keys, and what the allocator adds. [measured: 99 KiB over TCP]
  int64_t BytesOfConnection() const { return domain ? 112 << 10 : 64 << 10; }
  void ForgetConnections() {
    of_connections -= static_cast<int64_t>(connected.size()) * BytesOfConnection();
    connected.clear();
  }
  // The memory that the socket's owner and the connections of this process take.
  int64_t Kept() const { return handlers.kept_bytes() + std::min<int64_t>(of_connections, kMostOfConnections); }
  // The memory beyond that which the process did not have at the beginning.
  int64_t Unexplained() const {
    const int64_t kept = Kept(), allocated = MemoryWatch::Allocated() - kept - explained;
    if (allocated <= kMostUnexplained / 2 || allocated > kMostAnnounced) return allocated;
    // ZeroMQ allocates a message when its size arrives. A stranger who announces many and sends none occupies nothing.
    return std::min(allocated, MemoryWatch::SizeOfProcess().resident - kept - resident);
  }
  // Returns whether the process occupies so little beyond what is kept that there is nothing to give back and nothing
  // unexplained. This is the usual case, and a message that arrives meanwhile must not wait for the allocator's counts.
  bool OccupiesLittle() const {
    const MemoryWatch::Size size = MemoryWatch::SizeOfProcess();
    return size.resident - Kept() - resident <= kMostFreed && size.addresses <= kMostAnnounced;
  }
  void LookAtMemory() {
    if (monitor) monitor->ReceiveNow();  // counts the connections of now
    if (OccupiesLittle()) return;
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
    Log(LogLevel::kWarning, "unfinished messages take ", bytes >> 20, " MiB: closing all connections on ",
        Joined(endpoints), "; peers connect again");
    monitor->Stop();
    monitor.reset();
    ForgetConnections();
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
  // Tries to listen at the endpoints that the closed socket still may hold. Waits until the io thread has freed what
  // the connections had sent. What then is left belongs to the owner, since nothing arrives without a socket.
  void ListenAnew() {
    const int64_t left = Unexplained();
    if (left > kMostUnexplained / 4 && BootMillis() - closed_at < kPatienceMs) return;
    Result<void*> made = NewSocket(ZMQ_ROUTER);
    if (!made.ok()) return;
    Protect(*made);
    if (!BindAgain(*made)) {
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

  // Strangers may make and lose a thousand connections per second. Meanwhile, a failing accept uses a processor.
  // [chosen]
  static constexpr int64_t kCollectEventsMs = 20;
  static constexpr int64_t kPatienceMs = 300;            // peers give a broken connection up after 500 ms
  static constexpr int64_t kMostUnexplained = 32 << 20;  // [chosen]
  static constexpr int64_t kMostFreed = 8 << 20;         // [chosen]
  // Memory that connections may take: those of a thousand devices and four hundred tuners. What others take counts as
  // unfinished messages. [chosen]
  static constexpr int64_t kMostOfConnections = 160 << 20;
  // Virtual memory that announced messages may take. [chosen]
  static constexpr int64_t kMostAnnounced = int64_t{1} << (sizeof(void*) > 4 ? 34 : 28);
  Listener listener;
  Handlers handlers;
  std::vector<std::string> endpoints;  // with the numbers of the ports
  std::unique_ptr<ZapDomain> domain;   // of TCP
  std::shared_ptr<Monitor> monitor;
  struct Connection {
    std::string user;     // key of the member that sends; empty: not known
    uint64_t cookie = 0;  // of its socket
  };
  std::unordered_map<int, Connection> connected;          // by descriptor
  static inline std::atomic<int64_t> of_connections = 0;  // bytes, of all listeners of this process
  Loop::Watch rebind, trim, revoking;
  std::optional<MemoryWatch> memory;
  int64_t explained = 0, resident = 0;          // bytes
  int64_t closed_at = 0, others_closed_at = 0;  // milliseconds
};

RouterSocket::RouterSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
RouterSocket::~RouterSocket() {
  impl_->memory.reset();
  impl_->rebind.reset();
  impl_->trim.reset();
  impl_->revoking.reset();
  if (impl_->monitor) impl_->monitor->Stop();
  impl_->ForgetConnections();
  impl_->Close();
}
const std::vector<std::string>& RouterSocket::endpoints() const { return impl_->endpoints; }
void RouterSocket::ChangeKeys(CurveKeys keys) { impl_->ChangeKeys(std::move(keys)); }
void RouterSocket::CloseRevoked() { impl_->CloseRevoked(); }
Sent RouterSocket::Send(const Peer& peer, const Message& message) { return impl_->Send(peer, message); }
Sent RouterSocket::Send(const Peer& peer, const Frames& frames) { return impl_->Send(peer, frames); }

Result<std::unique_ptr<RouterSocket>> RouterSocket::Bind(Loop& loop, Listener listener, Handlers handlers) {
  bool tcp = false;
  for (std::string& endpoint : listener.endpoints) {
    endpoint = TRY(NormalizeEndpoint(endpoint));
    tcp |= IsTcp(endpoint);
  }
  if (tcp && !listener.allowed) {
    return WithHint(Err("refusing to listen on ", Joined(listener.endpoints),
                        ": anyone who reaches the port could run code here, since there are no keys"),
                    "make a join file with `rpc_tracker invite NAME --role server`, and give it with --join");
  }
  void* socket = TRY(NewSocket(ZMQ_ROUTER));
  auto impl = std::make_shared<Impl>(loop, socket, std::move(listener), std::move(handlers));
  if (tcp && Holds(Rule::kKeys)) impl->domain = TRY(ZapDomain::Open(impl->listener.allowed));
  impl->Protect(socket);
  TRY(impl->BindAll());
  if (tcp && Holds(Rule::kKeys) && Holds(Rule::kAllowList)) TRY(CheckRefusal(impl->endpoints[0], impl->listener));
  TRY(impl->Watch());
  if (impl->handlers.kept_bytes) {
    impl->explained = MemoryWatch::Allocated() - impl->Kept();
    impl->resident = MemoryWatch::SizeOfProcess().resident - impl->Kept();
    impl->memory.emplace(loop, [raw = impl.get()] { raw->LookAtMemory(); });
  }
  return std::unique_ptr<RouterSocket>(new RouterSocket(std::move(impl)));
}

}  // namespace autotune::rpc
