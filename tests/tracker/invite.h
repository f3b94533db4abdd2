// For tests: makes a member by the files of a tracker's folder.
#pragma once
#include <string>
#include <vector>

#include "tracker/members.h"

namespace autotune {

inline Result<rpc::JoinFile> Invite(const std::string& folder, const std::string& name, rpc::Role role,
                                    const std::vector<std::string>& endpoints = {}) {
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  return JoinFileOf(TRY(AddMember(folder, {name, rpc::RoleText(role), keys.public_key, endpoints})), keys);
}

}  // namespace autotune
