// ControlFlow: counted loops and branches. The caller emits what is in them. All code generators that emit LLVM IR
// share it. It keeps the bindings, their bounds and the scopes of addresses in step with the blocks.
// Borrows all that it is made of, which must outlive it. Not thread-safe. Internal to codegen/llvm.
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

  // A loop over [begin, end) in steps of one. The caller has bound the bounds of `var`.
  struct Counted {
    Name var;
    llvm::Value *begin, *end;
    bool known_nonempty = false;  // saves a test before the loop
    bool innermost = false;       // no other loop is inside
    std::string label;            // of the body's first block
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
