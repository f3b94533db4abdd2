// Addresses: emits pointers to elements of buffers. All code generators that emit LLVM IR use it.
//
// This class reduces the strength of address computations, since LLVM's own pass for that takes longer than all other
// passes together:
// - Accesses whose indices differ by a constant share one base pointer, in the scope where it was first computed.
// - A base adds the terms of outer loops first, so that LLVM can move their sum out of the inner loops.
// - In an innermost loop, the variable times a coefficient is a phi, to which each iteration adds the coefficient.
//
// Borrows the arguments of its constructor, which must outlive it. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/bindings.h"
#include "codegen/llvm/operations.h"

namespace autotune {

class Addresses {
 public:
  struct Address {
    llvm::Value* pointer;
    llvm::Align alignment;
    int64_t multiple;  // a power of two that divides the offset from the buffer's first element, in bytes; at most 64
  };
  // Computes the part of an index that is not linear in variables.
  using IndexValue = std::function<llvm::Value*(const Expr&)>;

  Addresses(llvm::IRBuilder<>& builder, Operations& operations, const Bindings& bindings, IndexValue index_value)
      : builder_(builder), operations_(operations), bindings_(bindings), index_value_(std::move(index_value)) {}

  // Returns the address of buffer[index]; `index` is a scalar.
  Address Of(const Buffer& buffer, const Expr& index);
  // Returns the address of buffer[index] for an index that is an LLVM value. The address is only known to be aligned to
  // one element.
  Address Element(const Buffer& buffer, llvm::Value* index);

  // A scope is a function, the body of a loop, or a branch. Base pointers that are computed in a scope are reused only
  // in this scope, since they need not dominate other code. The caller enters a scope before the first call of Of.
  void EnterScope() { bases_.emplace_back(); }
  void LeaveScope() { bases_.pop_back(); }

  // Describes a loop for EnterLoop, which opens a scope for its body. An innermost loop contains no other loop.
  struct Loop {
    Name var;
    llvm::BasicBlock *before, *header;
    llvm::Value* begin;
    bool innermost;
  };
  void EnterLoop(const Loop& loop);
  // Closes the loop's scope. The builder must be at the end of the body: the phis of an innermost loop are advanced
  // there.
  void LeaveLoop();
  // Returns the variable of the innermost loop around the builder; nothing outside of innermost loops.
  std::optional<Name> InnermostVar() const;

 private:
  // coefficient * value, where `value` is a variable. `depth` is the depth of its loop; 0 if no loop binds it.
  struct Term {
    int depth;
    int64_t coefficient;
    llvm::Value* value;
  };
  // A linear index in parts.
  struct Parts {
    std::vector<Term> terms;       // outer loops first
    llvm::Value* inner = nullptr;  // the innermost loop's term, added last, so that the other terms can leave the loop
    llvm::Value* rest = nullptr;   // the part that is not linear
    int64_t constant = 0;          // added to the base pointer
    int64_t divisor = 0;           // divides the index for all values of the variables
  };
  Parts Split(const Expr& index);
  llvm::Value* Base(const Buffer& buffer, const Parts& parts);
  // Returns the variable of the innermost loop times `coefficient`.
  llvm::Value* MultipleOf(int64_t coefficient);

  llvm::IRBuilder<>& builder_;
  Operations& operations_;
  const Bindings& bindings_;
  IndexValue index_value_;
  std::vector<std::map<std::vector<int64_t>, llvm::Value*>> bases_;  // base pointers, by scope
  std::unordered_map<Name, int> depth_;                              // depth of each loop variable; 1 is the outermost
  int current_depth_ = 0;
  std::optional<Loop> innermost_;
  std::map<int64_t, llvm::PHINode*> multiples_;  // multiples of the innermost loop's variable, by coefficient
};

}  // namespace autotune
