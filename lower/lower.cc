#include "lower/lower.h"

#include "ir/arithmetic.h"
#include "ir/watch.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// Checks that 16-bit floats are only loaded, stored, selected and converted. Code generators do no arithmetic on them.
Status CheckHalvesAreStored(const PrimFunc& f) {
  Status status;
  auto check = [&](const Expr& operand) {
    if (!operand.dtype().IsHalf() || !status.ok()) return;
    const std::string type = operand.dtype().Element().Text();
    status = Err("the program computes with ", type, ", which code can only store: cast to f32");
  };
  Walk(f.body, nullptr, [&](const Expr& e) {
    if (const Unary* unary = e.As<Unary>()) check(unary->a);
    if (const Binary* binary = e.As<Binary>()) check(binary->a);
    const Call* call = e.As<Call>();
    const bool moves = call && (call->op == Op::kReinterpret || call->op == Op::kAsync || IsPrefetch(call->op));
    if (call && !moves) check(call->args[0]);
    return status.ok();
  });
  return status;
}

Status CheckSupported(const PrimFunc& f) {
  auto check = [](const Buffer& b) -> Status {
    for (const Expr& extent : b->shape) {
      if (!AsInt(extent))
        return Err("buffer ", b->name, " has a symbolic shape: make its extents constants before lowering");
      if (*AsInt(extent) < 1) return Err("buffer ", b->name, " is empty");
    }
    DType t = b->dtype;
    bool known = t.IsFloat() ? t.bits == 16 || t.bits == 32 || t.bits == 64
                             : t.IsBool() || (t.IsInt() && !t.IsIndex() && t.bits >= 8 && t.bits <= 64);
    if (!known) return Err("buffer ", b->name, " has dtype ", t.Text(), ", for which no code can be made");
    return {};
  };
  for (const Param& p : f.params) {
    TRY(check(p.buffer));
    if (!p.buffer->dim_align.empty()) {
      return Err("parameter ", p.buffer->name, " has aligned strides: only compact ones are supported");
    }
  }
  for (const Buffer& b : f.allocs) TRY(check(b));
  return CheckHalvesAreStored(f);
}

// Checks that no loop is bound to blocks or threads, and that no buffer is shared or local. CPUs have neither.
Status CheckWithoutThreads(const PrimFunc& f) {
  for (const Buffer& b : f.allocs) {
    if (b->scope == Scope::kShared || b->scope == Scope::kLocal) {
      return Err("buffer ", b->name, " has scope ", ToText(b->scope),
                 ", but a CPU runs no grids of threads: use global or register");
    }
  }
  Status bound;
  Walk(f.body, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (loop && IsBound(loop->kind) && bound.ok()) {
      bound = Err("loop ", loop->var, " is bound to ", ToText(loop->kind),
                  ", but a CPU runs no grids of threads: use parallel");
    }
    return bound.ok();
  });
  return bound;
}

}  // namespace

Result<LoweredKernel> Lower(const PrimFunc& f, const Target& target, const PassContext& context,
                            Miscompile* miscompile) {
  TRY(CheckSupported(f));
  if (!target.IsGpu()) TRY(CheckWithoutThreads(f));
  const auto pipeline = target.IsGpu() ? GpuPipeline() : LoweringPipeline();
  ShowProgram(f, [] { return std::string("before lowering"); });
  LoweredKernel kernel;
  kernel.name = f.name;
  kernel.params = f.params;
  kernel.flops = ArithmeticOf(f.body).Flops();
  for (const Buffer& b : f.allocs) kernel.has_register_tile |= b->scope == Scope::kRegister;
  PrepareSplit split = TRY(RunSplitPrepare(f, context));
  for (const Buffer& b : split.prepared) kernel.prepared.push_back(BytesOf(b));
  kernel.run = TRY(RunPasses(pipeline, std::move(split.run), "", {target, context, miscompile, {}}));
  if (split.prepare) {
    kernel.prepare = TRY_NOTE(
        RunPasses(pipeline, std::move(*split.prepare), "prepare", {target, context, miscompile, {}}), "in prepare");
  }
  return kernel;
}

}  // namespace autotune
