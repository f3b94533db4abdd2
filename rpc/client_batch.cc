// Which candidates a client sends as one batch, and how their blobs reach the server.
#include <algorithm>
#include <map>

#include "rpc/check_measure.h"
#include "rpc/client_session.h"
#include "rpc/content_hash.h"

namespace autotune::rpc {
namespace {

// What one batch may hold, in bytes.
struct BatchLimits {
  int64_t blob = 0, all = 0;
};
BatchLimits LimitsFor(bool uploads) {
  return uploads ? BatchLimits{kMaxUploadedBlobBytes, kMaxUploadBytes} : BatchLimits{kMaxBlobBytes, kMaxBatchBytes};
}

// Clamps the deadlines to one hour, since servers refuse longer ones.
MeasureTask WithinLimits(MeasureTask task) {
  task.reference_seconds = std::min(task.reference_seconds, kMaxDeadlineSeconds);
  return task;
}
Candidate WithinLimits(Candidate candidate) {
  candidate.load_seconds = std::min(candidate.load_seconds, kMaxDeadlineSeconds);
  candidate.run_seconds = std::min(candidate.run_seconds, kMaxDeadlineSeconds);
  return candidate;
}

int64_t SizeOf(const Blob& blob) { return blob ? static_cast<int64_t>(blob->size()) : 0; }

std::string TooLargeText(const char* what, int64_t bytes, int64_t most) {
  return std::string(what) + " has " + std::to_string(bytes) + " bytes; at most " + std::to_string(most) +
         " can be sent";
}

}  // namespace

// Refuses the candidates whose artifacts cannot be sent to the leased device or, before there is a lease, to any. Ends
// the job if its reference cannot be sent. Returns true if it has refused anything.
bool ClientSession::RefuseTooLarge(int64_t now) {
  const int64_t most = LimitsFor(!lease_ || lease_->granted.device->uploads).blob;
  if (const int64_t bytes = SizeOf(job_->reference); bytes > most) {
    FinishAll(TrialStatus::kInfrastructure, TooLargeText("the reference artifact", bytes, most), std::nullopt, now);
    return true;
  }
  bool any = false;
  for (size_t i = 0; i < job_->candidates.size(); ++i) {
    const Candidate& candidate = job_->candidates[i];
    if (answered_[i]) continue;
    const int64_t bytes = SizeOf(job_->artifacts[static_cast<size_t>(candidate.blob)]);
    if (bytes <= most) continue;
    RefuseCandidate(i, TooLargeText("the artifact", bytes, most));
    any = true;
  }
  return any;
}

// Fills a batch with unanswered candidates, up to its limits. Candidates that share an artifact share its blob.
void ClientSession::MakeBatch() {
  const bool can_upload = lease_->granted.device->uploads;
  const BatchLimits most = LimitsFor(can_upload);
  MeasureRequest request{Claim(), WithinLimits(job_->task), {}, false, {}, 0};
  Batch batch;
  std::map<int, int> blobs;
  int64_t bytes = 0;
  if (job_->reference && !lease_->references_sent.count(job_->task.reference_hash)) {
    request.has_reference = true;
    bytes += SizeOf(job_->reference);
  }
  for (size_t i = 0; i < job_->candidates.size(); ++i) {
    if (answered_[i]) continue;
    Candidate candidate = WithinLimits(job_->candidates[i]);
    auto found = blobs.find(candidate.blob);
    if (found == blobs.end()) {
      const Blob& artifact = job_->artifacts[static_cast<size_t>(candidate.blob)];
      if (blobs.size() == kMaxBatchArtifacts || bytes + SizeOf(artifact) > most.all) break;
      bytes += SizeOf(artifact);
      found = blobs.emplace(candidate.blob, static_cast<int>(batch.message.blobs.size())).first;
      batch.message.blobs.push_back(artifact);
    }
    candidate.blob = found->second;
    batch.waiting.insert(candidate.id);
    request.candidates.push_back(std::move(candidate));
    if (request.candidates.size() == kMaxBatchCandidates) break;
  }
  if (request.has_reference) batch.message.blobs.push_back(job_->reference);
  if (can_upload && bytes > options_.inline_bytes) {
    batch.packed = PackedParts(std::exchange(batch.message.blobs, {}));
    request.upload_bytes = TotalBytes(batch.packed);
    if (!lease_->granted.device->chunk_hashes) {
      ContentHasher hasher;
      for (const Blob& part : batch.packed) hasher.Add(*part);
      request.upload = hasher.Finish();
    }
  }
  batch.message.request = options_.new_id();
  batch.message.body = std::move(request);
  batch_ = std::move(batch);
}

void ClientSession::SendBatch(int64_t now) {
  batch_->last_sent = now;
  actions_.push_back(AskServer{batch_->message});
  if (batch_->packed.empty() || std::exchange(lease_->uploads, true)) return;
  const DeviceInfo& device = *lease_->granted.device;
  actions_.push_back(ConnectUploads{device.AllEndpoints(), device.public_key});
}

void ClientSession::SendLink(int64_t now) {
  lease_->link_sent = now;
  actions_.push_back(AskUploads{{options_.new_id(), UploadLink{Claim()}, {}}});
}

void ClientSession::OnPull(const Id& batch, const UploadPull& pull) {
  if (!batch_ || batch_->packed.empty() || batch_->message.request != batch) return;
  lease_->link_sent.reset();
  const Blob bytes = ChunkOf(batch_->packed, pull);
  if (!bytes) return;
  UploadChunk chunk{pull.offset, 0};
  if (lease_->granted.device->chunk_hashes) chunk.hash = HashOfChunk(*bytes);
  actions_.push_back(AskUploads{{batch, chunk, {bytes}}});
}

}  // namespace autotune::rpc
