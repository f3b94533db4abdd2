#include "tools/install_service.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "rpc/join_file.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/shell.h"
#include "support/subprocess.h"

namespace autotune::tools {
namespace {

namespace fs = std::filesystem;

std::string JoinPath(const std::string& key) { return "/etc/autotune/" + key + ".join"; }
std::string UnitName(const std::string& key) { return "autotune-" + key + ".service"; }

// Returns `word` as systemd reads it as one word of a command line.
std::string UnitWord(std::string_view word) {
  std::string text;
  for (char c : word) {
    if (c == '%' || c == '$') text += c;  // begin specifiers and variables
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  const bool is_plain = !text.empty() && text.find_first_of(" \t\"'\\;") == std::string::npos;
  return is_plain ? text : '"' + text + '"';
}

// Home folders are hidden from the server, unless its program lies there.
bool IsInHome(const std::string& path) {
  return path.starts_with("/home/") || path.starts_with("/root/") || path.starts_with("/run/user/");
}

constexpr char kUnitBegin[] = R"([Service]
Type=exec
Restart=on-failure
RestartSec=10
# SIGTERM goes to the server alone, which lets the candidate that runs end. Then everything is killed.
KillMode=mixed
TimeoutStopSec=90
StateDirectory=autotune
StateDirectoryMode=0700
Environment=XDG_STATE_HOME=%S
# For the numbers of the users that runners become, which all servers of this host share.
RuntimeDirectory=autotune
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
UMask=0077
# Runners become users of their own. Nothing else of root's rights is left.
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL
NoNewPrivileges=yes
ProtectSystem=strict
# The lock that keeps timings undisturbed lies in /tmp, where all programs of this host find it.
ReadWritePaths=/tmp
PrivateMounts=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
SystemCallErrorNumber=EPERM
)";

// Returns the words of the server's options that the command line gives. Error: one that a service cannot have.
Result<std::vector<std::string>> GivenArguments(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->count() > 0; })) {
    const std::string name = option->get_name();
    if (name == "--join") continue;
    if (name == "--tracker" || name == "--state" || name == "--end-with-stdin")
      return WithHint(Err("install-service excludes ", name),
                      "a service has a join file, and its state is in /var/lib/autotune");
    if (option->get_items_expected_max() == 0) {
      words.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) {
      words.push_back(name);
      words.push_back(name == "--machine" ? fs::absolute(value).string() : value);
    }
  }
  return words;
}

Status MakeFolder(const std::string& path, mode_t mode) {
  std::error_code error;
  if (fs::exists(path, error)) return {};
  fs::create_directories(path, error);
  if (error) return WithHint(Err("cannot make ", path, ": ", error.message()), "run it as root, or print with --print");
  chmod(path.c_str(), mode);
  return {};
}

Status Write(const std::string& path, const std::string& text, mode_t mode) {
  TRY(MakeFolder(FolderOf(path), mode == 0600 ? 0700 : 0755));
  if (Status written = ReplaceFileDurably(path, text); !written)
    return WithHint(written.error(), "run it as root, or print with --print");
  chmod(path.c_str(), mode);
  return {};
}

}  // namespace

std::string ServiceUnit(const ServiceOptions& options) {
  std::string command = UnitWord(options.program) + " --join " + UnitWord(JoinPath(options.key));
  for (const std::string& word : options.arguments) command += " " + UnitWord(word);
  std::string unit = "# Made by `rpc_server install-service`.\n[Unit]\nDescription=autotune device server " +
                     options.key + "\nWants=network-online.target\nAfter=network-online.target\n\n" + kUnitBegin;
  // These would hide the files of a GPU.
  if (!options.has_device) unit += "PrivateDevices=yes\nProtectClock=yes\n";
  unit += std::string("ProtectHome=") + (IsInHome(options.program) ? "read-only" : "yes") + "\n";
  return unit + "ExecStart=" + command + "\n\n[Install]\nWantedBy=multi-user.target\n";
}

InstallService::InstallService(CLI::App& app) : app_(app) {
  command_ = app.add_subcommand("install-service",
                                "Install a service of systemd that runs this server with the options given, and end");
  command_->fallthrough();
  command_->add_flag("--print", prints_, "Print the unit, and install nothing");
  command_->add_option("--root", root_, "Folder of the system to install into (default: /)")->type_name("DIR");
}

Status InstallService::Run(const std::string& key, const std::string& join) const {
  ServiceOptions options{.key = key};
  options.arguments = TRY(GivenArguments(app_));
  options.program = fs::canonical(TRY(FindOwnExecutable("rpc_server"))).string();
  options.has_device = app_.get_option("--device")->count() > 0;
  const std::string unit = ServiceUnit(options);
  if (prints_) return std::fputs(unit.c_str(), stdout) < 0 ? Err("cannot print the unit") : Status();
  if (join.empty())
    return WithHint(Err("--join is missing"), "`rpc_tracker invite NAME --role server > NAME.join` makes a join file");
  const rpc::JoinFile file = TRY(rpc::ReadJoinFile(join));
  if (file.role != rpc::RoleText(rpc::Role::kServer))
    return WithHint(Err("the join file ", join, " is that of the ", file.role, " ", file.name),
                    "a server needs a file of `rpc_tracker invite NAME --role server`");
  TRY(Write(root_ + JoinPath(key), file.Text(), 0600));
  const std::string path = root_ + "/etc/systemd/system/" + UnitName(key);
  TRY(Write(path, unit, 0644));
  std::printf(
      "installed %s, and the join file as %s; start it now and at each start of this host:\n"
      "  systemctl daemon-reload && systemctl enable --now %s\n",
      path.c_str(), (root_ + JoinPath(key)).c_str(), ShellWord(UnitName(key)).c_str());
  return {};
}

}  // namespace autotune::tools
