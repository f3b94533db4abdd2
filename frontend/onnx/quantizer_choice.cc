#include "frontend/onnx/quantizer_choice.h"

#include <algorithm>
#include <cmath>

#include "frontend/onnx/proto_reader.h"

namespace autotune::onnx_import {
namespace {

using graph::TensorValue;

bool Is(const onnx::NodeProto& node, const std::set<std::string>& ops) {
  return IsOnnx(node) && ops.count(node.op_type()) > 0;
}

class Chooser {
 public:
  Chooser(const ModelEditor& model, QuantizedForm form) : model_(model), form_(form) {}

  QuantizerChoice Run() {
    for (int i = 0; i < model_.graph().node_size(); ++i) Visit(i);
    if (form_ == QuantizedForm::kInt8) FindBytes();
    AddOthers();
    return std::move(choice_);
  }

  QuantizerChoice Mix(const std::vector<ChosenProduct>& products, const std::vector<Precision>& precisions) {
    for (size_t i = 0; i < products.size(); ++i) {
      if (precisions[i] == Precision::kInt8) choice_.products.push_back(products[i]);
      if (precisions[i] == Precision::kBf16) choice_.rounded.push_back(products[i]);
    }
    FindBytes();
    return std::move(choice_);
  }

 private:
  // Finds the tensors that become u8.
  void FindBytes() {
    for (const ChosenProduct& product : choice_.products) choice_.activations.insert(product.x);
    FindFollowers();
    FindClipped();
  }

  const onnx::NodeProto& Node(int index) const { return model_.graph().node(index); }

  void Leave(const onnx::NodeProto& node, int index, const std::string& reason) {
    auto& left = choice_.left;
    const std::string op = (IsOnnx(node) ? "" : node.domain() + ".") + node.op_type();
    auto same = std::ranges::find_if(left, [&](const auto& l) { return l.op == op && l.reason == reason; });
    if (same == left.end()) same = left.insert(left.end(), {op, reason, {}});
    same->nodes.push_back(NodeLabel(node.name(), index));
  }

  void Visit(int index) {
    static const std::set<std::string> kOthers = {"ConvTranspose", "Einsum", "LSTM", "GRU", "RNN", "Attention"};
    const onnx::NodeProto& node = Node(index);
    if (Is(node, kOthers)) return Leave(node, index, "this operator is not quantized");
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      for (int i = 0; i < attribute.g().node_size(); ++i) {
        if (Is(attribute.g().node(i), {"Conv", "Gemm", "MatMul"}))
          Leave(attribute.g().node(i), i, "it is in a branch or a loop");
      }
    }
    if (!Is(node, {"Conv", "Gemm", "MatMul"})) return;
    ChosenProduct product{.node = index};
    const std::string reason = WhyNot(node, product);
    if (!reason.empty()) return Leave(node, index, reason);
    choice_.products.push_back(std::move(product));
  }

  // Returns why a product stays in float; "" if it need not, and describes it then.
  std::string WhyNot(const onnx::NodeProto& node, ChosenProduct& product) const {
    if (node.op_type() == "Conv" && form_ == QuantizedForm::kWeights4) return "only weights of matrices get 4 bits";
    product.x = node.input(0);
    const std::string& w = node.input(1);
    if (!model_.IsConstant(w)) {
      if (model_.IsConstant(product.x)) return "its left operand is the constant one";
      return node.op_type() == "Conv" ? "its weights are computed" : "both operands are computed";
    }
    if (!model_.Varies(product.x)) return "it depends on constants alone";
    const std::optional<TensorValue> weights = model_.Floats(w);
    if (!weights) return "its weights are not f32";
    product.weights = *weights;
    const int rank = weights->spec.rank();
    if (weights->spec.NumElements() == 0 || (node.op_type() == "Conv" ? rank < 3 : rank != 2))
      return "its weights are no matrix";
    const float* numbers = weights->As<float>();
    if (!std::all_of(numbers, numbers + weights->spec.NumElements(), [](float x) { return std::isfinite(x); }))
      return "its weights are not all finite";
    if (node.op_type() == "Gemm" &&
        (FloatOf(node, "alpha", 1) != 1 || FloatOf(node, "beta", 1) != 1 || IntOf(node, "transA", 0) != 0))
      return "it has alpha, beta or transA";
    const bool first = node.op_type() == "Conv" || IntOf(node, "transB", 0) != 0;
    product.channel_axis = first ? 0 : 1;
    product.channels = weights->spec.shape[product.channel_axis];
    if (form_ == QuantizedForm::kWeights4 && weights->spec.NumElements() / product.channels < kWeightBlock)
      return "its sums have fewer than 32 terms";
    FindBias(node, product);
    return "";
  }

