// How a client has calls carried out: it gets a device for the first call of a session, and repeats calls until they
// are answered. It sends as many ahead of their replies as are answered within about a second, so that beats and a
// cancel do not wait for long behind them (the rule of rpc/upload.h).
#include <algorithm>

#include "rpc/client_session.h"
#include "rpc/content_hash.h"
#include "rpc/peer_text.h"

namespace autotune::rpc {

ClientActions ClientSession::StartCall(CallWork call, int64_t now) {
  Advance(now);
  CHECK(!job_ && !call_) << "one call at a time";
  CHECK(call.count == 1 || call.number > 1) << "the first call of a session comes alone";
  losses_ = 0;
  call_ = OpenCall{.work = std::move(call)};
  ContinueCall(now);
  return Take();
}

void ClientSession::ContinueCall(int64_t now) {
  if (lease_ && lease_->yield) GiveBack(true);
  if (lease_) return SendCalls(now);
  if (call_->work.number > 1) {
    return FailCall(lost_.empty() ? "the device went to others, who waited for it" : "the device was lost: " + lost_,
                    now);
  }
  if (!request_) RequestLease(now, now);
}

int64_t ClientSession::CallEnds() const {
  // A call may wait for the host's lock, and for a runner to start. [chosen]
  constexpr int64_t kPatienceMs = 90000;
  if (!call_->began) return kNever;
  return *call_->began + static_cast<int64_t>(call_->work.seconds * 1000) + kPatienceMs;
}

void ClientSession::OnCallOverdue(int64_t now) { FailCall("the device server does not answer the call", now); }

// Sends further calls, as many as may be without a reply.
void ClientSession::SendCalls(int64_t now) {
  if (!call_->began) call_->began = now;
  const CallWork& work = call_->work;
  for (; static_cast<int64_t>(call_->sent.size()) < call_->at_a_time && call_->Next() < work.count;) {
    const int64_t index = call_->Next(), answered = work.number + call_->replied - 1;
    Call call{Claim(), work.session, work.number + index, work.seconds, work.exclusive, answered};
    Blob body = work.body(index);
    if (work.content_bytes && lease_->minor >= kContentMinor) LeaveOutContent(index, call, body);
    call_->last_sent = now;
    call_->sent.push_back({options_.new_id(), now});
    actions_.push_back(AskServer{{call_->sent.back().request, std::move(call), {std::move(body)}}});
  }
}

// Names the content of a call and, unless the server has turned out to lack such contents, leaves it out of the body.
void ClientSession::LeaveOutContent(int64_t index, Call& call, Blob& body) const {
  call.content_bytes = call_->work.content_bytes(index);
  const size_t rest = body->size() - static_cast<size_t>(call.content_bytes);
  call.content = ContentHash(body->substr(rest));
  call.left_out = !call_->whole;
  if (call.left_out) body = MakeBlob(body->substr(0, rest), body);
}

// Sends the calls without a reply again, beginning with one: they or their replies may be lost, or the link is slow.
void ClientSession::SendCallsAgain(int64_t now) {
  call_->sent.clear();
  call_->at_a_time = 1;
  SendCalls(now);
}

void ClientSession::OnCallReply(const Message& message, int64_t now) {
  constexpr int kSentAhead = 7;                     // minor version of servers that take calls ahead of replies
  constexpr int64_t kFastMs = 500, kSlowMs = 1000;  // [chosen]
  const CallReply& reply = *message.As<CallReply>();
  // Replies come in order. Those to later calls come again once these are repeated.
  if (!call_ || call_->work.session != reply.session || call_->work.number + call_->replied != reply.number) return;
  const bool is_ok = reply.status == TrialStatus::kOk;
  if (is_ok != (message.blobs.size() == 1)) return FailCall("the device server answered with a malformed message", now);
  // Nothing is lost yet if the first call cannot run: it goes to another device.
  const bool is_first = reply.number == 1;
  if (is_first && reply.status == TrialStatus::kDeviceError) return Lost("the device failed: " + reply.error, now);
  if (is_first && reply.status == TrialStatus::kCancelled) {
    GiveBack(true);
    call_->began.reset();
    call_->sent.clear();
    return ContinueCall(now);
  }
  ++call_->replied;
  if (!call_->sent.empty()) {
    const int64_t took = now - call_->sent.front().at;
    call_->sent.pop_front();
    if (took < kFastMs && message.minor >= kSentAhead)
      call_->at_a_time = std::min(call_->at_a_time + 1, kMostOpenCalls);
    if (took > kSlowMs) call_->at_a_time = std::max<int64_t>(1, call_->at_a_time - 1);
  }
  actions_.push_back(CallReplied{reply, is_ok ? message.blobs[0] : nullptr});
  if (is_ok && call_->replied < call_->work.count) {
    call_->began = now;
    call_->told.clear();
    return SendCalls(now);
  }
  call_.reset();
  idle_since_ = now;
  actions_.push_back(CallDone{});
  // A session whose process has ended makes no further call.
  if (!is_ok || lease_->yield) GiveBack(true);
}

void ClientSession::OnServerWait(const std::string& waits, int64_t now) {
  constexpr size_t kMostText = 400;  // bytes
  if (!call_ || !call_->began || waits.empty() || call_->told == waits) return;
  call_->told = waits;
  actions_.push_back(JobWaits{{.text = Shown(waits, kMostText), .waited_ms = now - *call_->began, .has_device = true}});
}

bool ClientSession::IsOfCall(const Id& request) const {
  return call_ && std::ranges::find(call_->sent, request, &OpenCall::Sent::request) != call_->sent.end();
}

// Ends the calls and their session, which has no further use for its device.
void ClientSession::FailCall(const std::string& why, int64_t now) {
  if (lease_) GiveBack(true);
  call_.reset();
  idle_since_ = now;
  actions_.push_back(CallDone{Err(why)});
}

}  // namespace autotune::rpc
