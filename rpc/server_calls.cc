// How a device server carries out a client's calls: one at a time, in a runner that runs nothing else.
#include <cmath>

#include "rpc/check_measure.h"
#include "rpc/content_hash.h"
#include "rpc/rules.h"
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
  const bool is_same = calls_ && calls_->session == call.session;
  if (is_same) {
    const int64_t answered = call.answered < 0 ? call.number - 1 : call.answered;
    calls_->replies.erase(calls_->replies.begin(), calls_->replies.upper_bound(answered));
  }
  if (is_same && calls_->number >= call.number && Holds(Rule::kCallsOnce)) {
    const auto reply = calls_->replies.find(call.number);
    if (reply != calls_->replies.end()) actions_.push_back(ToPeer{from.peer, reply->second});
    return;  // else it is open, or this is a late copy
  }
  if (batch_ && !batch_->IsDone()) return refuse(code::kUnexpected, "a batch is being measured");
  const bool goes_on = is_same && (calls_->number + 1 == call.number || !Holds(Rule::kCallsOnce));
  if (!goes_on && call.number != 1) return refuse(code::kUnexpected, "there is no such session of calls");
  if (!goes_on && calls_ && !calls_->open.empty()) return refuse(code::kUnexpected, "another call has not ended yet");
  if (!goes_on) calls_ = Calls{.session = call.session};
  const int64_t left_out = call.left_out ? call.content_bytes : 0;
  if (static_cast<int64_t>(calls_->open.size() + calls_->replies.size()) >= kMostOpenCalls ||
      calls_->KeptBytes() + TotalBytes(message.blobs) + left_out > kMostOpenBytes)
    return refuse(code::kTooLarge, "too many calls without a reply");
  Message whole = message;
  if (!TakeContent(call, whole.blobs[0])) return refuse(code::kNeedContent, "send the content " + call.content);
  calls_->number = call.number;
  calls_->open.push_back(std::move(whole));
  StartCall(now);
}

// Keeps the content of a call or, if it is left out, adds it to the body. Returns false if it is not here. Each client
// has its own contents, so nobody learns from them what others have sent.
bool ServerSession::TakeContent(const Call& call, Blob& body) {
  if (call.content.empty()) return true;
  const auto bytes = static_cast<size_t>(call.content_bytes);
  if (call.left_out) {
    const Blob content = options_.find_content ? options_.find_content(lease_->identity, call.content) : nullptr;
    if (!content || content->size() != bytes) return false;
    body = MakeBlob(std::string(*body) + std::string(*content));
    return true;
  }
  const std::string_view content = body->substr(body->size() - bytes);
  if (options_.keep_content && ContentHash(content) == call.content)
    options_.keep_content(lease_->identity, call.content, content);
  return true;
}

int64_t ServerSession::Calls::KeptBytes() const {
  int64_t bytes = 0;
  for (const Message& message : open) bytes += TotalBytes(message.blobs);
  for (const auto& [number, reply] : replies) bytes += TotalBytes(reply.blobs);
  return bytes;
}

// Starts the first open call, once there are a runner and, for an exclusive call, the host.
void ServerSession::StartCall(int64_t now) {
  if (!calls_ || calls_->open.empty() || calls_->run) return;
  const Call& call = calls_->First();
  if (std::string why = WhyNoMore(); !why.empty())
    return EndCall({.status = TrialStatus::kCancelled, .error = std::move(why)}, now);
  if (!Fault().empty()) return EndCall({.status = TrialStatus::kDeviceError, .error = Fault()}, now);
  const std::string owner = OwnerOf(calls_->session);
  if (call.number > 1 && runner_client_ != owner && Holds(Rule::kCallsEnd))
    return EndCall({.status = TrialStatus::kRunCrashed, .error = "the process of the earlier calls has ended"}, now);
  if (call.exclusive && !calls_->wants_host) {
    if (calibrating_ && !calibrating_->run) calibrating_.reset();  // it comes after the lease
    calls_->wants_host = true;
    calls_->wants_since = now;
    calls_->unlocked.clear();
    host_holders_.clear();
    actions_.push_back(AcquireHost{});
  }
  if (!runner_ready_ || calibrating_ || (call.exclusive && !calls_->host_held)) return;
  if (!runner_client_.empty() && runner_client_ != owner && Holds(Rule::kCallRunner)) {
    actions_.push_back(KillRunner{"a session of calls begins"});
    runner_ready_ = false;
    return;
  }
  runner_client_ = owner;
  calls_->run = options_.new_run();
  calls_->deadline = now + static_cast<int64_t>(std::ceil(call.seconds * 1000));
  std::vector<Blob> blobs = std::exchange(calls_->open.front().blobs, {});
  actions_.push_back(StartCandidate{{"", RunnerCall{*calls_->run}, std::move(blobs)}});
}

