// `rpc_server install-service`: a unit of systemd that starts a server at each start of the host.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune::tools {

struct ServiceOptions {
  std::string program;                 // absolute path of rpc_server
  std::string key;                     // of the device
  std::vector<std::string> arguments;  // of rpc_server, without those that name tracker and state
  bool has_device = false;             // a device beside the CPU, whose files the server opens
};

// Returns the text of the unit. The server runs as root, so that its runners may become users of their own, but has no
// other right of root.
std::string ServiceUnit(const ServiceOptions& options);

// The command line of install-service.
class InstallService {
 public:
  explicit InstallService(CLI::App& app);  // adds the command to `app`, whose options are those of the server
  bool Given() const { return command_->parsed(); }
  // Writes the unit and a copy of the join file that `join` names ("-": standard input), or prints the unit with
  // --print. Errors: an option that a service cannot have; the join file cannot be used; a file cannot be written.
  Status Run(const std::string& key, const std::string& join) const;

 private:
  CLI::App& app_;
  CLI::App* command_ = nullptr;
  bool prints_ = false;
  std::string root_;
};

}  // namespace autotune::tools
