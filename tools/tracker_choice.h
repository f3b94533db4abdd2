// The options that say which tracker a program uses (rpc/tracker_choice.h), for all three programs.
#pragma once
#include <CLI/CLI.hpp>

#include "rpc/tracker_choice.h"

namespace autotune::tools {

using rpc::DefaultTrackerSocket;
using rpc::DefaultTrackerState;
using rpc::EnvironmentNamesTracker;
using rpc::SocketFile;
using rpc::TrackerChoice;

void AddTrackerOptions(CLI::App& app, TrackerChoice& choice);
// These and --state, for the commands of rpc_tracker.
void AddAdminOptions(CLI::App& app, TrackerChoice& choice);

}  // namespace autotune::tools
