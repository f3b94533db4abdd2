// Tree: finds loops and blocks of a schedulable function by name, and replaces them along the path from the root.
// Used inside schedule/ only. Pure functions on immutable statements; thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "arith/region.h"
#include "ir/visit.h"
#include "support/result.h"

namespace autotune::schedule {

// The chain of nested statements from the function's body down to a statement inside it, the target.
struct Path {
  std::vector<Stmt> nodes;
  const Stmt& target() const { return nodes.back(); }
  const For& loop() const { return *nodes.back().As<For>(); }
  const Block& block() const { return *nodes.back().As<Block>(); }
  // The loops on the path, outermost first, without the target.
  std::vector<const For*> Loops() const;
  // The variables and extents of Loops(). Leaves out loops with symbolic extents.
  Ranges LoopRanges() const;
  // The part of the path down to the loop `var`; empty if that loop is not on the path.
  Path UpTo(const Name& var) const;
};

Result<Path> FindLoop(const Stmt& root, const Name& var);
Result<Path> FindBlock(const Stmt& root, const Name& name);

// Returns the root with the path's target replaced. An empty Seq removes the target and all loops that become empty.
Stmt ReplaceTarget(const Path& path, Stmt replacement);

// Calls f(block, loops around it inside `s`, outermost first), in program order.
using BlockVisitor = std::function<void(const Block& block, const std::vector<const For*>& loops)>;
void ForEachBlock(const Stmt& s, const BlockVisitor& f);
// Returns the replacement of a block: null keeps the block, an empty Seq removes it. `inner` has the loops between the
// root of the rewrite and the block.
using BlockRewriter = std::function<Stmt(const Block& block, const Ranges& inner)>;
// Returns the statement with f applied to each block.
Stmt RewriteBlocks(const Stmt& s, const BlockRewriter& f);

Result<int64_t> ConstExtent(const For& loop);
Result<std::vector<int64_t>> ConstExtents(const std::vector<Iter>& iters, const Name& block);
Ranges RangesOf(const std::vector<const For*>& loops);
Ranges Concat(Ranges a, const Ranges& b);

// Returns `body` inside new serial loops, given outermost first.
Stmt WrapLoops(const Ranges& loops, Stmt body);
// Returns the loop with a new body. Its kind and annotations stay.
Stmt WithBody(const For& loop, Stmt body);
Stmt WithBindings(const Block& block, const VarMap& map, const Ranges& ranges);  // substitutes loop variables

// The kinds of a block's iterators whose bindings use a loop variable.
struct Feeds {
  bool spatial = false, reduce = false;
};
Feeds FeedsOf(const Block& block, const Name& loop_var);
bool IsReduction(const Block& block);

// ---- Names ----------------------------------------------------------------------------------------------------------

Name Suffixed(const Name& base, const std::string& suffix);
// Returns the given results, or the defaults if none are given. Checks their number.
Result<std::vector<Name>> ResultNames(const std::vector<Name>& given, const std::vector<Name>& defaults);
// Returns the result names of a step that makes a block, a buffer of the same name, and loops. `given` is empty, or has
// the block's name, or all names. `block` and `loops` are the defaults. Checks that all names are new.
Result<std::vector<Name>> BlockAndLoopNames(const PrimFunc& func, const std::vector<Name>& given, const Name& block,
                                            const std::vector<Name>& loops);
// Checks that no name belongs to a loop or a block iterator of the function, and that `names` are distinct.
Status CheckNewVars(const PrimFunc& func, const std::vector<Name>& names);
Status CheckNewBlock(const PrimFunc& func, const Name& name);
Status CheckNewBuffer(const PrimFunc& func, const Name& name);
// Makes names for new variables: `base`, or base_1, base_2, ... if the function uses `base`. A trace does not name
// these variables: they are block iterators, or loops inside a block.
class FreshVars {
 public:
  explicit FreshVars(const PrimFunc& func);
  Name Make(const Name& base);

 private:
  std::vector<Name> used_;
};

// ---- Data flow ------------------------------------------------------------------------------------------------------

const Param* FindParam(const PrimFunc& func, const Name& buffer);
const Buffer* FindBuffer(const PrimFunc& func, const Name& buffer);  // parameter or alloc
bool HasConstShape(const Buffer& buffer);
bool IsAlloc(const PrimFunc& func, const Name& buffer);
// Replaces the buffer of the same name in `allocs`, but not in loads and stores.
void ReplaceAlloc(PrimFunc& func, const Buffer& buffer);
// Replaces the buffer of the same name in `allocs`, loads and stores. The indices of loads and stores stay.
void RedeclareAlloc(PrimFunc& func, const Buffer& buffer);
void RemoveAlloc(PrimFunc& func, const Name& buffer);

// Call f for each load or store in the block's init and body.
void ForEachLoad(const Block& block, const std::function<void(const Load&)>& f);
void ForEachStore(const Block& block, const std::function<void(const Store&)>& f);
bool Reads(const Block& block, const Name& buffer);  // true also for the buffer that a reduction updates
bool Writes(const Block& block, const Name& buffer);
// Returns the buffer that a block writes. An error if it writes none or several.
Result<Buffer> WrittenBuffer(const Block& block);
std::vector<Name> BuffersRead(const Block& block);  // each once, without buffers that the block writes

// Return the names of the blocks that write or read a buffer, in program order. A block that updates the buffer counts
// as a writer only.
std::vector<Name> WritersOf(const Stmt& root, const Name& buffer);
std::vector<Name> ReadersOf(const Stmt& root, const Name& buffer);

// If the indices are distinct iterators of the block, returns their positions in block.iters. Returns nothing
// otherwise.
std::optional<std::vector<size_t>> AsIterators(const std::vector<Expr>& indices, const Block& block);
// Returns the Store that is the block's whole body, else null. Ignores the block's init.
const Store* SingleStore(const Block& block);
// A store that combines an element with one more term: B[i] = B[i] op term. B[i] = fma(a, b, B[i]) counts as a sum.
struct Update {
  BinaryOp op = BinaryOp::kAdd;  // a combiner (ir/combiner.h)
  Expr term;                     // does not read B
};
std::optional<Update> AsUpdate(const Store& store);
bool IsLoadOf(const Expr& e, const Store& store);  // e loads the element that `store` writes
// Returns true if the block computes each element of a buffer once, from other buffers: it has only spatial iterators,
// no init, and one store whose indices are exactly these iterators.
bool IsPlainSpatial(const Block& block);

}  // namespace autotune::schedule
