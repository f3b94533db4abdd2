// ServerSession: the logic of a device server as a pure state machine. It checks leases and their fencing tokens, works
// on one batch at a time, hands the candidates to the runner one by one with deadlines, and keeps results until they
// are acknowledged. It knows no socket, process or clock: inputs come with the time, outputs are actions for the driver
// (rpc/server.cc, or a simulator). The runner makes the measurement itself. Not thread-safe.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rpc/farm_event.h"
#include "rpc/from.h"
#include "rpc/message.h"
#include "rpc/timers.h"
#include "rpc/upload.h"

namespace autotune::rpc {

struct ToPeer {
  Peer peer;
  Message message;
};
struct ToTracker {
  Message message;
};
struct AcquireHost {    // take a turn on the host or its GPU (rpc/host_turn.h); the driver answers with OnHostAcquired
  bool patient = true;  // false: only if the lock is free
};
struct ReleaseHost {};
struct StartCandidate {  // send to the active runner; the driver answers with OnRunnerMessage or OnRunnerEnd
  Message request;       // a RunnerRequest with its blobs
  // A RunnerAhead, to be sent first; without blobs: nothing is.
  Message ahead = {};
};
struct KillRunner {  // kill the active runner; the driver answers with OnRunnerReady once another is active
  std::string reason;
};
struct ExamineRunner {  // ask the operating system about the active runner; the driver answers with OnRunnerExamined
  int64_t run = 0;      // the run for which the session asks
};
// A FarmEvent is for the operator's log and the books, a CandidateEvent for the books only.
using ServerAction = std::variant<ToPeer, ToTracker, AcquireHost, ReleaseHost, StartCandidate, KillRunner,
                                  ExamineRunner, FarmEvent, CandidateEvent>;
using ServerActions = std::vector<ServerAction>;

// How a runner ended.
struct RunnerEnd {
  std::string text;  // "was ended by signal 11 (Segmentation fault): last words on standard error"
  int signal = 0;
  bool out_of_memory = false;  // probably killed by the operating system for lack of memory
};

// What the operating system knows about a runner. Times are since its start.
struct RunnerFacts {
  bool stopped = false;   // by a signal or a debugger, at present
  double cpu_ms = 0;      // processor time of all its threads
  double waited_ms = 0;   // time in which its threads were ready to run but had no processor
  double stopped_ms = 0;  // time in which something had stopped it; short stops may count 0.1 s more than they last
};

class ServerSession : public Timed<ServerSession> {
 public:
  struct Options {
    Id server, incarnation;
    DeviceInfo device;
    int64_t resend_ms = 1000;
    int64_t remember_ms = 60000;         // time for which finished batches are remembered
    int64_t reference_bytes = 64 << 20;  // limit of the cache of reference artifacts
    int64_t output_bytes = 512 << 20;    // limit of the cache of the references' outputs
    Intake::Options uploads;
    // For the proofs that authenticated clients must give; empty: no client is authenticated.
    std::string grant_key;
    // Numbers of runs. They cannot be guessed, so no candidate can announce the result of a later one.
    std::function<int64_t()> new_run = RandomNumber;
    // Returns why the device is slow, by the times of a calibration; empty if it is as usual; nothing if these times
    // say nothing. Null: no calibrations.
    std::function<std::optional<std::string>(const std::vector<double>&)> judge_calibration = {};
    int ahead = 0;  // artifacts of later candidates that a runner gets at once, to load them beside a candidate
    int64_t idle_exit_ms = 0;  // time without a lease after which the session ends; 0: it does not
    // Returns and keeps what clients send with calls (rpc/content_store.h). Null: nothing is kept.
    std::function<Blob(const std::string& owner, const std::string& hash)> find_content = {};
    std::function<void(const std::string& owner, const std::string& hash, std::string_view bytes)> keep_content = {};
  };
  explicit ServerSession(Options options) : options_(std::move(options)) {}

