#include "tracker/members.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

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

// Changes the file. One process does so at a time.
Status Change(const std::string& folder, const std::function<Status(Members&)>& change) {
  TRY(MakePrivateFolder(folder));
  const std::string lock_path = folder + "/members.lock";
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) return Err("cannot lock ", lock_path, ": ", std::strerror(errno));
  Members members = TRY(ReadFarmMembers(folder));
  TRY(change(members));
  return ReplaceFileDurably(MembersFile(folder), ToJson(members).Dump() + "\n");
}

std::vector<std::string> DefaultEndpoints() {
  std::vector<std::string> hosts = OwnAddresses(), endpoints;
  if (hosts.empty()) hosts = {"127.0.0.1"};
  for (const std::string& host : hosts) endpoints.push_back("tcp://" + host + ":" + std::to_string(kDefaultPort));
  return endpoints;
}

// Only an editor can break these rules: whoever revokes a name must end all that it has.
Status CheckMembers(const Members& list) {
  std::set<std::string> names, keys;
  for (const Member& member : list.members) {
    if (!rpc::IsMemberName(member.name)) return Err("'", OneLine(member.name), "' cannot be the name of a member");
    if (!rpc::IsCurveKey(member.public_key)) return Err("the key of ", member.name, " is not 40 characters of Z85");
    if (!names.insert(member.name).second) return Err("two members have the name ", member.name);
    if (!keys.insert(member.public_key).second) return Err("the key of ", member.name, " is another member's, too");
  }
  return {};
}

auto Find(Members& members, const std::string& name) { return std::ranges::find(members.members, name, &Member::name); }

}  // namespace

rpc::AllowList::Entries Members::Allowed() const {
  rpc::AllowList::Entries entries;
  for (const Member& member : members) {
    const Result<rpc::Role> role = rpc::RoleFromText(member.role);
    if (role.ok()) entries[member.public_key] = {.name = member.name, .roles = {*role}};
  }
  return entries;
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
  TRY_NOTE(CheckMembers(members), where);
  return members;
}

Result<rpc::JoinFile> Invite(const std::string& state_folder, const std::string& name, rpc::Role role,
                             const std::vector<std::string>& endpoints) {
  if (!rpc::IsMemberName(name))
    return Err("'", name, "' cannot be the name of a member: it has 1 to 64 letters, digits, '.', '_', '@' and '-'");
  rpc::JoinFile file;
  TRY(Change(state_folder, [&](Members& members) -> Status {
    if (members.keys.secret_key.empty()) members.keys = rpc::NewCurveKeys();
    if (!endpoints.empty()) members.endpoints = endpoints;
    if (members.endpoints.empty()) members.endpoints = DefaultEndpoints();
    file.name = name;
    file.role = rpc::RoleText(role);
    file.tracker = members.endpoints;
    file.tracker_key = members.keys.public_key;
    file.keys = rpc::NewCurveKeys();
    auto found = Find(members, name);
    if (found == members.members.end()) found = members.members.insert(found, Member());
    *found = {name, file.role, file.keys.public_key, WallMillis()};
    std::ranges::sort(members.members, {}, &Member::name);
    return {};
  }));
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

Status KeepEndpoints(const std::string& state_folder, const std::vector<std::string>& endpoints) {
  if (TRY(ReadFarmMembers(state_folder)).endpoints == endpoints) return {};
  return Change(state_folder, [&](Members& members) -> Status {
    members.endpoints = endpoints;
    return {};
  });
}

}  // namespace autotune
