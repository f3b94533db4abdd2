// Statements: emits the statements of one function, in any dialect. A subclass emits the loops whose iterations run
// concurrently: a CPU calls its thread pool (codegen/c/cpu/function.h), and a kernel of threads uses the number of the
// thread (codegen/c/gpu/function.h).
//
// Owns all state of its function; borrows the dialect and the helpers. Emits once. Not thread-safe.
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
  // `prefix` begins the names of the functions that this one calls, but for the helpers.
  Statements(const Dialect& dialect, Helpers& helpers, const std::string& prefix)
      : dialect_(dialect), helpers_(helpers), names_(prefix), expressions_(dialect, helpers, bindings_, writer_) {}

  // Why there is no code for the function: a broken contract of the program. Empty: there is.
  const std::string& rejected() const { return rejected_; }

 protected:
  // A loop over [begin, end), which are texts. The caller has bound the bounds of its variable.
  void EmitLoop(const For& loop, const std::string& begin, const std::string& end);
  // A loop whose iterations may run at the same time.
  virtual void EmitFork(const For& loop) = 0;
  void Reject(const Buffer& registers, const std::string& why);
  // The parameter of a function that stands for the buffer, and binds it.
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
