#include "frontend/onnx/quantizer.h"

#include <algorithm>
#include <limits>

#include "frontend/onnx/proto_reader.h"
#include "frontend/onnx/quantizer_writer.h"
#include "support/check.h"
#include "support/hint.h"

#include <google/protobuf/io/coded_stream.h>

namespace autotune {

using namespace onnx_import;

struct ModelQuantizer::Parts {
  std::string source, float_model;
  QuantizedForm form = QuantizedForm::kInt8;
  onnx::ModelProto prepared;  // float, with batch normalizations in the weights; for kWeights4 of operator set 21
  QuantizerChoice choice;
  std::map<std::string, ValueRange> ranges;
  std::vector<Product> products;
};

namespace {

constexpr int64_t kLeastOpset = 13, kBlocksOpset = 21;  // of scales for each channel, and for each block

Result<std::string> Serialized(const onnx::ModelProto& model, const std::string& source) {
  std::string bytes;
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) ||
      !model.SerializeToString(&bytes))
    return Err(source, " has more than 2 GiB with the tensors of its other files, which is too large to quantize");
  return bytes;
}

// Returns an error if the model has a node that quantizes already.
Status CheckIsFloat(const onnx::GraphProto& graph, const std::string& source) {
  static const std::set<std::string> kQuantized = {"QuantizeLinear",
                                                   "DequantizeLinear",
                                                   "DynamicQuantizeLinear",
                                                   "QLinearConv",
                                                   "QLinearMatMul",
                                                   "MatMulInteger",
                                                   "ConvInteger",
                                                   "MatMulNBits",
                                                   "DynamicQuantizeMatMul",
                                                   "MatMulIntegerToFloat",
                                                   "QLinearAdd",
                                                   "QAttention",
                                                   "QGemm",
                                                   "DynamicQuantizeLSTM",
                                                   "QEmbedLayerNormalization"};
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    if (kQuantized.count(node.op_type()))
      return WithHint(
          Err(source, " is quantized already: it has ", node.op_type(), " (", NodeLabel(node.name(), i), ")"),
          "give the float model from which it was made");
    for (const onnx::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) TRY(CheckIsFloat(attribute.g(), source));
  }
  return {};
}

Status CheckOpset(int64_t opset, const std::string& source) {
  if (opset == 0 || opset >= kLeastOpset) return {};  // 0: it uses operators of other domains only
  return WithHint(Err(source, " uses ONNX operator set ", opset, "; weights with a scale for each channel need ",
                      kLeastOpset, " or more"),
                  "convert it: onnx.version_converter.convert_version(model, 17)");
}

// Says why nothing can be quantized.
Error NothingToQuantize(const std::string& source, const QuantizerChoice& choice, QuantizedForm form) {
  const std::string what = form == QuantizedForm::kInt8 ? "Conv, Gemm or MatMul" : "Gemm or MatMul";
  for (const auto& left : choice.left)
    for (const char* op : {"Conv", "Gemm", "MatMul"})
      if (left.op == op)
        return Err(source, " has no ", what, " that can be quantized; ", left.op, " (", left.nodes[0],
                   ") stays in float: ", left.reason);
  return Err(source, " has no ", what, " with constant weights, so there is nothing to quantize");
}

}  // namespace

ModelQuantizer::ModelQuantizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ModelQuantizer::ModelQuantizer(ModelQuantizer&&) noexcept = default;
ModelQuantizer::~ModelQuantizer() = default;

Result<ModelQuantizer> ModelQuantizer::Read(const std::string& path, QuantizedForm form) {
  return FromBytes(TRY(ReadProtoFile(path)), path, DataFolderOf(path).path, form);
}

