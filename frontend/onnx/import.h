// ONNX import: a model file becomes a module whose main function has exactly ONNX's inputs and outputs (names, order,
// layout). Thread-safe. Covers operator sets 7 to 28, and of older ones the operators that have not changed since.
// Tensors hold numbers or bools; 16-bit floats are stored as such and computed in 32 bits. Shape arithmetic is done
// during import, functions are inlined, branches taken and loops unrolled. Does not optimize: graph/pipeline.h does.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "support/result.h"

namespace autotune {

// What import learns of a model on the way, even of one that it refuses.
struct ImportFacts {
  struct Tensor {
    std::string name, type;  // "float32[batch,3,224,224]", as the file says it
  };
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; ONNX's own is ""
  std::vector<Tensor> inputs, outputs;
  int64_t parameters = 0, parameter_bytes = 0;  // elements and bytes of the initializers whose types are supported
  // The operators of the model's nodes, with their domain; of functions and subgraphs once for each time that they run.
  std::vector<std::string> nodes;
  // For each node of main, the index of the model's node that it comes from.
  std::vector<int32_t> origins;
  std::vector<std::string> problems;  // why the model is refused, one line each
};

struct ImportOptions {
  // Shapes of inputs by name; they win over the model's own. Needed where the model leaves dimensions open.
  std::map<std::string, graph::Shape> shapes;
  // Names of further tensors to expose, after the model's own outputs.
  std::vector<std::string> extra_outputs;
  // Where tensors lie that the model keeps in other files; ImportOnnx takes the model's own folder.
  std::string folder;
  // Inputs that are no inputs but these values: a model whose shapes or axes are inputs becomes a static one.
  std::map<std::string, graph::TensorValue> fixed;
  // Sizes of dimensions that the model names, in all its inputs.
  std::map<std::string, int64_t> dims = {};
  ImportFacts* facts = nullptr;  // filled if given
};

struct ImportedModel {
  IRModule module;   // its only function is main, whose inputs and outputs have the model's names
  std::string name;  // of the ONNX graph; may be empty
  int64_t opset = 0;
  std::vector<std::string> notes;  // what was assumed, one line each
};

// An error is one line. It lists all unsupported operators and features at once, each with its node, and each open
// dimension with the option that sets it.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options = {});
Result<ImportedModel> ImportOnnxBytes(std::string_view bytes, const std::string& source,
                                      const ImportOptions& options = {});

// "name:1,3,224,224", the argument of --shape.
Result<std::pair<std::string, graph::Shape>> ParseShapeOption(std::string_view text);
// "name=128", the argument of --dim.
Result<std::pair<std::string, int64_t>> ParseDimOption(std::string_view text);

}  // namespace autotune
