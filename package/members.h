// The members of a package's tar, in two steps: read from the file, then checked and parsed. The fuzz target of
// packages renews the seal between the steps, since random bytes do not match one. Stateless, thread-safe.
#pragma once
#include <map>
#include <string>

#include "package/package.h"
#include "support/result.h"

namespace autotune {

using PackageMembers = std::map<std::string, std::string>;  // bytes by name

// Returns the members of a tar (package/tar.h). Errors: a compressed file, names that lead out of the package, links,
// sparse files, members that occur twice or are truncated.
Result<PackageMembers> ReadMembers(const std::string& path);

// Checks the seal and parses the metadata. Errors do not name the file.
Result<Package> PackageFromMembers(PackageMembers members);

}  // namespace autotune
