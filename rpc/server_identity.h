// The id of a device server. It stays the same over restarts, so that records of one device carry one id.
#pragma once
#include <string>

#include "rpc/message.h"
#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

// Thread-compatible. Ids are files server-KEY-NUMBER in a folder. A running server locks its file, so several servers
// of one key on one host have the numbers 0, 1, ... in the order of their starts.
class ServerIdentity {
 public:
  // Takes the first id of this key that no running server has, and makes it if there is none. `key`: see IsKey. An
  // empty folder gives a new id that is not kept. Error: the folder cannot be made or written.
  static Result<ServerIdentity> Take(const std::string& folder, const std::string& key);

  const Id& id() const { return id_; }
  const std::string& path() const { return path_; }  // of the file; empty if the id is not kept

 private:
  ServerIdentity(Id id, std::string path, UniqueFd lock)
      : id_(std::move(id)), path_(std::move(path)), lock_(std::move(lock)) {}
  Id id_;
  std::string path_;
  UniqueFd lock_;  // of the file; open until the end of the server
};

}  // namespace autotune::rpc
