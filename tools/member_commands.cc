#include "tools/member_commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "rpc/query_tracker.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/json.h"
#include "support/printf_text.h"
#include "support/utf8.h"
#include "tools/duration.h"
#include "tools/error_lines.h"
#include "tools/tracker_choice.h"
#include "tools/tracker_commands.h"
#include "tracker/members.h"

namespace autotune::tools {
namespace {

struct Options {
  TrackerChoice tracker;
  std::string name, role, rotates_after = "7d";
  std::vector<std::string> advertise;
  bool json = false;
};

// Has a message about members answered: by the files of the tracker's state folder, also if it does not run, or by the
// tracker.
template <class Answer>
Result<Answer> AskAboutMembers(const TrackerChoice& tracker, rpc::Body question) {
  constexpr int kFirstMinor = 5;  // of the version 2 that has these messages
  rpc::Body answer;
  if (const std::string folder = tracker.Folder(); !folder.empty()) {
    answer = AnswerAboutMembers(folder, question);
  } else {
    rpc::Message message =
        TRY(rpc::QueryTracker(TRY(tracker.FindForAdmin()), {.body = std::move(question), .first_minor = kFirstMinor}));
    answer = std::move(message.body);
  }
  if (const auto* refusal = std::get_if<rpc::Refusal>(&answer)) return Err(OneLine(refusal->text));
  if (auto* wanted = std::get_if<Answer>(&answer)) return std::move(*wanted);
  return Err("the tracker answers with a ", rpc::KindOf(answer));
}

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

// Makes a token for the tracker's page, and prints it.
Status InviteReader(const Options& options) {
  if (!options.advertise.empty()) return Err("--advertise is for join files; a token of the page names no address");
  const std::string token = NewPageToken();
  TRY(AskAboutMembers<rpc::MemberInvited>(options.tracker,
                                          rpc::MemberInvite{options.name, options.role, PageKeyOf(token), {}}));
  struct stat info {};
  if (fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode)) fchmod(STDOUT_FILENO, 0600);
  std::fputs((token + "\n").c_str(), stdout);
  std::fprintf(stderr, "note: with this token, %s may %s the page of rpc_tracker --http\n", options.name.c_str(),
               options.role == kOperatorRole ? "read, drain and release on" : "read");
  return {};
}

Status RunInvite(const Options& options) {
  if (IsPageRole(options.role)) return InviteReader(options);
  const rpc::Role role = TRY_NOTE(rpc::RoleFromText(options.role), "--role");
  std::vector<std::string> endpoints;
  for (const std::string& text : options.advertise) {
    endpoints.push_back(TRY_NOTE(rpc::NormalizeEndpoint(text), "--advertise"));
    if (!rpc::IsTcp(endpoints.back())) return Err("--advertise ", text, ": expected HOST:PORT");
  }
  TRY(ProtectOutput());
  // The secret key is in the join file alone. The tracker gets the public one.
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  const rpc::JoinFile file = JoinFileOf(
      TRY(AskAboutMembers<rpc::MemberInvited>(
          options.tracker, rpc::MemberInvite{options.name, rpc::RoleText(role), keys.public_key, endpoints})),
      keys);
  TRY(rpc::ParseJoinFile(file.Text(), "what the tracker answers"));
  std::fputs(file.Text().c_str(), stdout);
  std::fprintf(stderr, "note: %s may join as %s; the file names the tracker at %s\n", file.name.c_str(),
               file.role.c_str(), Joined(file.tracker).c_str());
  return {};
}

Status RunMembers(const Options& options) {
  const rpc::MembersReply list = TRY(AskAboutMembers<rpc::MembersReply>(options.tracker, rpc::MembersRequest{}));
  if (options.json) {
    Json::Array members;
    for (const rpc::Member& member : list.members) members.push_back(ToJson(member));
    Json line;
    line["members"] = std::move(members);
    line["endpoints"] = ToJson(list.endpoints);
    std::fputs((line.Dump() + "\n").c_str(), stdout);
    return {};
  }
  if (list.members.empty()) std::fputs("no members; rpc_tracker invite NAME --role server|client makes one\n", stdout);
  size_t width = 0;
  for (const rpc::Member& member : list.members) width = std::max(width, member.name.size());
  for (const rpc::Member& member : list.members) {
    std::fputs(Format("%-*s  %-6s  invited %s\n", static_cast<int>(width), OneLine(member.name).c_str(),
                      OneLine(member.role).c_str(), DayText(member.invited).c_str())
                   .c_str(),
               stdout);
  }
  return {};
}

Status RunRevoke(const Options& options) {
  TRY(AskAboutMembers<rpc::MemberRevoked>(options.tracker, rpc::MemberRevoke{options.name}));
  std::fprintf(stdout, "%s is no member any more\n", options.name.c_str());
  return {};
}

Status RunRotate(const Options& options) {
  const int64_t for_ms = TRY(ParseDuration("--for", options.rotates_after));
  const rpc::KeyRotated rotated = TRY(AskAboutMembers<rpc::KeyRotated>(options.tracker, rpc::KeyRotate{for_ms}));
  std::fprintf(stdout,
               "the tracker has a new key from %s on; members that connect until then learn it, and the others need a "
               "new join file\n",
               DayText(rotated.at).c_str());
  return {};
}

}  // namespace

std::vector<Subcommand> AddMemberCommands(CLI::App& root) {
  const auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* help, Status (*run)(const Options&)) {
    CLI::App* app = root.add_subcommand(name, help);
    AddAdminOptions(*app, options->tracker);
    return Subcommand{app, [options, run] {
                        const Status done = run(*options);
                        return done.ok() ? 0 : PrintError(done.error(), 1);
                      }};
  };
  Subcommand invite = add("invite", "Make a member of the farm, and print its join file", RunInvite);
  invite.app->add_option("name", options->name, "Name of the member; one that exists gets a new key")->required();
  invite.app
      ->add_option(
          "--role", options->role,
          "server: offers devices; client: measures; admin: administers; viewer: reads the page of --http; operator: "
          "also drains and releases there. The last two get a token instead of a join file")
      ->required()
      ->option_text("server|client|admin|viewer|operator");
  invite.app->add_option("--advertise", options->advertise,
                         "Address of the tracker in this and later join files, HOST:PORT; may be repeated (default: "
                         "that of the last time, else all addresses of this host at port 9190)");
  Subcommand members = add("members", "List the members of the farm", RunMembers);
  members.app->add_flag("--json", options->json, "Print one line of JSON");
  Subcommand revoke = add("revoke", "End a membership, also of a member that is connected", RunRevoke);
  revoke.app->add_option("name", options->name, "Name of the member")->required();
  Subcommand rotate = add("rotate", "Give the tracker a new key, which members learn meanwhile", RunRotate);
  rotate.app->add_option("--for", options->rotates_after,
                         "Time for which the present key still holds: 90s, 10m, 2h or 3d (default: 7d)");
  return {invite, members, revoke, rotate};
}

}  // namespace autotune::tools
