#include "rpc/client_session.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "rpc/peer_text.h"
#include "rpc/rules.h"
#include "support/clock_text.h"

namespace autotune::rpc {
namespace {

constexpr int kMostDeviceErrors = 2;  // in runs of a candidate: it goes to no third device

// Describes a wait: "...; held by ann@lab:411 (job resnet) for 4 min, bob@lab:97 for 12 s and others".
std::string WaitText(const LeaseQueued& queued) {
  constexpr size_t kNamed = 3;                       // holders; more would not fit on a line
  constexpr size_t kMostText = 400, kMostName = 80;  // bytes; the text may contain a key of 256 bytes
  std::string text = Shown(queued.text, kMostText);
  for (size_t i = 0; i < std::min(queued.holders.size(), kNamed); ++i) {
    const LeaseHolder& holder = queued.holders[i];
    text += (i == 0 ? "; held by " : ", ") + Shown(holder.client_name, kMostName);
    if (!holder.job.empty()) text += " (job " + Shown(holder.job, kMostName) + ")";
    text += " for " + LastingText(holder.held_ms);
  }
  if (queued.holders.size() > kNamed) text += " and others";
  return text;
}

// Returns whether two waits are equal, apart from how long the holders have held their devices.
bool SameWait(const LeaseQueued& a, const LeaseQueued& b) {
  auto same = [](const LeaseHolder& x, const LeaseHolder& y) {
    return x.client_name == y.client_name && x.job == y.job;
  };
  return a.text == b.text && a.position == b.position &&
         std::equal(a.holders.begin(), a.holders.end(), b.holders.begin(), b.holders.end(), same);
}

}  // namespace

LeaseClaim ClientSession::Claim() const {
  const LeaseGranted& g = lease_->granted;
  return {g.lease,         g.token,      g.ttl_ms,      options_.client, options_.client_name,
          options_.tenant, options_.job, g.incarnation, g.proof};
}

// After a time in which this process did not run, the answers of others are still unread: their silence begins anew.
// The wait for a device goes on: it is the user's time.
void ClientSession::Advance(int64_t now) {
  const int64_t stopped = stopped_.Before(now, NextWake());
  if (request_) request_->last_answer += stopped;
  if (lease_) lease_->last_heard += stopped;
  if (cancelled_) *cancelled_ += stopped;
}

// --- Jobs ------------------------------------------------------------------------------------------------------------

ClientActions ClientSession::Start(std::shared_ptr<const MeasureJob> job, int64_t now) {
  Advance(now);
  CHECK(!job_ && !call_) << "one job at a time";
  job_ = std::move(job);
  index_.clear();
  answered_.assign(job_->candidates.size(), false);
  unanswered_ = job_->candidates.size();
  device_errors_.clear();
  anything_delivered_ = false;
  cancelled_.reset();
  losses_ = 0;
  for (size_t i = 0; i < job_->candidates.size(); ++i) {
    CHECK(index_.emplace(job_->candidates[i].id, i).second) << "candidate '" << job_->candidates[i].id << "' twice";
  }
  for (size_t i = 0; i < job_->candidates.size(); ++i) {
    const Candidate& c = job_->candidates[i];
    if (c.blob < 0 || static_cast<size_t>(c.blob) >= job_->artifacts.size()) {
      RefuseCandidate(i, "there is no artifact number " + std::to_string(c.blob));
    } else if (c.id.size() > kNameBytes || c.kernel.size() > kTextBytes) {
      RefuseCandidate(i, "the name of the candidate or its kernel is too long: at most " + std::to_string(kNameBytes) +
                             " and " + std::to_string(kTextBytes) + " bytes can be sent");
    }
  }
  RefuseTooLarge(now);
  Continue(now);
  return Take();
}

void ClientSession::RefuseCandidate(size_t index, std::string text) {
  TrialResult result;
  result.candidate = job_->candidates[index].id;
  result.status = TrialStatus::kUploadFailed;
  result.error = std::move(text);
  DeliverResult(std::move(result));
}

// Takes the next step of the job: ends it, requests a lease, or sends a batch. Does nothing while a batch is measured.
void ClientSession::Continue(int64_t now) {
  if (call_) return ContinueCall(now);
  if (!job_ || batch_) return;
  const bool needs_device = job_->candidates.empty() && !lease_ && !cancelled_;
  if (unanswered_ == 0 && !needs_device) {
    job_.reset();
    idle_since_ = now;
    actions_.push_back(JobDone{});
    if (lease_ && lease_->yield) GiveBack(true);
    return;
  }
  if (cancelled_) return FinishAll(TrialStatus::kCancelled, "cancelled before it began", std::nullopt, now);
  if (lease_ && lease_->yield) GiveBack(true);
  if (!lease_) {
    if (!request_) RequestLease(now, now);
    return;
  }
  if (RefuseTooLarge(now)) return Continue(now);
  MakeBatch();
  SendBatch(now);
}

void ClientSession::DeliverResult(TrialResult result) {
  auto it = index_.find(result.candidate);
  if (it == index_.end() || (Holds(Rule::kAnswersOnce) && answered_[it->second])) return;
  if (!answered_[it->second]) --unanswered_;
  answered_[it->second] = true;
  actions_.push_back(Deliver{std::move(result)});
}

void ClientSession::FinishAll(TrialStatus status, const std::string& text, std::optional<Error> error, int64_t now) {
  batch_.reset();
  for (const Candidate& candidate : job_->candidates) {
    TrialResult result;
    result.candidate = candidate.id;
    result.status = status;
    result.error = text;
    DeliverResult(std::move(result));
  }
  job_.reset();
  idle_since_ = now;
  actions_.push_back(JobDone{std::move(error)});
}

ClientActions ClientSession::Cancel(int64_t now) {
  Advance(now);
  if (call_) {
    Withdraw();
    FailCall("cancelled", now);  // the server ends the call with the lease
  }
  if (!job_ || cancelled_) return Take();
  cancelled_ = now;
  if (batch_ && batch_->accepted) {
    CancelBatch(now);
    return Take();
  }
  if (batch_) {
    // The server may or may not have received the batch. It drops the batch when the lease ends.
    GiveBack(true);
    batch_.reset();
  }
  Withdraw();
  Continue(now);
  return Take();
}

void ClientSession::CancelBatch(int64_t now) {
  batch_->last_cancel = now;
  actions_.push_back(AskServer{{options_.new_id(), BatchCancel{Claim(), batch_->message.request}, {}}});
}

ClientActions ClientSession::Close(int64_t now) {
  Withdraw();
  if (lease_) GiveBack(true);
  if (call_) FailCall("the client was closed", now);
  if (job_) FinishAll(TrialStatus::kCancelled, "the client was closed", std::nullopt, now);
  return Take();
}

// --- Leases ----------------------------------------------------------------------------------------------------------

// Requests a lease. The time that counts towards wait_ms began at `began`.
void ClientSession::RequestLease(int64_t began, int64_t now) {
  request_ = Request{options_.new_id(), began, now, now, {}, now};
  SendRequest(now);
}

void ClientSession::Withdraw() {
  if (!request_) return;
  actions_.push_back(AskTracker{{options_.new_id(), LeaseWithdraw{request_->id}, {}}});
  request_.reset();
}

void ClientSession::ReportWait(const LeaseQueued& queued, int64_t now) {
  bool due = now - request_->last_report >= options_.wait_report_ms;
  if (request_->reported && SameWait(*request_->reported, queued) && !due) return;
  request_->reported = queued;
  request_->last_report = now;
  actions_.push_back(JobWaits{{WaitText(queued), queued.position, now - request_->began, queued.holders}});
}

void ClientSession::SendRequest(int64_t now) {
  request_->last_sent = now;
  if (now - excluded_at_ >= options_.exclude_ms) exclude_.clear();
  LeaseRequest request{options_.client,
                       options_.client_name,
                       options_.key,
                       exclude_,
                       options_.tenant,
                       options_.job,
                       std::max<int64_t>(0, options_.wait_ms - (now - request_->began)),
                       unfit_};
  actions_.push_back(AskTracker{{request_->id, std::move(request), {}}});
}

void ClientSession::GiveBack(bool politely, const std::string& unreachable) {
  if (politely) actions_.push_back(AskServer{{options_.new_id(), LeaseEnd{Claim()}, {}}});
  actions_.push_back(AskTracker{{options_.new_id(), LeaseRelease{lease_->granted.lease, unreachable}, {}}});
  actions_.push_back(DropServer{});
  lease_.reset();
}

// Handles the loss of the lease or of the device. Unanswered candidates go back to the queue, for another device.
void ClientSession::Lost(const std::string& why, int64_t now, const std::string& unreachable) {
  const LeaseGranted& granted = lease_->granted;
  actions_.push_back(FarmEvent{.kind = FarmEvent::Kind::kLost,
                               .server = granted.server,
                               .key = options_.key,
                               .lease = granted.lease,
                               .client = options_.client,
                               .token = granted.token,
                               .why = why});
  exclude_ = {granted.server};
  excluded_at_ = now;
  lost_ = why;
  GiveBack(false, unreachable);
  batch_.reset();
  if (call_) {
    call_->began.reset();
    call_->sent.clear();
  }
  if (call_ && call_->work.number > 1) return FailCall("the device was lost: " + why, now);
  if (!job_ && !call_) return;
  if (cancelled_) return Continue(now);
  if (++losses_ >= options_.max_losses || !Holds(Rule::kRetries)) {
    std::string text = "lost the device " + std::to_string(losses_) + " times without a result; last: " + why;
    if (call_) return FailCall(text, now);
    return FinishAll(TrialStatus::kInfrastructure, text, anything_delivered_ ? std::nullopt : std::optional(Err(text)),
                     now);
  }
  Continue(now);
}

ClientActions ClientSession::On(const From& from, const Message& message, int64_t now) {
  Advance(now);
  // What a party may not send, it has not sent: there is nobody to tell.
  if (RefusalOf(from, message)) return Take();
  if (from.roles.Has(Role::kTracker)) {
    OnTracker(message, now);
  } else {
    OnServer(message, now);
  }
  return Take();
}

void ClientSession::OnTracker(const Message& message, int64_t now) {
  const bool ours = request_ && message.request == request_->id;
  if (ours) request_->last_answer = now;
  if (auto* granted = message.As<LeaseGranted>()) {
    OnGranted(*granted, ours, now);
  } else if (auto* queued = message.As<LeaseQueued>()) {
    if (ours) ReportWait(*queued, now);
  } else if (auto* renewed = message.As<LeaseRenewed>()) {
    OnRenewed(message.request, *renewed, now);
  } else if (auto* refusal = message.As<Refusal>()) {
    OnTrackerRefusal(message.request, *refusal, now);
  } else if (auto* ping = message.As<Ping>()) {
    actions_.push_back(AskTracker{{message.request, Pong{ping->payload}, {}}});
  }
}

void ClientSession::OnGranted(const LeaseGranted& granted, bool ours, int64_t now) {
  if (lease_ && lease_->granted.lease == granted.lease) return;
  if (!ours) {  // the grant answers a request that was withdrawn since
    actions_.push_back(AskTracker{{options_.new_id(), LeaseRelease{granted.lease}, {}}});
    return;
  }
  if (!options_.fits(granted)) return OnUnfit(granted, now);
  request_.reset();
  lost_.clear();
  lease_ = Lease{granted, now, now, now, {}, {}, false};
  actions_.push_back(ConnectServer{granted.device->AllEndpoints(), granted.device->public_key});
  idle_since_ = now;
  Continue(now);
}

// Gives a device back that the client cannot use, and asks for another one.
void ClientSession::OnUnfit(const LeaseGranted& granted, int64_t now) {
  actions_.push_back(AskTracker{{options_.new_id(), LeaseRelease{granted.lease}, {}}});
  const int64_t began = request_->began;
  if (std::ranges::find(unfit_, granted.server) == unfit_.end()) {
    if (unfit_.size() == kMostUnfit) unfit_.erase(unfit_.begin());
    unfit_.push_back(granted.server);
    return RequestLease(began, now);
  }
  // The tracker knows no unfit servers, or there are more than a request can name.
  const int64_t later = now + options_.unfit_pause_ms;
  request_ = Request{options_.new_id(), began, later - options_.resend_ms, later, {}, later};
}

void ClientSession::OnRenewed(const Id& request, const LeaseRenewed& renewed, int64_t now) {
  if (!lease_ || !lease_->renewals.count(request)) return;
  lease_->renewals.clear();
  if (!renewed.yield || lease_->yield) return;
  lease_->yield = true;
  if (batch_) {
    CancelBatch(now);
  } else if (!job_ && !call_) {
    GiveBack(true);
  }
}

void ClientSession::OnTrackerRefusal(const Id& request, const Refusal& refusal, int64_t now) {
  if (lease_ && lease_->renewals.count(request)) {
    if (refusal.code == code::kLeaseLost) Lost("the tracker ended the lease: " + refusal.text, now);
    return;
  }
  if (!request_ || request != request_->id) return;
  const int64_t began = request_->began;
  request_.reset();
  if (!job_ && !call_) return;
  if (refusal.code == code::kLeaseLost) {
    // The lease was granted and expired before we heard of it: request another for the rest of the wait.
    RequestLease(began, now);
  } else if (call_) {
    FailCall(refusal.text, now);
  } else {
    FinishAll(TrialStatus::kInfrastructure, refusal.text,
              anything_delivered_ ? std::nullopt : std::optional(Err(refusal.text)), now);
  }
}

ClientActions ClientSession::OnTrackerConnected(int64_t now) {
  Advance(now);
  if (request_) SendRequest(now);
  if (lease_) lease_->last_renew = now - options_.renew_ms;
  return Take();
}

// --- The server ------------------------------------------------------------------------------------------------------

void ClientSession::SendBeat(int64_t now) {
  lease_->last_beat = now;
  ClientBeat beat{Claim(), batch_ && batch_->accepted ? batch_->message.request : Id()};
  actions_.push_back(AskServer{{options_.new_id(), std::move(beat), {}}});
}

ClientActions ClientSession::OnServerConnected(int64_t now) {
  Advance(now);
  if (!lease_) return Take();
  if (batch_ && !batch_->accepted) {
    SendBatch(now);
  } else if (call_) {
    SendCallsAgain(now);
  } else {
    SendBeat(now);
  }
  return Take();
}

ClientActions ClientSession::OnUploadsConnected(int64_t now) {
  Advance(now);
  if (lease_) SendLink(now);
  return Take();
}

ClientActions ClientSession::OnServerDisconnected(int64_t now) {
  Advance(now);
  if (!lease_) return Take();
  lease_->broken = true;
  lease_->last_heard = std::min(lease_->last_heard, now + options_.reconnect_ms - LongestSilence());
  return Take();
}

void ClientSession::OnResult(const Message& message, const ResultReport& report, int64_t now) {
  actions_.push_back(AskServer{{options_.new_id(), ResultAck{message.request, report.result.candidate}, {}}});
  if (!batch_ || batch_->message.request != message.request) return;
  if (!batch_->waiting.erase(report.result.candidate) && Holds(Rule::kAnswersOnce)) return;
  batch_->accepted = true;
  TrialStatus status = report.result.status;
  if (status == TrialStatus::kDeviceError) {
    // The candidate stays unanswered and goes to another device, unless two devices have failed while they ran it.
    batch_->device_failed = true;
    const bool ran = report.result.started > 0;
    if (ran && ++device_errors_[report.result.candidate] == kMostDeviceErrors && Holds(Rule::kThirdDevice))
      DeliverResult(report.result);
  } else if (status == TrialStatus::kCancelled && !cancelled_) {
    lease_->yield = true;  // the server has cancelled it, since the device goes to a client that waits
  } else {
    losses_ = 0;
    anything_delivered_ = true;
    DeliverResult(report.result);
  }
  if (!batch_->waiting.empty()) return;
  bool device_failed = batch_->device_failed;
  batch_.reset();
  if (device_failed) return Lost("the device failed: " + report.result.error, now);
  Continue(now);
}

void ClientSession::OnServer(const Message& message, int64_t now) {
  if (!lease_) return;
  lease_->last_heard = now;
  lease_->heard = true;
  lease_->minor = message.minor;
  lease_->broken = false;
  if (auto* report = message.As<ResultReport>()) {
    OnResult(message, *report, now);
  } else if (message.As<CallReply>()) {
    OnCallReply(message, now);
  } else if (message.As<MeasureAccepted>()) {
    if (batch_ && batch_->message.request == message.request && !batch_->accepted) {
      batch_->accepted = true;
      batch_->accepted_at = now;
      lease_->references_sent.insert(job_->task.reference_hash);
    }
  } else if (auto* beat = message.As<ServerBeat>()) {
    OnServerWait(beat->waits, now);
    // The server accepted this batch long ago, but works on another batch or none. So the server was restarted at this
    // endpoint and does not know the batch: send it again.
    if (batch_ && batch_->accepted && beat->batch != batch_->message.request &&
        now - batch_->accepted_at > 2 * options_.resend_ms) {
      batch_->accepted = false;
      SendBatch(now);
    }
  } else if (auto* pull = message.As<UploadPull>()) {
    OnPull(message.request, *pull);
  } else if (auto* refusal = message.As<Refusal>()) {
    OnServerRefusal(message.request, *refusal, now);
  } else if (auto* ping = message.As<Ping>()) {
    actions_.push_back(AskServer{{message.request, Pong{ping->payload}, {}}});
  }
}

void ClientSession::OnServerRefusal(const Id& request, const Refusal& refusal, int64_t now) {
  const bool about_batch = batch_ && batch_->message.request == request;
  const bool ended = refusal.code == code::kStaleLease || refusal.code == code::kLeaseLost;
  if (ended || refusal.code == code::kForbidden) {  // the latter from servers before 2.5 that were restarted
    Lost(refusal.text, now);
  } else if (IsOfCall(request) && refusal.code == code::kNeedContent && !call_->whole) {
    // A package that the server lacks a piece of, it mostly lacks all of.
    call_->whole = true;
    SendCallsAgain(now);
  } else if (IsOfCall(request)) {
    FailCall("the device server refused the call: " + refusal.text, now);
  } else if (about_batch && refusal.code == code::kNeedReference && job_->reference) {
    lease_->references_sent.erase(job_->task.reference_hash);
    batch_.reset();
    Continue(now);
  } else if (about_batch) {
    FinishAll(TrialStatus::kInfrastructure, "the device server refused the batch: " + refusal.text, std::nullopt, now);
  }
}

}  // namespace autotune::rpc
