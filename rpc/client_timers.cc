// What a client session does as time passes: it repeats requests, renews its lease, and gives up silent parties.
#include "rpc/client_session.h"
#include "rpc/peer_text.h"
#include "rpc/rules.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kQuietTrackerMs = 3000;  // silence of the tracker before it is reported: three unanswered requests
// A call and its reply may take seconds over a slow link, and copies would make it slower. After a break of the
// connection, a call is sent again at once. [chosen]
constexpr int64_t kResendCallMs = 10000;
constexpr char kNoAnswer[] = "the tracker does not answer";

}  // namespace

EarliestTimer<ClientSession> ClientSession::Earliest() const {
  using Self = ClientSession;
  EarliestTimer<Self> timer;
  if (request_) {
    const int64_t patience = std::min(request_->began + options_.wait_ms, request_->last_answer);
    timer.Add(patience + options_.tracker_silence_ms, &Self::OnSilentTracker);
    if (Holds(Rule::kAsksAgain)) timer.Add(request_->last_sent + options_.resend_ms, &Self::SendRequest);
    const int64_t quiet = request_->last_answer + kQuietTrackerMs;
    const bool told = request_->reported && request_->reported->text == kNoAnswer;
    timer.Add(told ? std::max(quiet, request_->last_report + options_.wait_report_ms) : quiet,
              &Self::ReportSilentTracker);
  }
  if (lease_) {
    if (Holds(Rule::kSilentServer)) timer.Add(lease_->last_heard + LongestSilence(), &Self::OnSilentServer);
    timer.Add(lease_->last_renew + options_.renew_ms, &Self::Renew);
    timer.Add(lease_->last_beat + options_.beat_ms, &Self::SendBeat);
    if (call_) timer.Add(call_->last_sent + kResendCallMs, &Self::SendCallsAgain);
    if (call_) timer.Add(CallEnds(), &Self::OnCallOverdue);
    if (!job_ && !call_) timer.Add(idle_since_ + options_.idle_lease_ms, &Self::OnIdle);
  }
  if (batch_ && !batch_->accepted) timer.Add(batch_->last_sent + 2 * options_.resend_ms, &Self::SendBatch);
  // A link may be lost like a batch. Without one, the server has no connection over which it could pull.
  if (batch_ && !batch_->packed.empty() && lease_->link_sent)
    timer.Add(*lease_->link_sent + 2 * options_.resend_ms, &Self::SendLink);
  if (batch_ && (cancelled_ || lease_->yield)) timer.Add(batch_->last_cancel + options_.resend_ms, &Self::CancelBatch);
  if (cancelled_ && job_) timer.Add(*cancelled_ + options_.cancel_ms, &Self::OnCancelTimeout);
  return timer;
}

void ClientSession::OnSilentTracker(int64_t now) {
  request_.reset();
  if (call_) FailCall(kNoAnswer, now);
  if (job_) {
    FinishAll(TrialStatus::kInfrastructure, kNoAnswer,
              anything_delivered_ ? std::nullopt : std::optional(Err(kNoAnswer)), now);
  }
}

void ClientSession::ReportSilentTracker(int64_t now) { ReportWait({0, kNoAnswer, {}}, now); }

void ClientSession::OnSilentServer(int64_t now) {
  const std::string seconds = std::to_string(options_.server_silence_ms / 1000) + " s";
  if (!lease_->heard) {
    const std::string found = options_.server_trouble();
    const std::string at = "no answer from the device server at " +
                           Shown(found.empty() ? lease_->granted.device->endpoint : found, kTextBytes / 4);
    const std::string why =
        at +
        ": this address must lead to it from here; rpc_server --advertise states another one, and ssh -L forwards "
        "one";
    if (job_ || call_) actions_.push_back(JobWaits{{.text = why, .waited_ms = options_.first_answer_ms}});
    return Lost(why, now, at);
  }
  Lost(
      lease_->broken ? "the connection to the device server broke" : "the device server has been silent for " + seconds,
      now);
}

void ClientSession::Renew(int64_t now) {
  constexpr size_t kMostOpen = 16;  // unanswered renewals whose answers are still awaited
  lease_->last_renew = now;
  Id id = options_.new_id();
  if (lease_->renewals.size() >= kMostOpen) lease_->renewals.clear();
  lease_->renewals.insert(id);
  actions_.push_back(AskTracker{{id, LeaseRenew{lease_->granted.lease}, {}}});
}

void ClientSession::OnCancelTimeout(int64_t now) {
  if (lease_) GiveBack(true);
  FinishAll(TrialStatus::kCancelled, "cancelled while it ran", std::nullopt, now);
}

void ClientSession::OnIdle(int64_t /*now*/) { GiveBack(true); }

}  // namespace autotune::rpc
