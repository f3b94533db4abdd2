// Launches: splits a lowered program of threads into the functions of a device's image and the list of their launches.
// All code generators for GPUs use it. Plain values; thread-safe. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "codegen/memory.h"
#include "lower/lower.h"
#include "runtime/artifact.h"
#include "support/result.h"

namespace autotune {

// A function of an image: one kernel of threads.
struct KernelFunction {
  Stmt body;                           // the loops over blocks and threads with their bodies
  std::vector<PointerParam> pointers;  // the function's parameters: the buffers in global memory that it uses
  Launch launch;                       // `entry` is the function's name; `args` are parallel to `pointers`
};

struct KernelFunctions {
  std::vector<KernelFunction> run, prepare;
  int64_t workspace_bytes = 0;  // global memory for values that one kernel of threads passes to another
};

// Returns the functions and launches of a kernel. The names of all functions begin with `stem`. Errors: a statement
// outside of the kernels of threads, global memory that a kernel allocates, more threads, blocks or shared memory than
// the target has.
Result<KernelFunctions> KernelFunctionsOf(const LoweredKernel& kernel, const std::string& stem, const Target& target);

// Writes the launches and the kind of device to `metadata`.
void SetLaunches(const KernelFunctions& functions, const Target& target, KernelMetadata& metadata);

// Returns the shared buffers that the kernel allocates.
std::vector<Buffer> SharedBuffersOf(const Stmt& kernel);

// Returns the bytes that a library of GPU kernels has under kModuleBlobSymbol (runtime/module_blob.h). They describe a
// module tree: the library imports one module for each kernel, with the kernel's image; for CUDA one module with PTX
// for all kernels, and one with machine code if this machine has ptxas.
struct KernelObject;
Result<std::string> DeviceBlobOf(const std::vector<const KernelObject*>& objects, const Target& target);

}  // namespace autotune
