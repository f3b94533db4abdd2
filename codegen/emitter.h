// StatementEmitter: walks a lowered body and calls a virtual function for each statement, by its kind. The code
// generators derive from it. Not thread-safe. Internal to codegen/.
#pragma once
#include "ir/stmt.h"

namespace autotune {

class StatementEmitter {
 public:
  StatementEmitter(const StatementEmitter&) = delete;

 protected:
  StatementEmitter() = default;
  virtual ~StatementEmitter() = default;

  void Emit(const Stmt& s);

  virtual void Begin() {}  // called before each statement
  virtual void EmitStore(const Store& store) = 0;
  virtual void EmitEvaluate(const Expr& value) = 0;
  virtual void EmitSeq(const Seq& seq);
  virtual void EmitIf(const If& branch) = 0;
  virtual void EmitFor(const For& loop) = 0;
  virtual void EmitAlloc(const Alloc& alloc) = 0;
  virtual void EmitLet(const Let& let) = 0;
};

}  // namespace autotune
