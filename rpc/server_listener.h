// Where a device server listens for clients, and which addresses it tells them. Belongs to the thread of its loop.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rpc/server.h"
#include "rpc/transport.h"

namespace autotune::rpc {

struct ServerListener {
  std::unique_ptr<RouterSocket> socket;
  std::vector<std::string> endpoints;  // for clients, in the order in which they try them
};

// Listens at options.listen or, if that is empty, at a socket beside the tracker's, or at all addresses of this host if
// the tracker is reached by TCP. The number of a free port is kept in `port_file`, so that a firewall's rule for it
// holds after a restart; an empty path keeps none. Whoever knows the server's key may connect, so the session checks
// what each message proves. Error: an endpoint is wrong or taken.
Result<ServerListener> ListenForClients(Loop& loop, const ServerOptions& options, const Id& server,
                                        const std::string& port_file, RouterSocket::Handlers handlers);

}  // namespace autotune::rpc