  // `now` is in milliseconds and never goes back. A message of the tracker is one whose sender has its role.
  ServerActions On(const From& from, const Message& message, int64_t now);
  ServerActions OnTrackerConnected(int64_t now);
  // `unlocked`: why the turn has no lock; empty: it has.
  ServerActions OnHostAcquired(const std::string& unlocked, int64_t now);
  // Who has the host's lock while the session waits for it.
  void OnHostWait(const std::string& holders) { host_holders_ = holders; }
  // The load of other processes beside the measurements from now on (HostLoad::Text); empty: none.
  void OnHostLoad(const std::string& load) { host_load_ = load; }
  // What the runner says of its device beside the CPU.
  void SetGpu(const GpuDescription& gpu) { options_.device.gpu = gpu; }
  ServerActions OnRunnerReady(int64_t now);
  ServerActions OnRunnerMessage(const Message& message, int64_t now);
  ServerActions OnRunnerEnd(const RunnerEnd& end, int64_t now);
  ServerActions OnRunnerExamined(int64_t run, const RunnerFacts& facts, int64_t now);
  // No runner can be started; OnRunnerReady may still follow.
  ServerActions OnRunnersUnavailable(const std::string& why, int64_t now);
  // Ends the session as soon as the candidate or call that runs has ended and its client has the results.
  ServerActions OnShutdown(int64_t now);
  ServerActions EndNow(int64_t now);
  // The tracker has been told that the server ends. Nothing more happens.
  bool HasEnded() const { return has_ended_; }
  // Returns why the session ends or has ended; empty: it does not.
  std::string WhyLeaving() const { return leaving_ ? leaving_->why : ""; }

  bool Busy() const { return lease_.has_value(); }
  // Of references, their outputs and the artifacts of the batch, but for those in shared memory.
  int64_t KeptBytes() const;

 private:
  friend class Timed<ServerSession>;
  struct Lease {
    LeaseClaim claim;
    std::string identity;  // of the client
    Peer peer;             // sender of the client's latest message
    Peer uploads;          // the client's connection for chunks; empty: there is none
    int64_t began = 0, expires = 0;
    bool yield = false;  // the tracker wants the device back: no further candidate starts
  };
  struct Running {
    int64_t run = 0;
    RunnerPhase phase = RunnerPhase::kLoad;
    int64_t started = 0, phase_began = 0, deadline = 0, started_wall = 0;
    bool outputs_kept = false;
    bool ahead = false;  // the runner loads artifacts of later candidates beside this one, until kTime
    // A runner is examined soon after its phase began and at the deadline. What it did in between shows who is to
    // blame.
    enum class Examined { kNever, kOnce, kTwice } asked = Examined::kNever;
    std::optional<std::pair<int64_t, RunnerFacts>> earlier;  // time and facts of the first examination
    int64_t extended = 0;  // part of the deadline that makes up for the time in which the runner could not run

    // An examination costs 50 us of a processor. Most candidates end before it.
    int64_t ExaminedAt() const { return phase_began + std::min<int64_t>(50, (deadline - phase_began) / 2); }
  };
  struct Quarantined {
    std::string why;
    int64_t next_probe = 0;
    bool slow = false;             // by a calibration: the next ones take the place of probes
    std::optional<int64_t> probe;  // number of the probe that runs
    int64_t deadline = 0;          // of that probe
  };
  struct Calibrating {
    std::optional<int64_t> run;  // number of the probe; none while the session waits for the host
    int64_t deadline = 0;        // of the probe
  };
  struct Leaving {
    std::string why;
    int64_t since = 0;
    std::optional<int64_t> farewell;  // latest end, once nothing runs any more
  };
  struct Tries {       // of a candidate
    int failures = 0;  // runs that failed without an outside cause
    int spared = 0;    // runs that something else than the candidate ended
  };
  struct Unacknowledged {
    TrialResult result;
    int64_t last_sent = 0;
  };
  struct Batch {
    Id id;
    MeasureRequest request;
    Blob reference;  // null: none, or it is uploaded
    std::vector<Blob> artifacts;
    std::optional<Intake> intake;  // of artifacts and reference; none: they are here
    // Indices of candidates in the order in which they run. A candidate that failed is appended once more. From
    // their number on, each entry is such a repetition, alone in a fresh runner.
    std::vector<size_t> order;
    size_t next = 0;  // index in `order`
    std::vector<Tries> tries;
    bool host_held = false;
    std::string unlocked;   // why the host is held without its lock; empty: with it
    std::string cancelled;  // why no further candidate starts; empty if they do
    int reference_failures = 0;
    std::string broken_reference;  // why candidates with a check cannot be measured; empty if they can
    std::optional<Running> running;
    // The artifacts that the active runner has got, by index. A runner that was lost while it loaded ahead ends that
    // for the rest of the batch.
    std::set<int> at_runner;
    bool loads_ahead = true;
    std::map<std::string, Unacknowledged> unacknowledged;

