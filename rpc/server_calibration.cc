// When a device server calibrates its device: while nobody has it, and nothing else runs on the host.
#include <algorithm>

#include "rpc/server_session.h"

namespace autotune::rpc {
namespace {

// A calibration takes 0.05 s. At most one a minute takes less than a thousandth of the device's time. [chosen]
constexpr int64_t kBetweenCalibrationsMs = 60'000;
constexpr int64_t kIdleCalibrationsMs = 3600'000;  // between the calibrations of a device that nobody uses [chosen]
// Time from the end of a lease to a calibration, in which a client that waits takes the device first. [chosen]
constexpr int64_t kAfterLeaseMs = 1000;
constexpr int64_t kCalibrationMs = 30000;  // deadline; a GPU's driver may take 20 s to start

}  // namespace

bool ServerSession::MayCalibrate() const {
  return options_.judge_calibration && !calibrating_ && !lease_ && !batch_ && runner_ready_ && Fault().empty();
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
  if (!unlocked.empty() || !runner_ready_ || !Fault().empty()) {
    next_calibration_ = now + kBetweenCalibrationsMs;
    return EndCalibration(now);
  }
  calibrating_->run = options_.new_run();
  calibrating_->deadline = now + kCalibrationMs;
  actions_.push_back(StartCandidate{{"", RunnerProbe{*calibrating_->run, true}, {}}});
}

// Ends the calibration. A batch that has arrived meanwhile keeps the host.
void ServerSession::EndCalibration(int64_t now) {
  calibrating_.reset();
  if (batch_) {
    StartNext(now);
  } else {
    actions_.push_back(ReleaseHost{});
  }
}

void ServerSession::OnCalibrationDeadline(int64_t now) {
  actions_.push_back(KillRunner{"deadline of a calibration"});
  runner_ready_ = false;
  Quarantine("a calibration took longer than " + std::to_string(kCalibrationMs / 1000) + " s", now);
  EndCalibration(now);
}

std::string ServerSession::JudgeCalibration(const TrialResult& result) const {
  if (!options_.judge_calibration || result.times.empty()) return "";
  const std::string why = options_.judge_calibration(result.times);
  return why.empty() ? "" : "calibration: " + why;
}

void ServerSession::OnCalibrated(const RunnerResult& result, int64_t now) {
  if (result.last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
  const bool failed = result.result.status != TrialStatus::kOk;
  const std::string why = failed ? result.result.error : JudgeCalibration(result.result);
  if (failed || !why.empty()) Quarantine(why, now);
  EndCalibration(now);
}

void ServerSession::CalibrateAfterLease(int64_t now) {
  const int64_t soonest = calibrated_ ? *calibrated_ + kBetweenCalibrationsMs : now;
  next_calibration_ = std::min(next_calibration_, std::max(now + kAfterLeaseMs, soonest));
}

}  // namespace autotune::rpc
