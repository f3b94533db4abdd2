// How a device server keeps a device that has failed from measuring, and when it tries the device again.
#include <algorithm>
#include <iterator>

#include "rpc/rules.h"
#include "rpc/server_session.h"

namespace autotune::rpc {
namespace {

// Waits before the probes. They grow from failure to failure, until a candidate has succeeded. [chosen]
constexpr int64_t kProbeWaitsMs[] = {1000, 5000, 30000, 300000};
constexpr int64_t kProbeMs = 30000;  // deadline of a probe; a GPU's driver may take 20 s to start

}  // namespace

void ServerSession::Quarantine(std::string why, int64_t now) {
  if (why.empty()) why = "the device has failed";  // an empty reason would be no fault
  const size_t last = std::size(kProbeWaitsMs) - 1;
  const int64_t wait = kProbeWaitsMs[std::min(device_failures_++, last)];
  if (!quarantine_) ReportEvent(FarmEvent::Kind::kQuarantined, why);
  quarantine_ = Quarantined{.why = why, .next_probe = now + wait};
  SendReport(now);  // before the client gives the device back
}

void ServerSession::StartProbe(int64_t now) {
  if (!Holds(Rule::kProbes)) return EndQuarantine(now);
  if (!FreshenRunner()) return;
  quarantine_->probe = options_.new_run();
  quarantine_->deadline = now + kProbeMs;
  actions_.push_back(StartCandidate{{"", RunnerProbe{*quarantine_->probe}, {}}});
}

// Returns true if the active runner has run no candidate, which could answer in its place. Else replaces it.
bool ServerSession::FreshenRunner() {
  if (runner_client_.empty()) return true;
  actions_.push_back(KillRunner{"a probe needs a runner that has run no candidate"});
  runner_ready_ = false;
  return false;
}

bool ServerSession::MayProbe() const {
  const bool busy = (batch_ && batch_->running) || (calls_ && calls_->run) || (calibrating_ && calibrating_->run);
  return quarantine_ && !quarantine_->slow && !quarantine_->probe && runner_ready_ && !busy;
}

void ServerSession::OnProbeDeadline(int64_t now) {
  actions_.push_back(KillRunner{"deadline of a probe"});
  runner_ready_ = false;
  Quarantine("a small kernel took longer than " + std::to_string(kProbeMs / 1000) + " s", now);
}

void ServerSession::OnProbed(const RunnerResult& result, int64_t now) {
  if (result.last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
  if (result.result.status != TrialStatus::kOk) return Quarantine(result.result.error, now);
  EndQuarantine(now);
}

void ServerSession::EndQuarantine(int64_t now) {
  quarantine_.reset();
  ReportEvent(FarmEvent::Kind::kRecovered, "");
  next_report_ = now;
}

}  // namespace autotune::rpc
