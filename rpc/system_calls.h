// The system call filter of a runner, installed with libseccomp.
#pragma once
#include "support/result.h"

namespace autotune::rpc {

// The code that a runner confines.
enum class Restriction {
  kKernels,   // kernels on a CPU: only listed calls are allowed
  kDriver,    // a CUDA driver, which opens its device files at any time: listed calls are refused
  kCompiler,  // an OpenCL driver, whose compiler starts programs and writes files: fewer calls are refused
};

// Filters the system calls of all threads of this process and of those that they start.
// kKernels: a call that is not allowed ends the process by SIGSYS, after a line on standard error that names the call.
// No call is refused with an error code instead, since a candidate that makes one is not a kernel: it must not go on,
// and its result must say why.
// kDriver, kCompiler: a call that is refused fails with EPERM, since drivers try calls that they can do without.
// Returns an error if no filter was installed; the error says why.
Status RestrictSystemCalls(Restriction restriction);
// Returns false in sanitizer builds, whose leak checker makes processes, and in builds for machines other than x86-64,
// AArch64 and 64-bit RISC-V.
bool CanRestrictSystemCalls();

}  // namespace autotune::rpc
