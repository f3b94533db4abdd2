// The memory of blobs that are not used any more.
#include "rpc/blob_shelf.h"

#include <gtest/gtest.h>

namespace autotune::rpc {
namespace {

constexpr size_t kMiB = 1 << 20;

// Returns a blob of so many bytes.
Blob Make(const std::shared_ptr<BlobShelf>& shelf, size_t bytes, char c = 'x') {
  std::string memory = shelf->Take(bytes);
  EXPECT_TRUE(memory.empty());
  EXPECT_GE(memory.capacity(), bytes);
  memory.append(bytes, c);
  return shelf->Use(std::move(memory));
}

TEST(BlobShelf, MemoryOfUnusedBlobsServesTheNextOnes) {
  const auto shelf = BlobShelf::Make(8 * kMiB);
  Blob first = Make(shelf, 4 * kMiB), copy = first;
  const char* const memory = first->data();
  first.reset();
  EXPECT_EQ(shelf->KeptBytes(), 0) << "the copy uses it";
  EXPECT_NE(Make(shelf, 4 * kMiB)->data(), memory);
  copy.reset();
  EXPECT_GT(shelf->KeptBytes(), 0);
  const std::string taken[] = {shelf->Take(4 * kMiB), shelf->Take(4 * kMiB)};
  EXPECT_TRUE(taken[0].data() == memory || taken[1].data() == memory);
  EXPECT_EQ(shelf->KeptBytes(), 0);
  const Blob other = Make(shelf, 3 * kMiB, 'y');
  EXPECT_EQ(*other, std::string(3 * kMiB, 'y'));
}

// Neither small ones, nor more than the shelf may keep, nor for blobs that need much less.
TEST(BlobShelf, OtherMemoryIsFreed) {
  const auto shelf = BlobShelf::Make(8 * kMiB);
  Make(shelf, 1000);
  EXPECT_EQ(shelf->KeptBytes(), 0);
  { const Blob a = Make(shelf, 5 * kMiB), b = Make(shelf, 5 * kMiB); }
  EXPECT_GE(shelf->KeptBytes(), 5 * static_cast<int64_t>(kMiB));
  EXPECT_LE(shelf->KeptBytes(), 8 * static_cast<int64_t>(kMiB));
  const int64_t kept = shelf->KeptBytes();
  const Blob small = Make(shelf, 2 * kMiB);
  EXPECT_EQ(shelf->KeptBytes(), kept);
  Make(BlobShelf::Make(0), 4 * kMiB);  // one that keeps nothing, and ends before its blob
}

}  // namespace
}  // namespace autotune::rpc
