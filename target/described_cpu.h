// Names for the CPU of a machine that compilers know: LLVM's triple, -mcpu and -mattr, from what Linux states of the
// machine (support/machine_description.h). Stateless; thread-safe. Does not use LLVM.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "support/machine_description.h"
#include "support/result.h"

namespace autotune {

struct CpuNames {
  std::string triple;
  std::string cpu;                    // LLVM's name of the model; a generic one if the model is not known
  std::vector<std::string> features;  // "+avx2"
};

// An error if there is no code generation for the machine's architecture. Names a model only if the machine has all
// features that LLVM assumes for the model: a virtual machine may hide some. Then, and for unknown models, the features
// are listed instead.
Result<CpuNames> NamesOf(const MachineDescription& machine);

// Returns the features (support/cpu_features.h) that LLVM assumes for a model that NamesOf may name, sorted.
std::vector<std::string> FeaturesOfModel(std::string_view cpu);

}  // namespace autotune
