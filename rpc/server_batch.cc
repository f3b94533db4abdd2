// How a device server works on a batch: it starts one candidate after the other, applies their deadlines, and decides
// what each outcome means.
#include "rpc/server_session.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "rpc/channel.h"
#include "rpc/rules.h"
#include "support/clock.h"

namespace autotune::rpc {
namespace {

constexpr int kMostSpared = 2;  // reruns of a candidate whose runner was killed or stopped from outside
// A deadline grows by the time in which its runner waited for a processor or was stopped, at most by this many times
// its length. A runner that needs more gets less than a quarter of the time, so it cannot measure anything. [chosen]
constexpr int64_t kMostExtended = 3;
// Share of the time in which a runner that computes until its deadline has run, of the time in which it could. One that
// ran less slept. [chosen]
constexpr double kBusyShare = 0.5;
constexpr int64_t kLeastExaminedMs = 50;  // the kernel counts processor time in ticks of up to 10 ms
// Tries of a reference. A lack of memory or time may be temporary, so it gets a second try, in a fresh runner.
constexpr int kReferenceTries = 2;

int64_t Millis(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1000)); }

std::string SecondsText(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

// Returns true if a runner's word for a failure may be due to an earlier candidate in this runner.
bool MayBeAnothersFault(TrialStatus status) {
  return status == TrialStatus::kWrongAnswer || status == TrialStatus::kRunCrashed ||
         status == TrialStatus::kOutOfMemory;
}

}  // namespace

ServerActions ServerSession::OnHostAcquired(const std::string& unlocked, int64_t now) {
  Advance(now);
  if (batch_ && !batch_->IsDone() && !batch_->intake) {
    batch_->host_held = true;
    batch_->unlocked = unlocked;
    StartNext(now);
  } else if (calls_ && calls_->wants_host && !calls_->run) {
    calls_->host_held = true;
    calls_->unlocked = unlocked;
    StartCall(now);
  } else if (calibrating_ && !calibrating_->run) {
    CalibrateNow(unlocked, now);
  } else {
    actions_.push_back(ReleaseHost{});
  }
  return Take();
}

ServerActions ServerSession::OnRunnerReady(int64_t now) {
  Advance(now);
  runner_ready_ = true;
  runner_reference_.clear();
  runner_client_.clear();
  if (batch_) batch_->at_runner.clear();
  bool was_unavailable = !unavailable_.empty();
  unavailable_.clear();
  if (was_unavailable) next_report_ = now;
  if (batch_ && !batch_->running) StartNext(now);
  StartCall(now);
  return Take();
}

ServerActions ServerSession::OnRunnersUnavailable(const std::string& why, int64_t now) {
  Advance(now);
  runner_ready_ = false;
  unavailable_ = why;
  next_report_ = now;
  if (quarantine_ && quarantine_->probe) Quarantine(why, now);
  if (calibrating_ && calibrating_->run) EndCalibration(now);
  if (batch_) StartNext(now);
  StartCall(now);
  return Take();
}

