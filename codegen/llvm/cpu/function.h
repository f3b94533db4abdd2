// FunctionEmitter: emits one function for a CPU from a lowered body. This class emits the statements; values, addresses
// and control flow come from classes that the generator for GPUs uses, too. The body of a parallel loop becomes a
// separate function, which another FunctionEmitter emits. Owns all state of its function; borrows the modules and the
// target. An object emits one function. Not thread-safe. Internal to codegen/llvm/cpu.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "codegen/emitter.h"
#include "codegen/llvm/control.h"
#include "codegen/llvm/cpu/interleaves.h"
#include "codegen/llvm/cpu/module.h"
#include "codegen/llvm/cpu/parallel.h"
#include "codegen/llvm/cpu/streaming.h"
#include "codegen/llvm/cpu/strided_loads.h"
#include "codegen/llvm/cpu/tiles.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

class FunctionEmitter : private StatementEmitter {
 public:
  // The names of the functions of parallel loops begin with `prefix`. Buffers in `streamed` are written by streaming
  // stores.
  FunctionEmitter(Modules modules, const Target& target, std::string prefix, std::set<Name> streamed);

  // Emits i32 PREFIX.body(ptr context, pointers...), a hidden function that is never inlined. It returns 0, or the code
  // of a parallel loop that failed. `pointers` are the buffers that `body` uses from outside, then the slots of its
  // workspace.
  llvm::Function* EmitBody(const std::vector<PointerParam>& pointers, const Stmt& body);

  // Emits void PREFIX(i64 begin, i64 end, pointers..., i64 scalars...), a hidden function that is never inlined. It
  // runs iterations [begin, end) of a parallel loop. `outside` holds the bounds of variables that are known around the
  // loop.
  llvm::Function* EmitParallelBody(const For& loop, const Captures& captures, const Analyzer& outside);

 private:
  void BeginFunction(llvm::Module& module, llvm::FunctionType* type, const std::string& name);
  void BindPointers(unsigned first, const std::vector<PointerParam>& pointers);

  void Begin() override { expressions_.StartStatement(); }
  void EmitSeq(const Seq& seq) override;
  void EmitFor(const For& loop) override;
  void EmitLoop(const For& loop, llvm::Value* begin, llvm::Value* end, bool known_nonempty);
  // Emits a product of tiles. Returns false if the loops have another form.
  bool EmitTiles(const For& loop);
  void EmitParallel(const For& loop);
  void EmitIf(const If& branch) override;
  void EmitStore(const Store& store) override;
  void EmitAlloc(const Alloc& alloc) override;
  void EmitEvaluate(const Expr& value) override;
  void EmitLet(const Let& let) override;

  Modules modules_;
  const Target& target_;
  std::string prefix_;
  llvm::IRBuilder<> builder_;
  Bindings bindings_;
  CpuStridedLoads loads_;
  Interleaves interleaves_;
  Expressions expressions_;
  ControlFlow control_;
  StreamingStores streaming_;
  TileRegisters tiles_;
  llvm::Function* function_ = nullptr;
  llvm::Value* at_context_ = nullptr;  // null in the body of a parallel loop
  int next_parallel_ = 0;
  bool in_else_ = false;  // true while the else branch of a condition is emitted
};

}  // namespace autotune