    bool IsDone() const { return next == order.size(); }
    const Candidate& Current() const { return request.candidates[order[next]]; }
    Tries& TriesOfCurrent() { return tries[order[next]]; }
    bool RunsAlone() const { return next >= request.candidates.size(); }
    int64_t Unfinished() const { return static_cast<int64_t>(order.size() - next); }
  };
  struct Calls {  // of one session
    Id session;
    int64_t number = 0;          // of the latest call
    std::deque<Message> open;    // calls without a reply, in order; the first one runs if `run` is set
    std::optional<int64_t> run;  // of the call that runs
    int64_t deadline = 0;        // of this run
    // The first open call measures: it has asked for the host, and got it.
    bool wants_host = false, host_held = false;
    int64_t wants_since = 0;
    std::string unlocked;                // why the host is held without its lock; empty: with it
    std::map<int64_t, Message> replies;  // by number, as long as the client may lack them

    const Call& First() const { return *open.front().As<Call>(); }
    int64_t KeptBytes() const;
  };
  // Lists of blobs by key. If they exceed the limit, the least recently used lists are dropped.
  class Cache {
   public:
    const std::vector<Blob>* Find(const std::string& key);
    void Put(const std::string& key, std::vector<Blob> blobs, int64_t limit);
    int64_t bytes() const;

   private:
    struct Entry {
      std::string key;
      std::vector<Blob> blobs;
      int64_t bytes;
    };
    std::vector<Entry> entries_;  // most recently used last
  };

  // Returns true if a claim of an authenticated client has the proof that the tracker granted it to this client's key.
  bool IsProven(const From& from, const LeaseClaim& claim) const;
  // Returns true if the claim holds the device; a claim with a higher token takes it over. Otherwise sends a refusal.
  bool CheckClaim(const From& from, const LeaseClaim& claim, const Id& request, int64_t now);
  void OnMeasure(const From& from, const Message& message, int64_t now);
  void TakeBlobs(std::vector<Blob> blobs);
  void OnAck(const Peer& peer, const ResultAck& ack, int64_t now);
  void OnBeat(const From& from, const Id& request, const ClientBeat& beat, int64_t now);
  void OnReportReply(const ReportReply& reply, int64_t now);
  // The key of the reference's outputs. They come from a runner in which the client's own code runs, so each client has
  // its own.
  std::string OutputsKey() const { return CachedReference(ReferenceKey(batch_->request.task)); }
  // The key of a reference. Its hash is quick to compute, but not safe against a client that wants to make another
  // artifact with the same hash, so each client has its own.
  std::string CachedReference(const std::string& hash) const {
    return lease_->identity + "/" + lease_->claim.client + "/" + hash;
  }
  void Advance(int64_t now);
  EarliestTimer<ServerSession> Earliest() const;
  void OnFirstExamination(int64_t now);
  void OnDeadline(int64_t now);
  void JudgeDeadline(const RunnerFacts& facts, int64_t now);
  void OnLeaseExpired(int64_t now) { DropLease("the lease expired", now); }
  void ResendResults(int64_t now);
  void StartNext(int64_t now);
  void BookRun(CandidateEvent::Kind kind, std::string_view status);  // of the current candidate
  void EndRun(std::string_view status);                              // of the current candidate, if it runs
  void CancelBatch(const std::string& why, int64_t now);
  void OnProgress(RunnerPhase phase, int64_t now);
  void Finish(TrialResult result, int64_t now);
  void FinishRunning(TrialStatus status, std::string error, int64_t now);
  void FinishOrRepeat(TrialResult result, int64_t now);
  void RepeatLater(int64_t now);
  bool SpareRunning(int64_t now);
  Message ArtifactsAhead(int64_t run);
  bool RepeatWithoutAhead(int64_t now);
  void EndByDeviceError(TrialResult result, int64_t now);
  // Makes the next failure of the current candidate count.
  void ChargeNextFailure() { batch_->TriesOfCurrent().failures = 1; }
  // Returns why other processes may have changed the times of a result; empty if they did not.
  // `unlocked`: why the measurement had no lock of the host.
  const std::string& DisturbanceOf(const TrialResult& result, const std::string& unlocked) const;
  TrialResult ResultOfRunning(TrialStatus status, std::string error, int64_t now) const;
  void SendResult(Unacknowledged& result, int64_t now);
  void DropBatch(const std::string& why);
  void DropLease(const std::string& why, int64_t now);  // the lease is lost
  void EndLease(FarmEvent::Kind kind, const std::string& why, int64_t now);
  void Happened(FarmEvent::Kind kind, const std::string& why, int64_t now);  // to the present lease
  void ReportEvent(FarmEvent::Kind kind, const std::string& why);            // about the device
  // --- Quarantine (rpc/server_quarantine.cc) ---
  void Quarantine(std::string why, int64_t now);
  bool FreshenRunner();
  bool MayProbe() const;
  void StartProbe(int64_t now);
  void OnProbeDeadline(int64_t now);
  void OnProbed(const RunnerResult& result, int64_t now);
  void EndQuarantine(int64_t now);
  bool IsProbe(int64_t run) const { return quarantine_ && quarantine_->probe == run; }
  // --- Calibration (rpc/server_calibration.cc) ---
  bool MayCalibrate() const;
  void StartCalibration(int64_t now);
  void CalibrateNow(const std::string& unlocked, int64_t now);
  void OnCalibrationDeadline(int64_t now);
  void OnCalibrated(const RunnerResult& result, int64_t now);
  void EndCalibration(int64_t now);
  void CalibrateAfterLease(int64_t now);
  // Gives the host up, unless a calibration still needs it.
  void ReleaseUnlessCalibrating();
  bool IsCalibration(int64_t run) const { return calibrating_ && calibrating_->run == run; }
  // ---
  // --- Calls (rpc/server_calls.cc) ---
  void OnCall(const From& from, const Message& message, int64_t now);
  bool TakeContent(const Call& call, Blob& body);
  void StartCall(int64_t now);
  void OnCallDone(const Message& message, int64_t now);
  void EndCall(const TrialResult& result, int64_t now, std::vector<Blob> blobs = {});
  void ReleaseAfterCall();
  void OnCallRunnerEnd(const RunnerEnd& end, int64_t now);
  std::string WaitOfCall(int64_t now) const;
  void OnCallDeadline(int64_t now);
  std::string OwnerOf(const Id& session) const;  // what a session puts in the place of a client
  void DropCalls(const std::string& why);
  bool IsCall(int64_t run) const { return calls_ && calls_->run == run; }
  // --- Uploads (rpc/server_upload.cc) ---
  void OnUploadLink(const From& from, const Id& request, const UploadLink& link, int64_t now);
  void OnUploadChunk(const Peer& peer, const Message& message, int64_t now);
  void BeginUpload(int64_t now);
  void OnUploadStalled(int64_t now);
  void SendPulls(const std::vector<UploadPull>& pulls);
  // ---
  // --- The end (rpc/server_leave.cc) ---
  void OnIdle(int64_t now);
  void BeginToLeave(const std::string& why, int64_t now);
  int64_t LeavesAt() const;
  bool OwesResults() const;
  void Leave(int64_t now);
  void End(int64_t now);
  // ---
  // Returns why nothing more starts for the lease; empty if it does.
  std::string WhyNoMore() const;
  // Returns why the device measures nothing; empty if it can.
  const std::string& Fault() const { return quarantine_ && unavailable_.empty() ? quarantine_->why : unavailable_; }
  // ---
  void SendReport(int64_t now);
  void Answer(const From& from, const Id& request, Body body);
  void Refuse(const Peer& peer, const Id& request, std::string code, std::string text);
  ServerActions Take() { return std::exchange(actions_, {}); }