void ServerSession::StartNext(int64_t now) {
  while (batch_ && !batch_->running && !batch_->IsDone()) {
    const Candidate& candidate = batch_->Current();
    TrialResult result;
    result.candidate = candidate.id;
    bool checks = candidate.check && batch_->reference;
    if (!batch_->cancelled.empty()) {
      result.status = TrialStatus::kCancelled;
      result.error = batch_->cancelled;
    } else if (!Fault().empty() && Holds(Rule::kEndsBatch)) {
      result.status = TrialStatus::kDeviceError;
      result.error = Fault();
    } else if (checks && !batch_->broken_reference.empty()) {
      result.status = TrialStatus::kInfrastructure;
      result.error = batch_->broken_reference;
    } else {
      break;
    }
    Finish(std::move(result), now);
  }
  if (!batch_ || batch_->running || batch_->IsDone() || batch_->intake) return;
  if (!batch_->host_held || !runner_ready_ || calibrating_) return;
  const Candidate& candidate = batch_->Current();
  const bool is_fresh = runner_client_.empty();
  const bool alone = batch_->RunsAlone() && Holds(Rule::kFreshRunner);
  if (!is_fresh && (alone || (runner_client_ != lease_->claim.client && Holds(Rule::kOwnRunner)))) {
    actions_.push_back(KillRunner{alone ? "a candidate is repeated alone" : "it has served another client"});
    runner_ready_ = false;
    return;
  }
  runner_client_ = lease_->claim.client;
  const int64_t run = options_.new_run();
  RunnerRequest request{run, batch_->request.task, candidate};
  Message message{batch_->id, request, {batch_->artifacts[static_cast<size_t>(candidate.blob)]}};
  std::string key = ReferenceKey(batch_->request.task);
  if (candidate.check && batch_->reference && runner_reference_ != key) {
    message.blobs.push_back(batch_->reference);
    if (const std::vector<Blob>* outputs = outputs_.Find(OutputsKey())) {
      message.blobs.insert(message.blobs.end(), outputs->begin(), outputs->end());
    }
  }
  batch_->running = Running{.run = run,
                            .started = now,
                            .phase_began = now,
                            .deadline = now + Millis(candidate.load_seconds),
                            .started_wall = WallMillis()};
  Message ahead = ArtifactsAhead(run);
  batch_->running->ahead = !ahead.blobs.empty();
  actions_.push_back(StartCandidate{std::move(message), std::move(ahead)});
  BookRun(CandidateEvent::Kind::kBegan, "");
}

// Returns the artifacts of the candidates after the current one; none if the runner has that of the next one already,
// or if the current candidate runs alone.
Message ServerSession::ArtifactsAhead(int64_t run) {
  Message message{batch_->id, RunnerAhead{run}, {}};
  if (!batch_->loads_ahead || batch_->RunsAlone()) return message;
  batch_->at_runner.insert(batch_->Current().blob);
  const std::vector<Candidate>& candidates = batch_->request.candidates;
  int64_t bytes = 0;
  for (size_t i = batch_->next + 1; i < candidates.size(); ++i) {
    const int blob = candidates[i].blob;
    if (batch_->at_runner.contains(blob)) {
      if (message.blobs.empty()) break;
      continue;
    }
    const Blob& artifact = batch_->artifacts[static_cast<size_t>(blob)];
    bytes += static_cast<int64_t>(artifact->size());
    if (std::ssize(message.blobs) == options_.ahead || bytes > kMaxBatchBytes) break;
    batch_->at_runner.insert(blob);
    message.blobs.push_back(artifact);
  }
  return message;
}

void ServerSession::BookRun(CandidateEvent::Kind kind, std::string_view status) {
  actions_.push_back(CandidateEvent{.kind = kind,
                                    .client = lease_->claim.client,
                                    .candidate = batch_->Current().id,
                                    .server = options_.server,
                                    .lease = lease_->claim.lease,
                                    .status = std::string(status)});
}

void ServerSession::EndRun(std::string_view status) {
  if (!batch_->running) return;
  BookRun(CandidateEvent::Kind::kEnded, status);
  batch_->running.reset();
}

// Starts no further candidate of the batch. The running one ends normally.
void ServerSession::CancelBatch(const std::string& why, int64_t now) {
  batch_->cancelled = why;
  StartNext(now);
}

void ServerSession::SendResult(Unacknowledged& result, int64_t now) {
  result.last_sent = now;
  actions_.push_back(ToPeer{lease_->peer, {batch_->id, ResultReport{result.result}, {}}});
}

// Records the result of the current candidate and sends it.
void ServerSession::Finish(TrialResult result, int64_t now) {
  EndRun(ToText(result.status));
  ++trials_[std::string(ToText(result.status))];
  if (result.status != TrialStatus::kOk && result.status != TrialStatus::kCancelled) last_error_ = result.error;
  if (result.status == TrialStatus::kOk) device_failures_ = 0;
  result.server = options_.server.substr(0, 16);
  result.device = options_.device.key + "/" + options_.server.substr(0, 8);
  auto& slot = batch_->unacknowledged[result.candidate];
  slot.result = std::move(result);
  ++batch_->next;
  SendResult(slot, now);
  if (!batch_->IsDone()) return;
  batch_->intake.reset();
  if (std::exchange(batch_->host_held, false)) ReleaseUnlessCalibrating();
}

