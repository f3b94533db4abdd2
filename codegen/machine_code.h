// The machine code of a kernel in a library: its instructions, grouped by loops. Reads the library's bytes and runs
// nothing. The library may be for another machine. Thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "target/target.h"

namespace autotune {

// The work of an instruction. Its operands may come from memory in each case.
enum class Operation : uint8_t {
  kVectorArithmetic,  // on several elements
  kScalarArithmetic,  // on one floating-point number
  kInteger,           // on one integer: addresses, counters, indices, and elements that are not in vectors
  kLane,              // moves one element into or out of a vector, or each lane by an address of its own
  kMove,              // moves or permutes registers or memory
  kJump,              // jumps, calls and returns
  kOther,
};

struct Instruction {
  uint64_t address = 0;  // in the library
  std::string text;      // in the assembler's syntax
  Operation operation = Operation::kOther;
  bool loads = false, stores = false;
  bool stack = false;  // reads or writes a fixed place of the stack: a value that has no register
};

// Instructions that run equally often: a loop without the loops inside it, or a function without its loops.
struct CodeRegion {
  int depth = 0;  // number of loops around the instructions, within one function; 0: in no loop
  std::vector<Instruction> instructions;
};

// Returns the code of the kernel `symbol` (the exported function that computes it, without checks), with all functions
// that it calls or gives to threads. Regions are in the order of their first addresses. Errors: the library is damaged
// or lacks the symbol; LLVM does not know the target.
Result<std::vector<CodeRegion>> MachineCodeOf(std::string_view library, const std::string& symbol,
                                              const Target& target);

// Returns, for each region, how many of the addresses are of its instructions.
std::vector<int64_t> CountByRegion(const std::vector<CodeRegion>& code, std::span<const uint64_t> addresses);

// Returns what an instruction does. `text` is in the assembler's syntax of the architecture, which `triple` begins
// with.
Instruction ClassifyInstruction(std::string_view text, std::string_view triple);

}  // namespace autotune
