#include <llvm/Object/ObjectFile.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "codegen/launches.h"
#include "codegen/llvm/backend.h"
#include "codegen/llvm/cpu/entry.h"
#include "codegen/llvm/link.h"
#include "codegen/llvm/machine.h"
#include "codegen/stage_timer.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "runtime/data_object.h"
#include "runtime/module_blob.h"
#include "support/check.h"

namespace autotune {
namespace {

// Returns an object with the function `autotune.check`. All kernels of a target use the same object, so each thread
// compiles it once per target.
Result<const std::string*> CheckObject(const LlvmMachine& machine, const std::string& target) {
  thread_local std::map<std::string, std::string> made;
  std::string& object = made[target];
  if (object.empty()) {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module = machine.NewModule(context, "check");
    EmitCheck(*module);
    VerifyModule(*module);
    object = TRY(machine.Emit(*module, false, nullptr));
  }
  return &object;
}

}  // namespace

int64_t CodeBytes(const std::string& elf) {
  auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(elf, "object"));
  if (!object) {
    llvm::consumeError(object.takeError());
    return 0;
  }
  int64_t bytes = 0;
  for (const auto& section : (*object)->sections()) {
    if (section.isText()) bytes += static_cast<int64_t>(section.getSize());
  }
  return bytes;
}

Result<std::vector<std::string>> CpuFeaturesOf(const Target& target) {
  return TRY(LlvmMachine::For(target, LlvmMachine::Effort::kQuick)).CpuFeatures();
}

namespace {

bool HasTiles(const Stmt& body) {
  bool found = false;
  Walk(body, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    found |= loop && loop->annotations.contains(kTiles);
    return !found;
  });
  return found;
}

}  // namespace

Result<KernelObject> CompileWithLlvm(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options) {
  KernelObject result;
  result.metadata = MetadataOf(kernel, target);
  result.uses_tiles = target.has_tiles && HasTiles(kernel.run.body);
  StageTimer timer(result.facts.times_ms);
  LlvmMachine machine = TRY(LlvmMachine::For(target)),
              quick = TRY(LlvmMachine::For(target, LlvmMachine::Effort::kQuick));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> hot = machine.NewModule(context, result.metadata.name);
  std::unique_ptr<llvm::Module> cold = quick.NewModule(context, result.metadata.name);
  EmitKernel({*hot, *cold}, kernel, result.metadata, target);
  VerifyModule(*hot);
  VerifyModule(*cold);
  timer.End("emit");
  std::string left = machine.Optimize(*hot);
  timer.End("optimize");
  if (!left.empty()) {
    result.rejected = NotInRegistersMessage(left, "its accesses overlap in part");
    return result;
  }
  if (options.keep_assembly) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*hot);
    llvm::raw_string_ostream stream(result.llvm_ir);
    stream << *hot;
    result.assembly = TRY(machine.Emit(*copy, true, nullptr));
  }
  result.objects.emplace_back().data = TRY(machine.Emit(*hot, false, &result.facts));
  timer.End("machine_code");
  result.objects.emplace_back().data = TRY(quick.Emit(*cold, false, nullptr));
  timer.End("entry_points");
  result.facts.code_bytes = CodeBytes(result.objects[0].data);
  if (kernel.has_register_tile && result.facts.spills_in_register_loops > 0 && !options.keep_spills) {
    result.rejected = SpillsMessage(result.facts.spills_in_register_loops);
    result.objects.clear();
  }
  return result;
}

Result<LinkedKernels> LinkKernels(const std::vector<const KernelObject*>& objects, const Target& target,
                                  BuildFacts* facts) {
  std::map<std::string, double> times;
  StageTimer timer(times);
  const ArtifactMetadata metadata = TRY(ArtifactMetadataOf(objects, target));
  std::vector<const std::string*> files;
  for (const KernelObject* object : objects) {
    for (const Json::Bytes& elf : object->objects) files.push_back(&elf.data);
  }
  const Target host = target.Host();
  LlvmMachine machine = TRY(LlvmMachine::For(host, LlvmMachine::Effort::kQuick));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = machine.NewModule(context, "metadata");
  EmitMetadata(*module, metadata);
  VerifyModule(*module);
  LinkedKernels linked;
  linked.support.emplace_back().data = TRY(machine.Emit(*module, false, nullptr));
  linked.support.emplace_back().data = *TRY(CheckObject(machine, host.Text()));
  for (const Json::Bytes& object : linked.support) files.push_back(&object.data);
  std::string blob;  // the relocatable object with the module tree; empty for CPUs
  if (target.IsGpu()) {
    linked.device_blob.data = TRY(DeviceBlobOf(objects, target));
    const std::string& bytes = linked.device_blob.data;
    ByteWriter out;
    TRY(WriteDataObject(linked.support[0].data, kModuleBlobSymbol, sizeof(uint64_t) + bytes.size(), out,
                        [&](ByteWriter& data) {
                          data.Text(bytes);
                          return Status();
                        }));
    blob = out.Take();
    files.push_back(&blob);
  }
  if (target.kind == TargetKind::kC) linked.support_source = TRY(MetadataSource(objects, target));
  timer.End("metadata");
  linked.artifact.data = TRY(LinkShared(files));
  timer.End("link");
  if (facts) {
    for (const auto& [stage, ms] : times) facts->times_ms[stage] += ms;
  }
  return linked;
}

Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data, const std::string& output) {
  std::vector<const std::string*> files;
  for (const Json::Bytes& elf : objects) files.push_back(&elf.data);
  return LinkSharedFile(files, data, output);
}

}  // namespace autotune
