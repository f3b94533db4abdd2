// ClaimedRun: this process's claim on a tuning run (records/run_claim.h). A thread renews it; the end of the object
// releases it. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "records/store.h"
#include "support/result.h"

namespace autotune {

// Returns the key of the run to begin or to continue. The first run of a command has the key of the command. A fresh
// run has a new key, which is stored under the command's, so that the same command, not fresh, continues the latest
// run.
Result<std::string> ChooseRun(RecordStore& store, const std::string& command_key, bool fresh);

class ClaimedRun {
 public:
  struct Options {
    int64_t ttl_ms = 30000;      // [chosen] how long other hosts wait for this process before they continue the run
    int64_t renewal_ms = 10000;  // time between two renewals; two may fail before the claim ends
    // Called before the first wait for an owner on another host, with its text and the milliseconds.
    std::function<void(const std::string& owner, int64_t ms)> on_wait = nullptr;
    const std::atomic<bool>* stop = nullptr;  // when it becomes true, Take's wait ends with an error of kind kStopped
  };

  // If another process continues the run, the error names it. An owner on another host is watched for its time to live
  // first: it may be dead. `store` must outlive the result.
  static Result<std::unique_ptr<ClaimedRun>> Take(RecordStore& store, const std::string& run, Options options);
  ~ClaimedRun();
  ClaimedRun(const ClaimedRun&) = delete;

 private:
  ClaimedRun(RecordStore& store, std::string run, RunOwner owner, const Options& options);
  void Renew(const std::stop_token& stop);

  RecordStore& store_;
  const std::string run_;
  const RunOwner owner_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread renewer_;
};

}  // namespace autotune
