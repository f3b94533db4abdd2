// ClientSession gets one device for a tuner and has one job at a time measured on it. It is a pure state machine: it
// handles leases, batches and lost servers, and answers each candidate exactly once. It knows no socket, thread or
// clock: inputs come with the time, outputs are actions for the driver (rpc/client.cc, or a simulator). Not
// thread-safe.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "rpc/farm_event.h"
#include "rpc/from.h"
#include "rpc/message.h"
#include "rpc/timers.h"
#include "rpc/upload.h"

namespace autotune::rpc {

struct AskTracker {
  Message message;
};
struct ConnectServer {  // opens a new connection; the driver must drop messages that arrive over older ones
  std::vector<std::string> endpoints;  // of the server, in the order in which they are tried
  std::string public_key;              // of the server; empty: none
};
struct AskServer {
  Message message;
};
// Opens a second connection to the server, for chunks of uploads. The driver reopens it by itself.
struct ConnectUploads {
  std::vector<std::string> endpoints;
  std::string public_key;
};
struct AskUploads {  // over that connection
  Message message;
};
struct DropServer {};  // closes the connections to the server
struct Deliver {       // passes on a result, exactly once for each candidate of the job
  TrialResult result;
};
struct JobDone {  // follows the last Deliver
  // Set if no device could be had or kept before any candidate was measured, so that other jobs would fail, too. Not
  // set if only this job cannot be measured: a server refuses its batch, or its reference is too large.
  std::optional<Error> error;
};
// Calls of a session (struct Call in rpc/message.h). The first one gets a device. If that is lost, so is the session.
struct CallWork {
  Id session;
  int64_t number = 1;  // of the first of these calls
  int64_t count = 1;   // several are sent ahead of the replies; only one if it is the first of the session
  double seconds = 0;  // longest duration of each
  bool exclusive = false;
  std::function<Blob(int64_t index)> body;  // of each; called again if a call must be sent again
  // Bytes at the end of a body that the server may have from an earlier session of this client, and may keep for later
  // ones. Null: none.
  std::function<int64_t(int64_t index)> content_bytes = nullptr;
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;  // true: the call does not begin; null: it does
};
struct CallReplied {  // once for each call, in order, until one has another status than "ok"
  CallReply reply;
  Blob body;  // null unless the reply's status is "ok"
};
struct CallDone {              // follows the last CallReplied
  std::optional<Error> error;  // set if a call has no reply
};
struct JobWaits {  // reports that the job or call waits for a device
  DeviceWait wait;
};
// A FarmEvent says that the client has lost a lease. scripts/ledger.sh keeps books of such events.
using ClientAction = std::variant<AskTracker, ConnectServer, AskServer, ConnectUploads, AskUploads, DropServer, Deliver,
                                  JobDone, CallReplied, CallDone, JobWaits, FarmEvent>;
using ClientActions = std::vector<ClientAction>;

class ClientSession : public Timed<ClientSession> {
 public:
  struct Options {
    Id client;
    std::string client_name, key, tenant, job;
    int64_t wait_ms = 30 * 60 * 1000;    // longest wait in the queue for a device
    int64_t tracker_silence_ms = 30000;  // longest silence of the tracker while a request is open
    int64_t first_answer_ms = 4000;      // longest wait for a server's first word [chosen]
    int64_t server_silence_ms = 5000;
    int64_t reconnect_ms = 500;  // longest silence of a server whose connection broke; it may listen anew
    int64_t resend_ms = 1000;
    int64_t renew_ms = 3000;
    int64_t beat_ms = 1000;
    int64_t idle_lease_ms = 30000;        // time for which the device is kept between jobs
    int64_t cancel_ms = 15000;            // longest wait for the running candidate of a cancelled job
    int64_t wait_report_ms = 5000;        // time between two reports of an unchanged wait
    int64_t exclude_ms = 60000;           // time for which a lost device is avoided
    int64_t inline_bytes = kInlineBytes;  // of a batch's blobs; larger ones are uploaded
    int64_t unfit_pause_ms = 5000;  // before a tracker is asked again that lends unfit devices (before 2.6) [chosen]
    int max_losses = 5;             // consecutive losses of a device, without a result, after which the job fails
    std::function<Id()> new_id = RandomId;
    // Returns true if the client can use this device. Devices that it cannot use are given back at once.
    std::function<bool(const LeaseGranted& granted)> fits = [](const LeaseGranted&) { return true; };
    // Says why the server of the latest ConnectServer cannot be reached, address by address; "": nothing is known.
    std::function<std::string()> server_trouble = [] { return ""; };
  };
  explicit ClientSession(Options options) : options_(std::move(options)) {}

  // One job or call at a time. A job without candidates gets a device, and is done when it has one.
  ClientActions Start(std::shared_ptr<const MeasureJob> job, int64_t now);
  ClientActions StartCall(CallWork call, int64_t now);
  ClientActions Cancel(int64_t now);  // delivers the candidates that have not begun as "cancelled"
  ClientActions Close(int64_t now);   // gives the device back and cancels the job without waiting
  // A message of the tracker, or of the server of the latest ConnectServer: the sender's role tells which.
  ClientActions On(const From& from, const Message& message, int64_t now);
  ClientActions OnTrackerConnected(int64_t now);
  ClientActions OnServerConnected(int64_t now);
  ClientActions OnServerDisconnected(int64_t now);
  ClientActions OnUploadsConnected(int64_t now);

  bool HasJob() const { return job_ != nullptr; }
  bool HasLease() const { return lease_.has_value(); }
  const DeviceInfo& Device() const { return *lease_->granted.device; }  // the one that it has

