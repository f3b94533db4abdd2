#include "codegen/codegen.h"

#include <algorithm>

#include "codegen/arguments.h"
#include "codegen/c/backend.h"
#include "codegen/llvm/backend.h"
#include "codegen/llvm/gpu/ptx.h"
#include "codegen/memory.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune {
namespace {

// Raises the sizes of scratch memory in `metadata` to those that `f` needs: for a thread that runs all of `f`, and for
// each further thread, which only runs tasks of parallel loops.
void AddWorkspace(const PrimFunc& f, KernelMetadata& metadata) {
  int64_t most_parallel = 0;
  Walk(f.body, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop || loop->kind != LoopKind::kParallel) return true;
    most_parallel = std::max(most_parallel, LayOut(loop->body).bytes);
    return false;
  });
  metadata.workspace_bytes = std::max(metadata.workspace_bytes, LayOut(f.body).bytes + most_parallel);
  metadata.thread_workspace_bytes = std::max(metadata.thread_workspace_bytes, most_parallel);
}

}  // namespace

KernelMetadata MetadataOf(const LoweredKernel& kernel, const Target& target) {
  KernelMetadata metadata;
  metadata.name = kernel.name.str();
  const Uses uses = UsesOf(kernel.run.body);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param& p = kernel.params[i];
    metadata.params.push_back({p.buffer->name.str(), p.buffer->dtype.Text(), ConstShape(p.buffer),
                               p.role == ParamRole::kInput      ? ParamKind::kInput
                               : p.role == ParamRole::kConstant ? ParamKind::kConstant
                                                                : ParamKind::kOutput,
                               target.IsGpu() ? p.buffer->alignment : AlignmentOf(p)});
    if (p.role == ParamRole::kConstant && !uses.buffers.contains(p.buffer->name)) {
      metadata.prepare_only.push_back(static_cast<int64_t>(i));
    }
  }
  metadata.prepared = kernel.prepared;
  AddWorkspace(kernel.run, metadata);
  if (kernel.prepare) AddWorkspace(*kernel.prepare, metadata);
  metadata.flops = kernel.flops;
  return metadata;
}

Result<ArtifactMetadata> ArtifactMetadataOf(const std::vector<const KernelObject*>& objects, const Target& target) {
  ArtifactMetadata metadata;
  metadata.abi_version = AT_ABI_VERSION;
  metadata.target = target.Text();
  // The library of a GPU has no code for the CPU, so it needs no CPU features.
  if (!target.IsGpu()) metadata.cpu_features = TRY(CpuFeaturesOf(target));
  for (const KernelObject* object : objects) {
    if (!object->rejected.empty()) return Err("kernel ", object->metadata.name, " was rejected: ", object->rejected);
    metadata.kernels.push_back(object->metadata);
  }
  // Linux grants AMX to processes that ask for it, and refuses it in some sandboxes. LLVM never uses it by itself.
  if (std::ranges::none_of(objects, &KernelObject::uses_tiles))
    std::erase_if(metadata.cpu_features, [](const std::string& name) { return name.starts_with("amx-"); });
  return metadata;
}

std::string NotInRegistersMessage(const std::string& buffer, const std::string& why) {
  return "register buffer " + buffer + " cannot be kept in registers: " + why;
}

std::string SpillsMessage(int64_t spills) {
  return "spills " + std::to_string(spills) +
         " times in a register-tiled loop: the tile needs more registers than the target has";
}

Result<KernelObject> CompileKernel(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options) {
  switch (target.kind) {
    case TargetKind::kLlvm:
      return CompileWithLlvm(kernel, target, options);
    case TargetKind::kC:
      return CompileWithC(kernel, target, options);
    case TargetKind::kOpenCl:
      return CompileWithOpenCl(kernel, target);
    case TargetKind::kCuda:
      return CompileToPtx(kernel, target, options);
  }
  UNREACHABLE();
}

}  // namespace autotune
