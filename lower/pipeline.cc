// The pipelines of lowering, and the options of their passes.
#include <algorithm>

#include "ir/watch.h"
#include "lower/lower.h"
#include "lower/miscompile.h"
#include "lower/passes.h"

namespace autotune {
namespace {

constexpr LoweringPass kPasses[] = {
    {"decompose_init", DecomposeInit, true},
    {"lower_blocks", LowerBlocks, true, "code generators take loops and stores, not blocks"},
    {"simplify_loops", Simplify, true},
    {"hoist_guards", HoistGuards, true},
    {"compact_regions", CompactRegions, true, "code generators allocate intermediates where this pass puts them"},
    {"settle_loop_kinds", SettleLoopKinds, true, "code generators take no parallel loops inside parallel loops"},
    {"partition_loops", PartitionLoops, false},  // the guarded version still has guards
    {"hoist_partitions", HoistGuards, true},
    {"flatten_buffers", FlattenBuffers, true, "code generators take addresses, not subscripts of several dimensions"},
    {"vectorize", VectorizeLoops, true, "code generators take vectors, not vectorized loops"},
    {"form_dots", FormDots, true},
    {"unroll", UnrollLoops, true, "code generators take no unrolled loops"},
    {"overlap_rows", OverlapRows, true},
    {"simplify", Simplify, true},
    {"merge_guards", HoistGuards, true},
    {"verify_registers", VerifyRegisters, true, "code generators rely on its checks"},
    {"verify_tiles", VerifyTiles, true},
    {"define_casts", DefineCasts, true, "code generators do not check whether a float fits an integer"},
    {"expand_math", ExpandMath, true, "code generators call no mathematical library"},
};

// For GPUs.
constexpr LoweringPass kGpuPasses[] = {
    {"bind_rest", BindRest, true, "a GPU runs only kernels of threads"},
    {"decompose_init", DecomposeInit, true},
    {"lower_blocks", LowerBlocks, true, "code generators take loops and stores, not blocks"},
    {"simplify_loops", Simplify, true},
    // Not idempotent: it refuses a program that has barriers, as its result does.
    {"merge_threads", MergeThreads, false, "code generators take one nest of loops over threads"},
    {"hoist_guards", HoistGuards, true},
    {"compact_regions", CompactRegions, true, "code generators allocate intermediates where this pass puts them"},
    {"pipeline_loops", PipelineLoops, true},
    {"close_gaps", CloseGaps, true},
    {"settle_loop_kinds", SettleLoopKinds, true, "code generators take only constant subscripts of register buffers"},
    {"flatten_buffers", FlattenBuffers, true, "code generators take addresses, not subscripts of several dimensions"},
    {"tensor_cores", TensorCores, true},
    {"vectorize", VectorizeLoops, true, "code generators take vectors, not vectorized loops"},
    {"unroll", UnrollLoops, true, "code generators take no unrolled loops"},
    {"simplify", Simplify, true},
    {"widen_loads", WidenLoads, true},
    {"merge_guards", HoistGuards, true},
    {"verify_registers", VerifyRegisters, true, "code generators rely on its checks"},
    {"define_casts", DefineCasts, true, "code generators do not check whether a float fits an integer"},
    {"expand_math", ExpandMath, true, "code generators call no mathematical library"},
};

constexpr const char* kSplitPrepare = "split_prepare";  // not a LoweringPass, since it makes two functions of one

}  // namespace

std::span<const LoweringPass> LoweringPipeline() { return kPasses; }
std::span<const LoweringPass> GpuPipeline() { return kGpuPasses; }

const PassTable& LoweringPassTable() {
  static const PassTable table = [] {
    PassTable made{"lowering", {{kSplitPrepare}}, {&kUnrollLimit}};
    for (const LoweringPass& pass : kPasses) made.passes.push_back({pass.name, pass.needed});
    return made;
  }();
  return table;
}

const PassTable& GpuPassTable() {
  static const PassTable table = [] {
    PassTable made{"lowering for GPUs", {}, {}};
    const std::vector<PassRow>& both = LoweringPassTable().passes;
    for (const LoweringPass& pass : kGpuPasses) {
      const bool listed =
          std::any_of(both.begin(), both.end(), [&](const PassRow& row) { return row.name == pass.name; });
      if (!listed) made.passes.push_back({pass.name, pass.needed});
    }
    return made;
  }();
  return table;
}

Result<PrepareSplit> RunSplitPrepare(const PrimFunc& f, const PassContext& context) {
  if (context.IsDisabled(kSplitPrepare)) return PrepareSplit{f, std::nullopt, {}};
  TRY(context.Before(kSplitPrepare, PrimFuncView(f)));
  PrepareSplit split = SplitPrepare(f);
  TRY(context.After(kSplitPrepare, PrimFuncView(split.run)));
  return split;
}

Result<PrimFunc> RunPasses(std::span<const LoweringPass> passes, PrimFunc f, std::string_view part, PassEnv env) {
  for (const LoweringPass& pass : passes) {
    if (env.context.IsDisabled(pass.name)) continue;
    const std::string where = std::string("in pass ") + pass.name;
    TRY_NOTE(env.context.Before(pass.name, PrimFuncView(f, part)), where);
    f = TRY_NOTE(pass.run(f, env), where);
    if (env.miscompile) f = WithMistake(pass.name, f, *env.miscompile);
    ShowProgram(f, [&] { return std::string("after pass ") + pass.name; });
    TRY_NOTE(env.context.After(pass.name, PrimFuncView(f, part)), where);
  }
  return f;
}

}  // namespace autotune