  void FindBias(const onnx::NodeProto& node, ChosenProduct& product) const {
    product.has_bias = node.input_size() > 2 && !node.input(2).empty();
    if (product.has_bias) {
      product.bias = model_.FloatsFor(node.input(2), product.channels).value_or(std::vector<float>());
      return;
    }
    if (node.op_type() != "MatMul") return;
    const std::vector<int>& readers = model_.Readers(node.output(0));
    if (readers.size() != 1 || !model_.OnlyReaderIs(node.output(0), readers[0])) return;
    const onnx::NodeProto& add = Node(readers[0]);
    if (!Is(add, {"Add"}) || add.input(0) == add.input(1)) return;
    const std::optional<TensorValue> bias = model_.Floats(add.input(add.input(0) == node.output(0) ? 1 : 0));
    if (bias && bias->spec.rank() > 0 && bias->spec.NumElements() == product.channels &&
        bias->spec.shape.back() == product.channels) {
      product.bias_add = readers[0];
      product.added = *bias;
    }
  }

  // Sums and pools of images that convolutions compute stay in integers between the convolutions. Sums beside products
  // of matrices stay in float: they carry the values of a transformer through all its layers.
  void FindFollowers() {
    std::set<std::string> images;
    for (const ChosenProduct& product : choice_.products)
      if (Node(product.node).op_type() == "Conv") images.insert(Node(product.node).output(0));
    for (int i = 0; i < model_.graph().node_size(); ++i) {
      const onnx::NodeProto& node = Node(i);
      const bool clips = Is(node, {"Relu", "Clip"});
      if (!clips && !Is(node, {"Add", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool"})) continue;
      const int operands = clips ? 1 : node.input_size();
      if (node.output_size() != 1 || operands == 0 ||
          !std::all_of(node.input().begin(), node.input().begin() + operands,
                       [&](const std::string& name) { return images.count(name) > 0; }))
        continue;
      images.insert(node.output(0));
      if (clips) continue;
      choice_.followers.insert(i);
      choice_.activations.insert(node.input().begin(), node.input().end());
    }
    for (int i : choice_.followers) {
      const onnx::NodeProto& node = Node(i);
      if (node.op_type() == "MaxPool" && choice_.activations.count(node.output(0)))
        choice_.twins[node.output(0)] = node.input(0);
    }
  }

  bool ReadsIntegers(int node) const { return choice_.followers.count(node) > 0 || choice_.ProductAt(node); }

  // Returns whether the node makes negative numbers 0 and has a bound above, if at all, that the calibration has seen.
  bool ClipsAtZero(const onnx::NodeProto& node) const {
    if (Is(node, {"Relu"})) return true;
    if (!Is(node, {"Clip"}) || node.input_size() < 2) return false;
    const std::optional<std::vector<float>> low = model_.FloatsFor(node.input(1), 1);
    return low && (*low)[0] == 0 && (node.input_size() < 3 || node.input(2).empty() || model_.Floats(node.input(2)));
  }

  void FindClipped() {
    for (const std::string& name : choice_.activations) {
      const int index = model_.Producer(name);
      if (index < 0 || !ClipsAtZero(Node(index)) || model_.IsPinned(name)) continue;
      const std::string& before = Node(index).input(0);
      const bool all_integers =
          std::ranges::all_of(model_.Readers(name), [&](int reader) { return ReadsIntegers(reader); });
      if (all_integers && model_.OnlyReaderIs(before, index) && model_.Producer(before) >= 0)
        choice_.clipped[index] = name;
    }
  }

  // Lists the operators that compute floats beside the products. Those that only move elements are not listed.
  void AddOthers() {
    static const std::set<std::string> kMoves = {"Reshape",  "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity",
                                                 "Constant", "Shape",   "Size",      "Gather",  "Slice",     "Split",
                                                 "Concat",   "Expand",  "Cast",      "Range"};
    for (int i = 0; i < model_.graph().node_size(); ++i) {
      const onnx::NodeProto& node = Node(i);
      const bool listed = std::ranges::any_of(choice_.left, [&](const auto& left) {
        return std::ranges::count(left.nodes, NodeLabel(node.name(), i)) > 0;
      });
      const bool varies = std::ranges::any_of(node.output(), [&](const auto& name) { return model_.Varies(name); });
      if (listed || !varies || Is(node, kMoves) || ReadsIntegers(i) || choice_.clipped.count(i)) continue;
      Leave(node, i, "no product with constant weights");
    }
  }

  const ModelEditor& model_;
  const QuantizedForm form_;
  QuantizerChoice choice_;
};

const ChosenProduct* Find(const std::vector<ChosenProduct>& products, int node) {
  const auto found = std::ranges::find(products, node, &ChosenProduct::node);
  return found == products.end() ? nullptr : &*found;
}

}  // namespace

const ChosenProduct* QuantizerChoice::ProductAt(int node) const { return Find(products, node); }
const ChosenProduct* QuantizerChoice::RoundedAt(int node) const { return Find(rounded, node); }

QuantizerChoice ChooseQuantized(const ModelEditor& model, QuantizedForm form) { return Chooser(model, form).Run(); }

QuantizerChoice ChooseMixed(const ModelEditor& model, const std::vector<ChosenProduct>& products,
                            const std::vector<Precision>& precisions) {
  return Chooser(model, QuantizedForm::kInt8).Mix(products, precisions);
}

}  // namespace autotune::onnx_import
