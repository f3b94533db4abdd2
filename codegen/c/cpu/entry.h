// A kernel's source for a CPU: its entry points (runtime/abi.h) and all that they need. Thread-safe.
// Internal to codegen/c.
#pragma once
#include <string>
#include <vector>

#include "codegen/c/source.h"
#include "lower/lower.h"
#include "runtime/artifact.h"

namespace autotune::c {

// Returns a complete translation unit in the target's dialect. `features` are the instructions that it may use, by
// their names in support/cpu_features.h. Returns an error if no assembler accepts the kernel's name as a symbol.
Result<Source> KernelSource(const LoweredKernel& kernel, const Target& target,
                            const std::vector<std::string>& features);

// A translation unit that defines `autotune.metadata`.
std::string MetadataUnit(const ArtifactMetadata& metadata);

}  // namespace autotune::c
