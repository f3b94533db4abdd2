// Launches: a lowered program of threads as the functions of a device's image and the list of their launches, for all
// code generators of GPUs. Plain values; thread-safe. Internal to codegen/.
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
  Stmt body;                           // its loops over blocks and threads, and all inside
  std::vector<PointerParam> pointers;  // its parameters: what it uses of global memory
  Launch launch;                       // whose `entry` names it; `args` are parallel to `pointers`
};

struct KernelFunctions {
  std::vector<KernelFunction> run, prepare;
  int64_t workspace_bytes = 0;  // global memory for what one kernel of threads leaves for another
};

// `stem` begins the names of all functions. Errors: statements outside of kernels of threads, more threads or shared
// memory than the target has.
Result<KernelFunctions> KernelFunctionsOf(const LoweredKernel& kernel, const std::string& stem, const Target& target);

// States in `metadata` how the kernel is launched, and on which kind of device.
void SetLaunches(const KernelFunctions& functions, const Target& target, KernelMetadata& metadata);

// The shared buffers that the kernel allocates.
std::vector<Buffer> SharedBuffersOf(const Stmt& kernel);

// Returns the module tree that a library of GPU kernels has under kModuleBlobSymbol (runtime/module_blob.h): the
// library, which imports a module with the image of each kernel.
struct KernelObject;
Result<std::string> DeviceBlobOf(const std::vector<const KernelObject*>& objects, const Target& target);

}  // namespace autotune
