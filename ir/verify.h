// Verify: whether a program is well-formed in its dialect: names bound once and used in scope, buffers as declared,
// dtypes, dimensions, the shape of the statement tree. Not here: bounds of accesses and races (ir/interp.h finds them,
// arith/ proves their absence). Thread-safe.
#pragma once
#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

enum class Dialect : uint8_t { kEither, kSchedulable, kLowered };  // kEither: schedulable if it holds a Block

// The rules
//  - Variables, buffers and blocks are three kinds of names; within a kind, each is bound once in the function.
//  - The only free variables are symbolic extents: a parameter's shape that is a plain variable binds it.
//  - A Load or Store names a buffer that is declared around it, Equal to its declaration; inputs and constants are not
//    written. One index per dimension; the lowered dialect may also use one index in elements.
//  - Schedulable: Stores and Loads stand in Blocks; only prefetches may stand outside. No Blocks in Blocks, no Alloc,
//    no Let, no vectors. Bindings use only the loops around the block. The predicate uses these loops and the block's
//    iterators. Everything else in the block uses only its iterators and the loops within it. The loops around a block
//    give its reduction iterators each combination of values only once (ir/reduction.h).
//  - Lowered: no Blocks.
//  - Loops bound to axes of threads, barriers, and shared and local buffers obey the rules of ir/threads.h.
//  - Seqs do not nest and do not hold exactly one statement (MakeSeq ensures this).
// An error names the rule, the name at fault and the statement or block around it.
Status Verify(const PrimFunc& f, Dialect dialect = Dialect::kEither);

}  // namespace autotune
