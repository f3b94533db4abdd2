// The seal of a package's tar: a member that lists the CRC-32 and the size of all other members (docs/package.md). A
// damaged package is refused because of its seal, before it computes wrong outputs. Not a protection against forgery.
// Stateless, thread-safe.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"

namespace autotune {

inline constexpr char kSealMember[] = "autotune.seal";

// Returns the text of the seal of these members, each a name and its bytes.
std::string SealText(const std::vector<std::pair<std::string, std::string_view>>& members);

// Returns an error unless `seal` lists exactly these members, with their bytes. The error names a damaged member.
Status CheckSealText(std::string_view seal, const std::map<std::string, std::string>& members);

}  // namespace autotune
