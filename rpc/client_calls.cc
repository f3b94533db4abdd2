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

void ClientSession::SendCall(int64_t now) {
  call_->last_sent = now;
  const CallWork& work = call_->work;
  Message message{call_->request, Call{Claim(), work.session, work.number, work.seconds, work.exclusive}, {work.body}};
  actions_.push_back(AskServer{std::move(message)});
}

void ClientSession::OnCallReply(const Message& message, int64_t now) {
  const CallReply& reply = *message.As<CallReply>();
  if (!call_ || call_->work.session != reply.session || call_->work.number != reply.number) return;
  if ((reply.status == TrialStatus::kOk) != (message.blobs.size() == 1))
    return FailCall("the device server answered with a malformed message", now);
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
