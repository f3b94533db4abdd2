// Describes machines and targets in words. Thread-safe.
#pragma once
#include <string>

#include "support/machine_description.h"
#include "target/target.h"

namespace autotune {

// Returns the name of a machine's CPU, or "unknown CPU".
std::string ModelText(const MachineDescription& machine);
// Describes the caches of a CPU: "L1 32 KiB, L2 1024 KiB a core, L3 32768 KiB".
std::string CachesText(const Target& target);
// Describes this host in words: "AMD EPYC 9B14, 2 of 2 cores, L1 32 KiB, L2 ...".
std::string HostText();
// Describes a target in words: "2 cores of AMD EPYC 9B14 (AVX-512)", "108 units of a GPU sm_80 (...)". This host's CPU
// is called by its vendor's name, any other CPU by LLVM's name.
std::string MachineText(const Target& target);
// The same for a target's text. Returns the text as it is if it does not parse, since another release may have written
// it.
std::string MachineText(const std::string& target);

}  // namespace autotune
