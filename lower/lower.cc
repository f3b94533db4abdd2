#include "lower/lower.h"

#include <chrono>

#include "ir/arithmetic.h"
#include "ir/watch.h"
#include "lower/miscompile.h"
#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr LoweringPass kPasses[] = {
    {"decompose_init", DecomposeInit, true},    {"lower_blocks", LowerBlocks, true},
    {"simplify_loops", Simplify, true},         {"hoist_guards", HoistGuards, true},
    {"compact_regions", CompactRegions, true},  {"settle_loop_kinds", SettleLoopKinds, true},
    {"partition_loops", PartitionLoops, false},  // the guarded version has guards still
    {"hoist_partitions", HoistGuards, true},    {"flatten_buffers", FlattenBuffers, true},
    {"vectorize", VectorizeLoops, true},        {"unroll", UnrollLoops, true},
    {"overlap_rows", OverlapRows, true},        {"simplify", Simplify, true},
    {"merge_guards", HoistGuards, true},        {"verify_registers", VerifyRegisters, true},
    {"expand_math", ExpandMath, true},
};

// For programs of threads. Guards stay where they are: what moves out of a loop might keep threads from a barrier.
constexpr LoweringPass kThreadPasses[] = {
    {"decompose_init", DecomposeInit, true},
    {"lower_blocks", LowerBlocks, true},
    {"merge_threads", MergeThreads, false},  // there are barriers then
};

Result<PrimFunc> RunPasses(std::span<const LoweringPass> passes, PrimFunc f, const Target& target,
                           PassContext& context) {
  PassEnv env{target, context, {}};
  for (const LoweringPass& pass : passes) {
    if (context.disabled.contains(pass.name)) continue;
    auto start = std::chrono::steady_clock::now();
    f = TRY_NOTE(pass.run(f, env), std::string("in pass ") + pass.name);
    if (context.miscompile) f = WithMistake(pass.name, f, *context.miscompile);
    std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    context.times_ms[pass.name] += spent.count();
    ShowProgram(f, [&] { return std::string("after pass ") + pass.name; });
    if (context.after) context.after(pass.name, f);
  }
  return f;
}

Status CheckSupported(const PrimFunc& f) {
  auto check = [](const Buffer& b) -> Status {
    for (const Expr& extent : b->shape) {
      if (!AsInt(extent)) return Err("buffer ", b->name, " has a symbolic shape: fix it before lowering");
      if (*AsInt(extent) < 1) return Err("buffer ", b->name, " is empty");
    }
    DType t = b->dtype;
    bool known = t.IsFloat() ? t.code == TypeCode::kFloat && (t.bits == 32 || t.bits == 64)
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
  // Code for grids of threads needs a target that has them.
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

Result<LoweredKernel> Lower(const PrimFunc& f, const Target& target, PassContext& context) {
  TRY(CheckSupported(f));
  ShowProgram(f, [] { return std::string("before lowering"); });
  LoweredKernel kernel;
  kernel.name = f.name;
  kernel.params = f.params;
  kernel.flops = ArithmeticOf(f.body).Flops();
  for (const Buffer& b : f.allocs) kernel.has_register_tile |= b->scope == Scope::kRegister;
  PrepareSplit split = SplitPrepare(f);
  if (context.after) context.after("split_prepare", split.run);
  for (const Buffer& b : split.prepared) kernel.prepared.push_back(Bytes(b));
  kernel.run = TRY(RunPasses(kPasses, std::move(split.run), target, context));
  if (split.prepare) {
    kernel.prepare = TRY_NOTE(RunPasses(kPasses, std::move(*split.prepare), target, context), "in prepare");
  }
  return kernel;
}

Result<PrimFunc> LowerThreads(const PrimFunc& f, const Target& target, PassContext& context) {
  return RunPasses(kThreadPasses, f, target, context);
}

std::span<const LoweringPass> LoweringPipeline() { return kPasses; }
std::span<const LoweringPass> ThreadPipeline() { return kThreadPasses; }

std::vector<std::string> LoweringPasses() {
  std::vector<std::string> names;
  for (const LoweringPass& pass : kPasses) names.push_back(pass.name);
  return names;
}

}  // namespace autotune