  Options options_;
  ServerActions actions_;
  Token highest_;
  std::optional<Lease> lease_;
  std::string ended_;                                                         // why the latest lease that has ended did
  std::shared_ptr<MemoryShelf> shelf_ = MemoryShelf::Make(kMostPackedBytes);  // for uploads, while the lease lasts
  std::optional<Batch> batch_;
  std::optional<Calls> calls_;
  StoppedTime stopped_;
  std::map<Id, int64_t> finished_;  // batch -> time at which its last result was acknowledged
  // The latest refused batches. Their clients may have sent the same candidates in another batch since, which a late
  // copy must not undo.
  std::deque<std::pair<Id, Refusal>> refused_;
  Cache references_;  // hash -> reference artifact
  Cache outputs_;     // OutputsKey -> outputs of the reference
  bool runner_ready_ = false;
  std::string runner_reference_;  // ReferenceKey of the reference that the active runner holds
  std::string unavailable_;       // why there is no runner
  std::string host_load_, host_holders_;
  std::optional<Quarantined> quarantine_;
  std::optional<Calibrating> calibrating_;
  int64_t next_calibration_ = 0;
  std::optional<int64_t> calibrated_;  // time of the latest calibration
  size_t device_failures_ = 0;         // since a candidate last succeeded
  // The client whose candidates the active runner has run, or the session of its calls (rpc/server_calls.cc); empty:
  // none. They may have changed the runner, so it must not measure for others.
  Id runner_client_;
  std::optional<Leaving> leaving_;
  bool has_ended_ = false;
  std::optional<int64_t> idle_since_;  // end of the latest lease, or the first input
  int64_t next_report_ = 0, report_interval_ = 1000;
  std::map<std::string, int64_t> trials_;
  std::string last_error_;
  std::string unreachable_;  // ReportReply::unreachable of the latest one
  int64_t tracker_epoch_ = 0;
};

}  // namespace autotune::rpc
