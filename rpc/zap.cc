#include "rpc/zap.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "rpc/zeromq.h"
#include "support/check.h"
#include "support/quiet_thread.h"

namespace autotune::rpc {
namespace {

// The listeners of the process, and the thread that answers for them. Never destroyed, since the thread never ends.
class Handler {
 public:
  static Handler& Get() {
    static Handler* handler = new Handler;
    return *handler;
  }

  // Binds the handler's socket at the first call, before any listener.
  Status Start() {
    std::lock_guard hold(mutex_);
    if (socket_) return {};
    void* socket = zmq_socket(ZeroMqContext(), ZMQ_REP);
    if (!socket) return Err("cannot make a ZeroMQ socket: ", ZeroMqError());
    if (zmq_bind(socket, "inproc://zeromq.zap.01")) {
      Error error = Err("cannot check keys: ", ZeroMqError());
      zmq_close(socket);
      return error;
    }
    socket_ = socket;
    StartQuietThread([this] { Run(); });
    return {};
  }
  void Set(const std::string& domain, std::shared_ptr<const AllowList> allowed) {
    std::lock_guard hold(mutex_);
    if (allowed) {
      domains_[domain] = std::move(allowed);
    } else {
      domains_.erase(domain);
    }
  }

 private:
  // The request's frames: version, request, domain, address, routing id, mechanism, and the public key for CURVE.
  void Run() {
    while (true) {
      Frames frames;
      zmq_pollitem_t item{.socket = socket_, .fd = -1, .events = ZMQ_POLLIN, .revents = 0};
      zmq_poll(&item, 1, -1);
      if (!ReceiveFrames(socket_, frames)) continue;
      const std::string key = KeyOf(frames);
      const bool allowed = !key.empty() && IsAllowed(std::string(*frames[2]), key);
      const Blob request = frames.size() > 1 ? frames[1] : MakeBlob("");
      // 400 tells the peer, and ends the connection at once. After 300, libzmq 4.3 keeps it until the handshake's time
      // is over, and the peer does not learn why.
      SendFrames(socket_, {MakeBlob("1.0"), request, MakeBlob(allowed ? "200" : "400"),
                           MakeBlob(allowed ? "" : "unknown key"), MakeBlob(allowed ? key : ""), MakeBlob("")});
    }
  }
  static std::string KeyOf(const Frames& frames) {
    constexpr size_t kKeyBytes = 32, kKeyText = 40;
    if (frames.size() != 7 || *frames[5] != "CURVE" || frames[6]->size() != kKeyBytes) return "";
    std::array<char, kKeyText + 1> text{};
    CHECK(zmq_z85_encode(text.data(), reinterpret_cast<const uint8_t*>(frames[6]->data()), kKeyBytes));
    return text.data();
  }
  bool IsAllowed(const std::string& domain, const std::string& key) {
    std::shared_ptr<const AllowList> allowed;
    {
      std::lock_guard hold(mutex_);
      const auto found = domains_.find(domain);
      if (found == domains_.end()) return false;
      allowed = found->second;
    }
    return allowed->Find(key).has_value();
  }

  std::mutex mutex_;
  void* socket_ = nullptr;
  std::map<std::string, std::shared_ptr<const AllowList>> domains_;
};

}  // namespace

Result<std::unique_ptr<ZapDomain>> ZapDomain::Open(std::shared_ptr<const AllowList> allowed) {
  TRY(Handler::Get().Start());
  std::unique_ptr<ZapDomain> domain(new ZapDomain(RandomId()));
  Handler::Get().Set(domain->name(), std::move(allowed));
  return domain;
}

ZapDomain::~ZapDomain() { Handler::Get().Set(name_, nullptr); }

}  // namespace autotune::rpc
