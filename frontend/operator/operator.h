// Parses the text of one operator, such as "conv2d:1,56,56,64;3,3,64,64;stride=2", into a module with this operator,
// which can be tuned and compiled like a model. Thread-safe.
//
//   operator := name ':' shape (';' shape)* (';' option '=' value)*
//   shape    := extent (',' extent)*
//
// Weights are constants with random values; all other operands are inputs. Images are NHWC and weights HWIO. These are
// the compiler's own layouts, so the network needs no transposes.
#pragma once
#include <string>
#include <string_view>

#include "graph/module.h"
#include "support/result.h"

namespace autotune {

struct OperatorModule {
  std::string name;  // name for files and headlines: "conv2d_1x56x56x64_3x3x64x64_stride2"
  IRModule module;
};

// Parses an operator. Errors are one line and say what is expected. They report an unknown operator or option, a wrong
// number of shapes or extents, an extent that is not a positive integer, and shapes that do not match.
Result<OperatorModule> ParseOperator(std::string_view text);

// Returns the operators with their shapes and options, one per line, for help texts.
std::string OperatorHelp();

}  // namespace autotune
