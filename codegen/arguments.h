// The arguments of a kernel's entry points (runtime/abi.h) for all code generators: what the entry points check, and
// which pointers they pass on. Plain values; thread-safe. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "codegen/memory.h"
#include "lower/lower.h"

namespace autotune {

struct ExpectedArgument {
  std::string message;  // of the error if the argument does not fit
  DType dtype;
  std::vector<int64_t> shape;
};
// The parameters, then the prepared buffers.
std::vector<ExpectedArgument> ExpectedArgumentsOf(const LoweredKernel& kernel);
// The message of the error if there are more or fewer arguments.
std::string WrongCountMessage(const LoweredKernel& kernel);

// The pointers that the body of an entry point gets: to those parameters that it uses, then to the slots of its scratch
// memory.
struct BodyPointers {
  std::vector<PointerParam> pointers;
  std::vector<int> params;  // parameter of each of the first pointers
  Workspace workspace;
};
BodyPointers BodyPointersOf(const PrimFunc& f);

// dlpack.h, whose layout is a public ABI.
inline constexpr int kDlCpu = 1;
// DLDataType as one number: code in bits 0 to 7, bits in 8 to 15, lanes (1) in 16 to 31.
uint32_t PackedDlType(DType dtype);

}  // namespace autotune
