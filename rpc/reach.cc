#include "rpc/reach.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "rpc/address.h"
#include "support/clock.h"
#include "support/join.h"
#include "support/quiet_thread.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

struct Reach::Shared {
  std::mutex mutex;
  std::vector<std::string> endpoints, found;  // `found`: of each endpoint
};

namespace {

constexpr int64_t kConnectMs = 5000;  // for a connection; whoever waits asks earlier [chosen]
constexpr char kSilent[] = "no answer", kAccepted[] = "accepts connections, but no server of this farm answers";

std::string ErrorText(int error) {
  if (error == ECONNREFUSED) return "connection refused";
  return error == EHOSTUNREACH || error == ENETUNREACH ? "no route to it" : strerror(error);
}

// Begins to connect. Returns what is known at once: "" if the connection is under way in `fd`.
std::string BeginConnecting(const sockaddr* address, socklen_t size, UniqueFd& fd) {
  fd = UniqueFd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrorText(errno);
  if (connect(fd.get(), address, size) == 0) return kAccepted;
  return errno == EINPROGRESS ? "" : ErrorText(errno);
}

std::string BeginConnecting(const std::string& endpoint, UniqueFd& fd) {
  if (!IsTcp(endpoint)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    endpoint.copy(address.sun_path, sizeof address.sun_path - 1, 6);
    return BeginConnecting(reinterpret_cast<const sockaddr*>(&address), sizeof address, fd);
  }
  std::string host = HostOf(endpoint);
  if (host.starts_with("[")) host = host.substr(1, host.size() - 2);
  const addrinfo hints{.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* first = nullptr;
  if (const int error = getaddrinfo(host.c_str(), PortOf(endpoint).c_str(), &hints, &first))
    return std::string("the name is unknown: ") + gai_strerror(error);
  std::string text = BeginConnecting(first->ai_addr, first->ai_addrlen, fd);
  freeaddrinfo(first);
  return text;
}

}  // namespace

std::unique_ptr<Reach> Reach::Begin(const std::vector<std::string>& endpoints) {
  const auto shared = std::make_shared<Shared>();
  shared->endpoints = endpoints;
  shared->found.assign(endpoints.size(), kSilent);
  StartQuietThread([shared, endpoints] {
    const auto tell = [&](size_t i, std::string text) {
      std::lock_guard hold(shared->mutex);
      shared->found[i] = std::move(text);
    };
    std::vector<UniqueFd> connections(endpoints.size());
    std::vector<pollfd> waits(endpoints.size(), {.fd = -1, .events = POLLOUT, .revents = 0});
    for (size_t i = 0; i < endpoints.size(); ++i) {
      std::string known = BeginConnecting(endpoints[i], connections[i]);
      if (known.empty()) {
        waits[i].fd = connections[i].get();
      } else {
        tell(i, std::move(known));
      }
    }
    const auto is_open = [](const pollfd& wait) { return wait.fd >= 0; };
    for (const int64_t end = BootMillis() + kConnectMs; std::ranges::any_of(waits, is_open);) {
      const int64_t left = end - BootMillis();
      if (left <= 0 || poll(waits.data(), waits.size(), static_cast<int>(left)) < 0) return;
      for (size_t i = 0; i < waits.size(); ++i) {
        if (!is_open(waits[i]) || waits[i].revents == 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(waits[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
        tell(i, error == 0 ? kAccepted : ErrorText(error));
        waits[i].fd = -1;
      }
    }
  });
  return std::unique_ptr<Reach>(new Reach(shared));
}

std::string Reach::Text() const {
  std::lock_guard hold(shared_->mutex);
  std::vector<std::string> parts;
  for (size_t i = 0; i < shared_->endpoints.size(); ++i)
    parts.push_back(shared_->endpoints[i] + " (" + shared_->found[i] + ")");
  return Joined(parts, ", ");
}

}  // namespace autotune::rpc
