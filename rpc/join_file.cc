#include "rpc/join_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rpc/tracker_keys.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/json.h"

namespace autotune::rpc {
namespace {

constexpr char kAskAgain[] = "ask the farm's administrator for a new one: rpc_tracker invite NAME --role server|client";

Status Check(const JoinFile& file) {
  if (!IsMemberName(file.name)) return Err("it has no name of a member");
  TRY(RoleFromText(file.role));
  if (!IsCurveKey(file.tracker_key) || !(file.next_tracker_key.empty() || IsCurveKey(file.next_tracker_key)))
    return Err("the tracker's key is not 40 characters of Z85");
  TRY(NormalizeAddress(file.TrackerAddress()));
  return {};
}

// Standard input may be a socket, as ssh makes it, which cannot be opened by a name.
Result<std::string> ReadStandardInput() {
  constexpr size_t kMost = 1 << 16;
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = read(STDIN_FILENO, bytes, sizeof bytes)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("cannot read standard input: ", strerror(errno));
    text.append(bytes, static_cast<size_t>(n));
    if (text.size() > kMost) return Err("standard input is no join file: it is too long");
  }
  return text;
}

}  // namespace

std::string RoleText(Role role) {
  switch (role) {
    case Role::kServer:
      return "server";
    case Role::kClient:
      return "client";
    case Role::kAdmin:
      return "admin";
    case Role::kTracker:
      return "tracker";
  }
  return "";
}

Result<Role> RoleFromText(const std::string& text) {
  for (const Role role : {Role::kServer, Role::kClient, Role::kAdmin})
    if (RoleText(role) == text) return role;
  return Err("unknown role '", text, "': expected server, client or admin");
}

bool IsMemberName(const std::string& text) {
  constexpr size_t kMost = 64;
  constexpr char kAllowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@";
  return !text.empty() && text.size() <= kMost && text.find_first_not_of(kAllowed) == std::string::npos;
}

std::string JoinFile::Text() const { return ToJson(*this).Dump() + "\n"; }

Address JoinFile::TrackerAddress() const {
  Address address(tracker, tracker_key, keys);
  address.next_key = next_tracker_key;
  address.keys_file = TrackerKeysFile(keys.public_key, tracker_key);
  return address;
}

Result<JoinFile> ParseJoinFile(const std::string& text, const std::string& from) {
  const auto bad = [&](const std::string& why) {
    return WithHint(Err(from, " is not a usable join file: ", why), kAskAgain);
  };
  const Result<Json> json = Json::Parse(text);
  if (!json.ok()) return bad("it is not JSON");
  const Result<JoinFile> file = FromJson<JoinFile>(*json);
  if (!file.ok()) return bad(file.error().Text());
  if (file->format != JoinFile().format) return bad("its format is " + std::to_string(file->format) + ", not 1");
  if (Status checked = Check(*file); !checked) return bad(checked.error().message);
  return *file;
}

Result<JoinFile> ReadJoinFile(const std::string& path) {
  if (path == "-") return ParseJoinFile(TRY(ReadStandardInput()), "standard input");
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO))) {
    return WithHint(Err("other users of this host may read the join file ", path, ", which holds a secret key"),
                    "chmod 600 it, and have the member invited again if someone may have read it");
  }
  return ParseJoinFile(TRY(ReadFile(path)), path);
}

}  // namespace autotune::rpc
