// Kernels: one built kernel for every task: the best recorded schedule that still replays and builds, else a default
// one. Internal to compiler/. Blocks while build workers work.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/compile.h"

namespace autotune {

// Compiles each kernel once, however often it is asked for: the stages of a choice need the same ones again. Not
// thread-safe.
class KernelCompiler {
 public:
  explicit KernelCompiler(Builder& builder) : builder_(builder) {}

  // One kernel per request, in their order. They live as long as the compiler.
  std::vector<const CompiledKernel*> Compile(const std::vector<BuildRequest>& requests);
  // Returns the shared object.
  Result<std::string> Link(const std::vector<const CompiledKernel*>& kernels, const Target& target);

 private:
  Builder& builder_;
  std::unordered_map<std::string, std::unique_ptr<const CompiledKernel>> kernels_;  // by request
};

struct KernelSet {
  std::string library;                // the linked shared object; empty if there are no tasks
  std::vector<std::string> names;     // of the kernel of each task
  std::vector<KernelChoice> choices;  // parallel to the tasks
};

// Errors: a task for which nothing builds, with the last cause.
Result<KernelSet> BuildKernels(const std::vector<TuneTask>& tasks, const Target& target, const ScheduleSources& sources,
                               KernelCompiler& compiler);

// CompileFrom (compiler/compile.h), with kernels that may have been compiled already.
Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  KernelCompiler& compiler);

// Several kernels for every task, in one library, to be compared in the network.
struct KernelVariants {
  std::string library;
  std::vector<std::vector<std::string>> names;     // of each task's kernels
  std::vector<std::vector<KernelChoice>> choices;  // parallel to `names`
};

// Of each task its default schedule, then up to `competitors` others that build: the one of the choice, and its best
// records. All are distinct.
Result<KernelVariants> BuildVariants(const std::vector<TuneTask>& tasks, const Target& target,
                                     const ScheduleSources& sources, int competitors, KernelCompiler& compiler);

}  // namespace autotune
