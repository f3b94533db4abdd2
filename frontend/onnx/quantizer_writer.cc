#include "frontend/onnx/quantizer_writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/onnx/weight_codes.h"
#include "support/integer.h"

namespace autotune::onnx_import {
namespace {

using graph::Shape;
using graph::SharedBytes;
using graph::TensorValue;

constexpr int64_t kAxesInput = 18;  // operator set from which axes of ReduceMean are an input

TensorValue Bytes8(DType type, const Shape& shape, const void* data, size_t size) {
  return {{type, shape}, SharedBytes::Copy({static_cast<const char*>(data), size})};
}

ChannelLayout LayoutOf(const ChosenProduct& product) {
  const Shape& shape = product.weights.spec.shape;
  ChannelLayout layout{.channels = product.channels};
  for (int d = 0; d < product.channel_axis; ++d) layout.outer *= shape[d];
  for (size_t d = product.channel_axis + 1; d < shape.size(); ++d) layout.inner *= shape[d];
  return layout;
}

// Returns the weights of a matrix as [terms, channels].
std::vector<float> AsColumns(const ChosenProduct& product) {
  const float* w = product.weights.As<float>();
  const int64_t n = product.channels, k = product.weights.spec.NumElements() / n;
  std::vector<float> columns(w, w + k * n);
  if (product.channel_axis == 1) return columns;
  for (int64_t row = 0; row < k; ++row)
    for (int64_t column = 0; column < n; ++column) columns[row * n + column] = w[column * k + row];
  return columns;
}

std::vector<float> Minus(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < b.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

QuantizerWriter::QuantizerWriter(onnx::ModelProto* model, const QuantizerChoice& choice, QuantizedForm form,
                                 const std::map<std::string, ValueRange>& ranges)
    : choice_(choice), form_(form), ranges_(ranges), model_(model) {
  for (const onnx::NodeProto& node : model_.graph().node()) node_names_.insert(node.name());
}

onnx::NodeProto* QuantizerWriter::Add(const char* op, const Names& inputs, const std::string& output) {
  onnx::NodeProto* node = model_.graph().add_node();
  node->set_op_type(op);
  std::string name = output;
  while (!node_names_.insert(name).second) name += "_";  // ONNX Runtime refuses two nodes with one name
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

std::pair<std::string, std::string> QuantizerWriter::ScaleNames(const std::string& activation) {
  if (const auto twin = choice_.twins.find(activation); twin != choice_.twins.end()) return ScaleNames(twin->second);
  const auto [place, is_new] = scales_.try_emplace(activation);
  if (is_new) {
    const auto range = ranges_.find(activation);
    const ByteScale scale = range == ranges_.end() ? ByteScale{} : ScaleOf(range->second);
    place->second.first = model_.AddConstant(activation + "_scale", TensorValue::Scalar(scale.scale));
    place->second.second =
        model_.AddConstant(activation + "_zero_point", Bytes8(DType::UInt(8), {}, &scale.zero, sizeof scale.zero));
  }
  return place->second;
}

std::string QuantizerWriter::AddTrip(const std::string& source, const std::string& activation) {
  const auto [place, is_new] = trips_.try_emplace(activation);
  if (!is_new) return place->second;
  const auto [scale, zero] = ScaleNames(activation);
  const std::string bytes = model_.Fresh(activation + "_quantized");
  place->second = model_.Fresh(activation + "_dequantized");
  Add("QuantizeLinear", {source, scale, zero}, bytes);
  Add("DequantizeLinear", {bytes, scale, zero}, place->second);
  return place->second;
}

std::string QuantizerWriter::AddRounding(const std::string& tensor) {
  const auto [place, is_new] = roundings_.try_emplace(tensor);
  if (!is_new) return place->second;
  const std::string half = model_.Fresh(tensor + "_bf16");
  place->second = model_.Fresh(tensor + "_rounded");
  SetInt(Add("Cast", {tensor}, half), "to", onnx::TensorProto::BFLOAT16);
  SetInt(Add("Cast", {half}, place->second), "to", onnx::TensorProto::FLOAT);
  return place->second;
}

// The sums are integers in units of the scales' product, and so is the bias.
std::string QuantizerWriter::AddBias(const std::string& base, const std::vector<float>& bias, float x_scale,
                                     const std::vector<float>& scales) {
  std::vector<float> units(bias.size());
  std::vector<int32_t> numbers(bias.size());
  for (size_t c = 0; c < bias.size(); ++c) {
    units[c] = x_scale * scales[c];
    numbers[c] = static_cast<int32_t>(std::nearbyint(static_cast<double>(bias[c]) / units[c]));
  }
  const auto n = static_cast<int64_t>(bias.size());
  const std::string name = model_.AddConstant(base + "_bias_int32", TensorValue::Of<int32_t>({n}, numbers));
  const std::string scale = model_.AddConstant(base + "_bias_scale", TensorValue::Of<float>({n}, units));
  const std::string floats = model_.Fresh(base + "_bias_dequantized");
  SetInt(Add("DequantizeLinear", {name, scale}, floats), "axis", 0);
  return floats;
}

void QuantizerWriter::AddInt8(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
                              const std::string& result) {
  constexpr float kMostBias = 0x1p30f;  // so that the i32 has room for the sum as well
  const onnx::NodeProto node = old_.node(product.node);
  const std::string base = node.output(0);
  const auto twin = choice_.twins.find(product.x);
  const auto range = ranges_.find(twin == choice_.twins.end() ? product.x : twin->second);
  const float x_scale = range == ranges_.end() ? 1 : ScaleOf(range->second).scale;
  std::vector<float> least(bias.size());
  for (size_t c = 0; c < bias.size(); ++c) least[c] = std::abs(bias[c]) / (x_scale * kMostBias);
  const TensorValue& weights = product.weights;
  const WeightCodes codes = QuantizeChannels({weights.As<float>(), static_cast<size_t>(weights.spec.NumElements())},
                                             LayoutOf(product), least);
  const std::vector<int8_t> zeros(codes.scales.size(), 0);
  const auto n = static_cast<int64_t>(zeros.size());
  const std::string w = model_.AddConstant(
      base + "_weight_int8", Bytes8(DType::Int(8), weights.spec.shape, codes.codes.data(), codes.codes.size()));
  const std::string scale = model_.AddConstant(base + "_weight_scale", TensorValue::Of<float>({n}, codes.scales));
  const std::string zero =
      model_.AddConstant(base + "_weight_zero_point", Bytes8(DType::Int(8), {n}, zeros.data(), zeros.size()));
  const std::string floats = model_.Fresh(base + "_weight_dequantized");
  SetInt(Add("DequantizeLinear", {w, scale, zero}, floats), "axis", product.channel_axis);
  const std::string bias_floats = bias.empty() ? "" : AddBias(base, bias, x_scale, codes.scales);
  onnx::NodeProto* copy = model_.graph().add_node();
  *copy = node;
  copy->set_input(0, x);
  copy->set_input(1, floats);
  copy->set_output(0, result);
  if (!bias.empty() && copy->input_size() < 3) copy->add_input();
  if (!bias.empty()) copy->set_input(2, bias_floats);
}

void QuantizerWriter::AddRounded(const ChosenProduct& product, const std::string& result) {
  const onnx::NodeProto node = old_.node(product.node);
  const std::string base = node.output(0);
  const TensorValue& weights = product.weights;
  const float* numbers = weights.As<float>();
  const std::string w = model_.AddConstant(
      base + "_weight_bf16",
      TensorValue::FromNumbers(DType::BFloat16(), weights.spec.shape, {numbers, numbers + weights.spec.NumElements()}));
  const std::string floats = model_.Fresh(base + "_weight_rounded");
  SetInt(Add("Cast", {w}, floats), "to", onnx::TensorProto::FLOAT);
  const std::string x = AddRounding(product.x);
  onnx::NodeProto* copy = model_.graph().add_node();
  *copy = node;
  copy->set_input(0, x);
  copy->set_input(1, floats);
  copy->set_output(0, result);
}

// A Gemm becomes a MatMul and an Add, since runtimes have fast kernels for a MatMul by such weights only.
void QuantizerWriter::AddWeights4(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
                                  const std::string& result) {
  const onnx::NodeProto node = old_.node(product.node);
  const std::string base = node.output(0);
  const int64_t n = product.channels, k = product.weights.spec.NumElements() / n;
  const WeightCodes codes = QuantizeBlocks(AsColumns(product), k, n, kWeightBlock);
  const std::string w = model_.AddInt4(base + "_weight_int4", {k, n}, PackedInt4(codes.codes));
  const std::string scale =
      model_.AddConstant(base + "_weight_scale", TensorValue::Of<float>({CeilDiv(k, kWeightBlock), n}, codes.scales));
  const std::string floats = model_.Fresh(base + "_weight_dequantized");
  onnx::NodeProto* dequantize = Add("DequantizeLinear", {w, scale}, floats);
  SetInt(dequantize, "axis", 0);
  SetInt(dequantize, "block_size", kWeightBlock);
  const bool adds = !bias.empty() || product.has_bias;
  const std::string sums = adds ? model_.Fresh(base + "_product") : result;
  onnx::NodeProto* matmul = Add("MatMul", {x, floats}, sums);
  if (!node.name().empty()) matmul->set_name(node.name());
  if (!adds) return;
  Add("Add",
      {sums, bias.empty() ? node.input(2) : model_.AddConstant(base + "_bias", TensorValue::Of<float>({n}, bias))},
      result);
}

void QuantizerWriter::AddProduct(const ChosenProduct& product, const std::string& x, const std::vector<float>& bias,
                                 const std::string& result) {
  if (form_ == QuantizedForm::kInt8) return AddInt8(product, x, bias, result);
  AddWeights4(product, x, bias, result);
}

const std::vector<float>& QuantizerWriter::ErrorAt(size_t product) const {
  static const std::vector<float> none;
  return errors_ && product < errors_->size() ? (*errors_)[product] : none;
}

// A product without a bias gets one, if its operator can have it, or an Add.
void QuantizerWriter::AddCorrected(const ChosenProduct& product, const std::vector<float>& error) {
  const onnx::NodeProto& node = old_.node(product.node);
  const std::string x = form_ == QuantizedForm::kInt8 ? trips_.at(product.x) : product.x;
  const auto n = static_cast<size_t>(product.channels);
  const bool is_computed = product.has_bias && product.bias.empty();
  if (error.empty() || product.bias_add >= 0 || is_computed)
    return AddProduct(product, x, product.bias, node.output(0));
  if (node.op_type() != "MatMul") {
    const std::vector<float> bias = product.bias.empty() ? std::vector<float>(n, 0) : product.bias;
    return AddProduct(product, x, Minus(bias, error), node.output(0));
  }
  const std::string sums = model_.Fresh(node.output(0) + "_uncorrected");
  AddProduct(product, x, {}, sums);
  const TensorValue bias = TensorValue::Of<float>({product.channels}, Minus(std::vector<float>(n, 0), error));
  Add("Add", {sums, model_.AddConstant(node.output(0) + "_bias", bias)}, node.output(0));
}

// Copies a node that is no product. Followers read what went through u8; the Add behind a product has its bias.
void QuantizerWriter::CopyNode(const onnx::NodeProto& node, int index) {
  onnx::NodeProto* copy = model_.graph().add_node();
  *copy = node;
  if (choice_.followers.count(index)) {
    for (std::string& input : *copy->mutable_input()) input = trips_.at(input);
  }
  for (size_t i = 0; i < choice_.products.size(); ++i) {
    const ChosenProduct& product = choice_.products[i];
    if (product.bias_add != index || ErrorAt(i).empty()) continue;
    const int place = node.input(0) == old_.node(product.node).output(0) ? 1 : 0;
    const TensorValue& bias = product.added;
    const std::vector<float> old(bias.As<float>(), bias.As<float>() + product.channels);
    copy->set_input(place, model_.AddConstant(node.input(place) + "_corrected",
                                              TensorValue::Of<float>(bias.spec.shape, Minus(old, ErrorAt(i)))));
  }
}

void QuantizerWriter::WriteQuantized(const ModelQuantizer::MeanErrors& errors) {
  errors_ = &errors;
  old_.mutable_node()->Swap(model_.graph().mutable_node());
  const auto add_trips = [&](const std::string& name) {
    if (choice_.activations.count(name)) {
      const auto clipped = std::ranges::find_if(choice_.clipped, [&](const auto& c) { return c.second == name; });
      if (clipped == choice_.clipped.end()) AddTrip(name, name);
    }
    for (const auto& [index, activation] : choice_.clipped)
      if (old_.node(index).input(0) == name) AddTrip(name, activation);
  };
  for (const auto& input : model_.graph().input()) add_trips(input.name());
  for (int i = 0; i < old_.node_size(); ++i) {
    if (choice_.clipped.count(i)) continue;
    if (const ChosenProduct* product = choice_.ProductAt(i)) {
      AddCorrected(*product, ErrorAt(static_cast<size_t>(product - choice_.products.data())));
    } else if (const ChosenProduct* rounded = choice_.RoundedAt(i)) {
      AddRounded(*rounded, old_.node(i).output(0));
    } else {
      CopyNode(old_.node(i), i);
    }
    for (const std::string& name : old_.node(i).output()) add_trips(name);
  }
  model_.Prune();
}

std::vector<std::string> QuantizerWriter::WriteProbes() {
  *old_.mutable_node() = model_.graph().node();
  std::vector<std::string> outputs;
  for (const ChosenProduct& product : choice_.products) {
    const onnx::NodeProto& node = old_.node(product.node);
    const std::string base = node.output(0), sums = model_.Fresh(base + "_probe");
    const std::string x = form_ == QuantizedForm::kInt8 ? AddTrip(product.x, product.x) : product.x;
    AddProduct(product, x, product.bias, sums);
    std::string difference = model_.Fresh(base + "_difference");
    Add("Sub", {sums, base}, difference);
    std::vector<int64_t> axes = {0};
    if (node.op_type() == "Conv") {
      for (int d = 2; d < product.weights.spec.rank(); ++d) axes.push_back(d);
    } else {
      const std::string rows = model_.Fresh(base + "_rows");
      Add("Reshape",
          {difference, model_.AddConstant(base + "_rows_shape", TensorValue::Of<int64_t>({2}, {-1, product.channels}))},
          rows);
      difference = rows;
    }
    outputs.push_back(model_.Fresh(base + "_mean_error"));
    onnx::NodeProto* mean = Add("ReduceMean", {difference}, outputs.back());
    SetInt(mean, "keepdims", 0);
    if (model_.opset() < kAxesInput) {
      SetInts(mean, "axes", axes);
    } else {
      mean->add_input(
          model_.AddConstant(base + "_mean_axes", TensorValue::Of<int64_t>({static_cast<int64_t>(axes.size())}, axes)));
    }
    onnx::ValueInfoProto* output = model_.graph().add_output();
    output->set_name(outputs.back());
    output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  return outputs;
}

std::string QuantizerWriter::AddSwitched(const std::string& changed, const std::string& base, std::string& input) {
  input = model_.Fresh(changed + "_switch");
  onnx::ValueInfoProto* number = model_.graph().add_input();
  number->set_name(input);
  auto* type = number->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape();  // none: a number
  const std::string difference = model_.Fresh(changed + "_difference"), switched = model_.Fresh(changed + "_switched");
  Add("Sub", {changed, base}, difference);
  Add("Mul", {difference, input}, switched);
  return switched;
}

std::vector<ModelQuantizer::Switches> QuantizerWriter::WriteSwitches() {
  old_.mutable_node()->Swap(model_.graph().mutable_node());
  std::vector<ModelQuantizer::Switches> switches(choice_.products.size());
  for (int i = 0; i < old_.node_size(); ++i) {
    const ChosenProduct* product = choice_.ProductAt(i);
    onnx::NodeProto* copy = model_.graph().add_node();
    *copy = old_.node(i);
    if (!product) continue;
    const std::string result = copy->output(0), base = model_.Fresh(result + "_exact"),
                      bytes = model_.Fresh(result + "_of_int8"), halves = model_.Fresh(result + "_of_bf16"),
                      sum = model_.Fresh(result + "_first");
    copy->set_output(0, base);
    AddInt8(*product, AddTrip(product->x, product->x), product->bias, bytes);
    AddRounded(*product, halves);
    ModelQuantizer::Switches& own = switches[static_cast<size_t>(product - choice_.products.data())];
    Add("Add", {base, AddSwitched(bytes, base, own.int8)}, sum);
    Add("Add", {sum, AddSwitched(halves, base, own.bf16)}, result);
  }
  return switches;
}

}  // namespace autotune::onnx_import
