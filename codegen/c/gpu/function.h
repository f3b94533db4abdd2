// GpuFunction: emits one kernel of threads in a dialect for GPUs. The variables of loops over blocks and threads become
// the numbers of the running block and thread. A shared buffer is an array of the block, a local buffer an array of the
// thread. An object emits one function. Not thread-safe. Internal to codegen/c.
#pragma once
#include <string>

#include "codegen/c/source.h"
#include "codegen/c/statements.h"
#include "codegen/launches.h"

namespace autotune::c {

class GpuFunction : public Statements {
 public:
  using Statements::Statements;
  // Returns the function's text, which is valid only if rejected() is empty afterwards.
  std::string Emit(const KernelFunction& kernel);

 private:
  void EmitFork(const For& loop) override;
};

// Returns a program in OpenCL C with the functions of the kernel `name`.
Source OpenClSource(const KernelFunctions& functions, const std::string& name, const Target& target);

}  // namespace autotune::c
