// Memory that a server shares with its runner, and the way of its descriptor.
#include "rpc/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "rpc/channel.h"
#include "support/subprocess.h"
#include "tests/rpc/bytes.h"

namespace autotune::rpc {
namespace {

constexpr size_t kMiB = 1 << 20;

std::shared_ptr<SharedMemory> Filled(char c, size_t bytes = kMiB) {
  auto memory = std::make_shared<SharedMemory>(bytes);
  std::fill_n(memory->data(), bytes, c);
  return memory;
}

TEST(SharedMemory, AReaderSeesWhatItsOwnerWrites) {
  const auto memory = Filled('x');
  const UniqueFd file(dup(memory->descriptor()));
  ASSERT_TRUE(file);
  const auto mapped = SharedMemory::Map(file, kMiB);
  ASSERT_TRUE(mapped.ok()) << mapped.error().Text();
  EXPECT_EQ(std::string_view(mapped->get(), kMiB), std::string(kMiB, 'x'));
  memory->data()[5] = 'y';
  EXPECT_EQ(mapped->get()[5], 'y');
  EXPECT_FALSE(SharedMemory::Map(file, kMiB + 1).ok());
  EXPECT_FALSE(SharedMemory::Map(UniqueFd(), 1).ok());
}

// As a candidate would try: by the descriptor that its runner got, by another one of the same file, and by the mapping.
TEST(SharedMemory, AReaderCannotChangeIt) {
  const auto memory = Filled('x');
  const std::string path = "/proc/self/fd/" + std::to_string(memory->descriptor());
  const UniqueFd again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  for (const int file : {memory->descriptor(), again.get()}) {
    EXPECT_EQ(mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
    EXPECT_LT(pwrite(file, "y", 1, 0), 0);
    EXPECT_NE(ftruncate(file, 0), 0);
    EXPECT_NE(ftruncate(file, 2 * kMiB), 0);
    EXPECT_NE(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMiB), 0);
  }
  const auto mapped = SharedMemory::Map(UniqueFd(dup(memory->descriptor())), kMiB);
  ASSERT_TRUE(mapped.ok());
  EXPECT_NE(mprotect(const_cast<char*>(mapped->get()), kMiB, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(std::string_view(memory->data(), kMiB), std::string(kMiB, 'x'));
}

TEST(SharedMemory, AShelfKeepsOneThatNobodyUses) {
  const auto shelf = MemoryShelf::Make(kMiB);
  auto first = shelf->Take(), second = shelf->Take();
  ASSERT_NE(first->data(), second->data());
  const char* const memory = first->data();
  Blob part = PartOf(first, {first->data(), 10});
  first.reset();
  EXPECT_NE(shelf->Take()->data(), memory) << "the blob uses it";
  part.reset();
  second.reset();  // the shelf has one already
  EXPECT_NE(shelf->Take(), nullptr);
  MemoryShelf::Make(kMiB)->Take();  // of a shelf that ends before it
}

// --- Over a channel --------------------------------------------------------------------------------------------------

// Sends a message to a runner's end, and returns what arrives there. `outgoing`: the bytes that did not fit into the
// socket at once.
Result<Message> Passed(const Message& message, bool shares, int64_t* outgoing = nullptr) {
  Loop loop;
  auto [ours, theirs] = TRY(MakeSocketPair());
  LoopChannel channel(
      loop, std::move(ours), [](const Message&) {}, [](const std::string&) {}, shares);
  channel.Send(message);
  if (outgoing) *outgoing = channel.buffered();
  Result<std::optional<Message>> received = Err("nothing");
  std::thread runner([&] {
    received = BlockingChannel(theirs.get()).Receive();
    loop.Post([&] { loop.Stop(); });
  });
  loop.Run();
  runner.join();
  return *TRY(std::move(received));
}

TEST(SharedMemory, AMessagePassesItInsteadOfItsBytes) {
  const auto memory = Filled('x', 16 * kMiB), other = Filled('z');
  memory->data()[3] = 'y';
  const std::vector<Blob> blobs = {
      Bytes("small"), PartOf(memory, {memory->data() + 3, 8 * kMiB}), PartOf(other, {other->data(), 100}),
      Bytes(""),      PartOf(memory, {memory->data() + 9 * kMiB, 1}), PartOf(memory, {memory->data(), 0})};
  for (const bool shares : {true, false}) {
    int64_t outgoing = 0;
    const Result<Message> passed = Passed({"q", Ping{"p"}, blobs}, shares, &outgoing);
    ASSERT_TRUE(passed.ok()) << passed.error().Text();
    EXPECT_EQ(outgoing == 0, shares);
    ASSERT_EQ(passed->blobs.size(), blobs.size());
    for (size_t i = 0; i < blobs.size(); ++i) EXPECT_TRUE(*passed->blobs[i] == *blobs[i]) << i;
    memory->data()[3] = 'w';
    EXPECT_EQ(passed->blobs[1]->front(), shares ? 'w' : 'y');
    memory->data()[3] = 'y';
  }
}

// A runner whose parent names places beyond the memory, or passes none.
TEST(SharedMemory, AMessageWithoutItsMemoryIsRefused) {
  for (const std::string& bytes :
       {std::string("\1\0\0\0\5\0\0\x80\0\0\0\0", 12), std::string("\1\0\0\0\5\0\0\x80", 8)}) {
    auto pair = MakeSocketPair();
    ASSERT_TRUE(pair.ok());
    auto& [ours, theirs] = *pair;
    ASSERT_EQ(send(ours.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
    ours.Reset();
    const auto received = BlockingChannel(theirs.get()).Receive();
    EXPECT_FALSE(received.ok() && *received);
  }
}

}  // namespace
}  // namespace autotune::rpc
