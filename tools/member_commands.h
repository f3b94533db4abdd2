// The commands of rpc_tracker that say who takes part in a farm: invite, members, revoke. They change the files in the
// tracker's state folder, whether the tracker runs or not.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace autotune::tools {

struct Subcommand {
  CLI::App* app;
  std::function<int()> run;  // returns the exit code
};
std::vector<Subcommand> AddMemberCommands(CLI::App& root);

// Returns the folder in which a tracker that is started without --state keeps its state.
std::string DefaultTrackerState();

}  // namespace autotune::tools
