// The passes of lowering, one function each: the passes of CPUs in the order of their pipeline, then those that only
// GPUs have. Each takes and returns a whole function, and the interpreter can run the function between any two passes.
// Thread-safe. Internal to lower/.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "arith/analyzer.h"
#include "ir/pass_context.h"
#include "ir/visit.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

// The loops that carry the content of a buffer from one iteration to the next, by buffer: the reduction loops of an
// accumulator.
using CarriedLoops = std::map<Name, std::set<Name>>;

struct Miscompile;

struct PassEnv {
  const Target& target;
  const PassContext& context;
  Miscompile* miscompile = nullptr;  // a mistake to make on purpose, for tests
  CarriedLoops carried;              // made by LowerBlocks, used by CompactRegions
};

// A row of the pipeline.
struct LoweringPass {
  const char* name;
  Result<PrimFunc> (*run)(const PrimFunc&, PassEnv&);
  bool idempotent;          // a second run changes nothing (tests/lower/idempotent_test.cc)
  const char* needed = "";  // why no code can be generated without the pass; empty: it may be disabled
};
std::span<const LoweringPass> LoweringPipeline();  // for CPUs, in order (pipeline.cc)
std::span<const LoweringPass> GpuPipeline();       // for GPUs
// Runs all passes that are not disabled, with the instruments around each (pipeline.cc). `part`: ProgramView::part.
Result<PrimFunc> RunPasses(std::span<const LoweringPass> passes, PrimFunc f, std::string_view part, PassEnv env);

// Splits off the statements that depend only on constants and write only intermediates (prepare.cc). `prepared` are the
// buffers that `prepare` writes and `run` reads.
struct PrepareSplit {
  PrimFunc run;
  std::optional<PrimFunc> prepare;
  std::vector<Buffer> prepared;
};
PrepareSplit SplitPrepare(const PrimFunc& f);
// Runs SplitPrepare as the first pass of lowering, with its instruments, unless it is disabled (pipeline.cc).
Result<PrepareSplit> RunSplitPrepare(const PrimFunc& f, const PassContext& context);

// for k { block(init, update) }  ->  init nest; for k { block(update) }  at the outermost reduction loop (init.cc).
Result<PrimFunc> DecomposeInit(const PrimFunc& f, PassEnv& env);
// Replaces blocks by their bodies (blocks.cc): substitutes the bindings, turns predicates and remaining inits into Ifs,
// and contracts the updates of reductions to fma if the target has it.
Result<PrimFunc> LowerBlocks(const PrimFunc& f, PassEnv& env);
Result<PrimFunc> Simplify(const PrimFunc& f, PassEnv& env);
// Moves Ifs out of loops whose variables they do not use, ends a loop under `var < n` at n, and merges equal neighbours
// (guards.cc).
Result<PrimFunc> HoistGuards(const PrimFunc& f, PassEnv& env);
// Intermediates become Allocs, shrunk to the region touched in one iteration of the loop they are in (compact.cc).
Result<PrimFunc> CompactRegions(const PrimFunc& f, PassEnv& env);
// Marks serial loops as unrolled if their variables index register buffers, and makes parallel loops inside parallel
// loops serial (loops.cc).
Result<PrimFunc> SettleLoopKinds(const PrimFunc& f, PassEnv& env);
// Splits vectorized and unrolled loops with guards into `if (all guards hold) the loop without guards, else the loop
// with them` (partition.cc). Before that, peels loops annotated kPeel: splits off the few iterations at their ends in
// which a guard may fail.
Result<PrimFunc> PartitionLoops(const PrimFunc& f, PassEnv& env);
// Makes all buffers one-dimensional: each access has one index, in elements (flatten.cc).
Result<PrimFunc> FlattenBuffers(const PrimFunc& f, PassEnv& env);
// Vectorized loops become vector statements of at most the target's width (vectorize.cc).
Result<PrimFunc> VectorizeLoops(const PrimFunc& f, PassEnv& env);
// Unrolled loops become sequences (loops.cc).
Result<PrimFunc> UnrollLoops(const PrimFunc& f, PassEnv& env);
// In loops annotated kOverlap, moves the last pass of an iteration into a loop of the next one (overlap_rows.cc).
Result<PrimFunc> OverlapRows(const PrimFunc& f, PassEnv& env);
// Checks the contract of register buffers: constant indices, in bounds, few enough bytes (loops.cc).
Result<PrimFunc> VerifyRegisters(const PrimFunc& f, PassEnv& env);
// Returns an error if loops annotated kTiles are no products of tiles, and the target has instructions for them
// (tiles.cc).
Result<PrimFunc> VerifyTiles(const PrimFunc& f, PassEnv& env);
// Clamps floats to the range of the integer type before they are converted (casts.cc).
Result<PrimFunc> DefineCasts(const PrimFunc& f, PassEnv& env);
// Expands functions, and conversions of 16-bit floats, into arithmetic if the target has no instruction for them
// (ExpandMathCall in math.cc, ExpandHalfCast in halves.cc). For targets of kind c, keeps the calls of long functions
// (IsLongMath). Divisions of f32 by a number become products.
Result<PrimFunc> ExpandMath(const PrimFunc& f, PassEnv& env);
// If e divides by a number, returns the same quotient as a product, which takes a fraction of the time: with fused
// multiply-adds as x * high + x * low, or times a power of two. Returns e if this is not known to round alike for all
// quotients of at least 2^-100 (division.cc).
Expr ExpandDivision(const Expr& e, const Target& target);
Expr RoundedToTf32(const Expr& x);                            // rounds an f32 to TF32 (tf32.cc)
Expr ExpandHalfCast(const Expr& cast, const Target& target);  // one Cast from or to a float of 16 bits (halves.cc)

