// What a runner takes from itself before it runs candidates: making processes, changing the file system, the network,
// signals to others. Containment of accidents (a kernel has no business with any of these), not a defence against an
// attacker.
#pragma once

namespace autotune::rpc {

enum class Restriction {
  kKernels,  // all of the above
  kDriver,   // the same, but files may be opened for writing: a GPU's driver opens its device files at any time
};

// Installs a system call filter for the calling thread and all it starts. The calls answer EPERM from then on; reading
// files, memory, threads and what is open already stay. False where the kernel has no filters (or an emulator runs us),
// and in sanitizer builds, whose leak checker makes processes: then nothing has changed.
bool RestrictSystemCalls(Restriction restriction = Restriction::kKernels);
// False in sanitizer builds and on machines that it was not written for.
bool CanRestrictSystemCalls();

}  // namespace autotune::rpc
