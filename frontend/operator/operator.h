// Operators without a model: a line of text such as "conv2d:1,56,56,64;3,3,64,64;stride=2" becomes a graph of that one
// operator, to be tuned and compiled like a model. Thread-safe.
//
//   operator := name ':' shape (';' shape)* (';' option '=' value)*
//   shape    := extent (',' extent)*
//
// Weights are constants with random values; all other operands are inputs. Images are NHWC, weights HWIO, which is how
// the compiler lays them out, so no transpose joins the operator.
#pragma once
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "support/result.h"

namespace autotune {

struct OperatorGraph {
  std::string name;  // for files and headlines: "conv2d_1x56x56x64_3x3x64x64_stride2"
  graph::Graph graph;
};

// Errors are one line and say what is expected: an unknown operator or option, a number of shapes or extents that the
// operator does not take, an extent that is no positive number, shapes that do not fit.
Result<OperatorGraph> ParseOperator(std::string_view text);

// The operators with their shapes and options, one per line, for help texts.
std::string OperatorHelp();

}  // namespace autotune
