#include "tools/member_commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "support/join.h"
#include "support/json.h"
#include "support/printf_text.h"
#include "support/state_folder.h"
#include "tools/error_lines.h"
#include "tracker/members.h"

namespace autotune::tools {
namespace {

struct Options {
  std::string state, name, role;
  std::vector<std::string> advertise;
  bool json = false;

  std::string Folder() const { return state.empty() ? DefaultTrackerState() : state; }
};

std::string DayText(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm local{};
  char text[32];
  if (!localtime_r(&seconds, &local) || !std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local)) return "?";
  return text;
}

// A join file is for its member alone, also if the shell has made it with other permissions.
Status ProtectOutput() {
  if (isatty(STDOUT_FILENO))
    return WithHint(Err("a join file holds a secret key, so it is not shown on a terminal"),
                    "send it to a file: rpc_tracker invite NAME --role ROLE > NAME.join");
  struct stat info {};
  if (fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) && fchmod(STDOUT_FILENO, 0600) != 0)
    return Err("cannot keep others from reading the join file: ", strerror(errno));
  return {};
}

Status RunInvite(const Options& options) {
  const rpc::Role role = TRY_NOTE(rpc::RoleFromText(options.role), "--role");
  std::vector<std::string> endpoints;
  for (const std::string& text : options.advertise) {
    endpoints.push_back(TRY_NOTE(rpc::NormalizeEndpoint(text), "--advertise"));
    if (!rpc::IsTcp(endpoints.back())) return Err("--advertise ", text, ": expected HOST:PORT");
  }
  TRY(ProtectOutput());
  const rpc::JoinFile file = TRY(Invite(options.Folder(), options.name, role, endpoints));
  std::fputs(file.Text().c_str(), stdout);
  std::fprintf(stderr, "note: %s may join as %s; the file names the tracker at %s\n", file.name.c_str(),
               file.role.c_str(), Joined(file.tracker).c_str());
  return {};
}

Status RunMembers(const Options& options) {
  const Members list = TRY(ReadFarmMembers(options.Folder()));
  if (options.json) {
    Json::Array members;
    for (const Member& member : list.members) members.push_back(ToJson(member));
    Json line;
    line["members"] = std::move(members);
    line["endpoints"] = ToJson(list.endpoints);
    std::fputs((line.Dump() + "\n").c_str(), stdout);
    return {};
  }
  if (list.members.empty()) std::fputs("no members; rpc_tracker invite NAME --role server|client makes one\n", stdout);
  size_t width = 0;
  for (const Member& member : list.members) width = std::max(width, member.name.size());
  for (const Member& member : list.members) {
    std::fputs(Format("%-*s  %-6s  invited %s\n", static_cast<int>(width), member.name.c_str(), member.role.c_str(),
                      DayText(member.invited).c_str())
                   .c_str(),
               stdout);
  }
  return {};
}

Status RunRevoke(const Options& options) {
  TRY(RevokeMember(options.Folder(), options.name));
  std::fprintf(stdout, "%s is no member any more\n", options.name.c_str());
  return {};
}

}  // namespace

std::string DefaultTrackerState() { return StateFolder() + "/tracker"; }

std::vector<Subcommand> AddMemberCommands(CLI::App& root) {
  const auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* help, Status (*run)(const Options&)) {
    CLI::App* app = root.add_subcommand(name, help);
    app->add_option("--state", options->state, "The tracker's state folder (default: in ~/.local/state)");
    return Subcommand{app, [options, run] {
                        const Status done = run(*options);
                        return done.ok() ? 0 : PrintError(done.error(), 1);
                      }};
  };
  Subcommand invite = add("invite", "Make a member of the farm, and print its join file", RunInvite);
  invite.app->add_option("name", options->name, "Name of the member; one that exists gets a new key")->required();
  invite.app->add_option("--role", options->role, "server: offers devices; client: measures; admin: administers")
      ->required()
      ->option_text("server|client|admin");
  invite.app->add_option("--advertise", options->advertise,
                         "Address of the tracker in this and later join files, HOST:PORT; may be repeated (default: "
                         "that of the last time, else all addresses of this host at port 9190)");
  Subcommand members = add("members", "List the members of the farm", RunMembers);
  members.app->add_flag("--json", options->json, "Print one line of JSON");
  Subcommand revoke = add("revoke", "End a membership, also of a member that is connected", RunRevoke);
  revoke.app->add_option("name", options->name, "Name of the member")->required();
  return {invite, members, revoke};
}

}  // namespace autotune::tools
