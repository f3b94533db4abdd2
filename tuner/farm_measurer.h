// FarmMeasurer: the Measurer of real runs. Build workers make the artifacts, and a device of the farm checks and times
// them. On this host's own CPU building and measuring never overlap (support/host_lock.h). Not thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "codegen/builder.h"
#include "rpc/client.h"
#include "runtime/compare.h"
#include "tuner/measurer.h"
#include "tuner/span.h"

namespace autotune {

struct FarmMeasurerOptions {
  uint64_t seed = 0;    // seed of the kernels' inputs
  Tolerance tolerance;  // of the comparison with the reference
  // Called while the measurer waits for a device, as often as rpc::MeasureCallbacks::on_wait, and once with an empty
  // text when results arrive after a wait. Runs on the farm's thread, so it must return quickly.
  std::function<void(const std::string& reason)> on_wait = nullptr;
  // A stop ends a wait for a device at once. A job that has already returned a result finishes first. The jobs of the
  // call's other tasks are cancelled, and their outcomes are kCancelled.
  std::stop_token stop = {};
  SpanObserver on_span = nullptr;     // hears of builds and of the measurements of candidates
  std::set<std::string> poison = {};  // artifacts that no device gets (tuner/poison.h)
};

// `builder` must outlive the measurer. Errors: the tracker cannot be reached, or has no device of the key in `farm`.
Result<std::unique_ptr<Measurer>> MakeFarmMeasurer(Builder& builder, const rpc::FarmOptions& farm,
                                                   const FarmMeasurerOptions& options = {});
// The same with a client that is connected.
std::unique_ptr<Measurer> MakeFarmMeasurer(Builder& builder, std::shared_ptr<rpc::FarmClient> farm,
                                           const FarmMeasurerOptions& options = {});

}  // namespace autotune
