// CPU features that compiled code may need, in LLVM's names: "avx512f", "dotprod". A compiler lists those of its target
// in the library it makes, and a loader compares them with the CPU before it runs any of the code. Stateless,
// thread-safe. Knows nothing of LLVM.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

// The features of an architecture ("x86_64", "aarch64") from which a compiler takes instructions on its own, beyond the
// architecture's baseline. Features that are reached only by intrinsics (AES, SHA, AMX) are left out: generated code
// never needs them. Sorted; empty for RISC-V, since Linux does not report its extensions reliably.
std::vector<std::string> KnownCpuFeatures(std::string_view architecture);

// Those of KnownCpuFeatures that this CPU has and its operating system has enabled.
const std::vector<std::string>& HostCpuFeatures();

// An error lists the needed features that are not among `present`: "needs AVX-512 (avx512f, avx512vl) and gfni, which
// this CPU lacks".
Status CheckCpuFeatures(const std::vector<std::string>& needed,
                        const std::vector<std::string>& present = HostCpuFeatures());

}  // namespace autotune