Result<ModelQuantizer> ModelQuantizer::FromBytes(std::string_view bytes, const std::string& source,
                                                 const std::string& folder, QuantizedForm form) {
  const ModelFolder data{.path = folder};
  TRY(ReadOnnxModel(bytes, source, data));  // refuses damaged models
  auto parts = std::make_unique<Parts>();
  parts->source = source;
  parts->form = form;
  onnx::ModelProto& model = parts->prepared;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  if (!model.ParseFromCodedStream(&stream)) return Err(source, " is not an ONNX model (damaged or cut short?)");
  TRY_NOTE(TakeExternalData(model.mutable_graph(), data), "in " + source);
  TRY(CheckIsFloat(model.graph(), source));
  parts->float_model = TRY(Serialized(model, source));
  ModelEditor editor(&model);
  TRY(CheckOpset(editor.opset(), source));
  if (form == QuantizedForm::kInt8) editor.FoldBatchNorms();
  if (form == QuantizedForm::kWeights4) RaiseOpset(&model, kBlocksOpset);
  parts->choice = ChooseQuantized(ModelEditor(&model), form);
  if (parts->choice.products.empty()) return NothingToQuantize(source, parts->choice, form);
  std::set<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) names.insert(node.name());
  std::set<std::string> of_products;
  for (const ChosenProduct& product : parts->choice.products) {
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(product.node);
    const std::string label = NodeLabel(node.name(), product.node);
    // Profiles name kernels by these nodes.
    if (node.name().empty() || !of_products.insert(node.name()).second) {
      std::string name = node.output(0);
      while (!names.insert(name).second) name += "_";
      node.set_name(name);
    }
    parts->products.push_back({node.op_type(), label, node.name(), product.x, node.output(0), product.channels});
  }
  return ModelQuantizer(std::move(parts));
}

const std::vector<ModelQuantizer::Product>& ModelQuantizer::products() const { return parts_->products; }

const std::vector<ModelQuantizer::FloatOperators>& ModelQuantizer::left_in_float() const { return parts_->choice.left; }

std::vector<std::string> ModelQuantizer::Activations() const {
  return {parts_->choice.activations.begin(), parts_->choice.activations.end()};
}

const std::string& ModelQuantizer::FloatModel() const { return parts_->float_model; }

void ModelQuantizer::SetRanges(std::map<std::string, ValueRange> ranges) { parts_->ranges = std::move(ranges); }

Result<ModelQuantizer::Probes> ModelQuantizer::ProbeModel() const {
  onnx::ModelProto copy = parts_->prepared;
  Probes probes;
  probes.outputs = QuantizerWriter(&copy, parts_->choice, parts_->form, parts_->ranges).WriteProbes();
  probes.model = TRY(Serialized(copy, parts_->source));
  return probes;
}

Result<ModelQuantizer::Switched> ModelQuantizer::SwitchedModel() const {
  onnx::ModelProto copy = parts_->prepared;
  Switched switched;
  switched.switches = QuantizerWriter(&copy, parts_->choice, parts_->form, parts_->ranges).WriteSwitches();
  switched.model = TRY(Serialized(copy, parts_->source));
  return switched;
}

Result<std::string> ModelQuantizer::MixedModel(const std::vector<Precision>& precisions,
                                               const MeanErrors& errors) const {
  CHECK(precisions.size() == products().size() && parts_->form == QuantizedForm::kInt8);
  onnx::ModelProto copy = parts_->prepared;
  const QuantizerChoice choice = ChooseMixed(ModelEditor(&copy), parts_->choice.products, precisions);
  MeanErrors of_bytes;
  for (size_t i = 0; i < errors.size(); ++i)
    if (precisions[i] == Precision::kInt8) of_bytes.push_back(errors[i]);
  QuantizerWriter(&copy, choice, parts_->form, parts_->ranges).WriteQuantized(of_bytes);
  return Serialized(copy, parts_->source);
}

Result<std::string> ModelQuantizer::QuantizedModel(const MeanErrors& errors) const {
  onnx::ModelProto copy = parts_->prepared;
  QuantizerWriter(&copy, parts_->choice, parts_->form, parts_->ranges).WriteQuantized(errors);
  return Serialized(copy, parts_->source);
}

}  // namespace autotune
