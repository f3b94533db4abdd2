#include "graph/pipeline.h"

#include <algorithm>

namespace autotune::graph {

const std::vector<Pass>& Pipeline() {
  static const std::vector<Pass> passes = {
      {"drop_dead_code", DropDeadCode},
      {"quantized_views", QuantizedViews},
      {"quantized_products", QuantizedProducts},
      {"block_products", BlockProducts},
      {"fold_batch_norm", FoldBatchNorm, "kernels have no batch normalization"},
      {"convert_layout", ConvertLayout, "kernels of images are made for NHWC"},
      {"trim_windows", TrimWindows},
      {"split_concat", SplitConcats},
      {"simplify_graph", SimplifyGraph},
      {"sink_reshapes", SinkReshapes},
      {"order_views", OrderViews},
      {"round_products", RoundProducts},
      {"bf16_products", Bf16Products},
      {"half_weights", HalfWeights},
      {"byte_tables", ByteTables},
      {"share_common_subexpressions", ShareCommonSubexpressions},
      {"fold_constants", FoldConstants},
      {"share_common_subexpressions", ShareCommonSubexpressions},
      {"drop_dead_code", DropDeadCode},
      {"fold_scales", FoldScales},
      {"integer_products", IntegerProducts},
      {"word_products", WordProducts},
      {"exact_products", ExactProducts},
      {"direct_sums", DirectSums},
      {"quantized_views", QuantizedViewsOfKernels},
      {"fuse", Fuse, "kernels are made of fused groups; fuse_groups=none makes every node a group"},
      {"repeat_scalars", RepeatScalars},
      {"flat_kernels", FlatKernels},
      {"joint_extrema", JointExtrema},
      {"whole_floats", WholeFloats},
  };
  return passes;
}

const PassTable& GraphPassTable() {
  static const PassTable table = [] {
    PassTable made{"graph", {}, {&kSharedConstantElements, &kFuseGroups}};
    for (const Pass& pass : Pipeline()) {
      auto same = [&](const PassRow& row) { return row.name == pass.name; };
      if (std::none_of(made.passes.begin(), made.passes.end(), same)) made.passes.push_back({pass.name, pass.needed});
    }
    return made;
  }();
  return table;
}

Result<IRModule> RunPasses(IRModule module, const std::vector<Pass>& passes, const PassEnv& env) {
  for (const Pass& pass : passes) {
    if (env.context.IsDisabled(pass.name)) continue;
    const std::string where = "in graph pass " + std::string(pass.name);
    TRY_NOTE(env.context.Before(pass.name, IRModuleView(module)), where);
    IRModule made;
    for (const auto& [name, function] : module.functions()) {
      const Graph* graph = std::get_if<Graph>(&function);
      made.Set(name, graph ? IRModule::Function(TRY_NOTE(pass.run(*graph, env), where)) : function);
    }
    module = std::move(made);
    Status valid = CheckModule(module);
    CHECK(valid.ok()) << where << ": " << valid.error().Text();
    TRY_NOTE(env.context.After(pass.name, IRModuleView(module)), where);
  }
  return module;
}

Result<IRModule> Optimize(const IRModule& module, const PassEnv& env) { return RunPasses(module, Pipeline(), env); }

}  // namespace autotune::graph
