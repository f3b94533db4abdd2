// FarmMeasurer: the real Measurer: build workers make the artifacts, a device of the farm checks and times them. On
// this host's own CPU building and measuring never overlap (support/host_lock.h). Not thread-safe.
#pragma once
#include <memory>

#include "codegen/builder.h"
#include "rpc/client.h"
#include "tuner/measurer.h"

namespace autotune {

struct FarmMeasurerOptions {
  uint64_t seed = 0;  // of the inputs
  double rtol = 1e-3, atol = 1e-4;
};

// `builder` must outlive the measurer. Errors: no tracker there, no device of that key.
Result<std::unique_ptr<Measurer>> MakeFarmMeasurer(Builder& builder, const rpc::FarmOptions& farm,
                                                   const FarmMeasurerOptions& options = {});

}  // namespace autotune
