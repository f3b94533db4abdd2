// How a device server carries out a client's calls: one at a time, in a runner that runs nothing else.
#include <cmath>

#include "rpc/check_measure.h"
#include "rpc/server_session.h"

namespace autotune::rpc {
// A runner that has run calls serves neither candidates nor other sessions.
std::string ServerSession::OwnerOf(const Id& session) const {
  return "session/" + lease_->identity + "/" + lease_->claim.client + "/" + session;
}

void ServerSession::OnCall(const From& from, const Message& message, int64_t now) {
  const Call& call = *message.As<Call>();
  if (!CheckClaim(from, call.claim, message.request, now)) return;
  const auto refuse = [&](std::string code, std::string text) {
    Refuse(from.peer, message.request, std::move(code), std::move(text));
  };
  if (const std::optional<Refusal> refusal = CheckCall(call, message.blobs))
    return refuse(refusal->code, refusal->text);
  if (calls_ && calls_->session == call.session && calls_->number >= call.number) {
    if (calls_->reply && calls_->number == call.number) SendReply();  // else it runs, or this is a late copy
    return;
  }
  if (batch_ && !batch_->IsDone()) return refuse(code::kUnexpected, "a batch is being measured");
  if (calls_ && !calls_->reply) return refuse(code::kUnexpected, "another call has not ended yet");
  const bool goes_on = calls_ && calls_->session == call.session && calls_->number + 1 == call.number;
  if (!goes_on && call.number != 1) return refuse(code::kUnexpected, "there is no such session of calls");
  if (!goes_on) calls_ = Calls{.session = call.session};
  calls_->number = call.number;
  calls_->exclusive = call.exclusive;
  calls_->request = message.request;
  calls_->reply.reset();
  calls_->waiting = message;
  if (call.exclusive) {
    if (calibrating_ && !calibrating_->run) calibrating_.reset();  // it comes after the lease
    actions_.push_back(AcquireHost{});
  }
  StartCall(now);
}

// Starts the call that waits, once there are a runner and, for an exclusive call, the host.
void ServerSession::StartCall(int64_t now) {
  if (!calls_ || !calls_->waiting) return;
  const Call& call = *calls_->waiting->As<Call>();
  if (lease_->yield) return EndCall(TrialStatus::kCancelled, "the device goes to a client that waits");
  if (!Fault().empty()) return EndCall(TrialStatus::kDeviceError, Fault());
  const std::string owner = OwnerOf(calls_->session);
  if (call.number > 1 && runner_client_ != owner)
    return EndCall(TrialStatus::kRunCrashed, "the process of the earlier calls has ended");
  if (!runner_ready_ || calibrating_ || (call.exclusive && !calls_->host_held)) return;
  if (!runner_client_.empty() && runner_client_ != owner) {
    actions_.push_back(KillRunner{"a session of calls begins"});
    runner_ready_ = false;
    return;
  }
  runner_client_ = owner;
  calls_->run = options_.new_run();
  calls_->deadline = now + static_cast<int64_t>(std::ceil(call.seconds * 1000));
  actions_.push_back(StartCandidate{{"", RunnerCall{*calls_->run}, std::move(calls_->waiting->blobs)}});
  calls_->waiting.reset();
}

void ServerSession::OnCallDone(const Message& message, int64_t now) {
  const RunnerResult& done = *message.As<RunnerResult>();
  if (done.last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
  const TrialStatus status = done.result.status;
  if (status == TrialStatus::kOk) device_failures_ = 0;
  if (status == TrialStatus::kDeviceError) Quarantine(done.result.error, now);
  if (status == TrialStatus::kOk && CheckCallBlobs(message.blobs))
    return EndCall(TrialStatus::kRunCrashed, "the process has answered with a malformed message");
  EndCall(status, done.result.error, status == TrialStatus::kOk ? message.blobs : std::vector<Blob>());
}

// Ends the call that runs or waits.
void ServerSession::EndCall(TrialStatus status, std::string error, std::vector<Blob> blobs) {
  CallReply reply{.session = calls_->session, .number = calls_->number, .status = status, .error = std::move(error)};
  if (calls_->exclusive) reply.disturbed = calls_->unlocked.empty() ? host_load_ : calls_->unlocked;
  calls_->run.reset();
  calls_->waiting.reset();
  calls_->reply = Message{calls_->request, std::move(reply), std::move(blobs)};
  if (std::exchange(calls_->exclusive, false)) {
    calls_->host_held = false;
    ReleaseUnlessCalibrating();
  }
  ++trials_["calls"];
  SendReply();
}

void ServerSession::SendReply() { actions_.push_back(ToPeer{lease_->peer, *calls_->reply}); }

void ServerSession::OnCallDeadline(int64_t /*now*/) {
  actions_.push_back(KillRunner{"deadline of a call"});
  runner_ready_ = false;
  EndCall(TrialStatus::kRunTimedOut, "the call took longer than it may");
}

void ServerSession::DropCalls(const std::string& why) {
  if (!calls_) return;
  // The process ends with its session. It may have threads, and much memory.
  if (runner_ready_ && runner_client_ == OwnerOf(calls_->session)) {
    actions_.push_back(KillRunner{why});
    runner_ready_ = false;
  }
  if (calls_->exclusive) ReleaseUnlessCalibrating();
  calls_.reset();
}

}  // namespace autotune::rpc
