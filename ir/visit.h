// Walking and rewriting expressions and statements. Functions, not visitor classes: give a callable that handles the
// nodes of interest; the rest is walked for you. Deep recursion follows the program's nesting. Thread-safe.
#pragma once
#include <functional>
#include <unordered_map>

#include "ir/stmt.h"

namespace autotune {

// Pre-order walk. The callable returns true to go into the node's children, false to skip them.
void Walk(const Expr& e, const std::function<bool(const Expr&)>& on_expr);
void Walk(const Stmt& s, const std::function<bool(const Stmt&)>& on_stmt,
          const std::function<bool(const Expr&)>& on_expr = nullptr);

// Rewrites bottom-up: children first, then the rebuilt node. The callable returns the replacement of a node, or its
// argument to keep it. If nothing changes, the result is the same handle.
using ExprFn = std::function<Expr(const Expr&)>;
using StmtFn = std::function<Stmt(const Stmt&)>;
Expr RewriteExpr(const Expr& e, const ExprFn& on_expr);
// Either callable may be null. on_expr is called bottom-up on every expression inside, extents, bindings and predicates
// included; buffers' own shapes are left alone. A statement replaced by an empty Seq vanishes from its parent Seq.
Stmt RewriteStmt(const Stmt& s, const StmtFn& on_stmt, const ExprFn& on_expr = nullptr);

// Returns the node with each direct child mapped; the same handle if no child changes.
Expr MapChildren(const Expr& e, const ExprFn& on_child);
Stmt MapChildren(const Stmt& s, const StmtFn& on_stmt, const ExprFn& on_expr);

// Replaces variables by name. Names are bound once per function, so no capture can happen.
using VarMap = std::unordered_map<Name, Expr>;
Expr Substitute(const Expr& e, const VarMap& map);
Stmt Substitute(const Stmt& s, const VarMap& map);
// Replaces buffers by name in all Loads and Stores (indices unchanged).
using BufferMap = std::unordered_map<Name, Buffer>;
Expr ReplaceBuffers(const Expr& e, const BufferMap& map);
Stmt ReplaceBuffers(const Stmt& s, const BufferMap& map);

bool UsesVar(const Expr& e, const std::function<bool(const Name&)>& is_var);
bool UsesVar(const Expr& e, const Name& var);  // an absent expression uses none
// Calls f for each Load in a statement, or each Store, in program order.
void ForEachLoad(const Stmt& s, const std::function<void(const Load&)>& f);
void ForEachStore(const Stmt& s, const std::function<void(const Store&)>& f);
// Calls f for each Load and Store: the buffer and the subscripts of the access.
void ForEachAccess(const Stmt& s, const std::function<void(const Buffer&, const std::vector<Expr>&)>& f);
bool Reads(const Stmt& s, const Name& buffer);  // whether a Load in s reads it
// Whether the expression is or holds a node of this kind: HasNode<Load>(e).
template <class Node>
bool HasNode(const Expr& e) {
  bool found = false;
  Walk(e, [&](const Expr& x) {
    found |= x.As<Node>() != nullptr;
    return !found;
  });
  return found;
}

// Structural equality: same nodes, names and dtypes. Buffers compare by name, dtype, shape, strides, scope, alignments.
bool Equal(const Expr& a, const Expr& b);
bool Equal(const Stmt& a, const Stmt& b);
bool Equal(const Buffer& a, const Buffer& b);
bool Equal(const PrimFunc& a, const PrimFunc& b);
// The first mismatch as a path and the two sides ("body.body.extent: 16 != 8"); empty if equal.
std::string FirstMismatch(const PrimFunc& a, const PrimFunc& b);
// Hashes that are equal for programs that are Equal.
uint64_t StructuralHash(const Expr& e);
uint64_t StructuralHash(const PrimFunc& f);

}  // namespace autotune
