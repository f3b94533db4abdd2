// Bindings: the texts that the names of a function stand for. The emitter of statements writes them; the emitter of
// expressions reads them. A plain value, owned by the emitter of one function. Internal to codegen/c.
#pragma once
#include <string>
#include <unordered_map>

#include "arith/analyzer.h"
#include "codegen/c/code.h"
#include "codegen/c/registers.h"

namespace autotune::c {

struct BufferMemory {
  std::string pointer;
  int64_t elements = 0;
};

struct Bindings {
  std::unordered_map<Name, BufferMemory> buffers;
  std::unordered_map<Name, Registers> registers;  // variables of the register buffers that are not arrays
  std::unordered_map<Name, Code> vars;
  Analyzer analyzer;  // bounds of the variables that are known at the current place in the code
};

}  // namespace autotune::c
