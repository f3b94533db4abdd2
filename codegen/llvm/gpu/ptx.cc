#include "codegen/llvm/gpu/ptx.h"

#include "codegen/identifiers.h"
#include "codegen/index_width.h"
#include "codegen/launches.h"
#include "codegen/llvm/gpu/function.h"
#include "codegen/llvm/machine.h"
#include "codegen/stage_timer.h"
#include "codegen/walk.h"
#include "support/check.h"
#include "target/cuda_arch.h"

namespace autotune {
namespace {

// Returns the target of LLVM's code generator for the GPU.
Target DeviceOf(const Target& target) {
  const CudaArch* arch = FindCudaArch(target.arch);
  CHECK(arch) << "no architecture " << target.arch;
  Target device = target;
  device.kind = TargetKind::kLlvm;
  device.triple = "nvptx64-nvidia-cuda";
  device.cpu = arch->ptx_arch;
  device.features = {"+ptx" + std::to_string(arch->ptx_version)};
  return device;
}

bool HasLocalBuffers(const LoweredKernel& kernel) {
  bool found = false;
  auto look = [&](const Stmt& s) {
    const Alloc* alloc = s.As<Alloc>();
    found |= alloc && alloc->buffer->scope == Scope::kLocal;
    return !found;
  };
  Walk(kernel.run.body, look);
  if (kernel.prepare) Walk(kernel.prepare->body, look);
  return found;
}

}  // namespace

Result<KernelObject> CompileToPtx(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options) {
  KernelObject result;
  StageTimer timer(result.facts.times_ms);
  Result<KernelFunctions> functions = KernelFunctionsOf(kernel, IdentifierOf(kernel.name.str()), target);
  if (!functions.ok()) {
    result.rejected = functions.error().Text();
    return result;
  }
  const Target device = DeviceOf(target);
  const LlvmMachine machine = TRY(LlvmMachine::For(device));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = machine.NewModule(context, kernel.name.str());
  for (std::vector<KernelFunction>* list : {&functions->run, &functions->prepare}) {
    for (KernelFunction& function : *list) {
      KernelEmitter(*module, device, IndexBitsOf(function.body)).EmitKernel(function);
      if (function.launch.shared_bytes <= target.shared_bytes) continue;
      result.rejected = "a block needs " + std::to_string(function.launch.shared_bytes) +
                        " bytes of shared memory; the target has " + std::to_string(target.shared_bytes);
      return result;
    }
  }
  result.metadata = MetadataOf(kernel, target);
  SetLaunches(*functions, target, result.metadata);
  VerifyModule(*module);
  timer.End("emit");
  const std::string left = machine.Optimize(*module);
  timer.End("optimize");
  if (!left.empty()) {
    result.rejected = NotInRegistersMessage(left, "its accesses overlap in part");
    return result;
  }
  if (options.keep_assembly) {
    llvm::raw_string_ostream stream(result.llvm_ir);
    stream << *module;
  }
  // The modules of a library's kernels are joined (JoinPtx), so names must differ between kernels.
  const std::string stem = IdentifierOf(kernel.name.str());
  for (llvm::GlobalVariable& variable : module->globals()) {
    if (!variable.getName().starts_with(stem)) variable.setName(stem + "_" + variable.getName());
  }
  result.source = TRY(machine.Emit(*module, /*assembly=*/true, nullptr));
  timer.End("machine_code");
  // Looks for local memory, the memory of a thread, in the PTX. LLVM uses it for a vector that a variable indexes.
  if (kernel.has_register_tile && !HasLocalBuffers(kernel) && result.source.find(".local") != std::string::npos) {
    result.rejected = "a register tile cannot be kept in registers: its code uses local memory";
    result.source.clear();
    return result;
  }
  result.facts.code_bytes = static_cast<int64_t>(result.source.size());
  if (options.keep_assembly) result.assembly = result.source;
  return result;
}

}  // namespace autotune