void ServerSession::OnCallDone(const Message& message, int64_t now) {
  const RunnerResult& done = *message.As<RunnerResult>();
  if (done.last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
  const TrialStatus status = done.result.status;
  if (status == TrialStatus::kOk) device_failures_ = 0;
  if (status == TrialStatus::kDeviceError) Quarantine(done.result.error, now);
  if (status != TrialStatus::kOk) return EndCall(done.result, now);
  if (CheckCallBlobs(message.blobs))
    return EndCall({.status = TrialStatus::kRunCrashed, .error = "the process has answered with a malformed message"},
                   now);
  if (calls_->KeptBytes() + TotalBytes(message.blobs) > kMostOpenBytes)
    return EndCall(
        {.status = TrialStatus::kOutOfMemory, .error = "the replies that the client lacks take too much memory"}, now);
  EndCall(done.result, now, message.blobs);
}

// Ends the first open call.
void ServerSession::EndCall(const TrialResult& result, int64_t now, std::vector<Blob> blobs) {
  const Call& call = calls_->First();
  CallReply reply{.session = call.session, .number = call.number, .status = result.status, .error = result.error};
  if (call.exclusive) reply.disturbed = DisturbanceOf(result, calls_->unlocked);
  Message message{calls_->open.front().request, std::move(reply), std::move(blobs)};
  actions_.push_back(ToPeer{lease_->peer, message});
  calls_->replies.emplace(call.number, std::move(message));
  calls_->run.reset();
  calls_->open.pop_front();
  ReleaseAfterCall();
  ++trials_["calls"];
  StartCall(now);
}

void ServerSession::ReleaseAfterCall() {
  calls_->host_held = false;
  if (std::exchange(calls_->wants_host, false)) ReleaseUnlessCalibrating();
}

void ServerSession::OnCallDeadline(int64_t now) {
  actions_.push_back(KillRunner{"deadline of a call"});
  runner_ready_ = false;
  runner_client_.clear();  // the session has no process any more
  EndCall({.status = TrialStatus::kRunTimedOut, .error = "the call took longer than it may"}, now);
}

// Handles the end of the active runner. Between two calls of a session, its end makes the device useless to the client.
void ServerSession::OnCallRunnerEnd(const RunnerEnd& end, int64_t now) {
  if (!calls_ || (!calls_->run && runner_client_ != OwnerOf(calls_->session))) return;
  if (calls_->open.empty()) return DropLease("the process of the client's calls " + end.text, now);
  // The first open call runs, or waits for the host.
  const TrialStatus status = end.out_of_memory ? TrialStatus::kOutOfMemory : TrialStatus::kRunCrashed;
  EndCall({.status = status, .error = "the process " + end.text}, now);
}

// Says for whom a call waits that measures; empty if it does not wait, or not for long.
std::string ServerSession::WaitOfCall(int64_t now) const {
  constexpr int64_t kUntoldMs = 2000;
  if (!calls_ || !calls_->wants_host || calls_->host_held || now - calls_->wants_since < kUntoldMs) return "";
  return host_holders_.empty() ? "others measure on the device's host" : host_holders_;
}

void ServerSession::DropCalls(const std::string& why) {
  if (!calls_) return;
  // The process ends with its session. It may have threads, and much memory.
  if (runner_ready_ && runner_client_ == OwnerOf(calls_->session)) {
    actions_.push_back(KillRunner{why});
    runner_ready_ = false;
  }
  ReleaseAfterCall();
  calls_.reset();
}

}  // namespace autotune::rpc
