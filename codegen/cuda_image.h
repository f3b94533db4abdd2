// The images of a library for NVIDIA's GPUs: one PTX module with the functions of all kernels, and machine code (a
// cubin) where this machine has NVIDIA's assembler. Thread-safe. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Joins PTX modules whose names of functions and variables differ. So a driver translates a library once instead of
// once for each kernel. Returns an error if the modules are for different PTX versions or architectures.
Result<std::string> JoinPtx(const std::vector<const std::string*>& modules);

// Translates PTX for GPUs of the architecture `arch`, such as sm_90, by the program ptxas on the PATH. Returns an empty
// text if there is no such program or if it does not translate this PTX, for example since it is older than the
// architecture. Then the GPU's driver translates the PTX.
std::string AssemblePtx(const std::string& ptx, const std::string& arch);

}  // namespace autotune
