// Nested: loops inside blocks. A block that blockize made holds a loop nest without blocks of its own: what the blocks
// below a loop did, opaque to the steps that follow. Used inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <vector>

#include "schedule/tree.h"

namespace autotune::schedule {

// Returns the statement without its blocks. A block becomes its body, with the values of its bindings, under its
// predicate. An initialisation runs under the condition that all reduction iterators are 0.
Stmt WithoutBlocks(const Stmt& s);

// The loops inside a statement that has no blocks. Symbolic extents are left out; blockize refuses them.
Ranges LoopsWithin(const Stmt& s);

// The statement with its loops called otherwise, so that each variable is bound once in the function.
Stmt RenameLoops(const Stmt& s, FreshVars& fresh);

}  // namespace autotune::schedule
