// Region: which part of a buffer a block touches while some of its loops run, and loop nests over such parts. Used
// inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <vector>

#include "schedule/state.h"

namespace autotune::schedule {

// Returns the region of each iterator of the block while the loops `running` run and the loops `fixed` do not.
// Over-approximates, within [0, extent).
RegionMap IterRegions(const Block& block, const Ranges& running, const Ranges& fixed);

// The box of `buffer` that the block's loads touch, by dimension; nothing if it does not load it.
std::optional<std::vector<Region>> RegionRead(const Block& block, const Buffer& buffer, const Ranges& running,
                                              const Ranges& fixed);

// Returns the interval of values that the iterator takes while the loops `running` run. An error if the values do not
// make up an interval.
Result<Region> RegionVisited(const Block& block, size_t iter, const Ranges& running, const Ranges& fixed);

// A conjunct of a block's predicate that says no more than "this iterator is 0 or more".
bool IsLowerBound(const Block& block, const Expr& conjunct);

// Checks that every element of a buffer is written. Not every element is if the producer was moved to consumers that
// need only a part, such as every second row. May refuse a buffer that is written whole.
Status CheckWrittenWhole(const PrimFunc& func, const Buffer& buffer);

// Where an iterator shall run: [min, min + extent).
struct Window {
  LinearForm min;
  int64_t extent = 1;
};
// Clips a region to [0, extent), as far as is known. `covering`: it may grow to all of [0, extent) if it is as long.
Window WindowOf(const Region& region, int64_t extent, const Ranges& fixed, bool covering);

// The block in fresh serial loops over the windows, guarded where those leave the iterators' extents, and by `guards`.
Stmt NestOver(const Block& block, const std::vector<Window>& windows, const std::vector<Name>& loops,
              const Ranges& fixed, std::vector<Expr> guards = {});

// A conjunct of a block's predicate that says no more than "this iterator lies within its extent".
std::optional<size_t> BoundedIter(const Block& block, const Expr& conjunct);

// Returns true if e depends on a loop inside the block (blockize), and not on its iterators alone.
bool UsesLoopInside(const Block& block, const Expr& e);

// <block>_i0, <block>_i1, ...
std::vector<Name> LoopNames(const Name& block, size_t count);

// A block `name` that runs over `extents`, in loops `loops` of its own: to[indices(v)] = value(v).
Stmt MakeNest(const PrimFunc& func, const Name& name, const std::vector<int64_t>& extents,
              const std::vector<Name>& loops, const std::function<Store(const std::vector<Expr>& vars)>& store);

// Statements directly under the function's body.
std::vector<Stmt> RootStmts(const Stmt& body);
// The index of the one that contains the block.
size_t RootIndexOf(const std::vector<Stmt>& roots, const Name& block);
bool ContainsBlock(const Stmt& s, const Name& block);

// Checks that no loop of `around` computes, iteration by iteration, what the block reads: the block shall run at
// `place` inside them, and could then need what later iterations write. `but_for`: buffers whose elements are known to
// be complete.
Status CheckReadsComplete(const Block& block, const std::vector<const For*>& around, const std::string& place,
                          const std::vector<Name>& but_for);

// Returns true only if `writer` computes everything that `block` reads of the buffer, in each iteration of the loops
// that both share. `around_writer` and `around` are the loops around the two. May return false although it does.
bool ComputesAllRead(const Block& writer, const std::vector<const For*>& around_writer, const Block& block,
                     const std::vector<const For*>& around, const Buffer& buffer);

// Checks that everything that the block reads was written before: the whole buffer, if its producers have loops of
// their own, or else, in each iteration of the loops shared with a producer, all that the block reads there.
Status CheckSourcesCover(const State& state, const Name& block);

// Returns true only if two different values of `var` always give different values of some spatial iterator, whatever
// the values of `inner`, the loops between `var` and the block. The instances are then independent. May return false
// for independent instances.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner);
// Checks that the iterations of each parallel or vectorized loop around the block stay independent. (For bound loops,
// schedule/threads.cc checks that after every step.)
Status CheckStillIndependent(const State& state, const Name& block);
// Like CheckStillIndependent, for the writers of the buffers that a block reads. To be called after the block moved out
// of loops that had their own copies of these buffers.
Status CheckSourcesIndependent(const State& state, const Block& block);
// Checks that the instances of each block inside `loop` for different values of it are independent, as `kind`
// (parallel, vectorized, bound) needs. A block may instead write a buffer that is used only inside the loop, if each
// iteration has its own: any buffer in a parallel loop, buffers of scope shared, local or register in a loop over
// blocks, and of scope local or register in a loop over threads.
Status CheckIndependent(const State& state, const For& loop, LoopKind kind);

}  // namespace autotune::schedule
