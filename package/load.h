// Makes an executor from a compiled network on disk: loads the library, binds the parameters and prepares constants.
// The executor may be used by one thread at a time.
#pragma once
#include <memory>
#include <string>

#include "package/package.h"
#include "runtime/graph_executor.h"

namespace autotune {

struct LoadedModel {
  PackageInfo info;
  std::unique_ptr<GraphExecutor> executor;  // its inputs and outputs have the order of `info`
};

// Loads a package. `threads` is the number of threads for kernels; 0: one per CPU; more than
// MostThreads() (support/cpus.h) is an error. If the package has no linked library, the system's C compiler `cc` links
// its objects or, if it has none, compiles its C sources. `device` chooses the device of a package for GPUs
// (DeviceChoiceOf in runtime/device.h); empty: the first one. Errors name the missing part.
Result<LoadedModel> LoadModel(Package package, int threads, const std::string& device = "",
                              const GraphExecutorOptions& options = {});

// Returns the package's library, linked as LoadModel does if it has none; empty for a network that has only reshapes.
Result<std::string> LibraryBytesOf(Package& package);

// Loads a file of either form: a tar in Model Library Format, or a shared object (package/module_file.h).
Result<LoadedModel> LoadModel(const std::string& path, int threads, const std::string& device = "");

}  // namespace autotune
