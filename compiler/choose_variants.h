// The first stage of the final choice (compiler/choose.h): times the kernels of every task within the whole network,
// and selects one for each task. Internal to compiler/.
#pragma once
#include <functional>

#include "compiler/choose.h"
#include "compiler/kernels.h"
#include "compiler/network_host.h"

namespace autotune {

struct VariantOptions {
  double seconds = 4;  // planned duration of the measurements
  uint64_t seed = 0;   // of the random combinations
  std::function<void(double done)> on_progress = nullptr;
  const std::atomic<bool>* stop = nullptr;
};

// Measures random combinations in blocks and returns the variant that each task should run. Errors: those of the host
// and of the kernels.
Result<Variants> SelectVariants(const Network& network, const Target& target, const KernelVariants& variants,
                                NetworkHost& host, const VariantOptions& options);

// Returns the numbers of threads with which networks are compared: all and one. 0: the target is a GPU, whose threads
// nobody chooses.
std::vector<int> ComparedThreads(const Target& target);

// Fills all inputs of a loaded network with the same random values on every host.
Status FillInputs(const Network& network, const Module& executor);

}  // namespace autotune
