// ONNX import makes a module of a model file. The module's main function has exactly the model's inputs and outputs
// (names, order, layout). Covers operator sets 7 to 28, and those operators of older sets that have not changed since,
// or only in how they broadcast. Tensors hold numbers or bools; 16-bit floats are stored as such and computed in 32
// bits. Import computes shape arithmetic, inlines functions, selects branches and unrolls loops; graph/pipeline.h
// optimizes the module. Thread-safe.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "support/result.h"

namespace autotune {

// Facts about a model that import collects, even if it refuses the model.
struct ImportFacts {
  struct Tensor {
    std::string name, type;  // the type as the file states it: "float32[batch,3,224,224]"
  };
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // version of the operator set by domain; ONNX's own domain is ""
  std::vector<Tensor> inputs, outputs;
  int64_t parameters = 0, parameter_bytes = 0;  // elements and bytes of the initializers whose types are supported
  // The operators of the model's nodes, with their domains. A node of a function or subgraph is listed once for each
  // call or iteration.
  std::vector<std::string> nodes;
  // For each node of main, the index in `nodes` of the model's node that it was made from.
  std::vector<int32_t> origins;
  std::vector<std::string> problems;  // why the model is refused, one line each
};

struct ImportOptions {
  // Shapes of inputs by name, which override the model's own shapes. Needed if the model leaves dimensions open.
  std::map<std::string, graph::Shape> shapes;
  // Names of further tensors to expose, after the model's own outputs.
  std::vector<std::string> extra_outputs;
  // Folder of the files in which the model stores large tensors. ImportOnnx uses the folder of the model file instead.
  std::string folder;
  // Inputs by name that become constants of these values. A model whose shapes or axes are inputs thus becomes static.
  std::map<std::string, graph::TensorValue> fixed;
  // Sizes of the named dimensions of the model's inputs. The name of a NonMaxSuppression's result stands for the
  // largest number of its rows.
  std::map<std::string, int64_t> dims = {};
  // True: attributes, inputs and outputs that a node must not have, and declared types that are not the computed ones,
  // are notes instead of errors.
  bool lenient = false;
  ImportFacts* facts = nullptr;  // filled unless null
};

struct ImportedModel {
  IRModule module;   // its only function is main, whose inputs and outputs have the model's names
  std::string name;  // name of the ONNX graph; may be empty
  int64_t opset = 0;
  std::vector<std::string> notes;  // assumptions of the import, one line each
};

// Imports a model. An error is one line that lists all unsupported operators and features, each with its node, and all
// open dimensions, each with the option that sets it.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options = {});
Result<ImportedModel> ImportOnnxBytes(std::string_view bytes, const std::string& source,
                                      const ImportOptions& options = {});

// Parses the argument of --shape, "name:1,3,224,224".
Result<std::pair<std::string, graph::Shape>> ParseShapeOption(std::string_view text);
// Parses the argument of --dim, "name=128".
Result<std::pair<std::string, int64_t>> ParseDimOption(std::string_view text);

}  // namespace autotune
