#include <algorithm>

#include "rpc/tracker_keys.h"
#include "rpc/transport.h"
#include "rpc/watched_socket.h"
#include "support/check.h"

namespace autotune::rpc {

struct DealerSocket::Impl : Watched {
  Impl(Loop& loop, void* socket, Address address, Handlers handlers, Peers peers)
      : Watched(loop, socket),
        address(std::move(address)),
        handlers(std::move(handlers)),
        peers(peers),
        trying(this->address.endpoints.size()) {}

  void Receive(Frames frames, const Origin&) override {
    auto decoded = Decode(frames);
    // A malformed message gets no refusal here, or two sides could refuse each other's refusals forever.
    auto* message = std::get_if<Message>(&decoded);
    if (!message) return;
    if (peers == Peers::kTracker) Learn(*message);
    handlers.on_message(std::move(*message));
  }

  // Begins to connect to all endpoints that are not tried already: a handshake over a slow link may take seconds. The
  // first endpoint that answers stays. Error: none of them is valid.
  Status ConnectAll() {
    if (uses_keys()) SetClientKeys(socket_, address.own, uses_next ? address.next_key : address.public_key);
    std::string why;
    for (size_t i = 0; i < trying.size(); ++i) {
      if (trying[i]) continue;
      const std::string& endpoint = address.endpoints[i];
      SetOption(socket_, ZMQ_IPV6, NeedsIpv6(endpoint));
      trying[i] = zmq_connect(socket_, endpoint.c_str()) == 0;
      if (!trying[i]) why = ZeroMqError();
    }
    if (std::ranges::count(trying, true) > 0) return {};
    return Err("cannot connect to ", address.Text(), ": ", why);
  }
  void GiveUp(size_t which) {
    if (trying[which]) zmq_disconnect(socket_, address.endpoints[which].c_str());
    trying[which] = false;
  }
  void GiveUpAllBut(std::optional<size_t> which) {
    for (size_t i = 0; i < trying.size(); ++i)
      if (i != which) GiveUp(i);
  }
  void ConnectAgain(int64_t milliseconds) {
    again = loop_.After(milliseconds, [this] {
      again.reset();
      if (connected) return;
      if (std::exchange(switches_key, false)) {
        uses_next = !uses_next && !address.next_key.empty();
        GiveUpAllBut({});
      }
      (void)ConnectAll();
    });
  }
  void OnEvent(int event, const std::string& endpoint) {
    // After the first connection to a name, libzmq calls the endpoint by the name's address.
    auto at = std::ranges::find(address.endpoints, endpoint);
    if (at == address.endpoints.end() && std::ranges::count(trying, true) == 1)
      at = address.endpoints.begin() + (std::ranges::find(trying, true) - trying.begin());
    const bool is_known = at != address.endpoints.end();
    const size_t which = is_known ? static_cast<size_t>(at - address.endpoints.begin()) : current;
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && !is_known) {
      GiveUpAllBut({});
      return ConnectAgain(0);
    }
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return OnConnected(which);
    const bool is_unknown = event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (is_unknown && !connected) is_known ? GiveUp(which) : GiveUpAllBut({});  // libzmq does not try it again
    if (event != ZMQ_EVENT_DISCONNECTED) return OnFailure(which, is_unknown);
    if (!is_known || which != current || !std::exchange(connected, false)) return;
    if (trying.size() > 1) ConnectAgain(kTryMs);  // libzmq connects to the lost one again
    if (handlers.on_disconnected) handlers.on_disconnected();
  }
  void OnConnected(size_t which) {
    if (connected && which != current) return;  // this one was given up
    GiveUpAllBut(which);
    current = which;
    connected = true;
    failures = 0;
    refused = Refused::kNo;
    switches_key = false;
    if (handlers.on_connected) handlers.on_connected();
  }
  // The connection ended before the handshake did.
  void OnFailure(size_t which, bool is_unknown) {
    if (connected) return;
    current = which;
    const bool has_two_keys = !address.next_key.empty();
    // libzmq connects again with the same key, and not at all if the key is unknown. But the member may be invited
    // again, or the tracker be restored.
    const bool waits = has_two_keys && again;
    switches_key |= has_two_keys && !is_unknown;
    if (!again && (is_unknown || has_two_keys)) ConnectAgain(is_unknown || trying.size() > 1 ? kTryMs : kOtherKeyMs);
    if (waits) return;  // each key counts once
    ++failures;
    if (!is_unknown && failures < (has_two_keys ? 2 : 1) * kSureFailures) return;
    const Refused cause = is_unknown ? Refused::kUnknown : Refused::kOtherKey;
    if (std::exchange(refused, cause) != cause && handlers.on_refused) handlers.on_refused();
  }
  void Learn(const Message& message) {
    const std::string* next = NextKeyIn(message.body);
    if (!next || !uses_keys() || *next == address.next_key || !(next->empty() || IsCurveKey(*next))) return;
    // Reached by its next key, a tracker that tells another one, or none, has changed its key. The earlier one is void.
    if (std::exchange(uses_next, false)) address.public_key = address.next_key;
    address.next_key = *next;
    KeepTrackerKeys(address);
  }
  bool Send(const Message& message) {
    const Sent sent = SendFrames(socket_, Encode(message));
    DrainSoon();
    return sent == Sent::kYes;
  }
  bool uses_keys() const { return IsTcp(address.endpoints[0]); }

