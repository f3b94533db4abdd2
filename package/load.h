// Makes an executor from a compiled network on disk: loads the library, binds the parameters and prepares constants.
// The executor may be used by one thread at a time.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "package/package.h"
#include "runtime/graph_executor.h"
#include "runtime/kernel_context.h"

namespace autotune {

struct LoadedModel {
  PackageInfo info;
  std::unique_ptr<GraphExecutor> executor;  // its inputs and outputs have the order of `info`
};

// The threads that run the kernels of an executor: some of its own, or those of a pool, which other executors may use
// at the same time if it is shared.
struct KernelThreads {
  KernelThreads(int its_number) : number(its_number) {}  // NOLINT: a number says it
  explicit KernelThreads(std::shared_ptr<ThreadPool> its_pool) : pool(std::move(its_pool)) {}

  Status Check() const;  // more than MostThreads() (support/cpus.h) is an error
  std::shared_ptr<KernelContext> Context() const;

  int number = 0;                    // 0: one per CPU
  std::shared_ptr<ThreadPool> pool;  // may be null
};

// Loads a package. If it has no linked library, the system's C compiler `cc` links its objects or, if it has none,
// compiles its C sources. `device` chooses the device of a package for GPUs (DeviceChoiceOf in runtime/device.h);
// empty: the first one. Errors name the missing part.
Result<LoadedModel> LoadModel(Package package, const KernelThreads& threads, const std::string& device = "",
                              const GraphExecutorOptions& options = {});

// A network whose kernels' constants are prepared (package/prepared_model.h). It runs on the CPU.
struct PreparedParts {
  PackageInfo info;
  std::string graph_json;
  std::string_view library;
  Params params;  // as GraphExecutorOptions::all_prepared says
  std::shared_ptr<PreparedConstants> prepared = std::make_shared<PreparedConstants>();
};
Result<LoadedModel> LoadModel(PreparedParts parts, const KernelThreads& threads);

// Loads a file of either form as a tree of modules, from which any number of executors can be made. The root is the
// library with the kernels; it imports the factory of executors, and the network's info (package/module_file.h).
// Without kernels, the root is the factory. The tree keeps the parameters. `threads` is the number of threads of direct
// calls of kernels, and of each executor that the factory makes.
Result<Module> LoadModuleTree(const std::string& path, int threads);

// Makes an executor of such a tree, which stays as it is. Executors of one tree share parameters and prepared
// constants, and may run at once. Thread-safe.
Result<LoadedModel> MakeExecutor(const Module& root, const KernelThreads& threads, const std::string& device = "");

// Returns the package's library, linked as LoadModel does if it has none; empty for a network that has only reshapes.
Result<std::string> LibraryBytesOf(Package& package);

// Loads a file of either form: a tar in Model Library Format, or a shared object (package/module_file.h).
Result<LoadedModel> LoadModel(const std::string& path, const KernelThreads& threads, const std::string& device = "");

}  // namespace autotune
