// Reports the contents of a model file and the cost of running it, for people. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "target/target.h"

namespace autotune {

// All nodes of one operator, as one run of the model executes them.
struct OperatorUse {
  std::string op;  // with its domain, if that is not ONNX's own
  int64_t nodes = 0;
  double flops = 0;
  double bytes = 0;  // of what each node reads and writes, its constants among it
};

struct ModelReport {
  ImportFacts facts;
  std::vector<ImportFacts::Tensor> inputs, outputs;  // with all extents known, if the model is supported
  std::vector<OperatorUse> operators;                // by falling FLOPs, then by falling bytes
  std::vector<std::string> notes;

  bool supported() const { return facts.problems.empty(); }
};

// Imports the model and counts. What depends on constants alone counts as nothing, since no run computes it. An error:
// the file cannot be read or is no valid model. An unsupported model is none: its report has the problems, and its
// operators no FLOPs and bytes.
Result<ModelReport> InspectOnnx(const std::string& path, ImportOptions options, const Target& target);

}  // namespace autotune
