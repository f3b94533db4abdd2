// PreparedCache: a folder of files that many processes map at once, one for each package in its prepared form. Such a
// file has an index, for which package/prepared_model.h is responsible, and data. Processes that run the same package
// share its data by the operating system's page cache, and need neither read nor check the package again.
//
// A file is found by its key, which names the package's file as the kernel knows it (device, inode, size, times), the
// CPU and the format. Whoever replaces or changes a package changes its inode or its time of change, which no program
// can set. So the file of an older package is never used; it goes when the cache is full.
//
// What a file holds decides what code runs, so only this user's own files count: the folder and the file belong to the
// user, nobody else may enter or read them, the file is a regular one, not a link. Its header states key, size and the
// CRC-32 of the index. A file that fails a check is removed, and the package is read as usual. The data have no check
// when they are mapped, since that would read all of them: they are on the disk before the file gets its name.
//
// Not thread-safe; processes and threads with objects of their own may use one folder at once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the key of a package's file on this CPU; nothing if it is no regular file, or changed so recently that a
// second change might have the same time.
std::optional<std::string> PreparedKeyOf(const std::string& path);

// A file of the cache, mapped for reading. Whoever holds `memory` may read `data`, also after the file was removed.
struct MappedPrepared {
  std::string index;
  std::string_view data;  // aligned to 2 MiB in memory, so that it can have huge pages
  std::shared_ptr<void> memory;
};

class PreparedCache {
 public:
  static constexpr int64_t kMostBytes = int64_t{4} << 30;

  // Opens or makes the folder. `most_bytes`: of all files; those that were not used for longest go first. Errors:
  // MakePrivateFolder.
  static Result<PreparedCache> Open(const std::string& folder, int64_t most_bytes = kMostBytes);
  // Opens autotune/prepared/ in the user's folder for caches.
  static Result<PreparedCache> OfUser();

  // Returns the file of a key; nothing if there is none that may be used.
  std::optional<MappedPrepared> Find(const std::string& key) const;
  // Makes the file of a key: the data are the concatenation of `pieces`. Returns when it is on the disk. Errors:
  // another process makes a file in this folder now; the data are larger than a quarter of the limit or than half of
  // the space that the disk has left; those of writing.
  Status Store(const std::string& key, const std::string& index, const std::vector<std::string_view>& pieces) const;
  // Returns the path of a key's file, which may not exist.
  std::string PathOf(const std::string& key) const;

 private:
  PreparedCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  void Prune(const std::string& keep) const;

  std::string folder_;
  int64_t most_bytes_;
};

}  // namespace autotune
