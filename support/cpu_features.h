// CPU features that compiled code may need, by LLVM's names: "avx512f", "dotprod". The compiler lists the features of
// its target in the library, and the loader compares them with the CPU before it runs any of the code. Stateless,
// thread-safe. Does not depend on LLVM.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the features of an architecture ("x86_64", "aarch64") beyond its baseline whose instructions a compiler
// selects on its own, or that code generators name (AMX). Features that only other intrinsics use (AES, SHA) are left
// out, since generated code never needs them. Sorted; empty for RISC-V, since Linux does not report its extensions
// reliably.
std::vector<std::string> KnownCpuFeatures(std::string_view architecture);

// Return the KnownCpuFeatures of a machine as Linux states them. By words, those of its /proc/cpuinfo ("flags" on
// x86-64, "Features" on AArch64); by hwcaps, those of the auxiliary vector of a process on AArch64.
std::vector<std::string> CpuFeaturesOfWords(std::string_view architecture, const std::string& words);
std::vector<std::string> CpuFeaturesOfHwcaps(uint64_t hwcap, uint64_t hwcap2);

// Returns the KnownCpuFeatures that this CPU has and the operating system has enabled. Asks the processor, or the
// kernel by the auxiliary vector, since sandboxed processes cannot read /proc/cpuinfo. The first call also asks the
// kernel for the permission to use AMX. A process that will forbid itself system calls makes this call before.
const std::vector<std::string>& HostCpuFeatures();

// Returns an error if `present` lacks a needed feature. The error lists the missing ones: "needs AVX-512 (avx512f,
// avx512vl) and gfni, which this CPU lacks".
Status CheckCpuFeatures(const std::vector<std::string>& needed,
                        const std::vector<std::string>& present = HostCpuFeatures());

}  // namespace autotune
