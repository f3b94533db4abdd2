// Statements: emits the statements of one function, in any dialect. A subclass emits the loops whose iterations run
// concurrently: a CPU calls its thread pool (codegen/c/cpu/function.h), and a kernel of threads uses the number of the
// thread (codegen/c/gpu/function.h).
//
// Owns all state of its function; borrows the dialect and the helpers. An object emits one function. Not thread-safe.
// Internal to codegen/c.
#pragma once
#include <string>
#include <vector>

#include "codegen/c/expressions.h"
#include "codegen/c/names.h"
#include "codegen/emitter.h"

namespace autotune::c {

class Statements : protected StatementEmitter {
 public:
  // The names of the functions that this one calls begin with `prefix`, except those of helpers.
  Statements(const Dialect& dialect, Helpers& helpers, const std::string& prefix)
      : dialect_(dialect), helpers_(helpers), names_(prefix), expressions_(dialect, helpers, bindings_, writer_) {}

  // Returns the contract that the program breaks, if there is no code for the function; else an empty text.
  const std::string& rejected() const { return rejected_; }

 protected:
  // Emits a loop over [begin, end). The two texts are C expressions. The caller has added the bounds of the loop's
  // variable to the analyzer.
  void EmitLoop(const For& loop, const std::string& begin, const std::string& end);
  // Emits a loop whose iterations may run concurrently.
  virtual void EmitFork(const For& loop) = 0;
  void Reject(const Buffer& registers, const std::string& why);
  // Returns the declaration of the function's parameter for a buffer, and binds the buffer to it.
  std::string BindParameter(const PointerParam& p);

  const Dialect& dialect_;
  Helpers& helpers_;
  Writer writer_;
  Names names_;
  Bindings bindings_;
  Expressions expressions_;
  std::string rejected_;

 private:
  void EmitFor(const For& loop) override;
  void EmitIf(const If& branch) override;
  void EmitLet(const Let& let) override;
  void EmitAlloc(const Alloc& alloc) override;
  void EmitEvaluate(const Expr& value) override;
  void EmitStore(const Store& store) override;
  void EmitLanes(const Store& store);
  void StoreChunk(const Store& store, Chunk chunk, const Code& value);
  void StoreRegisters(const Registers& registers, const std::vector<int64_t>& elements, DType type, const Code& value);
};

}  // namespace autotune::c