 private:
  friend class Timed<ClientSession>;
  struct Request {  // an open request for a lease
    Id id;
    int64_t began = 0, last_sent = 0, last_answer = 0;
    std::optional<LeaseQueued> reported;  // the tracker's answer behind the latest report
    int64_t last_report = 0;
  };
  struct Lease {
    LeaseGranted granted;
    int64_t last_renew = 0, last_beat = 0, last_heard = 0;
    std::set<Id> renewals;  // request ids of unanswered renewals
    std::set<std::string> references_sent;
    bool uploads = false;  // there is a connection for uploads
    bool yield = false;    // the tracker wants the device back
    bool broken = false;   // the connection broke, and the server has not been heard since
    bool heard = false;    // the server has sent something
    int minor = 0;         // of the server's wire version; 0: it has sent nothing
    // The time of the latest upload_link, if no pull has come since.
    std::optional<int64_t> link_sent;
  };
  struct OpenCall {
    struct Sent {
      Id request;
      int64_t at = 0;
    };
    CallWork work;
    int64_t replied = 0;         // calls with a reply, from the first one on
    std::deque<Sent> sent = {};  // the calls after these
    int64_t at_a_time = 1;       // most calls without a reply
    int64_t last_sent = 0;
    std::optional<int64_t> began = {};  // since when the present device has had the first call without a reply
    std::string told = {};              // ServerBeat::waits that was passed on
    bool whole = false;                 // the server lacks a content, so the rest is sent with theirs

    int64_t Next() const { return replied + static_cast<int64_t>(sent.size()); }  // index of the call to be sent next
  };
  struct Batch {
    Message message;
    std::vector<Blob> packed;       // PackedParts of the blobs, if they are uploaded
    std::set<std::string> waiting;  // candidates without a result
    bool accepted = false, device_failed = false;
    int64_t last_sent = 0, accepted_at = 0, last_cancel = 0;
  };

  void Advance(int64_t now);
  // --- Timers ---
  EarliestTimer<ClientSession> Earliest() const;
  void OnSilentTracker(int64_t now);
  void ReportSilentTracker(int64_t now);
  void OnSilentServer(int64_t now);
  void Renew(int64_t now);
  void OnCancelTimeout(int64_t now);
  void OnIdle(int64_t now);
  // ---
  void RequestLease(int64_t began, int64_t now);
  void Withdraw();
  void ReportWait(const LeaseQueued& queued, int64_t now);
  void CancelBatch(int64_t now);
  void SendRequest(int64_t now);
  void SendBatch(int64_t now);
  // --- Batches (rpc/client_batch.cc) ---
  bool RefuseTooLarge(int64_t now);
  void MakeBatch();
  void SendLink(int64_t now);
  void OnPull(const Id& batch, const UploadPull& pull);
  // ---
  // --- Calls (rpc/client_calls.cc) ---
  void ContinueCall(int64_t now);
  void SendCalls(int64_t now);
  void SendCallsAgain(int64_t now);
  void LeaveOutContent(int64_t index, Call& call, Blob& body) const;
  void OnCallReply(const Message& message, int64_t now);
  void FailCall(const std::string& why, int64_t now);
  void OnServerWait(const std::string& waits, int64_t now);
  bool IsOfCall(const Id& request) const;
  int64_t CallEnds() const;  // when the client gives the call up
  void OnCallOverdue(int64_t now);
  // ---
  void RefuseCandidate(size_t index, std::string text);
  void Continue(int64_t now);
  void SendBeat(int64_t now);
  // `unreachable`: why the server could not be reached, if it could not.
  void GiveBack(bool politely, const std::string& unreachable = "");
  void Lost(const std::string& why, int64_t now, const std::string& unreachable = "");
  void FinishAll(TrialStatus status, const std::string& text, std::optional<Error> error, int64_t now);
  void DeliverResult(TrialResult result);
  void OnTracker(const Message& message, int64_t now);
  void OnGranted(const LeaseGranted& granted, bool ours, int64_t now);
  void OnUnfit(const LeaseGranted& granted, int64_t now);
  void OnRenewed(const Id& request, const LeaseRenewed& renewed, int64_t now);
  void OnTrackerRefusal(const Id& request, const Refusal& refusal, int64_t now);
  void OnServer(const Message& message, int64_t now);
  void OnServerRefusal(const Id& request, const Refusal& refusal, int64_t now);
  void OnResult(const Message& message, const ResultReport& report, int64_t now);
  LeaseClaim Claim() const;
  int64_t LongestSilence() const { return lease_->heard ? options_.server_silence_ms : options_.first_answer_ms; }
  ClientActions Take() { return std::exchange(actions_, {}); }

  Options options_;
  ClientActions actions_;
  std::shared_ptr<const MeasureJob> job_;
  std::unordered_map<std::string, size_t> index_;  // candidate -> its place in the job
  std::vector<bool> answered_;
  std::unordered_map<std::string, int> device_errors_;  // candidate -> device errors in its runs
  size_t unanswered_ = 0;
  bool anything_delivered_ = false;
  std::optional<int64_t> cancelled_;  // time of Cancel
  std::optional<Request> request_;
  std::optional<Lease> lease_;
  std::optional<Batch> batch_;
  std::optional<OpenCall> call_;
  std::string lost_;  // why the latest lease was lost
  std::vector<Id> exclude_;
  std::vector<Id> unfit_;  // servers whose devices do not fit
  int64_t excluded_at_ = 0;
  int losses_ = 0;
  StoppedTime stopped_;
  int64_t idle_since_ = 0;
};

}  // namespace autotune::rpc
