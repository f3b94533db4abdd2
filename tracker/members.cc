#include "tracker/members.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include "rpc/content_hash.h"
#include "support/check.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/json.h"
#include "support/own_addresses.h"
#include "support/state_folder.h"
#include "support/unique_fd.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr int kDefaultPort = 9190;

// Whoever revokes a name must end all that it has.
Status CheckMembers(const Members& list) {
  std::set<std::string> names, keys;
  for (const rpc::Member& member : list.members) {
    if (!rpc::IsMemberName(member.name)) return Err("'", OneLine(member.name), "' cannot be the name of a member");
    if (!rpc::IsCurveKey(member.public_key)) return Err("the key of ", member.name, " is not 40 characters of Z85");
    if (!names.insert(member.name).second) return Err("two members have the name ", member.name);
    if (!keys.insert(member.public_key).second) return Err("the key of ", member.name, " is another member's, too");
  }
  return {};
}

void TakeNextKeys(Members& members) {
  if (members.next_keys.secret_key.empty()) return;
  members.keys = std::exchange(members.next_keys, {});
  members.next_at = 0;
}

// Changes the file. One process does so at a time.
Status Change(const std::string& folder, const std::function<Status(Members&)>& change) {
  TRY(MakePrivateFolder(folder));
  const std::string lock_path = folder + "/members.lock";
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) return Err("cannot lock ", lock_path, ": ", std::strerror(errno));
  Members members = TRY(ReadFarmMembers(folder));
  if (members.next_at <= WallMillis()) TakeNextKeys(members);
  TRY(change(members));
  TRY(CheckMembers(members));
  return ReplaceFileDurably(MembersFile(folder), ToJson(members).Dump() + "\n");
}

std::vector<std::string> DefaultEndpoints() {
  std::vector<std::string> hosts = OwnAddresses(), endpoints;
  if (hosts.empty()) hosts = {"127.0.0.1"};
  for (const std::string& host : hosts) endpoints.push_back("tcp://" + host + ":" + std::to_string(kDefaultPort));
  return endpoints;
}

auto Find(Members& members, const std::string& name) {
  return std::ranges::find(members.members, name, &rpc::Member::name);
}

Status Check(const rpc::MemberInvite& invitation) {
  if (!rpc::IsMemberName(invitation.name)) {
    return Err("'", invitation.name,
               "' cannot be the name of a member: it has 1 to 64 letters, digits, '.', '_', '@' and '-'");
  }
  if (!IsPageRole(invitation.role)) TRY_NOTE(rpc::RoleFromText(invitation.role), "or viewer or operator, for the page");
  if (!rpc::IsCurveKey(invitation.public_key)) return Err("the member's key is not 40 characters of Z85");
  for (const std::string& endpoint : invitation.endpoints) {
    if (!rpc::IsTcp(TRY(rpc::NormalizeEndpoint(endpoint)))) return Err("endpoint ", endpoint, ": expected HOST:PORT");
  }
  return {};
}

}  // namespace

rpc::AllowList::Entries Members::Allowed() const {
  rpc::AllowList::Entries entries;
  for (const rpc::Member& member : members) {
    const Result<rpc::Role> role = rpc::RoleFromText(member.role);
    if (role.ok()) entries[member.public_key] = {.name = member.name, .roles = {*role}};
  }
  return entries;
}

std::string NewPageToken() { return rpc::RandomId() + rpc::RandomId(); }

std::string PageKeyOf(std::string_view token) {
  constexpr size_t kDigits = 40;  // as many as a public key has; each is one of Z85, too
  return rpc::ContentHash("autotune page " + std::string(token)).substr(0, kDigits);
}

std::string MembersFile(const std::string& state_folder) { return state_folder + "/members.json"; }

