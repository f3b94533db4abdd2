// Region: computes the part of a buffer that a block touches while some of its loops run, and makes loop nests over
// such parts. Used inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <vector>

#include "schedule/state.h"

namespace autotune::schedule {

// Returns the region of each iterator of the block while the loops `running` run and the loops `fixed` do not.
// Over-approximates, within [0, extent).
RegionMap IterRegions(const Block& block, const Ranges& running, const Ranges& fixed);

// Returns the box of `buffer` that the block's loads touch, one Region per dimension. Returns nothing if the block does
// not load from it.
std::optional<std::vector<Region>> RegionRead(const Block& block, const Buffer& buffer, const Ranges& running,
                                              const Ranges& fixed);

// Returns the interval of values that the iterator takes while the loops `running` run. An error if the values do not
// make up an interval.
Result<Region> RegionVisited(const Block& block, size_t iter, const Ranges& running, const Ranges& fixed);

// Returns true if the conjunct of the block's predicate only says that one of its iterators is 0 or more.
bool IsLowerBound(const Block& block, const Expr& conjunct);

// Checks that every element of a buffer is written. This fails if the producer was moved to consumers that need only a
// part, such as every second row. May also fail for a buffer of which every element is written.
Status CheckWrittenWhole(const PrimFunc& func, const Buffer& buffer);

// The values that an iterator shall take: [min, min + extent).
struct Window {
  LinearForm min;
  int64_t extent = 1;
};
// Returns the region clipped to [0, extent), if its bounds are known. With `covering`, a region of at least `extent`
// values becomes [0, extent).
Window WindowOf(const Region& region, int64_t extent, const Ranges& fixed, bool covering);

// Returns the block in new serial loops `loops` over the windows, under `guards`. Where a window exceeds an iterator's
// extent, the block gets a guard for it.
Stmt NestOver(const Block& block, const std::vector<Window>& windows, const std::vector<Name>& loops,
              const Ranges& fixed, std::vector<Expr> guards = {});

// Returns the index of an iterator if the conjunct of the block's predicate only says that it is less than its extent.
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

// Checks that no loop of `around` contains a writer of a buffer that the block reads. The block shall move to `place`
// inside these loops, where it could need elements that later iterations write. `but_for` lists buffers that need no
// check, since all needed elements are complete there. Errors contain `place`.
Status CheckReadsComplete(const Block& block, const std::vector<const For*>& around, const std::string& place,
                          const std::vector<Name>& but_for);

// Returns true only if `writer` computes everything that `block` reads of the buffer, in each iteration of the loops
// that both share. `around_writer` and `around` are the loops around the two. May return false although it does.
bool ComputesAllRead(const Block& writer, const std::vector<const For*>& around_writer, const Block& block,
                     const std::vector<const For*>& around, const Buffer& buffer);

// Checks that all elements that the block reads were written before. A producer without loops in common with the block
// must write the whole buffer. A producer that shares loops with the block must write, in each iteration of these
// loops, all that the block reads in that iteration.
Status CheckSourcesCover(const State& state, const Name& block);

// Returns true only if two different values of `var` always give different values of some spatial iterator, for all
// values of `inner`, the loops between `var` and the block. The instances are then independent. May return false
// for independent instances.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner);
// Checks that the iterations of each parallel or vectorized loop around the block stay independent. (For bound loops,
// schedule/threads.cc checks that after every step.)
Status CheckStillIndependent(const State& state, const Name& block);
// Like CheckStillIndependent, for the writers of the buffers that a block reads. Needed after the block moved out of
// loops whose iterations had their own copies of these buffers.
Status CheckSourcesIndependent(const State& state, const Block& block);
// Checks that the instances of each block inside `loop` for different values of it are independent, as `kind`
// (parallel, vectorized, bound) needs. A block may instead write a buffer that is used only inside the loop, if each
// iteration has its own: any buffer in a parallel loop, buffers of scope shared, local or register in a loop over
// blocks, and of scope local or register in a loop over threads.
Status CheckIndependent(const State& state, const For& loop, LoopKind kind);

}  // namespace autotune::schedule
