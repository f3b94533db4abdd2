// The device server: a ServerSession on real sockets, with real runners. RunServer occupies the main thread until the
// server ends.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune::rpc {

struct ServerOptions {
  std::string tracker;     // endpoint
  std::string key;         // what clients ask for
  std::string listen;      // endpoint for clients; empty: a free port, or a socket beside the tracker's
  std::vector<int> cores;  // the runner's; empty: all
  std::string device;      // what runners offer beside the CPU, for people: "opencl:0"; empty: nothing
  std::vector<std::string> runner_command;  // e.g. {"/usr/bin/rpc_server", "--runner"}
  bool wrapped_runner = false;              // it begins with a foreign program
  bool end_with_stdin = false;              // stop when standard input ends
  bool host_lock = true;                    // measure alone on this host (support/host_lock.h)
};
// Returns after SIGINT or SIGTERM (or the end of standard input); an error if it cannot start.
Status RunServer(const ServerOptions& options);

// "0-2,5" -> {0, 1, 2, 5}
Result<std::vector<int>> ParseCores(const std::string& text);

}  // namespace autotune::rpc
