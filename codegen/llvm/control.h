// ControlFlow: emits counted loops and branches; the caller emits their bodies. At the beginning and the end of a body,
// it updates the bindings, the bounds of variables and the scopes of addresses. All code generators that emit LLVM IR
// use it. Borrows the arguments of its constructor, which must outlive it. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>

#include "codegen/llvm/addresses.h"
#include "codegen/llvm/bindings.h"

namespace autotune {

class ControlFlow {
 public:
  using Body = llvm::function_ref<void()>;

  ControlFlow(llvm::IRBuilder<>& builder, Bindings& bindings, Addresses& addresses)
      : builder_(builder), bindings_(bindings), addresses_(addresses) {}

  // A loop over [begin, end) in steps of one. The caller has added the bounds of `var` to the analyzer.
  struct Counted {
    Name var;
    llvm::Value *begin, *end;
    bool known_nonempty = false;  // whether begin < end is known, so that no test is needed before the loop
    bool innermost = false;       // whether the body contains no other loop
    std::string label;            // name of the body's first block
  };
  void Loop(const Counted& loop, Body body);

  // `condition` is the value of `e`. The bounds that follow from `e` hold inside `then_body`. `else_body` may be null.
  void Branch(const Expr& e, llvm::Value* condition, Body then_body, Body else_body);

 private:
  void EmitArm(llvm::BasicBlock* block, llvm::BasicBlock* after, Body body);

  llvm::IRBuilder<>& builder_;
  Bindings& bindings_;
  Addresses& addresses_;
};

}  // namespace autotune
