// The messages by which administrators say who takes part in a farm. All since version 2.5. Plain values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/limits.h"
#include "support/fields.h"

namespace autotune::rpc {

// Members of a farm, which an answer lists whole, in one frame of 4 MiB. [chosen]
inline constexpr size_t kMostMembers = 10000;
inline constexpr size_t kMostTrackerEndpoints = 16;  // in a join file

struct Member {
  std::string name, role;  // see rpc::RoleFromText
  std::string public_key;
  int64_t invited = 0;  // ms since 1970
  AUTOTUNE_FIELDS(name, role, public_key, invited)
  AUTOTUNE_LIMITS({"name", kIdBytes}, {"role", kIdBytes}, {"public_key", kIdBytes})
};

// Makes a member, or gives one that exists another key or role. The secret key stays with the sender.
struct MemberInvite {
  static constexpr std::string_view kKind = "member_invite";
  std::string name, role, public_key;  // of the member
  std::vector<std::string> endpoints;  // of the tracker, in this and later join files; empty: as before
  AUTOTUNE_FIELDS(name, role, public_key, endpoints)
  AUTOTUNE_LIMITS({"name", kIdBytes}, {"role", kIdBytes}, {"public_key", kIdBytes},
                  {"endpoints", kNameBytes, kMostTrackerEndpoints})
};
struct MemberInvited {  // what the member's join file says of the tracker
  static constexpr std::string_view kKind = "member_invited";
  std::string name, role;
  std::vector<std::string> endpoints;
  std::string tracker_key;  // public
  std::string next_key;     // public key of the tracker from a later time on; empty: it keeps its key
  AUTOTUNE_FIELDS(name, role, endpoints, tracker_key, next_key)
  AUTOTUNE_LIMITS({"name", kIdBytes}, {"role", kIdBytes}, {"endpoints", kNameBytes, kMostTrackerEndpoints},
                  {"tracker_key", kIdBytes}, {"next_key", kIdBytes})
};
struct MemberRevoke {  // ends a membership, and what the member holds
  static constexpr std::string_view kKind = "member_revoke";
  std::string name;
  AUTOTUNE_FIELDS(name)
  AUTOTUNE_LIMITS({"name", kIdBytes})
};
struct MemberRevoked {
  static constexpr std::string_view kKind = "member_revoked";
  std::string name;
  AUTOTUNE_FIELDS(name)
  AUTOTUNE_LIMITS({"name", kIdBytes})
};
struct MembersRequest {
  static constexpr std::string_view kKind = "members_request";
  std::string role;  // of the members to list; empty: all
  AUTOTUNE_FIELDS(role)
  AUTOTUNE_LIMITS({"role", kIdBytes})
};
struct MembersReply {
  static constexpr std::string_view kKind = "members_reply";
  std::vector<Member> members;         // by name
  std::vector<std::string> endpoints;  // of the tracker, in join files
  AUTOTUNE_FIELDS(members, endpoints)
  AUTOTUNE_LIMITS({"members", 0, kMostMembers}, {"endpoints", kNameBytes, kMostTrackerEndpoints})
};
// Makes the tracker's next key, which replaces the present one after this time. If there is a next key already, only
// the time changes.
struct KeyRotate {
  static constexpr std::string_view kKind = "key_rotate";
  int64_t for_ms = 0;
  AUTOTUNE_FIELDS(for_ms)
};
struct KeyRotated {
  static constexpr std::string_view kKind = "key_rotated";
  std::string next_key;  // public
  int64_t at = 0;        // when it replaces the present one, ms since 1970
  AUTOTUNE_FIELDS(next_key, at)
  AUTOTUNE_LIMITS({"next_key", kIdBytes})
};

}  // namespace autotune::rpc
