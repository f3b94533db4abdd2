// How the command line and the environment say which tracker a program uses, for all three programs.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "rpc/address.h"
#include "support/result.h"

namespace autotune::tools {

struct TrackerChoice {
  std::string tracker;  // --tracker: an ipc socket
  std::string join;     // --join: path of a join file, or "-" for standard input

  bool Given() const { return !tracker.empty() || !join.empty(); }
  // Returns the address of the tracker: that of --join or --tracker, else of AUTOTUNE_JOIN or AUTOTUNE_TRACKER, else of
  // ~/.config/autotune/default.join, else the socket at which rpc_tracker listens by default. Errors: --join and
  // --tracker; the file cannot be used; others may enter the folder of the default socket.
  Result<rpc::Address> Find() const;
  // Returns the options that name the tracker, for a suggested command: " --join farm.join", or "".
  std::string Words() const;
};

void AddTrackerOptions(CLI::App& app, TrackerChoice& choice);

// Returns whether the environment names a tracker.
bool EnvironmentNamesTracker();
// The socket of a tracker that is started without --listen.
std::string DefaultTrackerSocket();

}  // namespace autotune::tools
