#include "rpc/upload.h"

#include <algorithm>

#include "rpc/check_measure.h"
#include "support/hash.h"

namespace autotune::rpc {

int64_t HashOfChunk(std::string_view bytes) { return static_cast<int64_t>(Hash64(bytes)); }

Intake::Intake(std::string hash, int64_t bytes, const Options& options, int64_t now,
               std::shared_ptr<SharedMemory> memory)
    : options_(options), hash_(std::move(hash)), bytes_(bytes), memory_(std::move(memory)), progress_(now) {
  CHECK(bytes >= 0 && static_cast<size_t>(bytes) <= memory_->size()) << bytes << " bytes are uploaded";
}

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
  if (pull == pulled_.end() || pull->here || static_cast<int64_t>(bytes->size()) != pull->bytes) return {};
  if (hash_.empty() && HashOfChunk(*bytes) != chunk.hash) return {};
  bytes->copy(memory_->data() + pull->offset, bytes->size());
  pull->here = true;
  progress_ = now;
  const int64_t took = now - pull->at;
  slowest_ms_ = std::max(slowest_ms_, took);
  for (; !pulled_.empty() && pulled_.front().here; pulled_.pop_front()) {
    const int64_t next = pulled_.front().bytes;
    if (!hash_.empty()) hasher_.Add({memory_->data() + received_, static_cast<size_t>(next)});
    received_ += next;
  }
  if (took < kFastMs && at_a_time_ < MostAtATime()) ++at_a_time_;
  if (took > kSlowMs && at_a_time_ > 1) --at_a_time_;
  return PullMore(now);
}

Result<std::vector<Blob>> Intake::Take() {
  if (!hash_.empty() && hasher_.Finish() != hash_) return Err("the upload does not have the hash that the batch names");
  const auto parts = CutFrames({memory_->data(), static_cast<size_t>(bytes_)});
  if (!parts) return Err("the upload is not a list of blobs: ", parts.error().message);
  std::vector<Blob> blobs;
  for (const std::string_view part : *parts) blobs.push_back(PartOf(memory_, part));
  return blobs;
}

void Intake::Postpone(int64_t by) {
  progress_ += by;
  if (again_at_ != kNever) again_at_ += by;
}

std::vector<Blob> PackedParts(const std::vector<Blob>& blobs) {
  std::vector<Blob> parts;
  parts.push_back(MakeBlob(HeadOf(blobs)));
  for (const Blob& blob : blobs) parts.push_back(blob);
  return parts;
}

Blob ChunkOf(const std::vector<Blob>& parts, const UploadPull& pull) {
  constexpr int64_t kMostBytes = 1 << 20;  // of a chunk; servers pull less
  if (pull.bytes <= 0 || pull.bytes > kMostBytes || pull.offset < 0 || pull.offset > TotalBytes(parts) - pull.bytes)
    return nullptr;
  const auto size = static_cast<size_t>(pull.bytes);
  auto begin = static_cast<size_t>(pull.offset);  // in the part
  const Blob* part = parts.data();
  for (; begin >= (*part)->size(); ++part) begin -= (*part)->size();
  if (begin + size <= (*part)->size()) return MakeBlob((*part)->substr(begin, size), *part);
  std::string chunk;
  for (; chunk.size() < size; begin = 0) chunk.append(**part++, begin, size - chunk.size());
  return MakeBlob(std::move(chunk));
}

}  // namespace autotune::rpc
