// Reads and writes plain tar files: POSIX.1-1988 (ustar) with long names and large sizes as pax (POSIX.1-2001) and GNU
// tar write them. Reading takes no more memory than the file has bytes, whatever its headers state. A reader belongs to
// one thread; writing is stateless.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"

namespace autotune {

enum class TarType { kFile, kFolder, kSparse, kOther };  // kOther: links, devices, pipes

struct TarEntry {
  std::string name;  // as the header states it, at most 4096 bytes
  TarType type = TarType::kFile;
  int64_t size = 0;  // bytes of its contents, at most those that are left of the file
};

class TarReader {
 public:
  // Reads from the current position of `fd`, which stays the caller's.
  explicit TarReader(int fd);

  // Reads the next header and returns true, or returns false at the end of the archive. Skips contents that were not
  // read. Errors: a damaged header, a truncated file, a file without the end mark of an archive, a size beyond the end
  // of the file, a name that is missing or too long.
  Result<bool> Next(TarEntry& entry);
  // Returns the contents of the entry that Next returned last. Call it once per entry.
  Result<std::string> Contents();

 private:
  static constexpr size_t kBlock = 512;
  struct Extension {  // of the entry that follows
    std::string name;
    int64_t size = -1;
    bool sparse = false;
  };
  Result<size_t> Fill(char* to, size_t bytes);
  Result<bool> ReadBlock(char* block);
  Result<std::string> ReadBytes(int64_t size);
  Status Skip();
  Status CheckSize(const std::string& name, int64_t size) const;
  Status ReadExtension(char type, int64_t size, Extension& extension);

  int fd_;
  int64_t left_;  // bytes of the file after the current position; more than any size if the file is no regular one
  int64_t pending_ = 0;  // bytes of the current entry that were not read
  int64_t padding_ = 0;  // bytes after them, up to the next header
  bool first_ = true;    // true before the first header
};

// Writes files with the mode 0644, the time 0 and no owner, so that equal members make equal archives. Errors call the
// archive `what`.
Status WriteTar(int fd, const std::vector<std::pair<std::string, std::string_view>>& members, const std::string& what);

}  // namespace autotune
