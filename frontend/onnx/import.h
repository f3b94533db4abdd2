// ONNX import: a model file becomes a module whose main function has exactly ONNX's inputs and outputs (names, order,
// layout). Thread-safe. Covers operator sets 7 to 28, of older ones what has not changed since, and tensors of numbers
// and bools, but for floats of 16 bits; shape arithmetic is done here. No optimization: graph/pipeline.h does that.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "support/result.h"

namespace autotune {

struct ImportOptions {
  // Shapes of inputs by name; they win over the model's own. Needed where the model leaves dimensions open.
  std::map<std::string, graph::Shape> shapes;
  // Names of further tensors to expose, after the model's own outputs.
  std::vector<std::string> extra_outputs;
  // Where tensors lie that the model keeps in other files; ImportOnnx takes the model's own folder.
  std::string folder;
  // Inputs that are no inputs but these values: a model whose shapes or axes are inputs becomes a static one.
  std::map<std::string, graph::TensorValue> fixed;
};

struct ImportedModel {
  IRModule module;   // its only function is main, whose inputs and outputs have the model's names
  std::string name;  // of the ONNX graph; may be empty
  int64_t opset = 0;
  std::vector<std::string> notes;  // what was assumed, one line each
};

// Errors are one line; unsupported operators and features are listed all at once, each with its node; open dimensions
// with the flag that settles them.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options = {});
Result<ImportedModel> ImportOnnxBytes(std::string_view bytes, const std::string& source,
                                      const ImportOptions& options = {});

// "name:1,3,224,224", the argument of --shape.
Result<std::pair<std::string, graph::Shape>> ParseShapeOption(std::string_view text);

}  // namespace autotune
