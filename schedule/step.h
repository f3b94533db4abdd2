// The schedule primitives as values: one struct each, documented as before -> after. Text, parsing and dispatch derive
// from the fields declared here; docs/trace.md has the grammar. Plain values; thread-safe. The rewrites, and the
// conditions under which they are legal, are in schedule/primitive/.
//
// Conventions
//  - A block, a loop or a buffer is referred to by its name in the function. Variables (loops and block iterators),
//    blocks and buffers are three name spaces; a new name that is taken is an error.
//  - `results` are the names of the loops, blocks and buffers that a step makes. If they are empty, the step fills in
//    the defaults given below. A trace always states them, so that replay never depends on the choice of defaults.
//  - The number of results of a step never depends on a decision. So its names hold for all decisions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/stmt.h"
#include "support/fields.h"

namespace autotune {

// The most iterations that a step may give a loop, so that sums and small multiples of extents do not overflow.
inline constexpr int64_t kMaxExtent = int64_t{1} << 40;

// An integer argument: a number, or the name of a sampling step's result. `oc_t.2` is element 2 of the sampled tile
// `oc_t`, counted from 0.
struct IntArg {
  int64_t value = 0;
  Name sampled;  // if not empty, `value` is unused
  IntArg() = default;
  IntArg(int64_t value) : value(value) {}
  IntArg(int value) : value(value) {}
  IntArg(Name sampled) : sampled(sampled) {}
  IntArg(const char* sampled) : sampled(sampled) {}
  bool operator==(const IntArg&) const = default;
};

// The factors of a split, outermost first: either a list or a sampled tile. One factor of a list may be kAuto ("?" in
// text), the least factor with which the list covers the loop.
struct Factors {
  static constexpr int64_t kAuto = -1;
  std::vector<IntArg> list;
  Name sampled;  // if not empty, `list` is unused
  Factors() = default;
  Factors(std::initializer_list<IntArg> list) : list(list) {}
  Factors(Name sampled) : sampled(sampled) {}
  Factors(const char* sampled) : sampled(sampled) {}
  bool operator==(const Factors&) const = default;
};

// One dimension of a new layout: (old dimension `dim`) // div % mod. div 1 means no division, mod 0 no remainder.
struct DimTerm {
  int64_t dim = 0;
  IntArg div = 1;
  IntArg mod = 0;
  bool operator==(const DimTerm&) const = default;
};

// A layout as the list of its dimensions, outermost first: `[d3 // 16, d0, d1, d2, d3 % 16]`. The terms of each old
// dimension must be its mixed-radix digits without gaps: the div of a digit is the product of the mods of the smaller
// digits.
struct IndexMap {
  std::vector<DimTerm> dims;
  bool operator==(const IndexMap&) const = default;
};

// Names of the loops, blocks and buffers that a step made, printed after `->`.
struct Results {
  std::vector<Name> names;
  Results() = default;
  Results(std::initializer_list<Name> names) : names(names) {}
  Results(std::vector<Name> names) : names(std::move(names)) {}
  bool operator==(const Results&) const = default;
};

// The decision of a sampling step, printed after `=`. An undecided step has no values.
struct Decision {
  std::vector<int64_t> values;
  Decision() = default;
  Decision(std::initializer_list<int64_t> values) : values(values) {}
  Decision(std::vector<int64_t> values) : values(std::move(values)) {}
  bool decided() const { return !values.empty(); }
  bool operator==(const Decision&) const = default;
};

// ---- Loops ----------------------------------------------------------------------------------------------------------

// for l in E: S(l)  ->  for l_0 in f0: for l_1 in f1: ... S(l_0*f1 + l_1)
// The factors' product may exceed E. Then the blocks inside run under the condition `l_0*f1 + l_1 < E`.
// Results: the loops, outermost first; default <loop>_0, <loop>_1, ...
struct Split {
  static constexpr std::string_view kName = "split";
  Name loop;
  Factors factors;
  Results results;
  AUTOTUNE_FIELDS(loop, factors, results)
};

// for a in A: for b in B: S(a, b)  ->  for f in A*B: S(f // B, f % B)      (a and b perfectly nested)
// Result: the loop; default <a>_<b>..._f.
struct Fuse {
  static constexpr std::string_view kName = "fuse";
  std::vector<Name> loops;  // outermost first
  Results results;
  AUTOTUNE_FIELDS(loops, results)
};

// for a: for b: for c: S  ->  reorder([c, a]):  for c: for b: for a: S
// Puts the listed loops into the given order, in the places that they had. All must be in one perfectly nested chain.
struct Reorder {
  static constexpr std::string_view kName = "reorder";
  std::vector<Name> loops;
  AUTOTUNE_FIELDS(loops)
};

// for l: S  ->  parallel for l: S. Inside another parallel loop, l stays serial: there is one level of parallelism.
struct Parallel {
  static constexpr std::string_view kName = "parallel";
  Name loop;
  AUTOTUNE_FIELDS(loop)
};

// for l in E: S  ->  vectorized for l in E: S     (l must be innermost, and its iterations independent)
struct Vectorize {
  static constexpr std::string_view kName = "vectorize";
  Name loop;
  AUTOTUNE_FIELDS(loop)
};

// for l in E: S  ->  unrolled for l in E: S
struct Unroll {
  static constexpr std::string_view kName = "unroll";
  Name loop;
  AUTOTUNE_FIELDS(loop)
};

// for l in E: S  ->  for l in E axis: S     (iteration i runs on the blocks or threads whose index along `axis` is i)
// The axis is one of LoopKind's bound kinds, blockIdx.x ... threadIdx.z; ir/threads.h has the rules of such programs,
// which every later step keeps.
struct Bind {
  static constexpr std::string_view kName = "bind";
  Name loop;
  LoopKind axis = LoopKind::kThreadX;
  AUTOTUNE_FIELDS(loop, axis)
};

// ---- Where blocks are computed --------------------------------------------------------------------------------------

// P; for l: ... C reads P  ->  for l: { for i0.. over the part of P that this iteration reads: P; ... C }
// `loop` is a loop that encloses all consumers of the block, or the result of sample_compute_location. If the sampled
// location is the root, the block stays in its place and gets new loops. Results: one loop for each iterator; default
// <block>_i0, <block>_i1, ...
struct ComputeAt {
  static constexpr std::string_view kName = "compute_at";
  Name block;
  Name loop;
  Results results;
  AUTOTUNE_FIELDS(block, loop, results)
};

// for l: ... P;  C reads P  ->  for l: { ... P; for i0.. over the part of P that this iteration completes: C }
// Results: one loop for each iterator; default <block>_i0, <block>_i1, ...
struct ReverseComputeAt {
  static constexpr std::string_view kName = "reverse_compute_at";
  Name block;
  Name loop;
  Results results;
  AUTOTUNE_FIELDS(block, loop, results)
};

// P[v] = e(v); C = f(P[x])  ->  C = f(e(x))
struct ComputeInline {
  static constexpr std::string_view kName = "compute_inline";
  Name block;
  AUTOTUNE_FIELDS(block)
};

// P[x] = e; C[v] = f(P[v])  ->  C[x] = f(e)
struct ReverseComputeInline {
  static constexpr std::string_view kName = "reverse_compute_inline";
  Name block;
  AUTOTUNE_FIELDS(block)
};

// ---- Buffers --------------------------------------------------------------------------------------------------------

// C reads B  ->  block N: N[v] = B[v]; C reads N.    N is before the outermost loop around C. If B is a constant
// parameter, N depends on constants only, and lowering moves it to `prepare`.
// Results: the buffer N, which also names the block (default <buffer>_<block>), and the block's loops (default
// <N>_i0, ...).
struct CacheRead {
  static constexpr std::string_view kName = "cache_read";
  Name block;
  Name buffer;
  Scope scope = Scope::kGlobal;
  Results results;
  AUTOTUNE_FIELDS(block, buffer, scope, results)
};

// P writes B  ->  P writes N; block: B[v] = N[v] after the outermost loop around P.
// Results: the buffer (default <block>_local), the copying block (default <block>_copy) and its loops (<that>_i0, ...).
struct CacheWrite {
  static constexpr std::string_view kName = "cache_write";
  Name block;
  Scope scope = Scope::kGlobal;
  Results results;
  AUTOTUNE_FIELDS(block, scope, results)
};

// alloc B  ->  alloc B in `scope`
struct SetScope {
  static constexpr std::string_view kName = "set_scope";
  Name buffer;
  Scope scope = Scope::kGlobal;
  AUTOTUNE_FIELDS(buffer, scope)
};

// alloc B: [.., E, ..]  ->  alloc B: [.., E, ..] align [axis, factor, offset]
// Sets the stride of dimension `axis` of B to k * factor + offset elements, with the least possible k. So rows do not
// share cache sets or memory banks. The memory between rows is never accessed. If lowering shrinks B
// (lower/compact.cc), the remaining part has such a stride. Factor 1 makes dimension `axis` compact again.
struct StorageAlign {
  static constexpr std::string_view kName = "storage_align";
  Name buffer;
  int64_t axis = 0;  // not the last dimension
  IntArg factor = 1;
  IntArg offset = 0;
  AUTOTUNE_FIELDS(buffer, axis, factor, offset)
};

// B[a, b]  ->  B[map(a, b)] in all accesses, e.g. [d3 // 16, d0, d1, d2, d3 % 16]. If B has one writer, which is alone
// in its loops and stores at its iterators, all of them spatial, the writer is rewritten to iterate over the new
// layout. The results are its new loops (default <block>_i0, ...). If a digit then does not divide its dimension, B is
// padded, and the writer stores `pad_value` in the padding. With other writers there are no results, and the digits
// must divide their dimensions.
struct TransformLayout {
  static constexpr std::string_view kName = "transform_layout";
  Name buffer;
  IndexMap map;
  double pad_value = 0;
  Results results;
  AUTOTUNE_FIELDS(buffer, map, pad_value, results)
};

// C reads B[f(i, k)]  ->  block N: N[i, k] = B[f(i, k)]; C reads N[i, k]     (i, k: the iterators of C used in f)
// C writes B[f(i)]    ->  C writes N[i]; block N: B[f(i)] = N[i]
// Results: the buffer N, which also names the block (default <block>_<buffer>), and the block's loops (default
// <N>_i0, ...).
struct Reindex {
  static constexpr std::string_view kName = "reindex";
  Name block;
  Name buffer;
  Results results;
  AUTOTUNE_FIELDS(block, buffer, results)
};

// ---- Blocks ---------------------------------------------------------------------------------------------------------

// for l: ... { if first: init; update }  ->  { for spatial loops from l inward: init }; for l: ... update
// Results: the init block (default <block>_init) and its loops (default <loop>_init), one for each loop from l inward
// that feeds spatial iterators.
struct DecomposeReduction {
  static constexpr std::string_view kName = "decompose_reduction";
  Name block;
  Name loop;
  Results results;
  AUTOTUNE_FIELDS(block, loop, results)
};

// for l: { P: B[v] += e(v, l) }  ->  { for l: { N: N[v, l] += e(v, l) }; for l': { P: B[v] += N[v, l'] } }
// Each iteration of a reduction loop `loop` gets a partial result, in a new buffer whose dimension `axis` counts these
// iterations. A nest after the outermost reduction loop combines them. Possible for sums, products, maxima and minima.
// Results: the buffer, which also names the block of the partial results (default <block>_rf), and the combining loops
// (default <loop>_combine), one for each loop from the outermost reduction loop inward that is `loop` or feeds spatial
// iterators.
struct Rfactor {
  static constexpr std::string_view kName = "rfactor";
  Name loop;
  int64_t axis = 0;
  Results results;
  AUTOTUNE_FIELDS(loop, axis, results)
};

// P where v < E  ->  P without the condition: v takes all values that its loops give it. The buffer of P grows.
// Reads of other buffers stay in bounds. A load in which v indexes only the last dimension becomes
// select(v < E, b[k, v], 0), so that lanes stay consecutive; other subscripts are clamped. Consumers keep their own
// guards and so do not use the extra elements. A reduction iterator beyond its extent does not change the sum.
struct PadBlock {
  static constexpr std::string_view kName = "pad_block";
  Name block;
  AUTOTUNE_FIELDS(block)
};

// C += (c(v) ? x : 0) * w  ->  if c(v): C += x * w. Also C = op(C, c(v) ? x : e)  ->  if c(v): C = op(C, x), where op
// is a sum, maximum or minimum and e its identity. So padding is skipped, and 0 is never multiplied by an infinite or
// NaN w.
struct SkipPadding {
  static constexpr std::string_view kName = "skip_padding";
  Name block;
  AUTOTUNE_FIELDS(block)
};

// C = f(c ? x : y)  ->  if c: C = f(x) else: C = f(y), where c reads memory. Lowering moves the branch out of the loops
// that c does not depend on, so that c is tested once for many elements.
struct BranchOnSelect {
  static constexpr std::string_view kName = "branch_on_select";
  Name block;
  AUTOTUNE_FIELDS(block)
};

// for l: .. for k: C reads B  ->  for l: .. for k: { prefetch B; C reads B }    (at: k)
// Prefetches the lines of B that the block accesses in iteration l + ahead. Leaves out lines that are known to be
// accessed in the iteration before that. Spreads the lines evenly over the iterations of k and of the loops between l
// and k. Each iteration prefetches at most 32 lines; the others are left out. With ahead = 0 there are no prefetches.
// Only steps that keep loops and buffers as they are may follow.
struct Prefetch {
  static constexpr std::string_view kName = "prefetch";
  Name block;
  Name buffer;
  Name loop;
  Name at;
  IntArg ahead;
  AUTOTUNE_FIELDS(block, buffer, loop, at, ahead)
};

// for l: { N = B[..]; C reads N }  ->  N for the first iterations; for l: { N for iteration l + stages - 1; C reads N }
// N is a copy in shared memory, which holds the copies of `stages` iterations. The loop l must begin with such copies,
// and only l may use them. The step only annotates l. Lowering moves the copies, and makes them asynchronous if the
// target supports this (lower/pipeline_loops.cc). With one stage lowering moves nothing.
struct Pipeline {
  static constexpr std::string_view kName = "pipeline";
  Name loop;
  IntArg stages = 2;
  AUTOTUNE_FIELDS(loop, stages)
};

// for h in 2: for p in 2: for k: C += A * B  ->  these loops, annotated: the threads of a warp compute them together
// `loop` is the loop over h. Lowering replaces the loops by one instruction of tensor cores (lower/tensor_cores.cc).
// The loops are inside loops over threadIdx.x, of 4 iterations, and threadIdx.y, of a multiple of 8. A depends on y and
// h, B on x and p. Both are tf32(..), or f32(..) of f16 or bf16 (ir/mma.h). The loop over k has 8 iterations for tf32
// and 16 for operands of 16 bits.
struct TensorCore {
  static constexpr std::string_view kName = "tensor_core";
  Name loop;
  AUTOTUNE_FIELDS(loop)
};

// for l: { P; Q }  ->  block N, over the outer loops on which P and Q depend: { for l: { P; Q } }
// Everything inside a loop becomes one block. Later steps treat the block as a whole: they see its accesses, but cannot
// refer to the loops inside. An initialisation runs under a condition inside the block.
// Result: the block; default <loop>_block.
struct Blockize {
  static constexpr std::string_view kName = "blockize";
  Name loop;
  Results results;
  AUTOTUNE_FIELDS(loop, results)
};

// block N: { the loops of an intrinsic's description }  ->  block N: { the loops of its implementation }
// `target` is the block N, or a loop, which the step first makes into a block as blockize does. `intrinsic` is a name
// in schedule/intrinsic.cc. Result: for a loop, the block (default <loop>_block); for a block, none.
struct Tensorize {
  static constexpr std::string_view kName = "tensorize";
  Name target;
  Name intrinsic;
  Results results;
  AUTOTUNE_FIELDS(target, intrinsic, results)
};

// Sets an annotation of a block or a loop, for the passes that read it.
struct Annotate {
  static constexpr std::string_view kName = "annotate";
  Name target;
  Name key;
  IntArg value;
  AUTOTUNE_FIELDS(target, key, value)
};

// ---- Sampling: the function stays as it is --------------------------------------------------------------------------

// Chooses n tile factors of a loop of extent E, outermost first. The innermost factor is a multiple of multiple_of and
// at most max_inner. The product of all factors is at least E. A drawn product exceeds E by at most a quarter of E, or
// not at all if the loop feeds a reduction iterator. If no such tile exists, it exceeds E by as little as possible.
// Result: the tile; default <loop>_t.
struct SampleTile {
  static constexpr std::string_view kName = "sample_tile";
  Name loop;
  int64_t n = 2;
  int64_t max_inner = 16;
  int64_t multiple_of = 1;
  Results results;
  Decision decision;
  AUTOTUNE_FIELDS(loop, n, max_inner, multiple_of, results, decision)
};

// Chooses one of the candidates with the given probabilities. The decision is the candidate's value, not its position.
// Result: the number; no default.
struct SampleCategorical {
  static constexpr std::string_view kName = "sample_categorical";
  std::vector<int64_t> candidates;
  std::vector<double> probabilities;  // empty: equal
  Results results;
  Decision decision;
  AUTOTUNE_FIELDS(candidates, probabilities, results, decision)
};

// Chooses where a block is computed. -1 is the root; k is the loop of depth k (outermost 0) around all its consumers.
// Never chooses a vectorized loop, a loop that feeds a reduction iterator of a consumer, or a loop inside one of these.
// Result: the location; default <block>_at.
struct SampleComputeLocation {
  static constexpr std::string_view kName = "sample_compute_location";
  Name block;
  Results results;
  Decision decision;
  AUTOTUNE_FIELDS(block, results, decision)
};

// All step types. Their order does not matter.
using AnyStep =
    std::variant<Split, Fuse, Reorder, Parallel, Vectorize, Unroll, Bind, ComputeAt, ReverseComputeAt, ComputeInline,
                 ReverseComputeInline, CacheRead, CacheWrite, SetScope, StorageAlign, TransformLayout, Reindex,
                 DecomposeReduction, Rfactor, PadBlock, SkipPadding, BranchOnSelect, Pipeline, TensorCore, Blockize,
                 Tensorize, Prefetch, Annotate, SampleTile, SampleCategorical, SampleComputeLocation>;
// One of them. A type of its own, so that only one file compiles the copies and destructors of thirty types.
struct Step : AnyStep {
  using AnyStep::AnyStep;
  using AnyStep::operator=;
  Step(const Step& other);
  Step(Step&& other) noexcept;
  Step& operator=(const Step& other);
  Step& operator=(Step&& other) noexcept;
  ~Step();
};

template <class T>
concept IsSampling = requires(T& step) {
  step.decision;
};

// Returns the decision of a sampling step, and null for other steps.
Decision* DecisionOf(Step& step);
const Decision* DecisionOf(const Step& step);

}  // namespace autotune
