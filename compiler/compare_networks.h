// The last stage of the final choice (compiler/choose.h): runs two compiled networks in turns. Internal to compiler/.
#pragma once
#include <functional>
#include <vector>

#include "compiler/network.h"
#include "compiler/network_host.h"
#include "records/choice.h"

namespace autotune {

struct ComparisonOptions {
  double seconds = 5;        // planned duration, at all numbers of threads together
  double extra_seconds = 5;  // for which it goes on, in all, at the numbers of threads where it is undecided
  std::function<void(double done)> on_progress = nullptr;
  const std::atomic<bool>* stop = nullptr;
};

// Compares two packages of a network at each number of threads (ComparedThreads in compiler/choose_variants.h). The
// ratios are second / first. Errors: those of the host and of the kernels.
Result<std::vector<NetworkComparison>> ComparePackages(const Network& network, const Package& first,
                                                       const Package& second, const std::vector<int>& threads,
                                                       NetworkHost& host, const ComparisonOptions& options);

}  // namespace autotune
