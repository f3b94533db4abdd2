#include "codegen/llvm/machine.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/CodeGen/MachineBasicBlock.h>
#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineOptimizationRemarkEmitter.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <cstring>
#include <map>
#include <mutex>

#include "support/check.h"
#include "support/cpu_features.h"
#include "support/join.h"

namespace autotune {
namespace {

void InitializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeX86Disassembler();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
    LLVMInitializeAArch64Disassembler();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    LLVMInitializeRISCVAsmParser();
    LLVMInitializeRISCVDisassembler();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

// Sets an option that LLVM only has as a command-line option. Must be called before every use of the option, since LLD
// resets all options.
void SetOption(llvm::StringRef name, bool value) {
  llvm::cl::Option* option = llvm::cl::getRegisteredOptions().lookup(name);
  CHECK(option) << "LLVM has no option -" << name.str();
  static_cast<llvm::cl::opt<bool>*>(option)->setValue(value);
}

// Counts the spills that the register allocator reports.
class SpillHandler : public llvm::DiagnosticHandler {
 public:
  explicit SpillHandler(BuildFacts* facts) : facts_(facts) {}
  bool isAnyRemarkEnabled() const override { return true; }
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override { return pass == "regalloc"; }
  bool isAnalysisRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isPassedOptRemarkEnabled(llvm::StringRef) const override { return false; }

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    const auto* remark = llvm::dyn_cast<llvm::DiagnosticInfoMIROptimization>(&info);
    if (!remark) return info.getSeverity() != llvm::DS_Error;  // LLVM's default handling reports errors
    if (remark->getPassName() != "regalloc") return true;
    int64_t count = 0;
    for (const auto& arg : remark->getArgs()) {
      llvm::StringRef key = arg.Key;
      int64_t n = 0;
      if ((key.contains("Spills") || key.contains("Reloads")) && !key.starts_with("NumZeroCost") &&
          !llvm::StringRef(arg.Val).getAsInteger(10, n)) {
        count += n;
      }
    }
    if (remark->getRemarkName() == "SpillReloadCopies") facts_->spills += count;
    if (remark->getRemarkName() == "LoopSpillReloadCopies") {
      const llvm::MachineBasicBlock* header = remark->getBlock();
      if (header && header->getName().starts_with(kRegisterLoopPrefix)) facts_->spills_in_register_loops += count;
    }
    return true;
  }

 private:
  BuildFacts* facts_;
};

// The optimization passes on LLVM IR.
class Optimizer {
 public:
  explicit Optimizer(llvm::TargetMachine& machine) : builder_(&machine) {
    builder_.registerModuleAnalyses(modules_);
    builder_.registerCGSCCAnalyses(components_);
    builder_.registerFunctionAnalyses(functions_);
    builder_.registerLoopAnalyses(loops_);
    builder_.crossRegisterProxies(loops_, functions_, components_, modules_);
    passes_.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    passes_.addPass(llvm::EarlyCSEPass(false));
    passes_.addPass(llvm::InstCombinePass());
    passes_.addPass(llvm::SimplifyCFGPass());
    passes_.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
    passes_.addPass(llvm::EarlyCSEPass(true));
    passes_.addPass(llvm::DSEPass());
  }

  void Run(llvm::Module& module) {
    for (llvm::Function& f : module) {
      if (!f.isDeclaration()) passes_.run(f, functions_);
    }
    loops_.clear();
    functions_.clear();
    components_.clear();
    modules_.clear();
  }

 private:
  llvm::LoopAnalysisManager loops_;
  llvm::FunctionAnalysisManager functions_;
  llvm::CGSCCAnalysisManager components_;
  llvm::ModuleAnalysisManager modules_;
  llvm::PassBuilder builder_;
  llvm::FunctionPassManager passes_;
};

// The passes from LLVM IR to bytes. They are made once and run on one module after another, since no pass keeps state
// between modules.
class ObjectWriter {
 public:
  static std::unique_ptr<ObjectWriter> Make(llvm::TargetMachine& machine, llvm::CodeGenFileType kind) {
    std::unique_ptr<ObjectWriter> writer(new ObjectWriter);
    if (machine.addPassesToEmitFile(writer->passes_, writer->stream_, nullptr, kind, /*DisableVerify=*/true)) {
      return nullptr;
    }
    return writer;
  }
  std::string Write(llvm::Module& module) {
    bytes_.clear();
    passes_.run(module);
    return std::string(bytes_.begin(), bytes_.end());
  }

 private:
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_{bytes_};
  llvm::legacy::PassManager passes_;
};

}  // namespace

struct LlvmMachine::Tools {
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<Optimizer> optimizer;  // made at the first use
  std::unique_ptr<ObjectWriter> writer;  // made at the first use
};

void VerifyModule([[maybe_unused]] const llvm::Module& module) {
#ifdef AUTOTUNE_VERIFY
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  CHECK(!llvm::verifyModule(module, &stream)) << problem;
#endif
}

std::string MachineFeatures(const Target& target) {
  std::vector<std::string> features = target.features;
  // These extensions are the baseline of Linux on RISC-V. Without them, operations on floats would be library calls.
  if (target.triple.starts_with("riscv64") && target.cpu.starts_with("generic")) {
    features.insert(features.begin(), {"+m", "+a", "+f", "+d", "+c"});
  }
  // Without prefetchw, LLVM emits a prefetch for reading instead of one for writing. Every x86-64 processor decodes
  // prefetchw.
  if (target.triple.starts_with("x86_64")) features.push_back("+prfchw");
  return Joined(features, ",");
}

