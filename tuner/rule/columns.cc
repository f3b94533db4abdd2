#include <algorithm>

#include "ir/annotations.h"
#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kWorthColumns = 16384;    // least elements summed per row; with fewer, a register tile is as fast
constexpr int64_t kNarrowest = 64;          // least columns of a task: a few contiguous cache lines
constexpr int64_t kWidest = 4096;           // most columns of a task: their accumulators stay in the L1 cache
constexpr int64_t kCacheShare = 2;          // 1 / share of the L1 cache for elements that several rows of a product use
constexpr int64_t kColumnTasksPerCore = 1;  // few, since contiguous columns are more important than balance
constexpr int64_t kUnroll = 4;              // most unrolled vectors
constexpr int64_t kSparedVectors = 4;       // registers that are not used for accumulators
constexpr int64_t kRowsOfPart = 8;          // least rows of a part; with fewer, adding up the parts costs too much
constexpr int64_t kFewColumns = 256;        // most columns whose sums fit registers
// Most elements of a column that are added to an accumulator at once. Eight broadcasts and kUnroll accumulators leave
// kSparedVectors of the 16 registers of AVX2.
constexpr int64_t kMostSteps = 8;
constexpr int64_t kFewestPieces = 4;  // least iterations of a loop whose last, partial iteration is peeled
// Most rows of a product, measured on AVX2 only. Each row is a pass over the accumulators.
constexpr int64_t kMostRows = 8;

// The loops of sums of columns, by role. `columns` is the last spatial loop. `rows` are the loops on which the operand
// that depends on the columns does not depend; each of their iterations uses all elements of this operand. `elements`
// counts iterations of all loops.
struct ColumnRoles {
  BlockView::Loop columns;
  std::vector<BlockView::Loop> rows, outer, sums;
  int64_t lanes = 1, element_bytes = 4;
  double elements = 1;
};

ColumnRoles ColumnRolesOf(const BlockView& view, const Target& target) {
  ColumnRoles r{.columns = view.spatial.back(),
                .sums = view.reduce,
                .lanes = LanesOf(view, target),
                .element_bytes = view.element_bytes};
  r.elements = static_cast<double>(Iterations(view.spatial)) * view.reduce_length;
  for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
    const BlockView::Loop& loop = view.spatial[i];
    bool used = loop.iter.empty();
    ForEachOperand(view, [&](const Load& load) {
      const LinearForm index = FlatIndex(view, load.buffer, load.indices);
      used = used || index.Rest() || (index.Coefficient(r.columns.iter) == 1 && index.Coefficient(loop.iter) != 0);
    });
    (used ? r.outer : r.rows).push_back(loop);
  }
  return r;
}

// Returns true if the block reads constants. Rules for products pack constants, so this rule leaves such blocks to
// them.
bool ReadsConstants(const PrimFunc& func, const BlockView& view) {
  return std::any_of(func.params.begin(), func.params.end(), [&](const Param& p) {
    return p.role == ParamRole::kConstant && view.reads.contains(p.buffer->name);
  });
}

// Checks the accesses. The last spatial loop must be contiguous in the result and in each operand that depends on it. A
// few rows may use each element of such an operand. The other operands must not depend on the last spatial loop.
Status CheckColumns(const SketchBuilder& s, const BlockView& view) {
  const Store* store = view.node.As<Block>()->body.As<Store>();
  if (view.spatial.empty() || view.reduce.empty() || view.guarded || !store)
    return Err("the block is not a plain sum of columns");
  const ColumnRoles r = ColumnRolesOf(view, s.target());
  const bool product = view.reads.size() > 1;
  if (r.columns.extent < (product ? ShortestVector(view) : r.lanes)) return Err("the columns do not fill a vector");
  // Other rules keep such partial sums in registers.
  if (r.columns.extent <= kFewColumns && s.IsPartial(s.Blocks(), view))
    return Err("other rules combine the block's partial sums");
  if (r.columns.iter.empty() || !IsVar(store->indices.back(), r.columns.iter)) return Err("columns are not contiguous");
  const int64_t rows = Iterations(r.rows);
  if (rows > kMostRows || r.elements < static_cast<double>(rows * kWorthColumns))
    return Err("a register tile is faster");
  std::set<Name> repeated;
  for (const BlockView::Loop& row : r.rows) repeated.insert(row.iter);
  int along = 0;
  bool fits = true;
  ForEachOperand(view, [&](const Load& load) {
    const LinearForm index = FlatIndex(view, load.buffer, load.indices);
    const int64_t step = index.Coefficient(r.columns.iter);
    fits = fits && !index.Rest() && (step == 1 ? ReadsOnce(view, index, repeated) : step == 0);
    along += step == 1;
  });
  if (!fits || along == 0) return Err("an operand is used several times");
  if (product && ReadsConstants(s.func(), view)) return Err("constants are packed");
  return {};
}

