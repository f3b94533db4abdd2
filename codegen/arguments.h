// The arguments of a kernel's entry points (runtime/abi.h), for all code generators: the types and shapes that the
// entry points check, and the pointers that they pass to their bodies. Plain values; thread-safe. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

#include "codegen/memory.h"
#include "lower/lower.h"

namespace autotune {

struct ExpectedArgument {
  std::string message;  // the error's text if an argument does not match
  DType dtype;
  std::vector<int64_t> shape;
  int64_t alignment;  // of its data, in bytes
};
// Returns the arguments that a checked entry point expects: the parameters, then the prepared buffers.
std::vector<ExpectedArgument> ExpectedArgumentsOf(const LoweredKernel& kernel);
// Returns the alignment of a parameter of a kernel for the CPU, in bytes. Inputs and outputs may be a caller's own
// arrays, which are aligned to one element. The runtime owns the constants.
int64_t AlignmentOf(const Param& p);
// Returns the error's text if the number of arguments is wrong.
std::string WrongCountMessage(const LoweredKernel& kernel);

// The pointers that an entry point passes to its body: first one to each parameter that the body uses, then one to each
// slot of the body's scratch memory.
struct BodyPointers {
  std::vector<PointerParam> pointers;
  std::vector<int> params;  // the number of the parameter to which pointers[i] points, for i < params.size()
  Workspace workspace;
};
// `f` is one of the kernel's functions.
BodyPointers BodyPointersOf(const LoweredKernel& kernel, const PrimFunc& f);

// Constants of dlpack.h, whose layout is a public ABI. The emitted checks compare arguments with them.
inline constexpr int kDlCpu = 1;
// Returns the DLDataType of a scalar type as one number: its code in bits 0 to 7, its width in bits 8 to 15, and its
// number of lanes (1) in bits 16 to 31.
uint32_t PackedDlType(DType dtype);

}  // namespace autotune
