// Nested: loops inside blocks. A block made by blockize holds a loop nest without inner blocks. Only tensorize rewrites
// this nest; other steps treat the block as a whole. Used inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <vector>

#include "schedule/tree.h"

namespace autotune::schedule {

// Returns the statement with each block replaced by its body, under the block's predicate. Bindings replace the
// iterators. An initialisation runs under the condition that all reduction iterators are 0.
Stmt WithoutBlocks(const Stmt& s);

// Returns the loops inside a statement that has no blocks. Leaves out loops of symbolic extent, which blockize refuses.
Ranges LoopsWithin(const Stmt& s);

// Returns the statement with new names for its loops, so that each variable is bound once in the function.
Stmt RenameLoops(const Stmt& s, FreshVars& fresh);

}  // namespace autotune::schedule
