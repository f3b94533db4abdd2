// The C source of a kernel for a CPU: its entry points (runtime/abi.h) and the functions that they call. Thread-safe.
// Internal to codegen/c.
#pragma once
#include <string>
#include <vector>

#include "codegen/c/source.h"
#include "lower/lower.h"
#include "runtime/artifact.h"

namespace autotune::c {

// Returns a complete translation unit in the target's dialect. `features` are the instruction sets that it may use
// (names in support/cpu_features.h). Returns an error if assemblers do not accept the kernel's name as a symbol.
Result<Source> KernelSource(const LoweredKernel& kernel, const Target& target,
                            const std::vector<std::string>& features);

// Returns a translation unit that defines `autotune.metadata`.
std::string MetadataUnit(const ArtifactMetadata& metadata);

}  // namespace autotune::c
