// LlvmMachine: LLVM's code generator for one target, and the numbers that it reports. A value that borrows the target.
// Not thread-safe; each thread has its own Tools. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/codegen.h"

namespace autotune {

// Prefixes of names in LLVM IR, for checks of the register contract. kRegisterLoopPrefix begins the name of the first
// basic block of an innermost loop over register buffers; spills in such loops are counted. kRegisterBufferPrefix
// begins the name of the alloca of a register buffer, which optimization must remove.
inline constexpr const char* kRegisterLoopPrefix = "regloop.";
inline constexpr const char* kRegisterBufferPrefix = "register.";

// Returns LLVM's description of the target's architecture. An error if LLVM does not know the target.
Result<const llvm::Target*> FindLlvmTarget(const Target& target);
// Return the target's features in LLVM's syntax, and the options of LLVM's code generator for the target.
std::string MachineFeatures(const Target& target);
llvm::TargetOptions MachineOptions(const Target& target);

// Checks that a module is well-formed, in builds that define AUTOTUNE_VERIFY. LLVM's passes and code generator assume
// that it is.
void VerifyModule(const llvm::Module& module);

class LlvmMachine {
 public:
  // kQuick generates code without optimization, for functions that run once per call of a kernel.
  enum class Effort { kFull, kQuick };
  static Result<LlvmMachine> For(const Target& target, Effort effort = Effort::kFull);

  // Returns the KnownCpuFeatures (support/cpu_features.h) that code for this target may use: those that the CPU model
  // implies and those that the target lists.
  std::vector<std::string> CpuFeatures() const;
  // Returns an empty module for this target.
  std::unique_ptr<llvm::Module> NewModule(llvm::LLVMContext& context, const std::string& name) const;
  // Runs the fixed list of passes over all functions. Returns the name of a register buffer that is still in memory
  // afterwards, which breaks the register contract. Returns an empty name if there is none.
  std::string Optimize(llvm::Module& module) const;
  // Sets the attributes of every function: the target's CPU and features, and that it calls no C library.
  void Describe(llvm::Module& module) const;
  // Returns a relocatable object, or assembly text if `assembly` is true. Adds the counts of spills to `facts`.
  Result<std::string> Emit(llvm::Module& module, bool assembly, BuildFacts* facts) const;

 private:
  // LLVM's objects for one thread, target and effort. They are kept, since making them takes longer than compiling a
  // small kernel.
  struct Tools;
  static Result<std::shared_ptr<Tools>> Create(const Target& target, Effort effort);

  std::shared_ptr<Tools> tools_;
  const Target* target_ = nullptr;
};

}  // namespace autotune
