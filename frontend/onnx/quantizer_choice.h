// What the quantizer changes of a model. Internal to frontend/onnx.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/onnx/model_editor.h"
#include "frontend/onnx/quantizer.h"

namespace autotune::onnx_import {

inline constexpr int64_t kWeightBlock = 32;  // terms of a sum that share a scale of 4-bit weights

// A product with constant weights.
struct ChosenProduct {
  int node = 0;   // index
  std::string x;  // the operand that is no constant
  graph::TensorValue weights;
  int64_t channels = 0;
  int channel_axis = 0;     // of the weights
  std::vector<float> bias;  // empty: none, or a computed one
  bool has_bias = false;
  // Of a MatMul: the node that adds a constant for each column, if nothing else reads the product, and that constant.
  int bias_add = -1;
  graph::TensorValue added;
};

struct QuantizerChoice {
  std::vector<ChosenProduct> products;       // those of integers
  std::vector<ChosenProduct> rounded;        // those whose operands become bf16
  std::set<int> followers;                   // nodes between products that read u8, too
  std::set<std::string> activations;         // tensors that become u8
  std::map<std::string, std::string> twins;  // activation -> another one, whose range it has (results of MaxPool)
  // Nodes Relu and Clip that the rounding to u8 makes superfluous, with their results: numbers below 0 become 0.
  std::map<int, std::string> clipped;
  std::vector<ModelQuantizer::FloatOperators> left;

  const ChosenProduct* ProductAt(int node) const;
  const ChosenProduct* RoundedAt(int node) const;
};

QuantizerChoice ChooseQuantized(const ModelEditor& model, QuantizedForm form);
// Returns the choice for these precisions of `products`, which ChooseQuantized has found for kInt8.
QuantizerChoice ChooseMixed(const ModelEditor& model, const std::vector<ChosenProduct>& products,
                            const std::vector<Precision>& precisions);

}  // namespace autotune::onnx_import
