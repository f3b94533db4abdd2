#include "codegen/c/cpu/function.h"

#include <algorithm>

#include "runtime/abi.h"
#include "support/check.h"

namespace autotune::c {

std::string CpuFunction::EmitBody(const std::vector<PointerParam>& pointers, const Stmt& body) {
  std::string parameters = "AtContext* context";
  for (const PointerParam& p : pointers) parameters += ", " + BindParameter(p);
  writer_.Open(dialect_.Local() + " int32_t " + prefix_ + "_body(" + parameters + ")");
  Emit(body);
  if (parallel_loops_ == 0) writer_.Line("(void)context;");
  writer_.Line("return 0;");
  writer_.Close();
  return before_ + "/* Computes " + prefix_ + " on the buffers that are passed to it. */\n" + writer_.text() + "\n";
}

std::string CpuFunction::EmitIterations(const For& loop, const Captures& captures, const Analyzer& outside) {
  std::string parameters = "int64_t begin, int64_t end";
  for (const PointerParam& p : captures.Pointers()) parameters += ", " + BindParameter(p);
  for (const Name& var : captures.scalars) {
    const std::string id = names_.Of(Names::Kind::kVar, var);
    bindings_.vars[var] = {id};
    parameters += ", int64_t " + id;
  }
  bindings_.analyzer = outside;
  bindings_.analyzer.Bind(loop.var, 0, *AsInt(loop.extent) - 1);
  writer_.Open(dialect_.Local() + " void " + prefix_ + "(" + parameters + ")");
  EmitLoop(loop, "begin", "end");
  writer_.Close();
  return before_ + "/* Iterations begin to end of the parallel loop over " + names_.Of(Names::Kind::kVar, loop.var) +
         ". */\n" + writer_.text() + "\n";
}

// Returns the struct that all tasks of the loop share, and the function that the pool calls for each task.
std::string CpuFunction::EmitTask(const For& loop, const Captures& captures, const std::string& name) {
  Writer w;
  Names names(prefix_);
  std::string arguments;
  w.Line("/* What the tasks of " + name + " share, and one of them: task / tasks of all iterations. */");
  w.Open("struct " + name);
  w.Line("int64_t tasks;");
  for (const PointerParam& p : captures.buffers) {
    const std::string id = names.Of(Names::Kind::kBuffer, p.name);
    w.Line(dialect_.Pointer(p.buffer->dtype, p.written) + " " + id + ";");
    arguments += ", shared->" + id;
  }
  std::string scalars;
  for (const Name& var : captures.scalars) {
    const std::string id = names.Of(Names::Kind::kVar, var);
    w.Line("int64_t " + id + ";");
    scalars += ", shared->" + id;
  }
  w.Close(";");
  w.Open("static int32_t " + name + "_task(AtContext* context, void* closure, int32_t task)");
  w.Line("const struct " + name + "* shared = (const struct " + name + "*)closure;");
  const std::string extent = std::to_string(*AsInt(loop.extent));
  const Scratch scratch = AllocateScratch(w, names, dialect_, captures.workspace, name);
  for (const std::string& pointer : scratch.pointers) arguments += ", " + pointer;
  w.Line(name + "(task * INT64_C(" + extent + ") / shared->tasks, (task + INT64_C(1)) * " + extent +
         " / shared->tasks" + arguments + scalars + ");");
  FreeScratch(w, scratch);
  if (!scratch.to_free) w.Line("(void)context;");
  w.Line("return 0;");
  w.Close();
  return w.text() + "\n";
}

void CpuFunction::EmitFork(const For& loop) {
  CHECK(loop.kind == LoopKind::kParallel) << "loop " << loop.var << ": a CPU runs no grids of threads";
  const int64_t* extent = AsInt(loop.extent);
  CHECK(extent && *extent > 0) << "parallel loop " << loop.var << " has no constant extent";
  for (const auto& [name, p] : UsesOf(loop.body).buffers) {
    if (bindings_.registers.contains(name)) return Reject(p.buffer, "threads cannot share them");
  }
  const Captures captures = CapturesOf(
      loop, [&](const Name& name) { return bindings_.buffers.contains(name); },
      [&](const Name& name) { return bindings_.vars.contains(name); });
  const std::string number = std::to_string(parallel_loops_++), name = prefix_ + "_parallel" + number;
  CpuFunction inner(dialect_, helpers_, name);
  before_ += inner.EmitIterations(loop, captures, bindings_.analyzer) + EmitTask(loop, captures, name);
  if (!inner.rejected().empty()) rejected_ = inner.rejected();
  auto own = [&](const char* stem) { return names_.Fresh(Names::Kind::kOwn, Name(stem + number)); };
  const std::string tasks = own("tasks_"), shared = own("shared_"), code = own("code_");
  writer_.Line("const int32_t " + tasks + " = at_tasks(context, " + std::to_string(std::min(*extent, kMaxTasks)) +
               ");");
  std::string values = tasks;
  for (const PointerParam& p : captures.buffers) values += ", " + bindings_.buffers.at(p.name).pointer;
  for (const Name& var : captures.scalars) values += ", " + bindings_.vars.at(var).text;
  writer_.Line("struct " + name + " " + shared + " = {" + values + "};");
  const std::string task = name + "_task";
  writer_.Line("const int32_t " + code + " = " + tasks + " == 1 ? " + task + "(context, &" + shared +
               ", 0) : context->parallel_for(context, " + tasks + ", " + task + ", &" + shared + ");");
  writer_.Line("if (" + code + " != 0) return " + code + ";");
}

Scratch AllocateScratch(Writer& writer, Names& names, const Dialect& dialect, const Workspace& workspace,
                        const std::string& function) {
  Scratch scratch;
  scratch.to_free = workspace.bytes > kMaxStackBytes;
  const std::string bytes = std::to_string(workspace.bytes);
  if (scratch.to_free) {
    writer.Line("uint8_t* memory = (uint8_t*)context->workspace_alloc(context, " + bytes + ");");
    writer.Open("if (!memory)");
    writer.Line("context->set_error(context, \"out of memory: " + bytes + " bytes of workspace in " + function +
                "\");");
    writer.Line("return 1;");
    writer.Close();
  }
  for (const Workspace::Slot& slot : workspace.slots) {
    const std::string id = names.Of(Names::Kind::kBuffer, slot.buffer->name);
    const std::string type = dialect.MemoryType(slot.buffer->dtype);
    scratch.pointers.push_back(id);
    if (scratch.to_free) {
      writer.Line(type + "* " + id + " = (" + type + "*)(memory + " + std::to_string(slot.offset) + ");");
    } else {
      writer.Line(type + " " + id + "[" + std::to_string(ConstShape(slot.buffer)[0]) + "] __attribute__((aligned(" +
                  std::to_string(AT_ALIGNMENT) + ")));");
    }
  }
  return scratch;
}

void FreeScratch(Writer& writer, const Scratch& scratch) {
  if (scratch.to_free) writer.Line("context->workspace_free(context, memory);");
}

}  // namespace autotune::c
