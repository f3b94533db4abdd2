#include "rpc/upload.h"

#include <algorithm>

#include "rpc/check_measure.h"
#include "support/hash.h"

namespace autotune::rpc {

int64_t HashOfChunk(std::string_view bytes) { return static_cast<int64_t>(Hash64(bytes)); }

std::vector<UploadPull> Intake::Begin(int64_t now) {
  pulled_.clear();
  at_a_time_ = 1;
  return PullMore(now);
}

std::vector<UploadPull> Intake::PullMore(int64_t now) {
  std::vector<UploadPull> pulls;
  int64_t next = pulled_.empty() ? received_ : pulled_.back().End();
  while (static_cast<int64_t>(pulled_.size()) < at_a_time_ && next < bytes_) {
    const int64_t size = std::min(options_.chunk_bytes, bytes_ - next);
    pulled_.push_back({next, size, now});
    pulls.push_back({next, size});
    next += size;
  }
  again_at_ = pulled_.empty() ? kNever : now + std::max(kPatienceMs, 4 * slowest_ms_);
  return pulls;
}

std::vector<UploadPull> Intake::On(const UploadChunk& chunk, const Blob& bytes, int64_t now) {
  const auto pull = std::ranges::find(pulled_, chunk.offset, &Pull::offset);
  if (pull == pulled_.end() || pull->chunk || static_cast<int64_t>(bytes->size()) != pull->bytes) return {};
  if (hash_.empty() && HashOfChunk(*bytes) != chunk.hash) return {};
  pull->chunk = bytes;
  progress_ = now;
  const int64_t took = now - pull->at;
  slowest_ms_ = std::max(slowest_ms_, took);
  while (!pulled_.empty() && pulled_.front().chunk) {
    const std::string& next = *pulled_.front().chunk;
    if (!hash_.empty()) hasher_.Add(next);
    reader_.Add(next);
    received_ += static_cast<int64_t>(next.size());
    pulled_.pop_front();
  }
  if (took < kFastMs && at_a_time_ < MostAtATime()) ++at_a_time_;
  if (took > kSlowMs && at_a_time_ > 1) --at_a_time_;
  return PullMore(now);
}

Result<std::vector<Blob>> Intake::Take() {
  if (!hash_.empty() && hasher_.Finish() != hash_) return Err("the upload does not have the hash that the batch names");
  Result<Frames> blobs = reader_.Finish();
  if (!blobs) return Err("the upload is not a list of blobs: ", blobs.error().message);
  return blobs;
}

void Intake::Postpone(int64_t by) {
  progress_ += by;
  if (again_at_ != kNever) again_at_ += by;
}

int64_t Intake::KeptBytes() const {
  int64_t bytes = reader_.KeptBytes();
  for (const Pull& pull : pulled_) bytes += pull.chunk ? pull.bytes : 0;
  return bytes;
}

std::vector<Blob> PackedParts(const std::vector<Blob>& blobs) {
  std::vector<Blob> parts;
  parts.push_back(std::make_shared<const std::string>(HeadOf(blobs)));
  for (const Blob& blob : blobs) parts.push_back(blob);
  return parts;
}

BlobPart ChunkOf(const std::vector<Blob>& parts, const UploadPull& pull) {
  constexpr int64_t kMostBytes = 1 << 20;  // of a chunk; servers pull less
  if (pull.bytes <= 0 || pull.bytes > kMostBytes || pull.offset < 0 || pull.offset > TotalBytes(parts) - pull.bytes)
    return {};
  const auto size = static_cast<size_t>(pull.bytes);
  auto begin = static_cast<size_t>(pull.offset);  // in the part
  const Blob* part = parts.data();
  for (; begin >= (*part)->size(); ++part) begin -= (*part)->size();
  if (begin + size <= (*part)->size()) return {*part, begin, size};
  std::string chunk;
  for (; chunk.size() < size; begin = 0) chunk.append(**part++, begin, size - chunk.size());
  return {std::make_shared<const std::string>(std::move(chunk)), 0, size};
}

}  // namespace autotune::rpc
