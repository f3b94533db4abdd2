// The commands of rpc_tracker that say who takes part in a farm: invite, members, revoke, and rotate, which
// replaces the key by which members know the tracker. On the tracker's host they
// use the files in its state folder, whether it runs or not. Elsewhere they ask the tracker.
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

}  // namespace autotune::tools
