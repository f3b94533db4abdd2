// Reports the contents of a model file and the work of running it, for `autotune inspect`. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "target/target.h"

namespace autotune {

// All nodes of one operator, as one run of the model executes them.
struct OperatorUse {
  std::string op;  // name, with the domain unless that is ONNX's own
  int64_t nodes = 0;
  double flops = 0;
  double bytes = 0;  // bytes that the nodes read and write, constants included
};

struct ModelReport {
  ImportFacts facts;
  std::vector<ImportFacts::Tensor> inputs, outputs;  // with all extents known, if the model is supported
  std::vector<OperatorUse> operators;                // by descending FLOPs, then by descending bytes
  std::vector<std::string> notes;

  bool supported() const { return facts.problems.empty(); }
};

// Imports the model and counts its work. Nodes that depend on constants alone are not counted, since no run computes
// them. Returns an error if the file cannot be read or is no valid model. For an unsupported model the report lists the
// problems, and its operators have no FLOPs and bytes.
Result<ModelReport> InspectOnnx(const std::string& path, ImportOptions options, const Target& target);

}  // namespace autotune