const std::string& ServerSession::DisturbanceOf(const TrialResult& result, const std::string& unlocked) const {
  if (!unlocked.empty()) return unlocked;
  return result.disturbed.empty() ? host_load_ : result.disturbed;
}

TrialResult ServerSession::ResultOfRunning(TrialStatus status, std::string error, int64_t now) const {
  TrialResult result;
  result.candidate = batch_->Current().id;
  result.status = status;
  result.error = std::move(error);
  result.started = batch_->running->started_wall;
  result.elapsed = static_cast<double>(now - batch_->running->started) / 1000;
  return result;
}

// Runs the current candidate once more, after all others, and starts the next one.
void ServerSession::RepeatLater(int64_t now) {
  EndRun("");
  batch_->order.push_back(batch_->order[batch_->next]);
  ++batch_->next;
  StartNext(now);
}

// Finishes the current candidate, which failed, and starts the next one. The first failure is not charged: an earlier
// candidate may have damaged the runner, or another process disturbed it.
void ServerSession::FinishOrRepeat(TrialResult result, int64_t now) {
  if (batch_->TriesOfCurrent().failures++ == 0 && Holds(Rule::kRepeats)) return RepeatLater(now);
  Finish(std::move(result), now);
  StartNext(now);
}

// Repeats the running candidate, whose runner something else ended or stopped. Returns false if that has happened too
// often.
bool ServerSession::SpareRunning(int64_t now) {
  if (batch_->TriesOfCurrent().spared == kMostSpared || !Holds(Rule::kSpares)) return false;
  ++batch_->TriesOfCurrent().spared;
  RepeatLater(now);
  return true;
}

// Starts the running candidate again, whose runner was lost, if artifacts of later candidates may be the cause. They
// are not loaded ahead any more, so each candidate fails in its own turn. Returns false if they are not the cause.
bool ServerSession::RepeatWithoutAhead(int64_t now) {
  const Running& running = *batch_->running;
  if (!running.ahead || running.phase >= RunnerPhase::kTime) return false;
  batch_->loads_ahead = false;
  EndRun("");
  StartNext(now);
  return true;
}

// Ends the batch, since the device has failed. The client sends the rest of it to another device.
void ServerSession::EndByDeviceError(TrialResult result, int64_t now) {
  Quarantine(result.error, now);
  Finish(std::move(result), now);
  StartNext(now);
}

// Finishes the running candidate with an error, or repeats it, and starts the next one. If it was the reference that
// failed, and it has a try left, starts the candidate again instead, in a fresh runner.
void ServerSession::FinishRunning(TrialStatus status, std::string error, int64_t now) {
  TrialResult result = ResultOfRunning(status, std::move(error), now);
  if (batch_->running->phase == RunnerPhase::kReference) {
    // The reference is at fault, not the candidate. After its last try, the rest of the batch fails as well; another
    // batch tries the reference again.
    if (++batch_->reference_failures < kReferenceTries) {
      if (std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"the reference kernel failed"});
      EndRun("");
      return StartNext(now);
    }
    result.status = TrialStatus::kInfrastructure;
    result.error = "the reference kernel failed: " + result.error;
    batch_->broken_reference = result.error;
    Finish(std::move(result), now);
    return StartNext(now);
  }
  FinishOrRepeat(std::move(result), now);
}

// Accepts only later phases: a candidate that has corrupted its runner must not get a new deadline by a repeated phase.
void ServerSession::OnProgress(RunnerPhase phase, int64_t now) {
  Running& running = *batch_->running;
  if (phase <= running.phase || (phase > RunnerPhase::kRun && !running.ahead)) return;
  const Candidate& candidate = batch_->Current();
  running.phase = phase;
  running.phase_began = now;
  running.deadline = now + Millis(phase == RunnerPhase::kReference ? batch_->request.task.reference_seconds
                                  : phase == RunnerPhase::kAhead   ? candidate.load_seconds
                                                                   : candidate.run_seconds);
  running.asked = Running::Examined::kNever;
  running.earlier.reset();
  running.extended = 0;
  if (phase == RunnerPhase::kRun) {
    bool checks = candidate.check && batch_->reference;
    runner_reference_ = checks ? ReferenceKey(batch_->request.task) : "";
  }
}

