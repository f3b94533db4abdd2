// The permissions that a runner gives up before it runs candidates: to make processes, change the file system, use the
// network, touch other processes, change its limits, and administer the machine. A kernel needs none of these. The
// filter limits the damage of faulty candidates; it does not stop an attacker.
#pragma once

namespace autotune::rpc {

enum class Restriction {
  kKernels,  // gives up all permissions that are listed above
  kDriver,   // may still open files for writing, since a GPU's driver opens its device files at any time
};

// Installs a system call filter for all threads of this process and those that they start. The filtered calls fail with
// EPERM. Reading files, memory, threads and open files stay available. Returns false if no filter was installed,
// because CanRestrictSystemCalls() is false or because the operating system or an emulator has no filters.
bool RestrictSystemCalls(Restriction restriction = Restriction::kKernels);
// Returns false in sanitizer builds, whose leak checker makes processes, and on machines other than x86-64, AArch64 and
// 64-bit RISC-V.
bool CanRestrictSystemCalls();

}  // namespace autotune::rpc
