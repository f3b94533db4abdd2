// From a package on disk to an executor ready to run: loads the library, binds the parameters, prepares constants.
// The executor belongs to one thread at a time.
#pragma once
#include <memory>
#include <string>

#include "package/package.h"
#include "runtime/graph_executor.h"

namespace autotune {

struct LoadedModel {
  PackageInfo info;
  std::unique_ptr<GraphExecutor> executor;  // its inputs and outputs in the order of info's
};

// `threads`: of the pool the kernels run on; 0: one per CPU.
Result<LoadedModel> LoadModel(Package package, int threads);
Result<LoadedModel> LoadModel(const std::string& path, int threads);

}  // namespace autotune
