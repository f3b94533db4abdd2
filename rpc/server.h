// The device server: a ServerSession with sockets and runner processes. RunServer must be called on the main thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rpc/address.h"
#include "support/result.h"

namespace autotune::rpc {

struct ServerOptions {
  Address tracker;  // of a join file (rpc/join_file.h), or an ipc socket
  std::string key;  // name of this kind of device, by which clients request it
  // Endpoint for clients. Empty: a socket beside the tracker's, or all addresses of this host at the port of the last
  // time, at first a free one.
  std::string listen;
  std::vector<std::string> advertise;  // addresses that clients try; empty: those at which the server listens
  std::vector<int> cores;              // cores of the runner; empty: all
  std::string machine;  // folder with the files of the machine on which runners run (support/machine_description.h);
                        // empty: this host
  std::string device;   // device beside the CPU, as the status shows it ("opencl:0"); empty: none
  std::vector<std::string> runner_command;  // e.g. {"/usr/bin/rpc_server", "--runner"}
  bool wrapped_runner = false;              // runner_command begins with a foreign program, such as an emulator
  bool end_with_stdin = false;              // stop when standard input ends
  int64_t idle_exit_ms = 0;                 // time without a lease after which the server ends; 0: it does not
  std::string state;  // folder that keeps the server's id (rpc/server_identity.h); empty: a new id at each start
  // Gets lines for the operator's log: waits for the tracker, the registration there, and what happens to leases.
  std::function<void(const std::string& line)> on_event = {};
  int64_t memory_bytes = 0;   // limit of the memory that a runner occupies; 0: none
  int64_t package_bytes = 0;  // of packages kept for later sessions, in the state folder; 0: none
  bool host_lock = true;      // measure alone on the device: on this host, or on its GPU (support/host_lock.h)
};
// Serves until SIGINT or SIGTERM, until idle_exit_ms have passed without a lease, or until the end of standard input if
// end_with_stdin. The first signal lets the candidate that runs end, and its client get the results; a second one, and
// the end of standard input, end the server at once. Returns an error if it cannot start, for example since this
// machine has no such device.
Status RunServer(const ServerOptions& options);

// Parses a list of cores: "0-2,5" -> {0, 1, 2, 5}.
Result<std::vector<int>> ParseCores(const std::string& text);

}  // namespace autotune::rpc
