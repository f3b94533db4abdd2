#include "tools/tracker_choice.h"

#include <cstdlib>
#include <filesystem>

#include "rpc/join_file.h"
#include "support/hint.h"
#include "support/shell.h"
#include "support/state_folder.h"

namespace autotune::tools {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<rpc::Address> FromJoinFile(const std::string& path) { return TRY(rpc::ReadJoinFile(path)).TrackerAddress(); }

Result<rpc::Address> FromText(const std::string& text, const std::string& source) {
  const std::string endpoint = TRY_NOTE(rpc::NormalizeEndpoint(text), source);
  if (!rpc::IsTcp(endpoint)) return rpc::Address(endpoint);
  return WithHint(Err(source, " ", text, ": a tracker is reached over TCP with a join file only"),
                  "give the file that `rpc_tracker invite` has made: --join FILE");
}

}  // namespace

std::string DefaultTrackerSocket() { return RuntimeFolder() + "/tracker"; }

bool EnvironmentNamesTracker() { return !Variable("AUTOTUNE_JOIN").empty() || !Variable("AUTOTUNE_TRACKER").empty(); }

Result<rpc::Address> TrackerChoice::Find() const {
  if (!tracker.empty() && !join.empty()) return Err("--tracker and --join exclude each other");
  if (!join.empty()) return FromJoinFile(join);
  if (!tracker.empty()) return FromText(tracker, "--tracker");
  if (const std::string path = Variable("AUTOTUNE_JOIN"); !path.empty()) return FromJoinFile(path);
  if (const std::string text = Variable("AUTOTUNE_TRACKER"); !text.empty()) return FromText(text, "AUTOTUNE_TRACKER");
  const std::string config = Variable("XDG_CONFIG_HOME");
  const std::string file = (config.empty() ? Variable("HOME") + "/.config" : config) + "/autotune/default.join";
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return FromJoinFile(file);
  // In /tmp, another user could have made the folder, with a socket that gets this user's kernels.
  TRY(MakePrivateFolder(RuntimeFolder()));
  return rpc::NormalizeAddress(rpc::Address(DefaultTrackerSocket()));
}

std::string TrackerChoice::Words() const {
  if (!join.empty()) return " --join " + ShellWord(join);
  return tracker.empty() ? "" : " --tracker " + ShellWord(tracker);
}

void AddTrackerOptions(CLI::App& app, TrackerChoice& choice) {
  app.add_option("--join", choice.join,
                 "Join file of a farm, or - for standard input (default: AUTOTUNE_JOIN, else "
                 "~/.config/autotune/default.join)");
  app.add_option("--tracker", choice.tracker,
                 "Socket of a tracker on this host (default: AUTOTUNE_TRACKER, else that of rpc_tracker)");
}

}  // namespace autotune::tools
