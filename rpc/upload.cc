#include "rpc/upload.h"

#include <algorithm>

#include "rpc/channel.h"

namespace autotune::rpc {

std::vector<UploadPull> Intake::Begin(int64_t now) {
  if (!pulled_.empty()) received_.resize(static_cast<size_t>(pulled_.front().offset));
  pulled_.clear();
  at_a_time_ = 1;
  return PullMore(now);
}

std::vector<UploadPull> Intake::PullMore(int64_t now) {
  std::vector<UploadPull> pulls;
  int64_t next = pulled_.empty() ? static_cast<int64_t>(received_.size()) : pulled_.back().End();
  while (static_cast<int64_t>(pulled_.size()) < at_a_time_ && next < bytes_) {
    const int64_t size = std::min(options_.chunk_bytes, bytes_ - next);
    pulled_.push_back({next, size, now});
    pulls.push_back({next, size});
    next += size;
  }
  again_at_ = pulled_.empty() ? kNever : now + std::max(kPatienceMs, 4 * slowest_ms_);
  return pulls;
}

std::vector<UploadPull> Intake::On(const UploadChunk& chunk, const std::string& bytes, int64_t now) {
  const auto pull = std::ranges::find(pulled_, chunk.offset, &Pull::offset);
  if (pull == pulled_.end() || pull->is_here || static_cast<int64_t>(bytes.size()) != pull->bytes) return {};
  if (received_.empty()) received_.reserve(static_cast<size_t>(bytes_));
  if (static_cast<int64_t>(received_.size()) < pull->End()) received_.resize(static_cast<size_t>(pull->End()));
  received_.replace(static_cast<size_t>(pull->offset), bytes.size(), bytes);
  pull->is_here = true;
  progress_ = now;
  const int64_t took = now - pull->at;
  slowest_ms_ = std::max(slowest_ms_, took);
  while (!pulled_.empty() && pulled_.front().is_here) {
    const size_t end = static_cast<size_t>(pulled_.front().End());
    hasher_.Add(std::string_view(received_).substr(hashed_, end - hashed_));
    hashed_ = end;
    pulled_.pop_front();
  }
  if (took < kFastMs && at_a_time_ < MostAtATime()) ++at_a_time_;
  if (took > kSlowMs && at_a_time_ > 1) --at_a_time_;
  return PullMore(now);
}

Result<std::vector<Blob>> Intake::Take() {
  if (hasher_.Finish() != hash_) return Err("the upload does not have the hash that the batch names");
  Unpacker unpacker(std::exchange(received_, {}));
  std::optional<Frames> blobs = TRY(unpacker.Next());
  if (!blobs || unpacker.buffered() > 0) return Err("the upload is not a list of blobs");
  return std::move(*blobs);
}

void Intake::Postpone(int64_t by) {
  progress_ += by;
  if (again_at_ != kNever) again_at_ += by;
}

int64_t Intake::KeptBytes() const { return static_cast<int64_t>(received_.capacity()); }

Blob ChunkOf(const std::string& packed, const UploadPull& pull) {
  constexpr int64_t kMostBytes = 1 << 20;  // of a chunk; servers pull less
  const auto all = static_cast<int64_t>(packed.size());
  if (pull.bytes <= 0 || pull.bytes > kMostBytes || pull.offset < 0 || pull.offset > all - pull.bytes) return nullptr;
  return std::make_shared<const std::string>(packed, static_cast<size_t>(pull.offset), static_cast<size_t>(pull.bytes));
}

}  // namespace autotune::rpc
