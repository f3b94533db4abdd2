// The members of a farm who may connect to a listener, and as what. Thread-safe: ZeroMQ's handshakes and the loop of
// the listener ask it.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "rpc/from.h"

namespace autotune::rpc {

class AllowList {
 public:
  struct Entry {
    std::string name;  // of the member
    Roles roles;
  };
  using Entries = std::map<std::string, Entry>;  // by public key

  explicit AllowList(Entries entries) : entries_(std::move(entries)) {}
  // A list of everybody. A listener with it must check what each message itself proves.
  explicit AllowList(Roles of_everybody) : of_everybody_(of_everybody) {}

  // From now on, handshakes and messages of others are refused, also those of open connections.
  void Set(Entries entries);
  std::optional<Entry> Find(const std::string& public_key) const;
  bool AllowsEverybody() const { return of_everybody_.has_value(); }

 private:
  mutable std::mutex mutex_;
  Entries entries_;
  const std::optional<Roles> of_everybody_;
};

}  // namespace autotune::rpc
