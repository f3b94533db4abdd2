#include "rpc/tracker_choice.h"

#include <cstdlib>
#include <filesystem>

#include "rpc/join_file.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/shell.h"
#include "support/state_folder.h"

namespace autotune::rpc {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Returns the path of the join file that the environment names or that lies in the user's folder; "": none.
std::string JoinFromEnvironment() {
  if (const std::string path = Variable("AUTOTUNE_JOIN"); !path.empty()) return path;
  if (!Variable("AUTOTUNE_TRACKER").empty()) return "";
  const std::string config = Variable("XDG_CONFIG_HOME");
  const std::string file = (config.empty() ? Variable("HOME") + "/.config" : config) + "/autotune/default.join";
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? file : "";
}

Result<Address> FromText(const std::string& text, const std::string& source) {
  const std::string endpoint = TRY_NOTE(NormalizeEndpoint(text), source);
  if (!IsTcp(endpoint)) return Address(endpoint);
  return WithHint(Err(source, " ", text, ": a tracker is reached over TCP with a join file only"),
                  "give the file that `rpc_tracker invite` has made: --join FILE");
}

}  // namespace

std::string DefaultTrackerSocket() { return RuntimeFolder() + "/tracker"; }
std::string DefaultTrackerState() { return StateFolder() + "/tracker"; }

bool EnvironmentNamesTracker() { return !Variable("AUTOTUNE_JOIN").empty() || !Variable("AUTOTUNE_TRACKER").empty(); }

namespace {

Result<Address> FromFolder(const std::string& folder) {
  const auto text = ReadFile(SocketFile(folder));
  if (!text.ok()) return WithHint(Err("no tracker has run with the state folder ", folder), "rpc_tracker --state DIR");
  return NormalizeAddress(Address(text->substr(0, text->find('\n'))));
}

Result<Address> FromJoinFile(const std::string& path, bool for_admin) {
  const JoinFile file = TRY(ReadJoinFile(path));
  if (!for_admin || file.role == RoleText(Role::kAdmin)) return file.TrackerAddress();
  return WithHint(Err("the join file ", path, " is that of the ", file.role, " ", file.name,
                      "; only administrators may give this command"),
                  "give an administrator's file with --join, or the tracker's folder on its host with --state");
}

Result<Address> FindTracker(const TrackerChoice& choice, bool for_admin) {
  if (!choice.tracker.empty() && !choice.join.empty()) return Err("--tracker and --join exclude each other");
  if (!choice.state.empty() && choice.Given()) return Err("--state excludes --tracker and --join");
  if (!choice.state.empty()) return FromFolder(choice.state);
  if (!choice.join.empty()) return FromJoinFile(choice.join, for_admin);
  if (!choice.tracker.empty()) return FromText(choice.tracker, "--tracker");
  if (const std::string path = JoinFromEnvironment(); !path.empty()) return FromJoinFile(path, for_admin);
  if (const std::string text = Variable("AUTOTUNE_TRACKER"); !text.empty()) return FromText(text, "AUTOTUNE_TRACKER");
  // In /tmp, another user could have made the folder, with a socket that gets this user's kernels.
  TRY(MakePrivateFolder(RuntimeFolder()));
  return NormalizeAddress(Address(DefaultTrackerSocket()));
}

}  // namespace

Result<Address> TrackerChoice::Find() const { return FindTracker(*this, false); }
Result<Address> TrackerChoice::FindForAdmin() const { return FindTracker(*this, true); }

std::string TrackerChoice::Folder() const {
  if (Given()) return "";  // FindForAdmin refuses --state beside them
  if (!state.empty()) return state;
  return JoinFromEnvironment().empty() && Variable("AUTOTUNE_TRACKER").empty() ? DefaultTrackerState() : "";
}

std::string TrackerChoice::Words() const {
  if (!join.empty()) return " --join " + ShellWord(join);
  return tracker.empty() ? "" : " --tracker " + ShellWord(tracker);
}

}  // namespace autotune::rpc
