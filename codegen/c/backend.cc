#include "codegen/c/backend.h"

#include "codegen/c/assembly.h"
#include "codegen/c/compiler.h"
#include "codegen/c/cpu/entry.h"
#include "codegen/c/gpu/function.h"
#include "codegen/identifiers.h"
#include "codegen/llvm/backend.h"
#include "codegen/stage_timer.h"

namespace autotune {
namespace {

Result<std::string> AssembledFor(const std::string& kernel, const std::string& assembly, const Target& target) {
  Result<std::string> object = Assemble(assembly, target);
  if (object.ok()) return object;
  return Err(object.error().Text(), " (assembling kernel ", kernel, ")", c::OtherMachine(target));
}

}  // namespace

Result<KernelObject> CompileWithC(const LoweredKernel& kernel, const Target& target, const CodegenOptions& options) {
  KernelObject result;
  result.metadata = MetadataOf(kernel, target);
  StageTimer timer(result.facts.times_ms);
  c::Source source = TRY(c::KernelSource(kernel, target, TRY(CpuFeaturesOf(target))));
  timer.End("emit");
  if (!source.rejected.empty()) {
    result.rejected = std::move(source.rejected);
    return result;
  }
  result.source = std::move(source.text);
  const double before = ChildrenCpuMilliseconds();
  const std::string assembly = TRY(c::CompileToAssembly(result.source, target));
  timer.End("pipe");
  result.facts.times_ms["compile"] = ChildrenCpuMilliseconds() - before;
  result.objects.emplace_back().data = TRY(AssembledFor(kernel.name.str(), assembly, target));
  timer.End("assemble");
  result.facts.code_bytes = CodeBytes(result.objects[0].data);
  c::CountSpills(assembly, target.triple, result.facts);
  if (options.keep_assembly) result.assembly = assembly;
  // Without vector types, loops have no marks and no spills are counted, since the compiler alone decides which values
  // are in registers.
  if (kernel.has_register_tile && result.facts.spills_in_register_loops > 0 && !options.keep_spills) {
    result.rejected = SpillsMessage(result.facts.spills_in_register_loops);
    result.objects.clear();
  }
  return result;
}

Result<KernelObject> CompileWithOpenCl(const LoweredKernel& kernel, const Target& target) {
  KernelObject result;
  StageTimer timer(result.facts.times_ms);
  const std::string name = kernel.name.str();
  Result<KernelFunctions> functions = KernelFunctionsOf(kernel, IdentifierOf(name), target);
  if (!functions.ok()) {
    result.rejected = functions.error().Text();
    return result;
  }
  result.metadata = MetadataOf(kernel, target);
  SetLaunches(*functions, target, result.metadata);
  c::Source source = c::OpenClSource(*functions, name, target);
  result.source = std::move(source.text);
  result.rejected = std::move(source.rejected);
  timer.End("emit");
  return result;
}

Result<std::string> SourceOf(const LoweredKernel& kernel, const Target& target) {
  if (target.kind == TargetKind::kCuda) return Err("code for ", ToText(target.kind), " is PTX by LLVM, not C");
  if (target.IsGpu()) {
    KernelObject object = TRY(CompileWithOpenCl(kernel, target));
    if (!object.rejected.empty()) return Err("rejected: ", object.rejected);
    return std::move(object.source);
  }
  c::Source source = TRY(c::KernelSource(kernel, target, TRY(CpuFeaturesOf(target))));
  if (!source.rejected.empty()) return Err("rejected: ", source.rejected);
  return std::move(source.text);
}

Result<std::string> MetadataSource(const std::vector<const KernelObject*>& objects, const Target& target) {
  return c::MetadataUnit(TRY(ArtifactMetadataOf(objects, target)));
}

}  // namespace autotune
