// FarmClient: the tuner's interface to the measurement farm. It owns a thread with the sockets; its methods block and
// may be called from any thread. Concurrent Measure calls use several devices. The caller of Measure must not hold the
// HostLock, since a device server on this host waits for it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/address.h"
#include "rpc/client_session.h"
#include "rpc/measure.h"
#include "rpc/message.h"
#include "rpc/query_tracker.h"
#include "support/result.h"

namespace autotune::rpc {

struct FarmOptions {
  Address tracker;                 // of a join file (rpc/join_file.h), or an ipc socket
  std::string key;                 // key of the wanted devices
  std::string tenant, job;         // shown in the tracker's status
  double connect_seconds = 5;      // longest wait for the tracker's first answer
  double wait_seconds = 30 * 60;   // longest wait in the queue for a device
  double idle_lease_seconds = 30;  // time for which a device is kept between jobs
};

// The client makes these calls on its own thread, one at a time. A callback must return quickly. Cancel is the only
// method of the client that a callback may call.
struct MeasureCallbacks {
  // Called once for each candidate, when its result arrives.
  std::function<void(const TrialResult&)> on_result = nullptr;
  // Called while the job waits for a device: at the tracker's first answer (or after 3 s without one), whenever the
  // reason, the place in the queue or the holders change (at most once a second), and every 5 s. Not called while the
  // job has a device. A job that loses its device and waits for another is reported again; a job that gets a device at
  // once is never reported.
  std::function<void(const DeviceWait&)> on_wait = nullptr;
};

struct RemoteAnswer {
  CallReply reply;
  Blob body;  // null unless the reply's status is "ok"
};

// Returns the name by which this process is known in a farm: "user@host:pid".
std::string ClientName();

class FarmClient {
 public:
  // Errors: the endpoint is invalid or the key is empty; no tracker answers at the endpoint; the tracker speaks another
  // version of the protocol.
  static Result<std::unique_ptr<FarmClient>> Connect(const FarmOptions& options);
  ~FarmClient();  // cancels the running jobs and gives the devices back
  FarmClient(const FarmClient&) = delete;

  // Waits for a device, and returns what its server states about it. The device is kept for the next job, as between
  // jobs. Errors: no device could be had; the wait was cancelled.
  Result<DeviceInfo> Acquire(std::function<void(const DeviceWait&)> on_wait = nullptr);
  // Gives all devices back and withdraws all requests, for a process that ends at once: Measure and Acquire calls do
  // not return any more. Returns when the tracker has probably heard of it. For any thread but the client's.
  void GiveBack();
  // From now on, jobs get devices only for which this returns true; the client gives others back. Called on the
  // client's thread, also more than once for a device. For an earlier device it is not called.
  void UseOnly(std::function<bool(const LeaseGranted&)> fits);

  // Returns one result for each candidate, in the order of the candidates, whatever happens to devices and servers. A
  // candidate that fails through the fault of a device or server has status "infrastructure", and so have all
  // candidates of a job that no server takes, for example because its reference is too large. Returns an error only if
  // no device could be had or kept: no candidate was measured, and other jobs would fail, too.
  Result<std::vector<TrialResult>> Measure(MeasureJob job, MeasureCallbacks callbacks = {});
  // Ends all Measure calls that have begun; each returns without an error. A running candidate finishes, the others get
  // status "cancelled". A call that waits for a device returns at once, even if the tracker is silent. A call with a
  // running candidate returns when that candidate ends, at most 15 s later. Calls that begin after Cancel has returned
  // are not affected. With `after_seconds`, all this happens after that time, and calls that begin meanwhile are ended,
  // too. May be called from any thread and from callbacks, but not from a signal handler.
  void Cancel(double after_seconds = 0);

  // Makes calls of a session (rpc/remote_device.h). Calls and jobs of one client at the same time get several devices,
  // and a session makes its calls by one of these functions at a time. Returns the last reply, which is the only one
  // that may have another status than "ok". Returns an error if there is no reply; then the session is over. Cancel
  // ends calls, too, and their sessions. `on_reply` is called for each reply, as the callbacks above; so is
  // CallWork::body.
  Result<RemoteAnswer> Call(CallWork work, std::function<void(const DeviceWait&)> on_wait = nullptr,
                            std::function<void(const RemoteAnswer&)> on_reply = nullptr);

  Result<StatusReply> Status(double timeout_seconds = 5);

  struct Impl;

 private:
  explicit FarmClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::rpc