// Returns how many elements of a column are added to an accumulator at once. An accumulator in memory is then loaded
// and stored once for all of them.
int64_t StepsOf(const ColumnRoles& r) {
  const int64_t length = r.sums.back().extent, even = Divisors(length, kMostSteps).back();
  return 2 * even > kMostSteps || length < kFewestPieces * kMostSteps ? even : kMostSteps;
}

// Returns the number of columns of a task: as many as still give every core a task, within the limits above.
int64_t ColumnsOfTask(const ColumnRoles& r, const Target& target) {
  const int64_t wanted = CeilDiv(kColumnTasksPerCore * target.num_cores, Iterations(r.outer));
  int64_t widest = kWidest;
  if (Iterations(r.rows) > 1)
    widest = std::clamp(target.l1_bytes / (kCacheShare * StepsOf(r) * r.element_bytes), kNarrowest, kWidest);
  const int64_t each = std::clamp(CeilDiv(r.columns.extent, wanted), std::max(r.lanes, kNarrowest), widest);
  return std::min(CeilDiv(each, r.lanes), CeilDiv(r.columns.extent, r.lanes)) * r.lanes;
}

// Returns the number of parts into which the outermost reduction is cut: a divisor of its extent that gives each core
// at least one task, and at most two. Returns 1 if no cut is needed or no divisor fits.
int64_t PartsOfColumns(const ColumnRoles& r, const Target& target) {
  const int64_t rows = r.sums.front().extent, wanted = CeilDiv(target.num_cores, Iterations(r.outer));
  for (int64_t parts = wanted; wanted > 1 && parts <= std::min(2 * wanted, rows / kRowsOfPart); ++parts) {
    if (rows % parts == 0) return parts;
  }
  return 1;
}

Status PlaceColumns(SketchBuilder& s, const BlockView& block) {
  const ColumnRoles r = ColumnRolesOf(block, s.target());
  const int64_t each = ColumnsOfTask(r, s.target()), vectors = each / r.lanes;
  const int64_t unroll = Divisors(vectors, kUnroll).back(), steps = StepsOf(r);
  auto [task, pieces, unrolled, vector] = TRY(s.Split(r.columns.var, {kAuto, vectors / unroll, unroll, r.lanes}));
  auto [sum, step] = TRY(s.Split(r.sums.back().var, {kAuto, steps}));
  if (r.sums.back().extent % steps != 0) TRY(s.Do(Annotate{.target = sum, .key = kPeel, .value = 1}));
  std::vector<BlockView::Loop> sums = r.sums;
  sums.back().var = sum;
  TRY(s.Order({r.outer, task, sums, r.rows, pieces, step, unrolled, vector}));
  TRY(s.Parallel({r.outer, task}));
  if (r.columns.extent % (unroll * r.lanes) != 0) TRY(s.Do(Annotate{.target = pieces, .key = kPeel, .value = 1}));
  const std::vector<Name> zero = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = sums.front().var}));
  TRY(s.Straighten(std::vector<Name>(zero.end() - 2, zero.end())));
  TRY(s.Straighten({step, unrolled, vector}));
  // If the loops over accumulators are unrolled, all their addresses are constant, and LLVM keeps them in registers.
  if (Iterations(r.rows) * vectors + kSparedVectors <= s.target().vector_registers) TRY(s.Unroll({r.rows, pieces}));
  s.Place(zero.front());
  s.Place(block.name);

  s.AddPasses({.block = block.name, .element_bytes = block.element_bytes});
  s.Call(block.name.str() + ":columns");
  return {};
}

}  // namespace

// Places reductions over outer dimensions whose elements are used once: column sums and global pooling. A register tile
// would read a few columns at a time, and only one cache line of each row. This rule adds a few rows at a time to
// accumulators in the cache, so that each row is read in order. It also places the product of a few rows with a matrix
// that is computed at run time: each row of the matrix, times a number, is added to the accumulators of all rows.
//
//   parallel over (outer loops, c_0)
//     rows, c_1 in vectors: sums = 0
//     reduction loops: rows: c_1 in vectors: for some k: sums += x, or a * x
//
// If there are too few columns for all cores, each core sums some whole rows, and the sums of the cores are added up
// at the end. Pieces of rows would be read at half the bandwidth or less.
Status ColumnsRule(SketchBuilder& s, const BlockView& block, int) {
  if (!block.reduction) return Err("the block is not a reduction");
  TRY(CheckColumns(s, block));
  const int64_t parts = PartsOfColumns(ColumnRolesOf(block, s.target()), s.target());
  if (parts == 1) return PlaceColumns(s, block);
  const Name partial = TRY(s.CutReduction(block, block.reduce.front(), parts));
  const std::vector<BlockView> blocks = s.Blocks();
  return PlaceColumns(s, *FindBlock(blocks, partial));
}

}  // namespace autotune
