// Writes the models of the quantizer. Internal to frontend/onnx.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/quantizer_choice.h"

namespace autotune::onnx_import {

class QuantizerWriter {
 public:
  // Changes `model`, whose float nodes `choice` describes. Both must outlive the writer.
  QuantizerWriter(onnx::ModelProto* model, const QuantizerChoice& choice, QuantizedForm form,
                  const std::map<std::string, ValueRange>& ranges);

  // Replaces the nodes by those of the quantized network.
  void WriteQuantized(const ModelQuantizer::MeanErrors& errors);
  // Adds to the float network, for each product, a quantized one and an output: the mean of the difference for each
  // channel. Returns the names of these outputs.
  std::vector<std::string> WriteProbes();
  // Adds to the float network, for each product, one of integers and one of bf16, and the switches that choose one.
  std::vector<ModelQuantizer::Switches> WriteSwitches();

 private:
  using Names = std::vector<std::string>;
  // Adds a node with a name of its own, that of its output if no other node has it.
  onnx::NodeProto* Add(const char* op, const Names& inputs, const std::string& output);
  std::pair<std::string, std::string> ScaleNames(const std::string& activation);
  // Adds the trip of `source` to u8 and back, with the range of `activation`. Returns the name of the result.
  std::string AddTrip(const std::string& source, const std::string& activation);
  // Adds the trip of a tensor to bf16 and back. Returns the name of the result.
  std::string AddRounding(const std::string& tensor);
  void AddBytes(const std::string& base, const graph::Shape& shape, const std::vector<int8_t>& codes);
  // Add the quantized form of a product that reads `x`. `bias`: its constant bias, if it has one.
  void AddProduct(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
                  const std::string& result);
  void AddInt8(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
               const std::string& result);
  void AddRounded(const ChosenProduct& product, const std::string& result);
  // Returns the name of an input, an f32 number, times the difference of two results of the node `base`.
  std::string AddSwitched(const std::string& changed, const std::string& base, std::string& input);
  void AddWeights4(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
                   const std::string& result);
  std::string AddBias(const std::string& base, const std::vector<float>& bias, float x_scale,
                      const std::vector<float>& scales);
  void CopyNode(const onnx::NodeProto& node, int index);
  void AddCorrected(const ChosenProduct& product, const std::vector<float>& error);
  const std::vector<float>& ErrorAt(size_t product) const;

  const QuantizerChoice& choice_;
  const QuantizedForm form_;
  const std::map<std::string, ValueRange>& ranges_;
  ModelEditor model_;
  onnx::GraphProto old_;  // the float nodes, while they are replaced
  std::set<std::string> node_names_;
  std::map<std::string, std::string> trips_;      // activation -> its floats after the trip through u8
  std::map<std::string, std::string> roundings_;  // tensor -> its floats after the trip through bf16
  std::map<std::string, std::pair<std::string, std::string>> scales_;  // activation -> names of scale and zero point
  const ModelQuantizer::MeanErrors* errors_ = nullptr;
};

}  // namespace autotune::onnx_import
