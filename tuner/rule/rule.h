// The list of sketch rules, and the contract of a rule. A rule is one function and one line in the list; docs/adding.md
// shows how to write one. Thread-safe.
#pragma once
#include "tuner/rule/builder.h"
#include "tuner/rule/sum_parts.h"

namespace autotune {

// Schedules one block that no rule has placed yet, and places it. A rule may instead split the block and place one of
// the new blocks, or remove the block from the function. A rule may have several ways, numbered from 0; each way gives
// another sketch. An error says why the block cannot be placed in this way. The caller then drops the changes to the
// builder, and the way gives no sketch.
using SketchRule = Status(SketchBuilder& s, const BlockView& block, int way);

// RULE(function, ways): in this order, each rule gets all blocks that it can place.
// clang-format off
#define AUTOTUNE_SKETCH_RULES(RULE)                                                                           \
  RULE(ProgramsRule, 1)  /* blocks with loops of their own: sorting, elimination */                           \
  RULE(ScatterRule, 1)   /* serial updates at computed indices or along an axis */                            \
  RULE(AttentionRule, 3) /* two products with passes over rows between them */                                \
  RULE(OperandSumsRule, 1) /* sums that correct products of bytes by zero points */                           \
  RULE(InlineRule, 1)    /* element-wise blocks disappear into their consumers */                             \
  RULE(BlockStreamsRule, 1) /* products of few rows with constants that have a scale for each block of terms */ \
  RULE(WinogradRule, 1)  /* all stages of a Winograd convolution */                                           \
  RULE(RowsRule, 1)      /* several passes over independent rows: one parallel loop, all blocks inside */     \
  RULE(WindowRule, 2)    /* windows that slide over each channel alone: depthwise convolution, pooling */     \
  RULE(ColumnsRule, 1)   /* column sums and other reductions over outer dimensions */                         \
  RULE(LanesRule, 2)     /* sums of few long rows, in lanes: rows are cut into parts */                       \
  RULE(StreamsRule, 1)   /* products of few rows with many constants, bound by memory */                      \
  RULE(TileProductRule, 2) /* products of bytes or bf16, by registers of two dimensions */                    \
  RULE(DotTilingRule, 2) /* as TilingRule, for products of bytes or bf16, by instructions that add groups */         \
  RULE(TilingRule, 6)    /* other reductions: multi-level tiling with a register tile, packed operands */     \
  RULE(StreamingRule, 1) /* everything else: parallel, vectorized, chunked; or computed at its consumer */

// The rules for GPUs, in their order.
#define AUTOTUNE_GPU_RULES(RULE)                                                                                     \
  RULE(InlineRule, 1)                     /* as above */                                                             \
  RULE(TensorCoresRule, 1 + kWaysToCut)   /* products whose operands tensor cores multiply */                        \
  RULE(GpuRowsRule, 1)                    /* passes over rows: one kernel, whose blocks of threads share rows */     \
  RULE(GpuSumsRule, 2)                    /* few results of long sums: the threads of a block share the steps */     \
  RULE(GpuTilingRule, (1 + kWaysToCut) * (1 + kWaysToSlice)) /* other products: tiles in shared memory, results in registers */         \
  RULE(GpuTransposeRule, 1)               /* transposes: tile by tile, through shared memory */                      \
  RULE(GpuElementsRule, 1)                /* other blocks: a thread for each vector of the result */                 \
  RULE(UnboundRule, 1)                    /* blocks with loops of their own: lowering binds them to threads */
// clang-format on

#define AUTOTUNE_DECLARE_RULE(function, ways) SketchRule function;
AUTOTUNE_SKETCH_RULES(AUTOTUNE_DECLARE_RULE)
AUTOTUNE_GPU_RULES(AUTOTUNE_DECLARE_RULE)
#undef AUTOTUNE_DECLARE_RULE

// Returns the stage of a block each of whose results one thread computes, before the threads are chosen (kGpuUnbound).
StageModel ElementsModel(const BlockView& block, const Target& target);

// Returns all sketches of a function, at least one. A block that no rule places keeps its serial loops. The names of
// the sketches then contain this block and the reason why each rule refused it. An error is a bug of a rule.
Result<std::vector<Sketch>> GenerateSketches(const PrimFunc& func, const Target& target);

}  // namespace autotune
