// Kernels: builds one kernel for every task, by the first schedule that still replays and builds. The schedule of the
// network's choice is tried first, then those of the best records of its family, then the default ones. Functions that
// build return when the build workers have finished. Internal to compiler/.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/compile.h"
#include "compiler/plan.h"

namespace autotune {

// Compiles kernels with the passes of one context. Keeps every result, failures included, and compiles no kernel twice,
// since the stages of a choice (compiler/choose.h) need the same kernels several times. Not thread-safe.
class KernelCompiler {
 public:
  explicit KernelCompiler(Builder& builder, const PassContext& passes = {}) : builder_(builder), passes_(passes) {}

  // Returns one kernel per request, in the order of the requests. The kernels live as long as the compiler.
  std::vector<const CompiledKernel*> Compile(const std::vector<BuildRequest>& requests);
  Result<BuiltLibrary> Link(const std::vector<const CompiledKernel*>& kernels, const Target& target);

 private:
  Builder& builder_;
  const PassContext passes_;
  std::unordered_map<std::string, std::unique_ptr<const CompiledKernel>> kernels_;  // by request
};

struct KernelSet {
  std::string library;                                // the linked shared object
  std::vector<std::string> objects;                   // the relocatable objects that it was linked from
  std::vector<std::string> sources;                   // C sources of `objects`; only for targets of kind c
  std::string device_blob;                            // GPUs: the modules with the device's code
  std::map<std::string, std::string> device_sources;  // GPUs: see Package::device_sources
  std::vector<KernelMetadata> kernels;
  bool uses_tiles = false;            // some kernel does (KernelObject::uses_tiles)
  std::vector<std::string> names;     // name of each task's kernel, which is the name of the task's function
  std::vector<KernelChoice> choices;  // parallel to the tasks
};

// Builds one kernel per task, by the first schedule that compiles. If no schedule of a task compiles, returns an error
// with the cause of the task's last failure.
Result<KernelSet> BuildKernels(const Network& network, const Target& target, const ScheduleSources& sources,
                               KernelCompiler& compiler);

// CompileFrom (compiler/compile.h) with a compiler that may already have compiled some of the kernels.
Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  KernelCompiler& compiler);

// Several kernels for every task, in one library, for a comparison in the network (compiler/choose.h).
struct KernelVariants {
  std::string library;
  std::vector<std::vector<std::string>> names;     // by task: names of its kernels, the default one first
  std::vector<std::vector<KernelChoice>> choices;  // parallel to `names`
};

// Builds, for each task, the default schedule and up to `competitors` others: the schedule of the choice and those of
// the best records. The schedules of a task are distinct. Schedules that do not build are left out.
Result<KernelVariants> BuildVariants(const Network& network, const Target& target, const ScheduleSources& sources,
                                     int competitors, KernelCompiler& compiler);

// Returns DLPack's type of the device on which kernels for this target run.
int64_t DeviceTypeOf(const Target& target);

// Returns the code of each node of main: its task's kernel, on the target's device. Reshapes have no kernel.
std::vector<NodeCode> CodeOfNodes(const Network& network, const Target& target);

}  // namespace autotune
