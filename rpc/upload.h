// Uploads: how the blobs of a large batch reach a device server over a slow link. The client sends them in chunks, over
// a connection of its own, so that beats and results do not wait behind them. The server pulls each chunk. It pulls as
// many at a time as arrive within a second, so a link that is slow never holds more than that, and an upload that is
// cancelled ends soon. After a break of the connection, it pulls on from where it is. Not thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/channel.h"
#include "rpc/content_hash.h"
#include "rpc/message.h"
#include "rpc/shared_memory.h"
#include "rpc/timers.h"

namespace autotune::rpc {

inline constexpr int64_t kInlineBytes = 256 << 10;  // batches with more are uploaded
// Limit of an upload: its blobs, and their number and sizes (PackFrames).
inline constexpr int64_t kMostPackedBytes = kMaxUploadBytes + 4 * (1 + int64_t{kMaxFrames});

int64_t HashOfChunk(std::string_view bytes);  // UploadChunk::hash

// The server's side of one upload. Times are in milliseconds.
class Intake {
 public:
  struct Options {
    int64_t chunk_bytes = 256 << 10;
    int64_t most_pulled_bytes = 8 << 20;  // at a time
  };
  // Of `bytes` bytes whose ContentHash is `hash`. Without `hash`, each chunk has its own. `memory` holds the bytes, and
  // then the blobs.
  Intake(std::string hash, int64_t bytes, const Options& options, int64_t now, std::shared_ptr<SharedMemory> memory);

  // To be called when there is a connection, and again at each new one: what was pulled over an earlier one is lost.
  std::vector<UploadPull> Begin(int64_t now);
  // Takes a chunk, and returns the next pulls. A chunk that was not pulled, that is there already, or that has another
  // hash than it says, changes nothing.
  std::vector<UploadPull> On(const UploadChunk& chunk, const Blob& bytes, int64_t now);

  bool IsComplete() const { return received_ == bytes_; }
  // Returns the blobs, once. Errors: the bytes do not have the hash, or are no PackFrames of blobs.
  Result<std::vector<Blob>> Take();

  // The time at which Begin must be called again, since nothing has arrived for long: a pull or a chunk was dropped.
  int64_t AgainAt() const { return again_at_; }
  // The time from which on the upload has failed, since nothing has arrived for very long.
  int64_t StalledAt() const { return progress_ + kStalledMs; }
  void Postpone(int64_t by);  // this process was stopped for so long

 private:
  struct Pull {
    int64_t offset = 0, bytes = 0, at = 0;
    bool here = false;  // but an earlier one is not

    int64_t End() const { return offset + bytes; }
  };
  std::vector<UploadPull> PullMore(int64_t now);
  int64_t MostAtATime() const { return std::max<int64_t>(1, options_.most_pulled_bytes / options_.chunk_bytes); }

  // A chunk that arrives this soon lets the server pull one more at a time; one that arrives later than kSlowMs, one
  // less. [chosen]
  static constexpr int64_t kFastMs = 500, kSlowMs = 1000;
  static constexpr int64_t kPatienceMs = 10000;  // until the first chunk is pulled again [chosen]
  static constexpr int64_t kStalledMs = 60000;   // [chosen]

  Options options_;
  std::string hash_;
  int64_t bytes_ = 0;  // of the upload
  std::shared_ptr<SharedMemory> memory_;
  int64_t received_ = 0;     // bytes, without a gap
  ContentHasher hasher_;     // of these; unused without hash_
  std::deque<Pull> pulled_;  // the first one is not here yet
  int64_t at_a_time_ = 1;    // chunks
  int64_t slowest_ms_ = 0;   // of the chunks so far
  int64_t progress_ = 0;     // time of the latest chunk
  int64_t again_at_ = kNever;
};

// Returns what PackFrames would make of the blobs, in parts that are not copied: the head, then each blob. A client
// uploads these.
std::vector<Blob> PackedParts(const std::vector<Blob>& blobs);
// Returns the chunk for a pull; null if a server cannot mean that. Only a chunk of several parts is copied.
Blob ChunkOf(const std::vector<Blob>& parts, const UploadPull& pull);

}  // namespace autotune::rpc
