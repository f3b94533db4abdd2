// The members of a farm: who may connect to its tracker, with which key, and as what. They are kept in a file of the
// tracker's state folder, together with the tracker's own keys. A member's secret key is in its join file alone.
// Commands change the file while the tracker runs; it reads the file anew. Thread-safe, also across processes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/allow_list.h"
#include "rpc/join_file.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

struct Member {
  std::string name, role;  // see rpc::RoleFromText
  std::string public_key;
  int64_t invited = 0;  // ms since 1970
  AUTOTUNE_FIELDS(name, role, public_key, invited)
};

struct Members {
  int64_t format = 1;
  rpc::CurveKeys keys;                 // of the tracker
  std::vector<std::string> endpoints;  // of the tracker, as join files name them
  std::vector<Member> members;         // by name
  AUTOTUNE_FIELDS(format, keys, endpoints, members)

  rpc::AllowList::Entries Allowed() const;
};

std::string MembersFile(const std::string& state_folder);

// Returns no members and no keys if there is no file. Error: the file is damaged, or of a later format.
Result<Members> ReadFarmMembers(const std::string& state_folder);

// Makes a member of this name, with new keys, and its join file. If there is a member of this name, its key is
// replaced. Makes the folder and the tracker's keys if there are none. `endpoints`: those of the tracker from now on;
// empty: those of the last time or, if there are none, all addresses of this host at port 9190. Errors: the name is not
// allowed; the folder cannot be written.
Result<rpc::JoinFile> Invite(const std::string& state_folder, const std::string& name, rpc::Role role,
                             const std::vector<std::string>& endpoints = {});
// Error: there is no such member.
Status RevokeMember(const std::string& state_folder, const std::string& name);
// Keeps the addresses that the tracker states, for later join files.
Status KeepEndpoints(const std::string& state_folder, const std::vector<std::string>& endpoints);

}  // namespace autotune
