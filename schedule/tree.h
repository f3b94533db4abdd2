// Tree: finding loops and blocks of a schedulable function by name, and replacing them along the path from the root.
// Used inside schedule/ only. Pure functions on immutable statements; thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "arith/region.h"
#include "ir/visit.h"
#include "support/result.h"

namespace autotune::schedule {

// The way from the function's body to one of its statements, both included.
struct Path {
  std::vector<Stmt> nodes;
  const Stmt& target() const { return nodes.back(); }
  const For& loop() const { return *nodes.back().As<For>(); }
  const Block& block() const { return *nodes.back().As<Block>(); }
  // Loops on the way, outermost first, the target not included.
  std::vector<const For*> Loops() const;
  // Their variables with constant extents (a symbolic extent: left out, so that nothing is concluded from it).
  Ranges LoopRanges() const;
  // The path to the loop `var` on the way to the target; empty if there is none.
  Path UpTo(const Name& var) const;
};

Result<Path> FindLoop(const Stmt& root, const Name& var);
Result<Path> FindBlock(const Stmt& root, const Name& name);

// The root with the path's target replaced. An empty Seq removes it, and loops that become empty with it.
Stmt ReplaceTarget(const Path& path, Stmt replacement);

// Calls f(block, loops around it inside `s`, outermost first), in program order.
using BlockVisitor = std::function<void(const Block& block, const std::vector<const For*>& loops)>;
void ForEachBlock(const Stmt& s, const BlockVisitor& f);
// Rewrites blocks; null keeps one, an empty Seq removes it.
using BlockRewriter = std::function<Stmt(const Block& block, const Ranges& inner)>;
// `inner` has the loops between `s` and the block.
Stmt RewriteBlocks(const Stmt& s, const BlockRewriter& f);

Result<int64_t> ConstExtent(const For& loop);
Result<std::vector<int64_t>> ConstExtents(const std::vector<Iter>& iters, const Name& block);
Ranges RangesOf(const std::vector<const For*>& loops);
Ranges Concat(Ranges a, const Ranges& b);

// Serial loops around a statement, outermost first.
Stmt WrapLoops(const Ranges& loops, Stmt body);
// The loops' kinds and annotations kept, with a new body.
Stmt WithBody(const For& loop, Stmt body);
Stmt WithBindings(const Block& block, const VarMap& map, const Ranges& ranges);  // substitutes loop variables

// Which of a block's iterators a loop variable feeds.
struct Feeds {
  bool spatial = false, reduce = false;
};
Feeds FeedsOf(const Block& block, const Name& loop_var);
bool IsReduction(const Block& block);

// ---- Names ----------------------------------------------------------------------------------------------------------

Name Suffixed(const Name& base, const std::string& suffix);
// The given results, or the defaults if none are given; checks their number.
Result<std::vector<Name>> ResultNames(const std::vector<Name>& given, const std::vector<Name>& defaults);
// The names of a step whose results are a new block with its buffer, then loops. `given` may be empty, or only the
// block, or all. `defaults` are the names of the loops that are not given. Checks that all names are new.
Result<std::vector<Name>> BlockAndLoopNames(const PrimFunc& func, const std::vector<Name>& given, const Name& block,
                                            const std::vector<Name>& loops);
// An error if a name is used by a loop or a block iterator of the function, or twice in `names`.
Status CheckNewVars(const PrimFunc& func, const std::vector<Name>& names);
Status CheckNewBlock(const PrimFunc& func, const Name& name);
Status CheckNewBuffer(const PrimFunc& func, const Name& name);
// `base`, or base_1, base_2, ... : a variable that the function does not use, for block iterators, which no trace
// names.
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
void ReplaceAlloc(PrimFunc& func, const Buffer& buffer);    // the one of the same name, in `allocs` only
void RedeclareAlloc(PrimFunc& func, const Buffer& buffer);  // everywhere: indices stay as they are
void RemoveAlloc(PrimFunc& func, const Name& buffer);

// Loads and stores in the block's init and body.
void ForEachLoad(const Block& block, const std::function<void(const Load&)>& f);
void ForEachStore(const Block& block, const std::function<void(const Store&)>& f);
bool Reads(const Block& block, const Name& buffer);  // its own reduction buffer included
bool Writes(const Block& block, const Name& buffer);
// The one buffer that a block writes.
Result<Buffer> WrittenBuffer(const Block& block);
std::vector<Name> BuffersRead(const Block& block);  // each once, without those it writes itself

// Names of the blocks that write or read a buffer, in program order; a block that updates it counts as a writer only.
std::vector<Name> WritersOf(const Stmt& root, const Name& buffer);
std::vector<Name> ReadersOf(const Stmt& root, const Name& buffer);

// The iterator's place in block.iters for each index, if the indices are distinct iterators, plain.
std::optional<std::vector<size_t>> AsIterators(const std::vector<Expr>& indices, const Block& block);
// The single Store that is the block's body (its init aside), else null.
const Store* SingleStore(const Block& block);
// A store that combines what is in an element with one more term: B[i] = B[i] op term, fma(a, b, B[i]) included (a
// sum).
struct Update {
  BinaryOp op = BinaryOp::kAdd;  // a combiner (ir/combiner.h)
  Expr term;                     // does not read B
};
std::optional<Update> AsUpdate(const Store& store);
bool IsLoadOf(const Expr& e, const Store& store);  // a load of the element that is stored to
// Returns true if the block only copies or computes element-wise: spatial, no init, one store at distinct plain
// iterators.
bool IsPlainSpatial(const Block& block);

}  // namespace autotune::schedule
