// How a device server ends. It first finishes what it runs for a client, so that no result is lost.
#include "rpc/server_session.h"
#include "support/clock_text.h"

namespace autotune::rpc {
namespace {

// Time that a client has to acknowledge the last results, or to give the device back after the reply to its last call.
// A result that was lost is sent again after a second, and a link may break for some seconds. [chosen]
constexpr int64_t kFarewellMs = 10000;

}  // namespace

ServerActions ServerSession::OnShutdown(int64_t now) {
  Advance(now);
  BeginToLeave("the server is shutting down", now);
  return Take();
}

ServerActions ServerSession::EndNow(int64_t now) {
  Advance(now);
  if (!leaving_) leaving_ = Leaving{.why = "the server is shutting down", .since = now};
  End(now);
  return Take();
}

void ServerSession::OnIdle(int64_t now) { BeginToLeave("no lease for " + LastingText(options_.idle_exit_ms), now); }

// Starts nothing more. The candidate or call that runs ends normally. The rest of the batch goes back to the client,
// which has another device measure it.
void ServerSession::BeginToLeave(const std::string& why, int64_t now) {
  if (leaving_) return;
  leaving_ = Leaving{.why = why, .since = now};
  if (lease_) SendReport(now);  // before the client gives the device back, so that the tracker grants it to nobody
  if (batch_) CancelBatch(why, now);
  StartCall(now);  // or cancels it
  if (LeavesAt() <= now) Leave(now);
}

// Returns when Leave is due: as soon as nothing runs for a client any more, and once more at the end of the farewell.
int64_t ServerSession::LeavesAt() const {
  if (!leaving_ || has_ended_ || (batch_ && !batch_->IsDone()) || (calls_ && !calls_->open.empty())) return kNever;
  return OwesResults() && leaving_->farewell ? *leaving_->farewell : leaving_->since;
}

// Returns whether the client may lack a result or a reply.
bool ServerSession::OwesResults() const { return batch_ || (calls_ && !calls_->replies.empty()); }

void ServerSession::Leave(int64_t now) {
  if (!OwesResults() || leaving_->farewell) return End(now);
  leaving_->farewell = now + kFarewellMs;
}

void ServerSession::End(int64_t now) {
  if (has_ended_) return;
  if (lease_) DropLease(leaving_->why, now);
  actions_.push_back(ToTracker{{"", ServerGoodbye{options_.server, options_.incarnation}, {}}});
  has_ended_ = true;
}

}  // namespace autotune::rpc
