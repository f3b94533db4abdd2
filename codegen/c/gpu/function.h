// GpuFunction: emits one kernel of threads in a dialect of the C family that has them. The variables of loops over
// blocks and threads become the numbers of the running block and thread. Shared buffers are arrays of a block, local
// ones arrays of a thread. Emits once. Not thread-safe. Internal to codegen/c.
#pragma once
#include <string>

#include "codegen/c/source.h"
#include "codegen/c/statements.h"
#include "codegen/launches.h"

namespace autotune::c {

class GpuFunction : public Statements {
 public:
  using Statements::Statements;
  // The function's text; check rejected() first.
  std::string Emit(const KernelFunction& kernel);

 private:
  void EmitFork(const For& loop) override;
};

// A program of OpenCL C with the functions of one kernel, called `name`.
Source OpenClSource(const KernelFunctions& functions, const std::string& name, const Target& target);

}  // namespace autotune::c
