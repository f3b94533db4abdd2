#include "codegen/c/gpu/function.h"

#include "codegen/c/gpu/opencl.h"
#include "codegen/identifiers.h"
#include "support/join.h"

namespace autotune::c {

std::string GpuFunction::Emit(const KernelFunction& kernel) {
  std::string parameters;
  for (const PointerParam& p : kernel.pointers) parameters += (parameters.empty() ? "" : ", ") + BindParameter(p);
  writer_.Line("__attribute__((reqd_work_group_size(" + Joined(kernel.launch.block) + ")))");
  writer_.Open("kernel void " + kernel.launch.entry + "(" + parameters + ")");
  for (const Buffer& buffer : SharedBuffersOf(kernel.body)) {
    const std::string id = names_.Of(Names::Kind::kBuffer, buffer->name);
    const int64_t elements = ConstShape(buffer)[0];
    writer_.Line("local " + dialect_.MemoryType(buffer->dtype) + " " + id + "[" + std::to_string(elements) + "];");
    bindings_.buffers[buffer->name] = {id, elements};
  }
  Statements::Emit(kernel.body);
  writer_.Close();
  return writer_.text() + "\n";
}

void GpuFunction::EmitFork(const For& loop) {
  const int64_t extent = *AsInt(loop.extent);
  bindings_.analyzer.Bind(loop.var, 0, extent - 1);
  if (extent == 1) {
    bindings_.vars[loop.var] = {"0"};
    return Statements::Emit(loop.body);
  }
  const bool of_block = IsBlockAxis(loop.kind);
  const int axis = static_cast<int>(loop.kind) - static_cast<int>(of_block ? LoopKind::kBlockX : LoopKind::kThreadX);
  const std::string id = names_.Fresh(Names::Kind::kVar, loop.var);
  writer_.Line("const " + dialect_.Type(DType::Index()) + " " + id + " = " +
               (of_block ? "get_group_id(" : "get_local_id(") + std::to_string(axis) + ");");
  bindings_.vars[loop.var] = {id};
  Statements::Emit(loop.body);
}

Source OpenClSource(const KernelFunctions& functions, const std::string& name, const Target& target) {
  OpenClC dialect;
  Helpers helpers(dialect, target);
  Source source;
  std::string text;
  for (const std::vector<KernelFunction>* list : {&functions.run, &functions.prepare}) {
    for (const KernelFunction& kernel : *list) {
      GpuFunction function(dialect, helpers, kernel.launch.entry);
      text += function.Emit(kernel);
      if (!function.rejected().empty()) return {"", function.rejected()};
    }
  }
  source.text = "/* Kernel " + IdentifierOf(name) + ", for the target\n   " + target.Text() + " */\n";
  source.text += dialect.Prelude(helpers.text() + text);
  if (!helpers.text().empty()) source.text += "/* Operations that C has no operators for. */\n" + helpers.text() + "\n";
  source.text += text;
  return source;
}

}  // namespace autotune::c
