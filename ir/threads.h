// Programs of threads: kernels, their rules, and who runs what. Pure functions; thread-safe. Not here: races, which
// ir/interp.h finds, and independence of iterations, which schedule/ proves.
//
// A kernel is an outermost loop bound to an axis, with all that it holds. Its blocks of threads run in any order and at
// the same time, and share global memory only; the threads of a block also share what has scope shared.
//
// The rules (CheckThreads)
//  - Bound loops have constant extents, at least 1, and are in no parallel or vectorized loop; no parallel loop is in a
//    kernel.
//  - Loops over blocks stand at the top of a kernel, directly in one another, one for an axis.
//  - A loop over threads is in no other of its axis. All of a kernel's of one axis have the same extent.
//  - A barrier stands in a kernel, in a loop of each axis of threads that the kernel has; in no Block, and
//    not directly in a vectorized loop. The same holds of products of tensor cores (ir/mma.h), whose kernels have
//    whole warps of threads.
//  - What has scope shared is used in one kernel that begins with a loop over blocks; what has scope local, or register
//    and any use in a kernel, in one kernel; unless the function has no kernel (yet). Declared within a kernel, a
//    shared buffer stands outside of its loops over threads, a local one inside of them. Parameters are neither.
#pragma once
#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

bool HasThreads(const Stmt& s);  // whether it holds a bound loop
bool HasBarrier(const Stmt& s);
bool IsMma(const Stmt& s);       // a store of `mma(c, a, b)`, which the threads of a warp run together
bool HasMeeting(const Stmt& s);  // whether it holds a barrier or such a product
bool IsBarrier(const Stmt& s);   // `evaluate barrier()`
Stmt MakeBarrier();
Stmt MakeAsyncCommit();
Stmt MakeAsyncWait(int64_t groups);  // `evaluate async_wait(groups)`
bool IsAsyncStore(const Stmt& s);    // a store of `async(value)`
// The load of global memory that the value is, or is where a condition holds and 0 elsewhere: what hardware can copy
// asynchronously. Null: the value is something else.
const Load* CopiedLoad(const Expr& value);
const Expr& AsyncValue(const Store& s);  // its value without `async`; of any other store, its value

// An error names the rule, and the loop, buffer or statement at fault. Functions without threads keep the rules.
Status CheckThreads(const PrimFunc& f);

}  // namespace autotune
