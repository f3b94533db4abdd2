// CpuFunction: emits one C function for a CPU from a lowered body. A parallel loop becomes two more functions: one runs
// a range of iterations and is emitted by another CpuFunction; the other is a task, which the thread pool calls. An
// object emits one function. Not thread-safe. Internal to codegen/c/cpu.
#pragma once
#include <string>
#include <vector>

#include "codegen/c/statements.h"
#include "codegen/parallel.h"

namespace autotune::c {

class CpuFunction : public Statements {
 public:
  // The names of all functions begin with `prefix`.
  CpuFunction(const Dialect& dialect, Helpers& helpers, std::string prefix)
      : Statements(dialect, helpers, prefix), prefix_(std::move(prefix)) {}

  // Emits the function int32_t PREFIX_body(AtContext*, pointers...), which returns 0, or the error code of a parallel
  // loop that failed. `pointers` are the buffers that `body` uses from outside, then the slots of its workspace.
  // Returns the text of the functions that PREFIX_body calls, then the text of PREFIX_body itself. The text is valid
  // only if rejected() is empty after this call.
  std::string EmitBody(const std::vector<PointerParam>& pointers, const Stmt& body);

 private:
  // Emits void PREFIX(int64_t begin, int64_t end, pointers..., int64_t scalars...), which runs iterations [begin, end)
  // of a parallel loop. `outside` holds the bounds of variables that are known around the loop.
  std::string EmitIterations(const For& loop, const Captures& captures, const Analyzer& outside);
  void EmitFork(const For& loop) override;
  std::string EmitTask(const For& loop, const Captures& captures, const std::string& name);

  std::string prefix_;
  std::string before_;  // functions that this one calls
  int parallel_loops_ = 0;
};

// Emits the declaration of a function's scratch memory. Small workspaces are arrays, others come from AtContext
// (runtime/abi.h). The pointer of each slot has the name that `names` gives it. If an allocation fails, the emitted
// code sets an error of `context` that names `function`, and returns 1.
struct Scratch {
  std::vector<std::string> pointers;  // one per slot
  bool to_free = false;
};
Scratch AllocateScratch(Writer& writer, Names& names, const Dialect& dialect, const Workspace& workspace,
                        const std::string& function);
void FreeScratch(Writer& writer, const Scratch& scratch);

}  // namespace autotune::c
