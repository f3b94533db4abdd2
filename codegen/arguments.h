// What the checked entry point of a kernel (runtime/abi.h) demands of its arguments, for all code generators. Plain
// values; thread-safe. Internal to codegen/.
#pragma once
#include <string>
#include <vector>

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

// dlpack.h, whose layout is a public ABI.
inline constexpr int kDlCpu = 1;
// DLDataType as one number: code in bits 0 to 7, bits in 8 to 15, lanes (1) in 16 to 31.
uint32_t PackedDlType(DType dtype);

}  // namespace autotune
