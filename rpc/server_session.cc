#include "rpc/server_session.h"

#include <algorithm>

#include "rpc/capability.h"
#include "rpc/channel.h"
#include "rpc/check_measure.h"
#include "rpc/rules.h"

namespace autotune::rpc {
namespace {

constexpr char kRestarted[] = "this lease has ended: the server was restarted";
constexpr size_t kMostRefused = 64;  // batches whose refusal is remembered

}  // namespace

const std::vector<Blob>* ServerSession::Cache::Find(const std::string& key) {
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (it == entries_.end()) return nullptr;
  std::rotate(it, it + 1, entries_.end());
  return &entries_.back().blobs;
}

void ServerSession::Cache::Put(const std::string& key, std::vector<Blob> blobs, int64_t limit) {
  std::erase_if(entries_, [&](const Entry& e) { return e.key == key; });
  int64_t bytes = TotalBytes(blobs), total = bytes;
  for (const Entry& entry : entries_) total += entry.bytes;
  while (!entries_.empty() && total > limit) {
    total -= entries_.front().bytes;
    entries_.erase(entries_.begin());
  }
  if (total <= limit) entries_.push_back({key, std::move(blobs), bytes});
}

int64_t ServerSession::Cache::bytes() const {
  int64_t total = 0;
  for (const Entry& entry : entries_) total += entry.bytes;
  return total;
}

int64_t ServerSession::KeptBytes() const {
  int64_t bytes = references_.bytes() + outputs_.bytes();
  for (const Blob& artifact : batch_ ? batch_->artifacts : std::vector<Blob>())
    bytes += artifact->memory() ? 0 : static_cast<int64_t>(artifact->size());
  if (calls_) bytes += calls_->KeptBytes();
  return bytes;
}

void ServerSession::Refuse(const Peer& peer, const Id& request, std::string code, std::string text) {
  actions_.push_back(ToPeer{peer, {request, Refusal{std::move(code), std::move(text)}, {}}});
}

// Extends the deadlines by a time in which this process did not run. The candidate may have been stopped as well.
void ServerSession::Advance(int64_t now) {
  const int64_t stopped = stopped_.Before(now, NextWake());
  idle_since_ = idle_since_ ? *idle_since_ + stopped : now;
  if (batch_ && batch_->running) {
    batch_->running->phase_began += stopped;
    batch_->running->deadline += stopped;
  }
  if (batch_ && batch_->intake) batch_->intake->Postpone(stopped);
  if (calls_) calls_->deadline += stopped;
  if (lease_) lease_->expires += stopped;
  if (quarantine_) quarantine_->deadline += stopped;
  if (calibrating_) calibrating_->deadline += stopped;
}

// --- Leases ----------------------------------------------------------------------------------------------------------

bool ServerSession::IsProven(const From& from, const LeaseClaim& claim) const {
  if (from.identity.empty() || !Holds(Rule::kProof)) return true;
  const Capability granted{claim.lease, claim.token, claim.incarnation, claim.ttl_ms, from.identity};
  return IsProof(claim.proof, granted, options_.grant_key);
}

bool ServerSession::CheckClaim(const From& from, const LeaseClaim& claim, const Id& request, int64_t now) {
  const Peer& peer = from.peer;
  if (lease_ && lease_->claim.lease == claim.lease && lease_->claim.token == claim.token) {
    lease_->peer = peer;
    lease_->expires = now + lease_->claim.ttl_ms;
    return true;
  }
  if (Holds(Rule::kPlausible) && !IsPlausible(claim.token, tracker_epoch_)) {
    Refuse(peer, request, code::kMalformed, "no tracker has given out such a token");
    return false;
  }
  // A server forgets the highest token at its end. Its id stays, so the incarnation tells old grants apart.
  if (Holds(Rule::kIncarnation) && claim.incarnation != options_.incarnation) {
    Refuse(peer, request, code::kLeaseLost, kRestarted);
    return false;
  }
  if (Holds(Rule::kFencing) && claim.token < highest_) {
    Refuse(peer, request, code::kStaleLease, "this device has since been leased to another client");
    return false;
  }
  if (Holds(Rule::kEndedLease) && claim.token == highest_) {
    Refuse(peer, request, code::kLeaseLost, "this lease has ended: " + ended_);
    return false;
  }
  if (claim.lease.empty() || claim.ttl_ms < 100 || claim.ttl_ms > 600000) {
    Refuse(peer, request, code::kMalformed, "a lease has an id and a time-to-live of 100 ms to 600 s");
    return false;
  }
  if (leaving_) {
    Refuse(peer, request, code::kLeaseLost, leaving_->why);
    return false;
  }
  if (lease_) DropLease("the device was leased to another client", now);
  highest_ = claim.token;
  lease_ = Lease{.claim = claim,
                 .identity = from.identity,
                 .peer = peer,
                 .uploads = {},
                 .began = now,
                 .expires = now + claim.ttl_ms};
  Happened(FarmEvent::Kind::kLeased, "", now);
  next_report_ = now;
  return true;
}

void ServerSession::DropBatch(const std::string& why) {
  if (!batch_) return;
  if (batch_->running && Holds(Rule::kKillsOnLoss)) {
    actions_.push_back(KillRunner{why});
    runner_ready_ = false;
  }
  EndRun("");
  if (batch_->host_held || !batch_->IsDone()) ReleaseUnlessCalibrating();
  batch_.reset();
}

void ServerSession::Happened(FarmEvent::Kind kind, const std::string& why, int64_t now) {
  const LeaseClaim& claim = lease_->claim;
  actions_.push_back(FarmEvent{.kind = kind,
                               .server = options_.server,
                               .key = options_.device.key,
                               .holder = {claim.client_name, claim.tenant, claim.job, now - lease_->began},
                               .lease = claim.lease,
                               .client = claim.client,
                               .token = claim.token,
                               .why = why});
}

void ServerSession::ReportEvent(FarmEvent::Kind kind, const std::string& why) {
  actions_.push_back(FarmEvent{.kind = kind, .server = options_.server, .key = options_.device.key, .why = why});
}

void ServerSession::EndLease(FarmEvent::Kind kind, const std::string& why, int64_t now) {
  Happened(kind, why, now);
  ended_ = why;
  DropBatch(why);
  DropCalls(why);
  lease_.reset();
  shelf_ = MemoryShelf::Make(kMostPackedBytes);  // the earlier one ends with the last blob in its memory
  idle_since_ = now;
  CalibrateAfterLease(now);
  next_report_ = now;
}

void ServerSession::DropLease(const std::string& why, int64_t now) { EndLease(FarmEvent::Kind::kLost, why, now); }

// --- Messages --------------------------------------------------------------------------------------------------------

void ServerSession::Answer(const From& from, const Id& request, Body body) {
  Message message{request, std::move(body), {}};
  if (from.roles.Has(Role::kTracker)) {
    actions_.push_back(ToTracker{std::move(message)});
  } else {
    actions_.push_back(ToPeer{from.peer, std::move(message)});
  }
}

void ServerSession::OnAck(const Peer& peer, const ResultAck& ack, int64_t now) {
  if (!batch_ || batch_->id != ack.batch || peer != lease_->peer) return;
  batch_->unacknowledged.erase(ack.candidate);
  if (!batch_->IsDone() || !batch_->unacknowledged.empty()) return;
  finished_[batch_->id] = now;
  batch_.reset();
}

void ServerSession::OnBeat(const From& from, const Id& request, const ClientBeat& beat, int64_t now) {
  if (!CheckClaim(from, beat.claim, request, now)) return;
  ServerBeat answer;
  if (batch_) {
    answer.batch = batch_->id;
    answer.remaining = batch_->Unfinished();
  }
  answer.waits = WaitOfCall(now);
  actions_.push_back(ToPeer{from.peer, {request, answer, {}}});
}

ServerActions ServerSession::On(const From& from, const Message& message, int64_t now) {
  Advance(now);
  const Peer& peer = from.peer;
  if (const std::optional<Refusal> refusal = RefusalOf(from, message)) {
    Answer(from, message.request, *refusal);
  } else if (const LeaseClaim* claim = ClaimOf(message.body); claim && !IsProven(from, *claim)) {
    // A server that was restarted has another key for grants, too.
    const bool is_old = claim->incarnation != options_.incarnation && Holds(Rule::kIncarnation);
    Refuse(peer, message.request, is_old ? code::kLeaseLost : code::kForbidden,
           is_old ? kRestarted : "this lease was not granted to the owner of this key");
  } else if (auto* ping = message.As<Ping>()) {
    Answer(from, message.request, Pong{ping->payload, PublicId(options_.server)});
  } else if (auto* reply = message.As<ReportReply>()) {
    OnReportReply(*reply, now);
  } else if (message.As<MeasureRequest>()) {
    OnMeasure(from, message, now);
  } else if (message.As<Call>()) {
    OnCall(from, message, now);
  } else if (auto* ack = message.As<ResultAck>()) {
    OnAck(peer, *ack, now);
  } else if (auto* cancel = message.As<BatchCancel>()) {
    if (CheckClaim(from, cancel->claim, message.request, now) && batch_ && batch_->id == cancel->batch)
      CancelBatch("cancelled before it began", now);
  } else if (auto* beat = message.As<ClientBeat>()) {
    OnBeat(from, message.request, *beat, now);
  } else if (auto* link = message.As<UploadLink>()) {
    OnUploadLink(from, message.request, *link, now);
  } else if (message.As<UploadChunk>()) {
    OnUploadChunk(peer, message, now);
  } else if (auto* end = message.As<LeaseEnd>()) {
    if (lease_ && lease_->claim.lease == end->claim.lease && lease_->claim.token == end->claim.token) {
      EndLease(FarmEvent::Kind::kReturned, "the client ended its lease", now);
      SendReport(now);
    }
  } else if (!message.As<Refusal>() && !message.As<Pong>()) {
    Answer(from, message.request,
           Refusal{code::kUnexpected, "a device server does not take a " + std::string(KindOf(message.body))});
  }
  return Take();
}

void ServerSession::OnMeasure(const From& from, const Message& message, int64_t now) {
  const Peer& peer = from.peer;
  const auto& request = *message.As<MeasureRequest>();
  if (!CheckClaim(from, request.claim, message.request, now)) return;
  auto accept = [&] {
    MeasureAccepted accepted{static_cast<int64_t>(request.candidates.size())};
    actions_.push_back(ToPeer{peer, {message.request, accepted, {}}});
  };
  if (batch_ && batch_->id == message.request) {  // a repeated request: its answer was lost, and perhaps results too
    accept();
    for (auto& [id, result] : batch_->unacknowledged) SendResult(result, now);
    return;
  }
  if (Holds(Rule::kRemembers) && finished_.count(message.request)) return accept();
  const auto refuse = [&](const Refusal& refusal) {
    refused_.emplace_back(message.request, refusal);
    if (refused_.size() > kMostRefused) refused_.pop_front();
    Refuse(peer, message.request, refusal.code, refusal.text);
  };
  const auto refused = std::ranges::find(refused_, message.request, &std::pair<Id, Refusal>::first);
  if (refused != refused_.end() && Holds(Rule::kRemembers))
    return Refuse(peer, message.request, refused->second.code, refused->second.text);
  const bool uploads = request.IsUploaded();
  std::optional<Refusal> refusal = uploads ? CheckUpload(request, message.blobs) : CheckBlobs(request, message.blobs);
  if (!refusal) refusal = CheckCandidates(request);
  if (refusal) return Refuse(peer, message.request, refusal->code, refusal->text);  // a copy is refused as well
  const std::string& hash = request.task.reference_hash;
  bool checks = std::any_of(request.candidates.begin(), request.candidates.end(), [](auto& c) { return c.check; });
  const std::vector<Blob>* known = hash.empty() ? nullptr : references_.Find(CachedReference(hash));
  if (checks && !hash.empty() && !request.has_reference && !known) {
    return refuse({code::kNeedReference, "send the reference artifact " + hash + " with the batch"});
  }
  if (calls_ && !calls_->open.empty()) return refuse({code::kUnexpected, "a call of this client has not ended yet"});
  calls_.reset();
  // The client has all results of the batch before. A late copy of that request must not undo this one.
  if (batch_) finished_[batch_->id] = now;
  DropBatch("the client sent another batch");
  batch_ = Batch();
  batch_->id = message.request;
  batch_->request = request;
  if (known) batch_->reference = known->front();
  batch_->tries.resize(request.candidates.size());
  for (size_t i = 0; i < request.candidates.size(); ++i) batch_->order.push_back(i);
  if (uploads) batch_->intake.emplace(request.upload, request.upload_bytes, options_.uploads, now, shelf_->Take());
  accept();
  if (const std::string why = WhyNoMore(); !why.empty()) return CancelBatch(why, now);
  if (!Fault().empty()) return StartNext(now);
  if (uploads) return BeginUpload(now);
  TakeBlobs(message.blobs);
}

// Takes the blobs of the batch, which have been checked, and begins to measure it.
void ServerSession::TakeBlobs(std::vector<Blob> blobs) {
  if (batch_->request.has_reference) {
    // A copy, since it is kept for later batches, which need the shared memory of this one.
    batch_->reference = blobs.back()->memory() ? MakeBlob(std::string(*blobs.back())) : blobs.back();
    references_.Put(CachedReference(batch_->request.task.reference_hash), {batch_->reference},
                    options_.reference_bytes);
    blobs.pop_back();
  }
  batch_->artifacts = std::move(blobs);
  if (calibrating_ && !calibrating_->run) calibrating_.reset();  // it comes after the lease
  actions_.push_back(AcquireHost{});
}

// --- Tracker and time ------------------------------------------------------------------------------------------------

std::string ServerSession::WhyNoMore() const {
  return leaving_ ? leaving_->why : lease_->yield ? "the device goes to a client that waits" : "";
}

void ServerSession::SendReport(int64_t now) {
  if (has_ended_) return;  // a report would register the server again
  ServerReport report;
  report.server = options_.server;
  report.incarnation = options_.incarnation;
  report.device = options_.device;
  report.ready = Fault().empty() && (runner_ready_ || lease_) && !leaving_;
  report.quarantine = Fault();
  report.grant_key = options_.grant_key;
  if (lease_) {
    const LeaseClaim& c = lease_->claim;
    int64_t deadline = 0;
    if (batch_ && batch_->running) deadline = std::max<int64_t>(0, batch_->running->deadline - now);
    if (calls_ && calls_->run) deadline = std::max<int64_t>(0, calls_->deadline - now);
    report.leases.push_back(
        {c.lease, c.token, c.client, c.client_name, c.tenant, c.job, now - lease_->began, deadline, lease_->identity});
  }
  report.highest = highest_;
  report.trials = trials_;
  report.last_error = Fault().empty() ? last_error_ : Fault();
  next_report_ = now + report_interval_;
  actions_.push_back(ToTracker{{"", std::move(report), {}}});
  std::erase_if(finished_, [&](const auto& f) { return now - f.second > options_.remember_ms; });
}

void ServerSession::OnReportReply(const ReportReply& reply, int64_t now) {
  tracker_epoch_ = reply.epoch;
  report_interval_ = std::clamp<int64_t>(reply.interval_ms, 100, 10000);
  if (std::exchange(unreachable_, reply.unreachable) != reply.unreachable && !reply.unreachable.empty())
    ReportEvent(FarmEvent::Kind::kUnreachable, reply.unreachable);
  for (const Id& lease : reply.revoked) {
    if (!lease_ || lease_->claim.lease != lease) continue;
    DropLease("the tracker revoked the lease", now);
    SendReport(now);
  }
  if (!lease_) return;
  lease_->yield = Holds(Rule::kYieldStops) && std::ranges::find(reply.yield, lease_->claim.lease) != reply.yield.end();
  if (lease_->yield && batch_) CancelBatch(WhyNoMore(), now);
  StartCall(now);  // or cancels it
}

ServerActions ServerSession::OnTrackerConnected(int64_t now) {
  SendReport(now);
  return Take();
}

// --- Time ------------------------------------------------------------------------------------------------------------

EarliestTimer<ServerSession> ServerSession::Earliest() const {
  using Self = ServerSession;
  EarliestTimer<Self> timer;
  if (batch_ && batch_->running) {
    const Running& running = *batch_->running;
    if (running.asked == Running::Examined::kNever) timer.Add(running.ExaminedAt(), &Self::OnFirstExamination);
    if (running.asked != Running::Examined::kTwice) timer.Add(running.deadline, &Self::OnDeadline);
  }
  if (calls_ && calls_->run) timer.Add(calls_->deadline, &Self::OnCallDeadline);
  if (lease_) timer.Add(lease_->expires, &Self::OnLeaseExpired);
  if (batch_ && Holds(Rule::kResends)) {
    for (const auto& [id, result] : batch_->unacknowledged)
      timer.Add(result.last_sent + options_.resend_ms, &Self::ResendResults);
  }
  if (batch_ && batch_->intake) {
    timer.Add(batch_->intake->AgainAt(), &Self::BeginUpload);
    timer.Add(batch_->intake->StalledAt(), &Self::OnUploadStalled);
  }
  if (MayProbe()) timer.Add(quarantine_->next_probe, &Self::StartProbe);
  if (quarantine_ && quarantine_->probe) timer.Add(quarantine_->deadline, &Self::OnProbeDeadline);
  if (MayCalibrate()) timer.Add(next_calibration_, &Self::StartCalibration);
  if (calibrating_ && calibrating_->run) timer.Add(calibrating_->deadline, &Self::OnCalibrationDeadline);
  if (options_.idle_exit_ms > 0 && idle_since_ && !lease_ && !leaving_)
    timer.Add(*idle_since_ + options_.idle_exit_ms, &Self::OnIdle);
  timer.Add(LeavesAt(), &Self::Leave);
  if (!has_ended_) timer.Add(next_report_, &Self::SendReport);
  return timer;
}

}  // namespace autotune::rpc