  Address address;
  Handlers handlers;
  const Peers peers;
  std::vector<bool> trying;  // for each endpoint: whether libzmq connects to it or is connected
  size_t current = 0;        // index of the endpoint that is connected, or was the latest to refuse
  bool connected = false;
  bool uses_next = false, switches_key = false;  // the next key of the listener; at the next attempt
  int failures = 0;                              // handshakes that failed since the last connection
  Refused refused = Refused::kNo;
  std::shared_ptr<Monitor> monitor;
  Loop::Watch again;

  static constexpr int64_t kTryMs = 1000;      // until other endpoints are tried, or the same one after a refusal
  static constexpr int64_t kOtherKeyMs = 100;  // [chosen]
  // Failures for each key after which the peer is sure to have another one. A peer that ends causes one. [chosen]
  static constexpr int kSureFailures = 3;
};

DealerSocket::DealerSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
DealerSocket::~DealerSocket() {
  impl_->again.reset();
  impl_->monitor->Stop();
  impl_->Close();
}
bool DealerSocket::Send(const Message& message) { return impl_->Send(message); }
const std::string& DealerSocket::endpoint() const { return impl_->address.endpoints[impl_->current]; }
DealerSocket::Refused DealerSocket::refused() const { return impl_->refused; }

Result<std::unique_ptr<DealerSocket>> DealerSocket::Connect(Loop& loop, const Address& address, Handlers handlers,
                                                            Peers peers) {
  Address complete = TRY(NormalizeAddress(address));
  if (peers == Peers::kTracker) complete = WithKnownKeys(std::move(complete));
  void* socket = TRY(NewSocket(ZMQ_DEALER));
  if (peers == Peers::kUploads) BearBreaks(socket);
  if (peers == Peers::kStranger) {
    SetFrameLimit(socket, 4096);
    SetOption(socket, ZMQ_LINGER, 0);
  }
  auto impl = std::make_shared<Impl>(loop, socket, std::move(complete), std::move(handlers), peers);
  impl->monitor = TRY(
      Monitor::Start(loop, socket, kHandshakeEvents, [weak = std::weak_ptr<Impl>(impl)](const SocketEvent& happened) {
        // null if the socket was destroyed
        if (auto self = weak.lock()) self->OnEvent(happened.event, happened.endpoint);
      }));
  impl->Start();
  if (Status connected = impl->ConnectAll(); !connected) {
    impl->monitor->Stop();
    return connected.error();
  }
  return std::unique_ptr<DealerSocket>(new DealerSocket(std::move(impl)));
}

}  // namespace autotune::rpc
