// A kernel's source for a CPU: its entry points (runtime/abi.h) and all that they need. Thread-safe.
// Internal to codegen/c.
#pragma once
#include <string>
#include <vector>

#include "codegen/c/source.h"
#include "lower/lower.h"
#include "runtime/artifact.h"

namespace autotune::c {

// A translation unit of its own, for the target's dialect. `features` are the instructions that it may use, by their
// names in support/cpu_features.h. An error: no assembler has a symbol of the kernel's name.
Result<Source> KernelSource(const LoweredKernel& kernel, const Target& target,
                            const std::vector<std::string>& features);

// A translation unit that defines `autotune.metadata`.
std::string MetadataUnit(const ArtifactMetadata& metadata);

}  // namespace autotune::c