ServerActions ServerSession::OnRunnerMessage(const Message& message, int64_t now) {
  Advance(now);
  if (auto* probed = message.As<RunnerResult>(); probed && IsProbe(probed->run)) {
    OnProbed(*probed, now);
    return Take();
  }
  if (auto* done = message.As<RunnerResult>(); done && IsCalibration(done->run)) {
    OnCalibrated(*done, now);
    return Take();
  }
  if (auto* done = message.As<RunnerResult>(); done && IsCall(done->run)) {
    OnCallDone(message, now);
    return Take();
  }
  if (!batch_ || !batch_->running) return Take();
  Running& running = *batch_->running;
  const auto is_present = [&](int64_t run) { return run == running.run || !Holds(Rule::kFreshRuns); };
  if (auto* progress = message.As<RunnerProgress>(); progress && is_present(progress->run)) {
    OnProgress(progress->phase, now);
  } else if (auto* outputs = message.As<RunnerReference>(); outputs && is_present(outputs->run)) {
    const bool in_time = running.phase == RunnerPhase::kReference || !Holds(Rule::kPhases);
    const bool expected = in_time && !std::exchange(running.outputs_kept, true);
    if (expected && OutputsFit(message.blobs)) {
      outputs_.Put(OutputsKey(), message.blobs, options_.output_bytes);
    }
  } else if (auto* done = message.As<RunnerResult>(); done && is_present(done->run)) {
    if (done->last && std::exchange(runner_ready_, false)) actions_.push_back(KillRunner{"its device has failed"});
    const TrialStatus status = done->result.status;
    if (running.phase == RunnerPhase::kReference && status != TrialStatus::kOk && status != TrialStatus::kDeviceError) {
      FinishRunning(status, done->result.error, now);
      return Take();
    }
    TrialResult result = done->result;
    result.candidate = batch_->Current().id;
    result.started = running.started_wall;
    result.elapsed = static_cast<double>(now - running.started) / 1000;
    if (!result.times.empty()) result.disturbed = DisturbanceOf(result, batch_->unlocked);
    if (MayBeAnothersFault(status)) {
      FinishOrRepeat(std::move(result), now);
      return Take();
    }
    if (status == TrialStatus::kDeviceError) {
      EndByDeviceError(std::move(result), now);
      return Take();
    }
    Finish(std::move(result), now);
    StartNext(now);
  }
  return Take();
}

ServerActions ServerSession::OnRunnerEnd(const RunnerEnd& end, int64_t now) {
  Advance(now);
  runner_ready_ = false;
  if (quarantine_ && quarantine_->probe) Quarantine("during a probe, the runner " + end.text, now);
  if (calibrating_ && calibrating_->run) EndCalibration(now);
  OnCallRunnerEnd(end, now);
  if (!batch_ || !batch_->running) return Take();
  if (RepeatWithoutAhead(now)) return Take();
  bool loading = batch_->running->phase == RunnerPhase::kLoad;
  TrialStatus status = loading ? TrialStatus::kLoadFailed : TrialStatus::kRunCrashed;
  if (end.signal == SIGILL) status = TrialStatus::kIllegalInstruction;
  if (end.out_of_memory) status = TrialStatus::kOutOfMemory;
  // Another process on this host has killed the runner. An out-of-memory kill is not spared like this: the operating
  // system counts its kills but does not name the killed processes, and the candidate is the likeliest cause.
  if (end.signal == SIGKILL && !end.out_of_memory) {
    if (SpareRunning(now)) return Take();
    ChargeNextFailure();
  }
  FinishRunning(status, "the runner " + end.text, now);
  return Take();
}

// --- Deadlines -------------------------------------------------------------------------------------------------------

