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
  std::unordered_map<Name, Registers> registers;  // of the register buffers that are variables
  std::unordered_map<Name, Code> vars;
  Analyzer analyzer;  // bounds of the variables, as far as they are known where the writer stands
};

}  // namespace autotune::c
