// ContentStore: pieces of packages that clients have sent to a device server, for their next sessions. Each is a file
// named by its owner and its hash, in a folder of this server alone, and encrypted by its hash. If the files take more
// than they may, the least recently used ones go. What cannot be stored is not kept; nothing fails for that. Not
// thread-safe.
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
