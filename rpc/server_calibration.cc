// When a device server calibrates its device: while nobody has it, and nothing else runs on the host.
#include <algorithm>

#include "rpc/server_session.h"

namespace autotune::rpc {
namespace {

// A calibration takes 0.1 s. At most one a minute takes less than 2 thousandths of the device's time. [chosen]
constexpr int64_t kBetweenCalibrationsMs = 60'000;
constexpr int64_t kIdleCalibrationsMs = 3600'000;  // between the calibrations of a device that nobody uses [chosen]
// Time from the end of a lease to a calibration, in which a client that waits takes the device first. [chosen]
constexpr int64_t kAfterLeaseMs = 1000;
constexpr int64_t kCalibrationMs = 30000;  // deadline; a GPU's driver may take 20 s to start

}  // namespace

bool ServerSession::MayCalibrate() const {
  const bool is_slow = quarantine_ && quarantine_->slow && unavailable_.empty();
  const bool is_idle = !calibrating_ && !lease_ && !batch_ && runner_ready_;
  return options_.judge_calibration && is_idle && (is_slow || Fault().empty());
}

void ServerSession::StartCalibration(int64_t now) {
  if (!FreshenRunner()) return;
  next_calibration_ = now + kIdleCalibrationsMs;
  calibrated_ = now;
  calibrating_ = Calibrating{};
  actions_.push_back(AcquireHost{.patient = false});
}

// Goes on with a calibration that has waited for the host.
void ServerSession::CalibrateNow(const std::string& unlocked, int64_t now) {
  if (!unlocked.empty() || !runner_ready_ || (quarantine_ && !quarantine_->slow)) {
    next_calibration_ = now + kBetweenCalibrationsMs;
    return EndCalibration(now);
  }
  calibrating_->run = options_.new_run();
  calibrating_->deadline = now + kCalibrationMs;
  actions_.push_back(StartCandidate{{"", RunnerProbe{*calibrating_->run, true}, {}}});
}

void ServerSession::ReleaseUnlessCalibrating() {
  if (!calibrating_ || !calibrating_->run) actions_.push_back(ReleaseHost{});
}

// Ends the calibration. A batch or call that has arrived meanwhile keeps the host.
void ServerSession::EndCalibration(int64_t now) {
  calibrating_.reset();
  if (batch_ && !batch_->IsDone()) {
    StartNext(now);
  } else if (!calls_ || !calls_->wants_host) {
    actions_.push_back(ReleaseHost{});
  }
  StartCall(now);
}

void ServerSession::OnCalibrationDeadline(int64_t now) {
  actions_.push_back(KillRunner{"deadline of a calibration"});
  runner_ready_ = false;
  Quarantine("a calibration took longer than " + std::to_string(kCalibrationMs / 1000) + " s", now);
  EndCalibration(now);
}

void ServerSession::OnCalibrated(const RunnerResult& result, int64_t now) {
  if (result.last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
  std::optional<std::string> slow;
  if (result.result.status != TrialStatus::kOk) {
    Quarantine(result.result.error, now);
  } else if (!result.result.times.empty() && options_.judge_calibration) {
    slow = options_.judge_calibration(result.result.times);
  }
  const bool was_slow = quarantine_ && quarantine_->slow;
  if (!slow) {
    // These times say nothing, or a quarantined device waits for a good calibration. So the next one comes soon.
    if (was_slow || !result.result.times.empty()) next_calibration_ = now + kBetweenCalibrationsMs;
  } else if (!slow->empty()) {
    Quarantine("calibration: " + *slow, now);
    quarantine_->slow = true;
    next_calibration_ = quarantine_->next_probe;
  } else if (was_slow) {
    EndQuarantine(now);
  }
  EndCalibration(now);
}

void ServerSession::CalibrateAfterLease(int64_t now) {
  const int64_t soonest = calibrated_ ? *calibrated_ + kBetweenCalibrationsMs : now;
  next_calibration_ = std::max(now + kAfterLeaseMs, std::min(next_calibration_, soonest));
}

}  // namespace autotune::rpc