Result<Members> ReadFarmMembers(const std::string& state_folder) {
  const std::string path = MembersFile(state_folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Members{};
  const std::string where = "in the list of members " + path;
  const Json json = TRY_NOTE(Json::Parse(TRY(ReadFile(path))), where);
  const Members members = TRY_NOTE(FromJson<Members>(json), where);
  if (members.format != Members().format) return Err("the list of members ", path, " is of a later version");
  TRY_NOTE(rpc::CheckCurveKeys(members.keys), where);
  if (members.next_at != 0) TRY_NOTE(rpc::CheckCurveKeys(members.next_keys), where);
  TRY_NOTE(CheckMembers(members), where);
  return members;
}

Result<rpc::MemberInvited> AddMember(const std::string& state_folder, const rpc::MemberInvite& invitation) {
  TRY(Check(invitation));
  rpc::MemberInvited invited;
  TRY(Change(state_folder, [&](Members& members) -> Status {
    if (members.keys.secret_key.empty()) members.keys = rpc::NewCurveKeys();
    if (!invitation.endpoints.empty()) {
      members.endpoints.clear();
      for (const std::string& endpoint : invitation.endpoints)
        members.endpoints.push_back(TRY(rpc::NormalizeEndpoint(endpoint)));
      members.advertised = true;
    }
    if (members.endpoints.empty()) members.endpoints = DefaultEndpoints();
    auto found = Find(members, invitation.name);
    if (found == members.members.end()) {
      if (members.members.size() >= rpc::kMostMembers)
        return Err("a farm has at most ", rpc::kMostMembers, " members; revoke some");
      found = members.members.insert(found, rpc::Member());
    }
    *found = {invitation.name, invitation.role, invitation.public_key, WallMillis()};
    std::ranges::sort(members.members, {}, &rpc::Member::name);
    invited = {invitation.name, invitation.role, members.endpoints, members.keys.public_key,
               members.next_keys.public_key};
    return {};
  }));
  return invited;
}

rpc::JoinFile JoinFileOf(const rpc::MemberInvited& invited, const rpc::CurveKeys& keys) {
  rpc::JoinFile file;
  file.name = invited.name;
  file.role = invited.role;
  file.tracker = invited.endpoints;
  file.tracker_key = invited.tracker_key;
  file.next_tracker_key = invited.next_key;
  file.keys = keys;
  return file;
}

Status RevokeMember(const std::string& state_folder, const std::string& name) {
  return Change(state_folder, [&](Members& members) -> Status {
    const auto found = Find(members, name);
    if (found == members.members.end()) return WithHint(Err("there is no member ", name), "rpc_tracker members");
    members.members.erase(found);
    return {};
  });
}

Status KeepEndpoints(const std::string& state_folder, const std::vector<std::string>& endpoints, bool advertised) {
  const Members kept = TRY(ReadFarmMembers(state_folder));
  if ((kept.advertised && !advertised) || (kept.endpoints == endpoints && kept.advertised == advertised)) return {};
  return Change(state_folder, [&](Members& members) -> Status {
    members.endpoints = endpoints;
    members.advertised = advertised;
    return {};
  });
}

Result<rpc::KeyRotated> RotateKey(const std::string& state_folder, int64_t for_ms) {
  constexpr int64_t kShortestMs = 1000, kLongestMs = int64_t{366} * 24 * 3600 * 1000;
  if (for_ms < kShortestMs || for_ms > kLongestMs) return Err("a tracker's key is replaced after 1 s to 366 days");
  rpc::KeyRotated rotated;
  TRY(Change(state_folder, [&](Members& members) -> Status {
    if (members.members.empty()) return Err("this farm has no members, so nobody knows the tracker's key");
    if (members.next_keys.secret_key.empty()) members.next_keys = rpc::NewCurveKeys();
    members.next_at = WallMillis() + for_ms;
    rotated = {members.next_keys.public_key, members.next_at};
    return {};
  }));
  return rotated;
}

Status FinishRotation(const std::string& state_folder) {
  return Change(state_folder, [](Members& members) -> Status {
    TakeNextKeys(members);
    return {};
  });
}

rpc::Body AnswerAboutMembers(const std::string& state_folder, const rpc::Body& question) {
  namespace code = rpc::code;
  if (const auto* invitation = std::get_if<rpc::MemberInvite>(&question)) {
    if (Status right = Check(*invitation); !right) return rpc::Refusal{code::kMalformed, right.error().Text()};
    auto invited = AddMember(state_folder, *invitation);
    if (!invited.ok()) return rpc::Refusal{code::kNotDone, invited.error().Text()};
    return std::move(*invited);
  }
  if (const auto* rotate = std::get_if<rpc::KeyRotate>(&question)) {
    auto rotated = RotateKey(state_folder, rotate->for_ms);
    if (!rotated.ok()) return rpc::Refusal{code::kNotDone, rotated.error().Text()};
    return std::move(*rotated);
  }
  const Result<Members> members = ReadFarmMembers(state_folder);
  if (!members.ok()) return rpc::Refusal{code::kNotDone, members.error().Text()};
  if (const auto* revoke = std::get_if<rpc::MemberRevoke>(&question)) {
    if (std::ranges::find(members->members, revoke->name, &rpc::Member::name) == members->members.end())
      return rpc::Refusal{code::kUnknownMember, "there is no member " + revoke->name};
    if (Status done = RevokeMember(state_folder, revoke->name); !done)
      return rpc::Refusal{code::kNotDone, done.error().Text()};
    return rpc::MemberRevoked{revoke->name};
  }
  const auto* request = std::get_if<rpc::MembersRequest>(&question);
  CHECK(request) << "not a message about members";
  rpc::MembersReply reply{.members = {}, .endpoints = members->endpoints};
  for (const rpc::Member& member : members->members)
    if (request->role.empty() || member.role == request->role) reply.members.push_back(member);
  return reply;
}

}  // namespace autotune
