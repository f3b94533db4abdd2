// Region: computes the part of a buffer that a block touches while some of its loops run, and makes loop nests over
// such parts. Used inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <vector>

#include "schedule/state.h"

namespace autotune::schedule {

// Returns, for each iterator of the block, the interval of its values while the loops `running` run and the loops
// `fixed` stay at one iteration. The interval may be too large, but has at most `extent` values. Loops inside the block
// get intervals, too.
RegionMap IterRegions(const Block& block, const Ranges& running, const Ranges& fixed);

// Returns the box of `buffer` that the block's loads touch, one Region per dimension. Returns nothing if the block does
// not load from it.
std::optional<std::vector<Region>> RegionRead(const Block& block, const Buffer& buffer, const Ranges& running,
                                              const Ranges& fixed);

// Returns the interval of values that the iterator takes while the loops `running` run. An error if the values do not
// make up an interval.
Result<Region> RegionVisited(const Block& block, size_t iter, const Ranges& running, const Ranges& fixed);

// Returns true if the conjunct of the block's predicate is `binding >= 0`, for the binding of one of its iterators.
bool IsLowerBound(const Block& block, const Expr& conjunct);

// Checks that every element of a buffer is written. A producer that was moved to consumers which need only every second
// row does not write every element. The check may fail although every element is written.
Status CheckWrittenWhole(const PrimFunc& func, const Buffer& buffer);

// The values [min, min + extent) that an iterator shall take.
struct Window {
  LinearForm min;
  int64_t extent = 1;
};
// Returns the region as a window, clipped to [0, extent) if its position is a known constant. With `covering`, a region
// of at least `extent` values becomes [0, extent).
Window WindowOf(const Region& region, int64_t extent, const Ranges& fixed, bool covering);

// Returns the block in new serial loops `loops` over the windows, under `guards`. Where a window exceeds an iterator's
// extent, the block gets a guard for it.
Stmt NestOver(const Block& block, const std::vector<Window>& windows, const std::vector<Name>& loops,
              const Ranges& fixed, std::vector<Expr> guards = {});

// If the conjunct of the block's predicate only says that an iterator is less than its extent, returns the iterator's
// index. Returns nothing otherwise.
std::optional<size_t> BoundedIter(const Block& block, const Expr& conjunct);

// Returns true if e depends on a loop inside the block (blockize).
bool UsesLoopInside(const Block& block, const Expr& e);

// Returns the default names of `count` new loops: <block>_i0, <block>_i1, ...
std::vector<Name> LoopNames(const Name& block, size_t count);

// Returns a new block `name` in new loops `loops` over `extents`. Its body is store(v), where v are its iterators.
Stmt MakeNest(const PrimFunc& func, const Name& name, const std::vector<int64_t>& extents,
              const std::vector<Name>& loops, const std::function<Store(const std::vector<Expr>& vars)>& store);

// The top-level statements of a function's body.
std::vector<Stmt> RootStmts(const Stmt& body);
// The index of the statement in `roots` that contains the block.
size_t RootIndexOf(const std::vector<Stmt>& roots, const Name& block);
bool ContainsBlock(const Stmt& s, const Name& block);

// Checks that no loop of `around` contains a writer of a buffer that the block reads. The block is about to move to
// `place`, inside these loops, where it could need elements that later iterations write. `but_for` lists buffers whose
// needed elements are known to be complete at that place. Errors contain `place`.
Status CheckReadsComplete(const Block& block, const std::vector<const For*>& around, const std::string& place,
                          const std::vector<Name>& but_for);

// Returns true only if `writer` computes everything that `block` reads of the buffer, in each iteration of the loops
// that both share. `around_writer` and `around` are the loops around `writer` and `block`. May return false although
// everything is computed.
bool ComputesAllRead(const Block& writer, const std::vector<const For*>& around_writer, const Block& block,
                     const std::vector<const For*>& around, const Buffer& buffer);

// Checks that all elements that the block reads were written before. A producer without loops in common with the block
// must write the whole buffer. A producer that shares loops with the block must write, in each iteration of these
// loops, all that the block reads in that iteration.
Status CheckSourcesCover(const State& state, const Name& block);

// Returns true only if two different values of the loop `var` always give different values of some spatial iterator,
// whatever values the loops `inner` between `var` and the block have. The instances are then independent. May return
// false for independent instances.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner);
// Checks that the iterations of each parallel or vectorized loop around the block are independent. (Bound loops are
// checked after every step, by schedule/threads.cc.)
Status CheckStillIndependent(const State& state, const Name& block);
// Applies CheckStillIndependent to all writers of the buffers that a block reads. Needed when the block has moved out
// of loops whose iterations had their own copies of these buffers.
Status CheckSourcesIndependent(const State& state, const Block& block);
// Checks that the iterations of `loop` are independent, as a loop of kind `kind` (parallel, vectorized or bound) needs:
// in each block inside it, instances of different iterations write different elements. A block may also write a buffer
// that is used only inside the loop, if each iteration has its own copy. In a parallel loop this holds for buffers of
// any scope, in a loop over thread blocks for shared, local and register buffers, and in a loop over threads for local
// and register buffers.
Status CheckIndependent(const State& state, const For& loop, LoopKind kind);

}  // namespace autotune::schedule
