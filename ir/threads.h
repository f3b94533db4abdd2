// Programs of threads: kernels and their rules. Pure functions; thread-safe. Not here: races, which ir/interp.h finds,
// and independence of iterations, which schedule/ proves.
//
// A kernel is an outermost loop that is bound to an axis, with everything inside it. Its blocks of threads run in any
// order and concurrently. They share only global memory. The threads of a block also share buffers of scope shared.
//
// The rules (CheckThreads)
//  - Bound loops have constant extents, at least 1, and are in no parallel or vectorized loop; no parallel loop is in a
//    kernel.
//  - Loops over blocks stand at the top of a kernel, directly in one another, one for an axis.
//  - A loop over threads is not inside another one of the same axis. All loops of one axis in a kernel have the same
//    extent.
//  - A barrier is inside a kernel, and inside a loop of each axis of threads that the kernel has. It is in no Block
//    and not directly in a vectorized loop. The same holds for products of tensor cores (ir/mma.h), whose kernels have
//    whole warps of threads.
//  - A buffer of scope shared is used in one kernel only, which begins with a loop over blocks. A buffer of scope local
//    is used in one kernel only, and so is one of scope register if any kernel uses it. These limits do not hold in a
//    function without kernels. If declared within a kernel, a shared buffer is outside of the loops over threads, and
//    a local buffer is inside of them. Parameters are neither shared nor local.
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
// Returns the load of global memory that is the whole value, or that the value selects where a condition holds, with 0
// elsewhere. Hardware can copy such a value asynchronously. Returns null for any other value.
const Load* CopiedLoad(const Expr& value);
const Expr& AsyncValue(const Store& s);  // the stored value, without `async` if it has that

// An error names the rule, and the loop, buffer or statement at fault.
Status CheckThreads(const PrimFunc& f);

}  // namespace autotune
