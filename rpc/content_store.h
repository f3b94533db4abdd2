// ContentStore: keeps pieces of packages that clients have sent to a device server, so that they need not send them
// again. Each piece is a file in a folder that belongs to this server alone. The file's name is a hash of the piece's
// owner and of the piece's hash. The bytes are encrypted with a key that follows from the piece's hash. If the files
// exceed their limit, the store removes those that were not used for the longest time. If a piece cannot be written,
// the store does not keep it, and the caller goes on. Not thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "rpc/blob.h"
#include "support/result.h"

namespace autotune::rpc {

class ContentStore {
 public:
  struct Options {
    std::string folder;  // empty: nothing is kept
    int64_t most_bytes = 0;
    std::function<void(const std::string& line)> on_trouble;  // called once, if the folder cannot be written
  };
  explicit ContentStore(Options options);

  // Returns the bytes whose ContentHash is `hash` and that Keep got for the same owner, also in an earlier process;
  // null: there are none. A file with other bytes is removed.
  Blob Find(const std::string& owner, const std::string& hash);
  void Keep(const std::string& owner, const std::string& hash, std::string_view content);
  int64_t bytes() const { return bytes_; }

 private:
  struct File {
    std::string name;
    int64_t bytes = 0;
  };
  std::string PathOf(const std::string& name) const { return options_.folder + "/" + name; }
  Status ReadFolder();
  void MakeRoom(int64_t bytes);
  void Stamp(const std::string& name);
  void Remove(std::list<File>::iterator file);
  void Add(File file);

  Options options_;
  bool stores_ = false;    // the folder can be written, as far as it is known
  std::list<File> files_;  // the most recently used one last
  std::map<std::string, std::list<File>::iterator> by_name_;
  int64_t bytes_ = 0;   // of all files
  int64_t latest_ = 0;  // time of the latest use, in nanoseconds since 1970
};

}  // namespace autotune::rpc
