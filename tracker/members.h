// The members of a farm: who may connect to its tracker, with which key, and as what. They are kept in a file of the
// tracker's state folder, together with the tracker's own keys. A member's secret key is in its join file alone.
// Commands change the file while the tracker runs; it reads the file anew. Thread-safe, also across processes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/allow_list.h"
#include "rpc/join_file.h"
#include "rpc/message.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

struct Members {
  int64_t format = 1;
  rpc::CurveKeys keys;                 // of the tracker
  std::vector<std::string> endpoints;  // of the tracker, as join files name them
  bool advertised = false;             // an administrator has stated the endpoints
  rpc::CurveKeys next_keys;            // that replace `keys` at `next_at`, ms since 1970; empty: none do
  int64_t next_at = 0;
  std::vector<rpc::Member> members;  // by name
  AUTOTUNE_FIELDS(format, keys, endpoints, advertised, next_keys, next_at, members)

  rpc::AllowList::Entries Allowed() const;
};

// The roles of those who look at the tracker's page, in place of rpc::RoleFromText: a viewer reads, an operator also
// drains and releases. They have a token of 256 random bits instead of keys, and connect to nothing else.
inline constexpr char kViewerRole[] = "viewer", kOperatorRole[] = "operator";
inline bool IsPageRole(const std::string& role) { return role == kViewerRole || role == kOperatorRole; }
std::string NewPageToken();
// Returns what the list of members has in place of a public key: a hash, from which nobody can find the token.
std::string PageKeyOf(std::string_view token);

std::string MembersFile(const std::string& state_folder);

// Returns no members and no keys if there is no file. Error: the file is damaged, or of a later format.
Result<Members> ReadFarmMembers(const std::string& state_folder);

// Makes a member, or gives the member of this name another key and role. Makes the folder and the tracker's keys if
// there are none. If the invitation states endpoints, the tracker has these from now on. Otherwise it has those of the
// last time or, if there are none, all addresses of this host at port 9190. Errors: the invitation is not valid; the
// folder cannot be written.
Result<rpc::MemberInvited> AddMember(const std::string& state_folder, const rpc::MemberInvite& invitation);
// Returns the join file of a member who has these keys.
rpc::JoinFile JoinFileOf(const rpc::MemberInvited& invited, const rpc::CurveKeys& keys);
// Error: there is no such member.
Status RevokeMember(const std::string& state_folder, const std::string& name);
// Keeps the addresses at which the tracker is reached, for later join files. If they are only those at which it
// listens (`advertised` is false), those that an administrator has stated stay.
Status KeepEndpoints(const std::string& state_folder, const std::vector<std::string>& endpoints, bool advertised);
// Makes the tracker's next keys, which replace the present ones after this time. If there are some, only the time
// changes. Error: there are no members, or the time is not 1 s to 366 days.
Result<rpc::KeyRotated> RotateKey(const std::string& state_folder, int64_t for_ms);
// Replaces the tracker's keys by the next ones. The time may have come earlier: any other change does so, too.
Status FinishRotation(const std::string& state_folder);
// Answers an administrator's message about members or the tracker's key.
rpc::Body AnswerAboutMembers(const std::string& state_folder, const rpc::Body& question);

}  // namespace autotune
