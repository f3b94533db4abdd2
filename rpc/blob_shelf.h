// BlobShelf: memory of large blobs that nobody uses any more, for the next ones. The system fills fresh memory with
// zeros, which takes as long as a copy, and much longer if it has to find room for huge pages. Thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rpc/message.h"

namespace autotune::rpc {

class BlobShelf : public std::enable_shared_from_this<BlobShelf> {
 public:
  // Keeps at most so many bytes.
  static std::shared_ptr<BlobShelf> Make(int64_t most_bytes) {
    return std::shared_ptr<BlobShelf>(new BlobShelf(most_bytes));
  }
  // Returns an empty string that can hold so many bytes.
  std::string Take(size_t bytes);
  // Returns a blob whose memory comes back to this shelf.
  Blob Use(std::string bytes);
  int64_t KeptBytes() const;

 private:
  static constexpr size_t kLeastBytes = 1 << 20;  // smaller blobs come from the heap [chosen]
  explicit BlobShelf(int64_t most_bytes) : most_bytes_(most_bytes) {}
  void Put(std::string memory);

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::string> free_;
  int64_t kept_bytes_ = 0;
};

}  // namespace autotune::rpc
