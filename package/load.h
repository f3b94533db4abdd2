// From a compiled network on disk to an executor ready to run: loads the library, binds the parameters, prepares
// constants. The executor belongs to one thread at a time.
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

// `threads`: of the pool the kernels run on; 0: one per CPU. A package without a linked library is linked by the
// system's C compiler `cc`, from its objects or, without those, from its C sources. Errors name what is missing.
Result<LoadedModel> LoadModel(Package package, int threads);

// Reads either form: a tar in Model Library Format, or a shared object (package/module_file.h).
Result<LoadedModel> LoadModel(const std::string& path, int threads);

}  // namespace autotune
