#include "rpc/tracker_keys.h"

#include "support/file.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/log.h"
#include "support/state_folder.h"

namespace autotune::rpc {
namespace {

struct KnownKeys {
  std::string key, next_key;
  AUTOTUNE_FIELDS(key, next_key)
};

Status Write(const Address& address) {
  TRY(MakePrivateFolder(FolderOf(address.keys_file)));
  return ReplaceFile(address.keys_file, ToJson(KnownKeys{address.public_key, address.next_key}).Dump() + "\n");
}

}  // namespace

std::string TrackerKeysFile(const std::string& member_key, const std::string& tracker_key) {
  constexpr size_t kDigits = 16;  // few farms have the same ones
  return StateFolder() + "/farms/" + HashBytes128(member_key + tracker_key).Hex().substr(0, kDigits) + ".json";
}

Address WithKnownKeys(Address address) {
  if (address.keys_file.empty()) return address;
  const auto text = ReadFile(address.keys_file);
  if (!text.ok()) return address;  // usually there is none
  const auto json = Json::Parse(*text);
  const auto known = json.ok() ? FromJson<KnownKeys>(*json) : Result<KnownKeys>(json.error());
  if (!known.ok() || !IsCurveKey(known->key) || !(known->next_key.empty() || IsCurveKey(known->next_key))) {
    Log(LogLevel::kWarning, address.keys_file, " is damaged; the tracker's key of the join file counts");
    return address;
  }
  address.public_key = known->key;
  address.next_key = known->next_key;
  return address;
}

void KeepTrackerKeys(const Address& address) {
  if (address.keys_file.empty()) return;
  if (const Status written = Write(address); !written)
    Log(LogLevel::kWarning, "cannot keep the tracker's next key: ", written.error().Text());
}

const std::string* NextKeyIn(const Body& body) {
  return std::visit(
      []<class T>(const T& b) -> const std::string* {
        if constexpr (requires { b.next_key; }) return &b.next_key;
        return nullptr;
      },
      body);
}

}  // namespace autotune::rpc
