// How a client has a call carried out: it gets a device for the first call of a session, and repeats the call until it
// is answered.
#include "rpc/client_session.h"

namespace autotune::rpc {

ClientActions ClientSession::StartCall(CallWork call, int64_t now) {
  Advance(now);
  CHECK(!job_ && !call_) << "one call at a time";
  losses_ = 0;
  call_ = OpenCall{.work = std::move(call), .request = options_.new_id()};
  ContinueCall(now);
  return Take();
}

void ClientSession::ContinueCall(int64_t now) {
  if (lease_ && lease_->yield) GiveBack(true);
  if (lease_) return SendCall(now);
  if (call_->work.number > 1)
    return FailCall("the device, which others waited for, or its connection was lost between two calls", now);
  if (!request_) RequestLease(now, now);
}

int64_t ClientSession::CallEnds() const {
  // A call may wait for the host's lock, and for a runner to start. [chosen]
  constexpr int64_t kPatienceMs = 90000;
  if (!call_->began) return kNever;
  return *call_->began + static_cast<int64_t>(call_->work.seconds * 1000) + kPatienceMs;
}

void ClientSession::OnCallOverdue(int64_t now) {
  GiveBack(true);
  FailCall("the device server does not answer the call", now);
}

void ClientSession::SendCall(int64_t now) {
  call_->last_sent = now;
  if (!call_->began) call_->began = now;
  const CallWork& work = call_->work;
  Message message{call_->request, Call{Claim(), work.session, work.number, work.seconds, work.exclusive}, {work.body}};
  actions_.push_back(AskServer{std::move(message)});
}

void ClientSession::OnCallReply(const Message& message, int64_t now) {
  const CallReply& reply = *message.As<CallReply>();
  if (!call_ || call_->work.session != reply.session || call_->work.number != reply.number) return;
  if ((reply.status == TrialStatus::kOk) != (message.blobs.size() == 1))
    return FailCall("the device server answered with a malformed message", now);
  // Nothing is lost yet if the first call cannot run: it goes to another device.
  const bool is_first = reply.number == 1;
  if (is_first && reply.status == TrialStatus::kDeviceError) return Lost("the device failed: " + reply.error, now);
  if (is_first && reply.status == TrialStatus::kCancelled) {
    GiveBack(true);
    call_->began.reset();
    return ContinueCall(now);
  }
  call_.reset();
  idle_since_ = now;
  actions_.push_back(CallDone{{}, reply, message.blobs.empty() ? nullptr : message.blobs[0]});
  if (lease_->yield) GiveBack(true);
}

void ClientSession::FailCall(const std::string& why, int64_t now) {
  call_.reset();
  idle_since_ = now;
  actions_.push_back(CallDone{Err(why), {}, nullptr});
}

}  // namespace autotune::rpc