// Turns loops annotated kDot into dot products, if the target has an instruction for them and the loops have the form
// of ir/dot.h. Unrolls the others (dots.cc).
Result<PrimFunc> FormDots(const PrimFunc& f, PassEnv& env);

// For GPUs: binds the loop nests that are not yet bound to blocks and threads (bind_rest.cc).
Result<PrimFunc> BindRest(const PrimFunc& f, PassEnv& env);
// Gives each kernel of a program of threads one nest, `for threadIdx.. { everything }`, with barriers between its
// stages (threads.cc). Returns an error if a barrier stands under a condition that differs between threads.
Result<PrimFunc> MergeThreads(const PrimFunc& f, PassEnv& env);
// Software-pipelines loops annotated kPipeline: copies into shared memory run some iterations ahead, into several
// versions of the buffers (pipeline_loops.cc).
Result<PrimFunc> PipelineLoops(const PrimFunc& f, PassEnv& env);
// Turns loops annotated kMma into products that a warp computes with tensor cores (tensor_cores.cc). Returns an error
// if the target has none, or if the loops are no longer such a product.
Result<PrimFunc> TensorCores(const PrimFunc& f, PassEnv& env);
// Shrinks the buffers of one thread that have gaps between the used elements (close_gaps.cc).
Result<PrimFunc> CloseGaps(const PrimFunc& f, PassEnv& env);
// Merges loads of neighbouring elements of shared memory into vector loads (widen_loads.cc).
Result<PrimFunc> WidenLoads(const PrimFunc& f, PassEnv& env);

// Helpers (util.cc).
bool TouchesBuffer(const Stmt& s, const std::function<bool(const Buffer&)>& is_it);
bool StoresTo(const Stmt& s, const Name& buffer);
bool Contains(const std::vector<Expr>& list, const Expr& e);  // whether `list` has an expression Equal to e
// Renames loops, lets and buffers that are bound in several places. Passes that copy statements call this at the end.
Stmt WithUniqueNames(const Stmt& s);
PrimFunc WithBody(const PrimFunc& f, Stmt body);
PrimFunc WithExprs(const PrimFunc& f,
                   const std::function<Expr(const Expr&)>& fn);  // applies fn to each, innermost first
int64_t BytesOf(const Buffer& buffer);                           // of a constant shape

}  // namespace autotune
