// SharedMemory: memory of a device server that its runner may read. The server fills it, and passes the descriptor of
// its file instead of the bytes (rpc/channel.h), so large artifacts are not copied to the runner. Nobody but the server
// can write to it or change its size: the file is sealed, and only the mapping that was made before is writable.
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>

#include "rpc/blob.h"
#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

// Not thread-safe.
class SharedMemory {
 public:
  static constexpr char kName[] = "autotune-upload";  // of the file

  // Makes memory for so many bytes. The system adds each page when it is first written.
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // -1: the system has no such file (Linux 5.1 and later have it), or no descriptor. Then a runner cannot read it.
  int descriptor() const { return file_.get(); }

  // Maps the first bytes of such a file, for reading. Error: the file is smaller, or there are no addresses.
  static Result<std::shared_ptr<const char>> Map(const UniqueFd& file, size_t bytes);

 private:
  UniqueFd file_;
  char* data_ = nullptr;
  const size_t size_;
};

// Returns some bytes of the memory as a blob.
Blob PartOf(const std::shared_ptr<const SharedMemory>& memory, std::string_view bytes);

// Memory that nobody uses any more, for the next upload: the system fills fresh memory with zeros, which takes as long
// as a copy. Keeps one. Thread-safe.
class MemoryShelf : public std::enable_shared_from_this<MemoryShelf> {
 public:
  // `bytes`: of each memory.
  static std::shared_ptr<MemoryShelf> Make(size_t bytes) {
    return std::shared_ptr<MemoryShelf>(new MemoryShelf(bytes));
  }
  // Returns memory that comes back to this shelf. It may hold bytes of an earlier use.
  std::shared_ptr<SharedMemory> Take();

 private:
  explicit MemoryShelf(size_t bytes) : bytes_(bytes) {}

  const size_t bytes_;
  std::mutex mutex_;
  std::unique_ptr<SharedMemory> kept_;
};

}  // namespace autotune::rpc
