#include "rpc/check_measure.h"

#include <cmath>
#include <set>

#include "rpc/upload.h"
#include "support/hash.h"

namespace autotune::rpc {
namespace {

Refusal MalformedBatch(std::string text) { return {code::kMalformed, std::move(text)}; }
Refusal TooLarge(const char* what, int64_t most, const char* unit) {
  return {code::kTooLarge, std::string(what) + " has at most " + std::to_string(most) + unit};
}

bool IsDeadline(double seconds) { return std::isfinite(seconds) && seconds > 0 && seconds <= kMaxDeadlineSeconds; }

}  // namespace

std::optional<Refusal> CheckCandidates(const MeasureRequest& request) {
  if (request.candidates.empty()) return MalformedBatch("a batch has at least one candidate");
  std::set<std::string> ids;
  for (const Candidate& c : request.candidates) {
    if (!ids.insert(c.id).second) return MalformedBatch("candidate '" + c.id + "' occurs twice");
    if (c.repeats < 1 || c.repeats > kMostRepeats || c.max_repeats < 0 || c.max_repeats > kMostRepeats ||
        !IsDeadline(c.load_seconds) || !IsDeadline(c.run_seconds) || c.threads < 0 || c.threads > 4096 ||
        !(c.min_repeat_ms >= 0 && c.min_repeat_ms <= 60000) || !(c.cutoff_seconds >= 0) || c.cold_bytes < -1) {
      return MalformedBatch("candidate '" + c.id + "': an option is out of range");
    }
  }
  if (!IsDeadline(request.task.reference_seconds) || !(request.task.rtol >= 0) || !(request.task.floor >= 0))
    return MalformedBatch("task: an option is out of range");
  return std::nullopt;
}

std::optional<Refusal> CheckBlobs(const MeasureRequest& request, const std::vector<Blob>& blobs) {
  if (request.has_reference && blobs.empty()) return MalformedBatch("has_reference without a blob");
  const size_t artifacts = blobs.size() - (request.has_reference ? 1 : 0);
  if (artifacts > kMaxBatchArtifacts) return TooLarge("a batch", kMaxBatchArtifacts, " artifacts");
  const bool is_upload = request.IsUploaded();
  const int64_t most = is_upload ? kMaxUploadBytes : kMaxBatchBytes;
  const int64_t most_of_one = is_upload ? kMaxUploadedBlobBytes : kMaxBlobBytes;
  int64_t bytes = 0;
  for (const Blob& blob : blobs) {
    const auto size = static_cast<int64_t>(blob->size());
    if (size > most_of_one) return TooLarge("an artifact", most_of_one, " bytes");
    bytes += size;
  }
  if (bytes > most) return TooLarge("a batch", most, " bytes");
  for (const Candidate& c : request.candidates)
    if (c.blob < 0 || static_cast<size_t>(c.blob) >= artifacts)
      return MalformedBatch("candidate '" + c.id + "': no such blob");
  if (request.has_reference && HashBytes128(*blobs.back()).Hex() != request.task.reference_hash)
    return MalformedBatch("the reference does not have the hash that the task names");
  return std::nullopt;
}

std::optional<Refusal> CheckUpload(const MeasureRequest& request, const std::vector<Blob>& blobs) {
  if (!blobs.empty()) return MalformedBatch("a batch that is uploaded has blobs, too");
  if (request.upload_bytes < 1) return MalformedBatch("an upload has at least one byte");
  if (request.upload_bytes > kMostPackedBytes) return TooLarge("an upload", kMostPackedBytes, " bytes");
  return std::nullopt;
}

int64_t TotalBytes(const std::vector<Blob>& blobs) {
  int64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += static_cast<int64_t>(blob->size());
  return bytes;
}

std::optional<Refusal> CheckCall(const Call& call, const std::vector<Blob>& blobs) {
  if (call.session.empty() || call.number < 1 || !IsDeadline(call.seconds))
    return Refusal{code::kMalformed, "call: an option is out of range"};
  std::optional<Refusal> refusal = CheckCallBlobs(blobs);
  if (refusal || call.content.empty()) return refusal;
  const auto bytes = static_cast<int64_t>(blobs[0]->size());
  const int64_t most = call.left_out ? kMaxBlobBytes - bytes : bytes;
  if (call.content_bytes < 1 || call.content_bytes > most)
    return Refusal{code::kMalformed, "call: its content has an impossible size"};
  return std::nullopt;
}

std::optional<Refusal> CheckCallBlobs(const std::vector<Blob>& blobs) {
  if (blobs.size() != 1) return Refusal{code::kMalformed, "a call and its reply have one blob"};
  if (static_cast<int64_t>(blobs[0]->size()) > kMaxBlobBytes) return TooLarge("a call", kMaxBlobBytes, " bytes");
  return std::nullopt;
}

}  // namespace autotune::rpc
