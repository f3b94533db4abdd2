// NetworkHost: where networks are loaded and timed for the final choice (compiler/choose.h): on this host's CPU, or on
// a device of a farm. Networks are executor modules (runtime/graph_executor.h) on both. One thread at a time.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "package/package.h"
#include "records/choice.h"
#include "runtime/module.h"
#include "runtime/paired_runs.h"

namespace autotune {

class NetworkHost {
 public:
  virtual ~NetworkHost() = default;
  // A turn begins: nothing uses the networks of earlier turns any more. A turn loads at most kMostNetworks.
  virtual void BeginTurn() {}
  static constexpr int kMostNetworks = 2;
  // Time for which one call should measure. A stop waits for it, and a device is given to waiting clients between two.
  static constexpr double kTurnSeconds = 1;
  // Loads a network with a linked library. `threads`: as for LoadModel (package/load.h); `replaceable`: as in
  // GraphExecutorOptions.
  virtual Result<Module> Load(const Package& package, int threads, bool replaceable) = 0;
  // Calls a function of a loaded network while nothing else is measured on the host.
  virtual Result<Value> Measure(const PackedFunc& function, const std::vector<Value>& args) = 0;
  // Calls two functions of loaded networks without arguments in turns, in the same way.
  virtual Result<PairedTimes> MeasureInPairs(const PackedFunc& first, const PackedFunc& second,
                                             const PairedOptions& options) = 0;
  // Called after an error. Returns true if the device was lost without a fault of the networks, so that they can be
  // loaded and measured again. All that was loaded is gone then.
  virtual bool Recover() { return false; }
  // Returns false if other processes may have disturbed a measurement.
  virtual bool undisturbed() const = 0;
  // Returns where the latest measurement ran. `device` is known before the first one.
  virtual MeasuredOn measured_on() const = 0;
};

// Runs a turn, which loads networks and measures them. Begins it again if the device is lost meanwhile.
template <class Turn>
Status RunTurn(NetworkHost& host, const Turn& turn) {
  while (true) {
    host.BeginTurn();
    Status status = turn();
    if (status.ok() || !host.Recover()) return status;
  }
}

struct LocalHostOptions {
  // Longest wait of a measurement for the host's lock (support/host_lock.h). Then the measurement runs without it, and
  // later ones do not wait.
  int64_t patience_ms = 30'000;
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, waits and comparisons end with an error
};
std::unique_ptr<NetworkHost> MakeLocalHost(const LocalHostOptions& options = {});

}  // namespace autotune
