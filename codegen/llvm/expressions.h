// Expressions: emits LLVM values of expressions, loads included. All code generators that emit LLVM IR use it.
//
// A value is computed once per statement. A select computes both of its sides, so that hot loops have no branches.
// Loads and divisions of the side that is not chosen are guarded: they access no memory outside of their buffer and do
// not divide by 0.
//
// Borrows the arguments of its constructor, which must outlive it. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "codegen/llvm/addresses.h"
#include "codegen/llvm/bindings.h"
#include "codegen/llvm/operations.h"

namespace autotune {

// Loads vectors whose lanes are not contiguous in memory, if the processor has a better way than one load per lane.
class StridedLoads {
 public:
  virtual ~StridedLoads() = default;
  struct Context {
    llvm::Value* guard;  // the condition under which a lane may be read (a bool or a vector of bools); null: always
    std::function<llvm::Value*(const Expr&)> value_of;  // emits an expression of the statement
  };
  // Returns the lanes of `load` as a value of `type`, or null if one load per lane is best.
  virtual llvm::Value* Emit(Addresses& addresses, const Load& load, llvm::Type* type, const Context& context) = 0;
};

class Expressions {
 public:
  // `strided` may be null. `index_bits` is the width of an index, 64 or 32 (Operations).
  Expressions(llvm::IRBuilder<>& builder, const Target& target, const Bindings& bindings, StridedLoads* strided,
              int index_bits = 64);
  Expressions(const Expressions&) = delete;

  // Forgets all values. Must be called before each statement: the code of an earlier statement need not dominate the
  // next one, and memory changes in between.
  void StartStatement() { memo_.clear(); }

  llvm::Value* Value(const Expr& e);
  llvm::Value* Index(const Expr& e);  // the value of a scalar index

  Operations& operations() { return operations_; }
  Addresses& addresses() { return addresses_; }

 private:
  llvm::Value* Compute(const Expr& e);
  llvm::Value* ComputeBinary(const Binary& n);
  llvm::Value* CompareLanes(const Binary& n);
  llvm::Value* ComputeCall(const Call& n, DType dtype);
  llvm::Value* ComputeCast(const Cast& n, DType dtype);
  Interval BoundsOfLanes(const Expr& e) const;
  llvm::Value* ComputeSelect(const Select& n);
  llvm::Value* ValueUnder(llvm::Value* condition, const Expr& e);
  llvm::Value* NonZero(llvm::Value* divisor);

  llvm::Value* ComputeLoad(const Load& n, DType dtype);
  llvm::Value* LoadScalar(const Load& n, llvm::Type* type, llvm::Value* guard);
  llvm::Value* LoadContiguous(const Load& n, const Ramp& ramp, llvm::Type* type, llvm::Value* guard);
  llvm::Value* LoadLanes(const Load& n, const Ramp* ramp, llvm::Type* type, llvm::Value* guard);

  llvm::IRBuilder<>& builder_;
  const Bindings& bindings_;
  StridedLoads* strided_;
  Operations operations_;
  Addresses addresses_;
  // The condition under which the current expression is used: a bool or a vector of bools. Null: always.
  llvm::Value* guard_ = nullptr;
  std::vector<llvm::Value*> outer_guards_;  // the guards that guard_ implies, outermost first
  // The values of the statement, by expression and guard. A memo keeps its expression alive: otherwise another
  // expression could get the address of a freed one.
  struct Memo {
    Expr expr;
    llvm::Value* value;
  };
  std::map<std::pair<const ExprCell*, llvm::Value*>, Memo> memo_;
};

}  // namespace autotune
