// Statements and functions of the tensor-program language. Values like Expr. Thread-safe.
//
// Two dialects share these nodes:
//  - schedulable: loops of extent `extent` from 0, whose leaves are Blocks; a block's body uses only its own iterators
//    (their values are the `binding`s, computed from the loops around), and multi-dimensional buffers. Steps of
//    schedule/ rewrite this dialect, features are computed from it, and records store it.
//  - lowered: no Blocks, flat buffers (one index, in elements), vector values, Alloc and Let. The input of codegen/.
//
// Semantics
//  - A For runs its body for var = 0 .. extent-1. kParallel: iterations may run in any order and at the same time, and
//    must not conflict. kVectorized and kUnrolled have the meaning of kSerial; lowering rewrites such loops.
//  - A loop bound to an axis of a grid of threads (kBlockX .. kThreadZ) runs iteration i on the blocks or threads whose
//    index along that axis is i; iterations are parallel. ir/threads.h has the rules. Index 0 of an axis runs the code
//    of a kernel outside of the loops over that axis. A loop over threads ends with a barrier: the code behind it sees
//    the writes of all its iterations. Within the loop, `barrier` (ir/op.h) has the same effect.
//  - A Block instance runs where its predicate holds, at the iterator values its bindings give. A block that has `init`
//    runs it before the body in the instances whose reduction iterators are all 0. So for every value of the spatial
//    iterators, the loops around the block must visit that instance first. Instances that differ in a spatial iterator
//    are independent.
//  - `allocs` of a PrimFunc are uninitialised memory that lives for one call. If an alloc is used only inside a
//    parallel loop, each iteration has its own, which lives for that iteration. In loops over blocks this holds for
//    the scopes shared, local and register; in loops over threads for local and register.
//  - The regions that a block reads and writes are computed from its Loads and Stores (arith/region.h), never stored.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ir/expr.h"

namespace autotune {

struct StmtCell;

class Stmt : public Ref<StmtCell> {
 public:
  using Ref::Ref;
  template <class T>
  const T* As() const;
  template <class V>
  decltype(auto) Visit(V&& visitor) const;
};

enum class LoopKind : uint8_t {
  kSerial,
  kParallel,
  kVectorized,
  kUnrolled,
  kBlockX,
  kBlockY,
  kBlockZ,
  kThreadX,
  kThreadY,
  kThreadZ,
};
AUTOTUNE_ENUM(LoopKind, "serial", "parallel", "vectorized", "unrolled", "blockIdx.x", "blockIdx.y", "blockIdx.z",
              "threadIdx.x", "threadIdx.y", "threadIdx.z")
constexpr bool IsBlockAxis(LoopKind k) { return k >= LoopKind::kBlockX && k <= LoopKind::kBlockZ; }
constexpr bool IsThreadAxis(LoopKind k) { return k >= LoopKind::kThreadX && k <= LoopKind::kThreadZ; }
constexpr bool IsBound(LoopKind k) { return k >= LoopKind::kBlockX; }

enum class IterKind : uint8_t { kSpatial, kReduce };
AUTOTUNE_ENUM(IterKind, "S", "R")

using Annotations = std::map<std::string, int64_t>;

struct Iter {  // `var` takes `binding`'s value, which lies in [0, extent) wherever the block's predicate holds
  Name var;
  IterKind kind = IterKind::kSpatial;
  Expr extent;
  Expr binding;
  AUTOTUNE_FIELDS(var, kind, extent, binding)
};

struct Store {
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  AUTOTUNE_FIELDS(buffer, indices, value)
};
struct Evaluate {  // evaluates a Call for its effect: a prefetch, a barrier, async_commit, async_wait
  Expr value;
  AUTOTUNE_FIELDS(value)
};
struct Seq {
  std::vector<Stmt> stmts;
  AUTOTUNE_FIELDS(stmts)
};
struct If {
  Expr condition;
  Stmt then_body, else_body;  // else_body may be absent
  AUTOTUNE_FIELDS(condition, then_body, else_body)
};
struct For {
  Name var;
  Expr extent;
  LoopKind kind = LoopKind::kSerial;
  Annotations annotations;
  Stmt body;
  AUTOTUNE_FIELDS(var, extent, kind, annotations, body)
};
struct Block {
  Name name;
  std::vector<Iter> iters;
  Expr predicate;  // absent: always
  Annotations annotations;
  Stmt init;  // absent: not a reduction, or its initialisation is a block of its own
  Stmt body;
  AUTOTUNE_FIELDS(name, iters, predicate, annotations, init, body)
};
struct Alloc {  // lowered: `buffer` is uninitialised memory within body; constant shape
  Buffer buffer;
  Stmt body;
  AUTOTUNE_FIELDS(buffer, body)
};
struct Let {  // lowered: var = value within body
  Name var;
  Expr value;
  Stmt body;
  AUTOTUNE_FIELDS(var, value, body)
};

using StmtNode = std::variant<Store, Evaluate, Seq, If, For, Block, Alloc, Let>;

struct StmtCell : Counted {
  explicit StmtCell(StmtNode node) : node(std::move(node)) {}
  StmtNode node;
};

template <class T>
const T* Stmt::As() const {
  return get() ? std::get_if<T>(&get()->node) : nullptr;
}
template <class V>
decltype(auto) Stmt::Visit(V&& visitor) const {
  return std::visit(std::forward<V>(visitor), get()->node);
}

Stmt MakeStmt(StmtNode node);
// Flattens nested Seqs; one statement stays itself; none gives an empty Seq.
Stmt MakeSeq(std::vector<Stmt> stmts);
inline bool IsEmpty(const Stmt& s) { return s.As<Seq>() && s.As<Seq>()->stmts.empty(); }

// The role of a parameter for the caller. A kConstant keeps its value across runs, and may be repacked once, in
// `prepare`.
enum class ParamRole : uint8_t { kInput, kConstant, kOutput };
AUTOTUNE_ENUM(ParamRole, "input", "constant", "output")

struct Param {
  Buffer buffer;
  ParamRole role = ParamRole::kInput;
  AUTOTUNE_FIELDS(buffer, role)
};

struct PrimFunc {
  Name name;
  std::vector<Param> params;
  std::vector<Buffer> allocs;
  Annotations attrs;
  Stmt body;
};

}  // namespace autotune
