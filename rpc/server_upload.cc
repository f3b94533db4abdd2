// How a device server gets the blobs of a batch that is uploaded.
#include "rpc/check_measure.h"
#include "rpc/server_session.h"

namespace autotune::rpc {

// The connection carries chunks only: beats and results stay on the one over which the client speaks.
void ServerSession::OnUploadLink(const From& from, const Id& request, const UploadLink& link, int64_t now) {
  const Peer speaker = lease_ ? lease_->peer : Peer();
  const bool known = lease_ && lease_->claim.lease == link.claim.lease;
  if (!CheckClaim(from, link.claim, request, now)) return;
  if (known) lease_->peer = speaker;
  // A client repeats its link until it hears a pull. What was pulled over this connection is still on its way.
  if (std::exchange(lease_->uploads, from.peer) != from.peer) BeginUpload(now);
}

void ServerSession::BeginUpload(int64_t now) {
  if (batch_ && batch_->intake && !lease_->uploads.empty()) SendPulls(batch_->intake->Begin(now));
}

void ServerSession::SendPulls(const std::vector<UploadPull>& pulls) {
  for (const UploadPull& pull : pulls) actions_.push_back(ToPeer{lease_->uploads, {batch_->id, pull, {}}});
}

void ServerSession::OnUploadChunk(const Peer& peer, const Message& message, int64_t now) {
  if (!batch_ || !batch_->intake || message.request != batch_->id || peer != lease_->uploads) return;
  if (message.blobs.size() != 1) return;
  Intake& intake = *batch_->intake;
  SendPulls(intake.On(*message.As<UploadChunk>(), message.blobs[0], now));
  if (!intake.IsComplete()) return;
  Result<std::vector<Blob>> blobs = intake.Take();
  std::optional<Refusal> refusal;
  if (!blobs) {
    refusal = {code::kMalformed, blobs.error().Text()};
  } else {
    refusal = CheckBlobs(batch_->request, *blobs);
  }
  if (refusal) {
    Refuse(lease_->peer, batch_->id, refusal->code, refusal->text);
    return DropBatch("its upload is refused");
  }
  batch_->intake.reset();
  TakeBlobs(std::move(*blobs));
}

void ServerSession::OnUploadStalled(int64_t now) { DropLease("nothing of the client's upload arrives", now); }

}  // namespace autotune::rpc