llvm::TargetOptions MachineOptions(const Target& target) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  if (target.triple.starts_with("riscv64")) options.MCOptions.ABIName = "lp64d";
  return options;
}

Result<const llvm::Target*> FindLlvmTarget(const Target& target) {
  InitializeTargets();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!found) return Err("LLVM has no code generator for -mtriple=", target.triple, ": ", error);
  // Checks the names of the CPU and the features. For an unknown name, LLVM itself only prints a message to stderr.
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(found->createMCSubtargetInfo(target.triple, "", ""));
  if (!subtarget->isCPUStringValid(target.cpu))
    return Err("LLVM does not know -mcpu=", target.cpu, " of ", target.triple);
  for (const std::string& feature : target.features) {
    auto known = subtarget->getAllProcessorFeatures();
    if (std::none_of(known.begin(), known.end(), [&](const auto& f) { return feature.substr(1) == f.Key; }))
      return Err("LLVM does not know -mattr=", feature, " of ", target.triple);
  }
  return found;
}

Result<std::shared_ptr<LlvmMachine::Tools>> LlvmMachine::Create(const Target& target, Effort effort) {
  const llvm::Target* found = TRY(FindLlvmTarget(target));
  // With this option, addresses of shared memory on GPUs have 32 bits and take half of the registers.
  SetOption("nvptx-short-ptr", true);
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      target.triple, target.cpu, MachineFeatures(target), MachineOptions(target), llvm::Reloc::PIC_,
      llvm::CodeModel::Small,
      effort == Effort::kFull ? llvm::CodeGenOptLevel::Aggressive : llvm::CodeGenOptLevel::None));
  if (effort == Effort::kQuick) {
    machine->setFastISel(true);
    machine->setGlobalISel(false);
  }
  auto tools = std::make_shared<Tools>();
  tools->machine = std::move(machine);
  return tools;
}

Result<LlvmMachine> LlvmMachine::For(const Target& target, Effort effort) {
  thread_local std::map<std::pair<std::string, Effort>, std::shared_ptr<Tools>> known;
  auto key = std::pair(target.Text(), effort);
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, TRY(Create(target, effort))).first;
  LlvmMachine machine;
  machine.target_ = &target;
  machine.tools_ = at->second;
  return machine;
}

std::vector<std::string> LlvmMachine::CpuFeatures() const {
  const llvm::MCSubtargetInfo& subtarget = *tools_->machine->getMCSubtargetInfo();
  std::vector<std::string> features = KnownCpuFeatures(target_->triple.substr(0, target_->triple.find('-')));
  std::erase_if(features, [&](const std::string& name) { return !subtarget.checkFeatures("+" + name); });
  return features;
}

std::unique_ptr<llvm::Module> LlvmMachine::NewModule(llvm::LLVMContext& context, const std::string& name) const {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setSourceFileName("");
  module->setTargetTriple(target_->triple);
  module->setDataLayout(tools_->machine->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  return module;
}

void LlvmMachine::Describe(llvm::Module& module) const {
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.addFnAttr(llvm::Attribute::NoUnwind);
    f.addFnAttr("no-builtins");
    f.addFnAttr("target-cpu", tools_->machine->getTargetCPU());
    f.addFnAttr("target-features", tools_->machine->getTargetFeatureString());
    // With LLVM's scheduling model of these processors, 12 % of all candidates spill; with its model of generic x86-64
    // processors, 3 % do. Candidates that spill with neither model are equally fast with both.
    if (target_->cpu == "znver4" || target_->cpu == "znver5") f.addFnAttr("tune-cpu", "x86-64");
    if (target_->vector_bits > 256) f.addFnAttr("prefer-vector-width", std::to_string(target_->vector_bits));
  }
}

std::string LlvmMachine::Optimize(llvm::Module& module) const {
  Describe(module);
  if (!tools_->optimizer) tools_->optimizer = std::make_unique<Optimizer>(*tools_->machine);
  tools_->optimizer->Run(module);
  for (const llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    for (const llvm::Instruction& i : f.getEntryBlock()) {
      if (i.getName().starts_with(kRegisterBufferPrefix) && llvm::isa<llvm::AllocaInst>(i)) {
        return i.getName().drop_front(std::strlen(kRegisterBufferPrefix)).split('.').first.str();
      }
    }
  }
  return "";
}

Result<std::string> LlvmMachine::Emit(llvm::Module& module, bool assembly, BuildFacts* facts) const {
  Describe(module);
  // Disables LLVM's loop strength reduction for CPUs: the class Addresses (codegen/llvm/addresses.h) does what they
  // need, since their loads and stores can scale an index. The loads and stores of GPUs cannot, so GPUs need the pass.
  SetOption("disable-lsr", !tools_->machine->getTargetTriple().isNVPTX());
  // Disables a pass that takes long to search for scalars that could be vector masks. Emitted code has none.
  SetOption("disable-x86-domain-reassignment", true);
  BuildFacts ignored;
  module.getContext().setDiagnosticHandler(std::make_unique<SpillHandler>(facts ? facts : &ignored));
  std::unique_ptr<ObjectWriter> for_text;
  std::unique_ptr<ObjectWriter>& writer = assembly ? for_text : tools_->writer;
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (!writer) writer = ObjectWriter::Make(*tools_->machine, kind);
  if (!writer) return Err("LLVM cannot write objects for ", target_->triple);
  return writer->Write(module);
}

}  // namespace autotune
