#include "rpc/server_listener.h"

#include <algorithm>
#include <filesystem>

#include "support/file.h"
#include "support/hint.h"
#include "support/log.h"

namespace autotune::rpc {
namespace {

Listener ListenerOf(const ServerOptions& options, std::string endpoint) {
  Listener listener(std::move(endpoint));
  listener.keys = options.tracker.own;
  if (!listener.keys.secret_key.empty()) listener.allowed = std::make_shared<AllowList>(Roles{Role::kClient});
  return listener;
}

// Listens at the kept port or, if there is none or another program has it, at a free one.
Result<std::unique_ptr<RouterSocket>> BindKeptPort(Loop& loop, const ServerOptions& options,
                                                   const std::string& port_file,
                                                   const RouterSocket::Handlers& handlers) {
  std::string kept;
  if (const auto text = ReadFile(port_file); !port_file.empty() && text.ok()) kept = text->substr(0, text->find('\n'));
  const std::string endpoint = "*:" + kept;
  if (!kept.empty() && NormalizeEndpoint(endpoint).ok()) {
    auto bound = RouterSocket::Bind(loop, ListenerOf(options, endpoint), handlers);
    if (bound.ok()) return bound;
    Log(LogLevel::kWarning, bound.error().message, "; this server takes another port");
  }
  auto socket = TRY(RouterSocket::Bind(loop, ListenerOf(options, "*:0"), handlers));
  if (!port_file.empty()) {
    if (Status written = ReplaceFile(port_file, PortOf(socket->endpoint()) + "\n"); !written)
      Log(LogLevel::kWarning, "cannot keep the port: ", written.error().Text());
  }
  return socket;
}

}  // namespace

Result<ServerListener> ListenForClients(Loop& loop, const ServerOptions& options, const Id& server,
                                        const std::string& port_file, RouterSocket::Handlers handlers) {
  ServerListener listener;
  const bool tcp = IsTcp(options.tracker.endpoints.front());
  if (!options.listen.empty()) {
    const std::string wanted = TRY_NOTE(NormalizeEndpoint(options.listen), "--listen");
    if (tcp != IsTcp(wanted)) {
      return WithHint(Err("--listen ", options.listen, ": a server listens in the way in which it reaches its tracker"),
                      tcp ? "give HOST:PORT, or leave --listen out" : "give the path of a socket, or use --join");
    }
    listener.socket = TRY(RouterSocket::Bind(loop, ListenerOf(options, wanted), std::move(handlers)));
  } else if (tcp) {
    listener.socket = TRY(BindKeptPort(loop, options, port_file, handlers));
  } else {
    const std::filesystem::path folder =
        std::filesystem::path(options.tracker.endpoints.front().substr(6)).parent_path();
    const std::string path = (folder / ("server-" + PublicId(server))).string();
    listener.socket = TRY(RouterSocket::Bind(loop, ListenerOf(options, path), std::move(handlers)));
  }
  for (const std::string& endpoint : options.advertise)
    listener.endpoints.push_back(TRY_NOTE(NormalizeEndpoint(endpoint), "--advertise"));
  if (listener.endpoints.empty()) listener.endpoints = ReachableEndpoints(listener.socket->endpoint());
  if (listener.endpoints.size() > kMostEndpoints) listener.endpoints.resize(kMostEndpoints);
  return listener;
}

}  // namespace autotune::rpc
