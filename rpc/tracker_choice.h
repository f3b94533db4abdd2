// How a user and the environment say which tracker a program uses. Thread-safe.
#pragma once
#include <string>

#include "rpc/address.h"
#include "support/result.h"

namespace autotune::rpc {

struct TrackerChoice {
  std::string tracker;  // --tracker: an ipc socket
  std::string join;     // --join: path of a join file, or "-" for standard input
  std::string state;    // --state: a tracker's state folder on this host; for the commands of rpc_tracker

  bool Given() const { return !tracker.empty() || !join.empty(); }
  // Returns the address of the tracker: that of --join, --tracker or --state, else of AUTOTUNE_JOIN or
  // AUTOTUNE_TRACKER, else of ~/.config/autotune/default.join, else the socket at which rpc_tracker listens by default.
  // Errors: two of the options; the file cannot be used; no tracker has run in the folder; others may enter the folder
  // of the default socket.
  Result<Address> Find() const;
  // The same for a command that only administrators may give. Error: the join file is that of another role.
  Result<Address> FindForAdmin() const;
  // Returns the state folder on which such a command works itself: that of --state or, if neither the command line nor
  // the environment names a tracker, the default one. Empty: the command asks the tracker of FindForAdmin.
  std::string Folder() const;
  // Returns the options that name the tracker, for a suggested command: " --join farm.join", or "".
  std::string Words() const;
};

// Returns whether the environment names a tracker.
bool EnvironmentNamesTracker();
// The socket of a tracker that is started without --listen.
std::string DefaultTrackerSocket();
// The folder in which a tracker that is started without --state keeps its state.
std::string DefaultTrackerState();
// The file in a state folder that has the endpoint of the tracker's socket.
inline std::string SocketFile(const std::string& state_folder) { return state_folder + "/socket-path"; }

}  // namespace autotune::rpc
