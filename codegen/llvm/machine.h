// Machine: LLVM's code generator for one target, and the facts that it reports. A value that borrows the target. Not
// thread-safe; each thread has its own tools. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/codegen.h"

namespace autotune {

// Names in LLVM IR by which reports find what the register contract is about: basic blocks of innermost loops over
// register buffers, and the memory of register buffers, which optimization must remove.
inline constexpr const char* kRegisterLoopPrefix = "regloop.";
inline constexpr const char* kRegisterBufferPrefix = "register.";

// What LLVM needs to know of a target besides its triple and CPU. An error: it does not know the target.
Result<const llvm::Target*> FindLlvmTarget(const Target& target);
std::string MachineFeatures(const Target& target);
llvm::TargetOptions MachineOptions(const Target& target);

// Checks a module where AUTOTUNE_VERIFY is set. LLVM's own passes and code generator do not check.
void VerifyModule(const llvm::Module& module);

class Machine {
 public:
  // kQuick: no optimization; for code that runs once per call.
  enum class Effort { kFull, kQuick };
  static Result<Machine> For(const Target& target, Effort effort = Effort::kFull);

  // Returns the KnownCpuFeatures (support/cpu_features.h) that code for this target may use: those that the CPU model
  // implies and those that the target lists.
  std::vector<std::string> CpuFeatures() const;
  // Returns an empty module for this target.
  std::unique_ptr<llvm::Module> NewModule(llvm::LLVMContext& context, const std::string& name) const;
  // Runs the fixed list of passes over all functions. Returns the name of a register buffer that is still in memory,
  // which breaks its contract; empty if there is none.
  std::string Optimize(llvm::Module& module) const;
  // Sets the attributes of every function: its target, and that it calls no C library.
  void Describe(llvm::Module& module) const;
  // Returns a relocatable object, or assembly text if `assembly`. Adds the facts about spills to `facts`.
  Result<std::string> Emit(llvm::Module& module, bool assembly, BuildFacts* facts) const;

 private:
  // LLVM's objects for one thread, target and effort. They are kept, since making them takes longer than running them
  // over a small kernel.
  struct Tools;
  static Result<std::shared_ptr<Tools>> Create(const Target& target, Effort effort);

  std::shared_ptr<Tools> tools_;
  const Target* target_ = nullptr;
};

}  // namespace autotune
