// The code that all generators for LLVM share (codegen/llvm/expressions.h, control.h) does not depend on a CPU. Here it
// emits a kernel whose buffers are in the address spaces of a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>

#include <functional>

#include "codegen/llvm/control.h"
#include "codegen/llvm/expressions.h"

namespace autotune {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces of NVPTX

// The function `void kernel(ptr global from, ptr shared to, i64 thread)` and the objects that emit its code.
class DeviceFunction {
 public:
  DeviceFunction() : builder_(context_), expressions_(builder_, target_, bindings_, nullptr) {
    module_.setTargetTriple("nvptx64-nvidia-cuda");
    llvm::Type* types[] = {builder_.getPtrTy(kGlobal), builder_.getPtrTy(kShared), builder_.getInt64Ty()};
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module_);
    builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
    bindings_.buffers["from"] = {function_->getArg(0), 64, 16};
    bindings_.buffers["to"] = {function_->getArg(1), 64, 16};
    bindings_.vars["thread"] = function_->getArg(2);
    expressions_.addresses().EnterScope();
  }

  // Emits to[index] = value. For a vector, `index` is that of the first lane.
  void Store(const Expr& index, const Expr& value) {
    expressions_.StartStatement();
    llvm::Value* stored = expressions_.Value(value);
    Addresses::Address address = expressions_.addresses().Of(to, index);
    builder_.CreateAlignedStore(stored, address.pointer, address.alignment);
  }

  // Emits for i in 4 { body }.
  void Loop(const std::function<void()>& body) {
    bindings_.analyzer.Bind("i", 0, 3);
    ControlFlow control(builder_, bindings_, expressions_.addresses());
    control.Loop({"i", builder_.getInt64(0), builder_.getInt64(4), true, true, "loop"}, [&] { body(); });
  }

  // Returns the text of the function; fails the test and returns "" if the function is no valid LLVM IR.
  std::string Text() {
    expressions_.addresses().LeaveScope();
    builder_.CreateRetVoid();
    std::string text, problem;
    llvm::raw_string_ostream stream(text), problems(problem);
    EXPECT_FALSE(llvm::verifyFunction(*function_, &problems)) << problem;
    stream << *function_;
    return problem.empty() ? text : "";
  }

  const Buffer from = Buffer::Make("from", DType::Float(32), {Expr(64)});
  const Buffer to = Buffer::Make("to", DType::Float(32), {Expr(64)});

 private:
  llvm::LLVMContext context_;
  llvm::Module module_{"gpu", context_};
  llvm::IRBuilder<> builder_;
  Target target_ = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -num-cores=1").value();
  Bindings bindings_;
  Expressions expressions_;
  llvm::Function* function_ = nullptr;
};

Expr At(const Expr& i) { return IndexVar("thread") * Expr(4) + i; }

TEST(SharedEmitter, KeepsTheAddressSpacesOfBuffers) {
  DeviceFunction kernel;
  kernel.Loop([&] { kernel.Store(At(IndexVar("i")), MakeLoad(kernel.from, {At(IndexVar("i"))})); });
  const std::string text = kernel.Text();
  EXPECT_THAT(text, HasSubstr("load float, ptr addrspace(1)"));
  EXPECT_THAT(text, ContainsRegex("store float %[0-9]+, ptr addrspace\\(3\\)"));
}

TEST(SharedEmitter, GuardsLoadsWithinTheirAddressSpace) {
  DeviceFunction kernel;
  Expr guarded =
      MakeSelect(IndexVar("thread") < Expr(15), MakeLoad(kernel.from, {At(Expr(4))}), ConstOf(0, DType::Float(32)));
  kernel.Store(At(Expr(0)), guarded);
  EXPECT_THAT(kernel.Text(), ContainsRegex("select i1 %[0-9]+, ptr addrspace\\(1\\) %[0-9]+, ptr addrspace\\(1\\) %0"));
}

// Within a choice, the sides of a chain of choices share what was computed for its conditions, and what both use. The
// text would double with each stage otherwise.
TEST(SharedEmitter, NestedChoicesShareTheirTerms) {
  for (const bool own : {true, false}) {
    auto size = [&](int stages) {
      DeviceFunction kernel;
      const Expr other = MakeLoad(kernel.from, {At(Expr(5))});
      Expr value = MakeLoad(kernel.from, {At(Expr(4))});
      for (int i = 0; i < stages; ++i) {
        const Expr condition = (own ? value : other) < ConstOf(i, DType::Float(32));
        value = MakeSelect(condition, value * value, value + value);
      }
      kernel.Store(At(Expr(0)), MakeSelect(IndexVar("thread") < Expr(15), value, ConstOf(0, DType::Float(32))));
      return kernel.Text().size();
    };
    EXPECT_GT(size(8), size(4));
    EXPECT_LT(size(8), 3 * size(4));
  }
}

TEST(SharedEmitter, LoadsStridedLanesOneByOneWithoutAProcessorsWay) {
  DeviceFunction kernel;
  Expr lanes = MakeLoad(kernel.from, {MakeRamp(IndexVar("thread"), Expr(8), 4)});
  kernel.Store(Expr(0), lanes);
  const std::string text = kernel.Text();
  EXPECT_THAT(text, HasSubstr("insertelement <4 x float>"));
  EXPECT_THAT(text, Not(HasSubstr("masked")));
}

}  // namespace
}  // namespace autotune
