// A join file makes a process a member of a farm: it has the addresses and the public key of the tracker, and the keys
// of the member. `rpc_tracker invite` makes one. Whoever has it can do what the member may do. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "rpc/address.h"
#include "rpc/from.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune::rpc {

// The words for the roles of members, in join files, messages and commands: "server", "client", "admin".
std::string RoleText(Role role);
Result<Role> RoleFromText(const std::string& text);  // error: names the words

struct JoinFile {
  int64_t format = 1;
  std::string name, role;            // of the member
  std::vector<std::string> tracker;  // its endpoints, in the order in which they are tried
  std::string tracker_key;           // the tracker's public key
  std::string next_tracker_key;      // that it will have later, if it was changing its key; else empty
  CurveKeys keys;                    // the member's
  AUTOTUNE_FIELDS(format, name, role, tracker, tracker_key, next_tracker_key, keys)

  std::string Text() const;  // the bytes of the file
  Address TrackerAddress() const;
};

// A name of a member: 1 to 64 letters, digits, '.', '_', '@' and '-' of ASCII.
bool IsMemberName(const std::string& text);

// Errors: it is no join file, or one of a later format; a key, an endpoint or the role is wrong. `from` names the
// source.
Result<JoinFile> ParseJoinFile(const std::string& text, const std::string& from);
// Reads a file, or standard input if the path is "-". Errors: those of ParseJoinFile; other users may read the file.
Result<JoinFile> ReadJoinFile(const std::string& path);

}  // namespace autotune::rpc
