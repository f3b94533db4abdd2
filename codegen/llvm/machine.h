// Machine: LLVM's code generator for one target, and the facts that it reports. Internal to codegen/llvm.
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

class Machine {
 public:
  // kQuick: no optimization, for code that runs once per call.
  enum class Effort { kFull, kQuick };
  static Result<Machine> For(const Target& target, Effort effort = Effort::kFull);

  // Returns the KnownCpuFeatures (support/cpu_features.h) that code for this target may use: those that the CPU model
  // implies and those that the target lists.
  std::vector<std::string> CpuFeatures() const;
  // A module set up for this target.
  std::unique_ptr<llvm::Module> NewModule(llvm::LLVMContext& context, const std::string& name) const;
  // Runs the fixed pass list over all functions. Afterwards no register buffer may be left in memory:
  // the name of one that is, else empty.
  std::string Optimize(llvm::Module& module) const;
  // Attributes of every function: target, no calls of the C library.
  void Describe(llvm::Module& module) const;
  // A relocatable object; facts of spills are added. `assembly`: text instead.
  Result<std::string> Emit(llvm::Module& module, bool assembly, BuildFacts* facts) const;

 private:
  // What is made once for a thread, a target and an effort: LLVM's machines and pass pipelines are not thread-safe, and
  // making them takes longer than running them over a small kernel.
  struct Tools;
  static Result<std::shared_ptr<Tools>> Create(const Target& target, Effort effort);

  std::shared_ptr<Tools> tools_;
  const Target* target_ = nullptr;
};

}  // namespace autotune