void ServerSession::OnFirstExamination(int64_t /*now*/) {
  batch_->running->asked = Running::Examined::kOnce;
  actions_.push_back(ExamineRunner{batch_->running->run});
}

void ServerSession::OnDeadline(int64_t /*now*/) {
  batch_->running->asked = Running::Examined::kTwice;
  actions_.push_back(ExamineRunner{batch_->running->run});
}

ServerActions ServerSession::OnRunnerExamined(int64_t run, const RunnerFacts& facts, int64_t now) {
  Advance(now);
  if (!batch_ || !batch_->running || batch_->running->run != run) return Take();
  Running& running = *batch_->running;
  if (running.asked == Running::Examined::kNever) return Take();  // asked in an earlier phase
  if (!running.earlier) {
    running.earlier = {now, facts};
  } else if (running.asked == Running::Examined::kTwice) {
    JudgeDeadline(facts, now);
  }
  return Take();
}

// Ends the running candidate, which has missed its deadline, or extends the deadline by the time in which the runner
// could not run. `facts` are those of now.
void ServerSession::JudgeDeadline(const RunnerFacts& facts, int64_t now) {
  Running& running = *batch_->running;
  const auto& [since, earlier] = *running.earlier;
  const auto elapsed_ms = static_cast<double>(now - since);
  const double cpu_ms = facts.cpu_ms - earlier.cpu_ms;
  // Several threads may wait at once, even for each other. While one of them runs, the candidate goes on.
  const double waited_ms = std::max(0.0, std::min(facts.waited_ms - earlier.waited_ms, elapsed_ms - cpu_ms));
  const double stopped_ms = std::max(0.0, std::min(facts.stopped_ms - earlier.stopped_ms, elapsed_ms - waited_ms));
  const int64_t missing = static_cast<int64_t>(waited_ms + stopped_ms) - running.extended;
  const bool held_up = missing >= kLeastExaminedMs && Holds(Rule::kSpares);
  const int64_t length = running.deadline - running.extended - running.phase_began;
  const int64_t more = std::min(missing, kMostExtended * length - running.extended);
  if (held_up && !facts.stopped && more > 0) {
    running.extended += more;
    running.deadline = now + more;
    running.asked = Running::Examined::kOnce;
    return;
  }
  actions_.push_back(KillRunner{"deadline"});
  runner_ready_ = false;
  if (RepeatWithoutAhead(now)) return;
  if (held_up || (facts.stopped && Holds(Rule::kSpares))) {
    const bool stopped = facts.stopped || stopped_ms > waited_ms;
    if (stopped && SpareRunning(now)) return;
    std::string why = stopped ? "something stops the runner again and again" : "the runner gets no processor";
    return EndByDeviceError(ResultOfRunning(TrialStatus::kDeviceError, std::move(why), now), now);
  }
  const double able_ms = elapsed_ms - waited_ms - stopped_ms;
  // A candidate that computed all the time would do so again.
  if (able_ms >= kLeastExaminedMs && cpu_ms >= kBusyShare * able_ms) ChargeNextFailure();
  const Candidate& candidate = batch_->Current();
  switch (running.phase) {
    case RunnerPhase::kLoad:
      return FinishRunning(TrialStatus::kLoadFailed, "loading took longer than " + SecondsText(candidate.load_seconds),
                           now);
    case RunnerPhase::kReference:
      return FinishRunning(TrialStatus::kRunTimedOut,
                           "took longer than " + SecondsText(batch_->request.task.reference_seconds), now);
    case RunnerPhase::kRun:
    case RunnerPhase::kAhead:  // RepeatWithoutAhead has answered this
    case RunnerPhase::kTime:
      return FinishRunning(TrialStatus::kRunTimedOut, "ran longer than " + SecondsText(candidate.run_seconds), now);
  }
}

void ServerSession::ResendResults(int64_t now) {
  for (auto& [id, result] : batch_->unacknowledged) {
    if (now - result.last_sent >= options_.resend_ms) SendResult(result, now);
  }
}

}  // namespace autotune::rpc
