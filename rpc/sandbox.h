// The permissions that a runner gives up before it runs candidates: making processes, changing the file system, using
// the network, sending signals to others. A kernel needs none of these. This contains accidents; it is no defence
// against an attacker.
#pragma once

namespace autotune::rpc {

enum class Restriction {
  kKernels,  // all of the above
  kDriver,   // the same, but files may be opened for writing: a GPU's driver opens its device files at any time
};

// Installs a system call filter for the calling thread and all threads it starts. The filtered calls fail with EPERM.
// Reading files, memory, threads and open files stay available. Returns false, without a change, if the kernel has no
// filters, under an emulator, and in sanitizer builds, whose leak checker makes processes.
bool RestrictSystemCalls(Restriction restriction = Restriction::kKernels);
// False in sanitizer builds and on machines that it was not written for.
bool CanRestrictSystemCalls();

}  // namespace autotune::rpc
