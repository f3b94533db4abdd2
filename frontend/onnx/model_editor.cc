#include "frontend/onnx/model_editor.h"

#include <algorithm>
#include <cmath>

#include "frontend/onnx/tensor_proto.h"

namespace autotune::onnx_import {
namespace {

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

onnx::AttributeProto* AttributeToSet(onnx::NodeProto* node, const char* name) {
  RemoveAttribute(node, name);
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  return attribute;
}

// Calls visit(graph) for the graph and all subgraphs of its nodes.
template <class Visit>
void ForEachGraph(onnx::GraphProto* graph, const Visit& visit) {
  visit(graph);
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) ForEachGraph(attribute.mutable_g(), visit);
  }
}

// Adds all names that the nodes of a subgraph and its outputs read.
void AddNames(const onnx::GraphProto& graph, std::set<std::string>* names) {
  for (const onnx::NodeProto& node : graph.node()) {
    names->insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) AddNames(attribute.g(), names);
  }
  for (const auto& output : graph.output()) names->insert(output.name());
}

}  // namespace

int64_t IntOf(const onnx::NodeProto& node, const char* name, int64_t fallback) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute ? attribute->i() : fallback;
}

float FloatOf(const onnx::NodeProto& node, const char* name, float fallback) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute ? attribute->f() : fallback;
}

void RemoveAttribute(onnx::NodeProto* node, const char* name) {
  for (int i = node->attribute_size(); i-- > 0;)
    if (node->attribute(i).name() == name) node->mutable_attribute()->DeleteSubrange(i, 1);
}

void SetInt(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* attribute = AttributeToSet(node, name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void SetInts(onnx::NodeProto* node, const char* name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = AttributeToSet(node, name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

ModelEditor::ModelEditor(onnx::ModelProto* model) : model_(model) { Look(); }

int64_t ModelEditor::opset() const {
  for (const auto& opset : model_->opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") return opset.version();
  return 0;
}

void ModelEditor::Look() {
  constants_.clear(), readers_.clear(), producers_.clear(), pinned_.clear(), varying_.clear();
  for (const onnx::TensorProto& tensor : graph().initializer()) constants_[tensor.name()] = &tensor;
  for (const auto& input : graph().input()) {
    names_.insert(input.name());
    if (!constants_.count(input.name())) varying_.insert(input.name());
  }
  for (const auto& [name, tensor] : constants_) names_.insert(name);
  for (const auto& output : graph().output()) pinned_.insert(output.name());
  for (int i = 0; i < graph().node_size(); ++i) {
    const onnx::NodeProto& node = graph().node(i);
    std::set<std::string> captured;
    for (const onnx::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) AddNames(attribute.g(), &captured);
    pinned_.insert(captured.begin(), captured.end());
    const bool only_shape = IsOnnx(node) && (node.op_type() == "Shape" || node.op_type() == "Size");
    bool varies = std::ranges::any_of(captured, [&](const std::string& name) { return Varies(name); });
    for (const std::string& name : node.input()) {
      std::vector<int>& readers = readers_[name];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
      varies |= !only_shape && Varies(name);
    }
    for (const std::string& name : node.output()) {
      names_.insert(name);
      producers_[name] = i;
      if (varies) varying_.insert(name);
    }
    if (IsOnnx(node) && node.op_type() == "Constant" && node.attribute_size() == 1 && node.attribute(0).has_t())
      constants_[node.output(0)] = &node.attribute(0).t();
  }
  // A new name must also differ from those of subgraphs, which would hide it.
  ForEachGraph(&graph(), [&](onnx::GraphProto* g) {
    for (const onnx::NodeProto& node : g->node()) names_.insert(node.output().begin(), node.output().end());
    for (const auto& input : g->input()) names_.insert(input.name());
    for (const auto& tensor : g->initializer()) names_.insert(tensor.name());
  });
}

std::optional<graph::TensorValue> ModelEditor::Floats(const std::string& name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end() || found->second->data_type() != onnx::TensorProto::FLOAT) return std::nullopt;
  Result<graph::TensorValue> value = ToTensorValue(*found->second);
  if (!value.ok()) return std::nullopt;
  return std::move(*value);
}

std::optional<std::vector<float>> ModelEditor::FloatsFor(const std::string& name, int64_t count) const {
  const std::optional<graph::TensorValue> value = Floats(name);
  if (!value) return std::nullopt;
  const int64_t n = value->spec.NumElements();
  if (n == count) return std::vector<float>(value->As<float>(), value->As<float>() + n);
  if (n == 1) return std::vector<float>(static_cast<size_t>(count), *value->As<float>());
  return std::nullopt;
}

const std::vector<int>& ModelEditor::Readers(const std::string& name) const {
  static const std::vector<int> none;
  const auto found = readers_.find(name);
  return found == readers_.end() ? none : found->second;
}

bool ModelEditor::OnlyReaderIs(const std::string& name, int reader) const {
  return !IsPinned(name) && Readers(name) == std::vector<int>{reader};
}

int ModelEditor::Producer(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? -1 : found->second;
}

std::string ModelEditor::Fresh(const std::string& base) {
  std::string name = base;
  for (int i = 2; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
  return name;
}

std::string ModelEditor::AddConstant(const std::string& base, const graph::TensorValue& value) {
  const std::string name = Fresh(base);
  const Status converted = ToTensorProto(value, name, graph().add_initializer());
  CHECK(converted.ok()) << converted.error().Text();
  return name;
}

std::string ModelEditor::AddInt4(const std::string& base, const graph::Shape& shape,
                                 const std::vector<uint8_t>& packed) {
  constexpr int kInt4 = 22;  // installed headers may not name it
  onnx::TensorProto* tensor = graph().add_initializer();
  tensor->set_name(Fresh(base));
  tensor->set_data_type(kInt4);
  for (int64_t extent : shape) tensor->add_dims(extent);
  tensor->set_raw_data(packed.data(), packed.size());
  return tensor->name();
}

// w' = w * scale / sqrt(variance + epsilon), per output channel; the bias likewise.
bool ModelEditor::FoldBatchNorm(int index) {
  const onnx::NodeProto& norm = graph().node(index);
  if (!IsOnnx(norm) || norm.op_type() != "BatchNormalization" || norm.output_size() != 1 || norm.input_size() != 5)
    return false;
  const int producer = Producer(norm.input(0));
  if (producer < 0 || IntOf(norm, "training_mode", 0) != 0 || !OnlyReaderIs(norm.input(0), index)) return false;
  onnx::NodeProto& conv = *graph().mutable_node(producer);
  if (!IsOnnx(conv) || conv.op_type() != "Conv") return false;
  const std::optional<graph::TensorValue> weights = Floats(conv.input(1));
  if (!weights || weights->spec.rank() < 3 || weights->spec.NumElements() == 0) return false;
  const int64_t channels = weights->spec.shape[0], inner = weights->spec.NumElements() / channels;
  const bool has_bias = conv.input_size() > 2 && !conv.input(2).empty();
  std::vector<float> bias(static_cast<size_t>(channels), 0);
  std::vector<std::vector<float>> parameters;  // scale, shift, mean, variance
  for (int i = 1; i < 5; ++i) {
    std::optional<std::vector<float>> values = FloatsFor(norm.input(i), channels);
    if (!values) return false;
    parameters.push_back(std::move(*values));
  }
  if (has_bias) {
    std::optional<std::vector<float>> values = FloatsFor(conv.input(2), channels);
    if (!values) return false;
    bias = std::move(*values);
  }
  std::vector<float> folded(weights->As<float>(), weights->As<float>() + weights->spec.NumElements());
  const float epsilon = FloatOf(norm, "epsilon", 1e-5f);
  for (int64_t c = 0; c < channels; ++c) {
    const double factor = parameters[0][c] / std::sqrt(static_cast<double>(parameters[3][c]) + epsilon);
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i) folded[i] = static_cast<float>(folded[i] * factor);
    bias[c] = static_cast<float>((static_cast<double>(bias[c]) - parameters[2][c]) * factor + parameters[1][c]);
  }
  const std::string result = norm.output(0), base = conv.input(1);
  const std::string w = AddConstant(base + "_folded", graph::TensorValue::Of<float>(weights->spec.shape, folded));
  const std::string b = AddConstant(result + "_bias", graph::TensorValue::Of<float>({channels}, bias));
  conv.set_input(1, w);
  if (conv.input_size() < 3) conv.add_input();
  conv.set_input(2, b);
  conv.set_output(0, result);
  graph().mutable_node(index)->set_op_type("");  // removed by the caller
  return true;
}

void ModelEditor::FoldBatchNorms() {
  for (int i = 0; i < graph().node_size(); ++i) FoldBatchNorm(i);
  auto* nodes = graph().mutable_node();
  for (int i = nodes->size(); i-- > 0;)
    if (nodes->Get(i).op_type().empty()) nodes->DeleteSubrange(i, 1);
  Prune();
  Look();
}

void ModelEditor::Prune() {
  std::set<std::string> read;
  AddNames(graph(), &read);
  const auto keep = [](auto* list, const auto& wanted) {
    int kept = 0;
    for (int i = 0; i < list->size(); ++i)
      if (wanted(list->Get(i))) list->SwapElements(i, kept++);
    list->DeleteSubrange(kept, list->size() - kept);
  };
  std::set<std::string> defaults;
  for (const auto& tensor : graph().initializer()) defaults.insert(tensor.name());
  keep(graph().mutable_input(), [&](const auto& i) { return read.count(i.name()) || !defaults.count(i.name()); });
  keep(graph().mutable_initializer(), [&](const auto& tensor) { return read.count(tensor.name()) > 0; });
  keep(graph().mutable_node(), [&](const onnx::NodeProto& node) {
    return node.op_type() != "Constant" || node.output_size() != 1 || read.count(node.output(0));
  });
  std::set<std::string> made;
  for (const onnx::NodeProto& node : graph().node()) made.insert(node.output().begin(), node.output().end());
  keep(graph().mutable_value_info(), [&](const auto& info) { return made.count(info.name()) > 0; });
}

Status TakeExternalData(onnx::GraphProto* graph, const ModelFolder& folder) {
  Status status;
  const auto take = [&](onnx::TensorProto* tensor) -> Status {
    if (tensor->data_location() != onnx::TensorProto::EXTERNAL) return {};
    const graph::TensorValue value = TRY(ToTensorValue(*tensor, folder));
    tensor->clear_external_data();
    tensor->clear_data_location();
    tensor->set_raw_data(value.bytes.data(), value.bytes.size());
    return {};
  };
  ForEachGraph(graph, [&](onnx::GraphProto* g) {
    for (onnx::TensorProto& tensor : *g->mutable_initializer())
      if (status.ok()) status = take(&tensor);
    for (onnx::NodeProto& node : *g->mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute())
        if (status.ok() && attribute.has_t()) status = take(attribute.mutable_t());
    }
  });
  return status;
}

void RaiseOpset(onnx::ModelProto* model, int64_t opset) {
  int64_t from = opset;
  for (auto& imported : *model->mutable_opset_import()) {
    if (!imported.domain().empty() && imported.domain() != "ai.onnx") continue;
    from = imported.version();
    imported.set_version(std::max(from, opset));
  }
  constexpr int64_t kAxesInput = 18, kNewModes = 20;  // operator sets of the changes below
  constexpr int64_t kFormat = 10;                     // ONNX's IR version that came with operator set 21
  model->set_ir_version(std::max<int64_t>(model->ir_version(), kFormat));
  ForEachGraph(model->mutable_graph(), [&](onnx::GraphProto* graph) {
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      if (!IsOnnx(node)) continue;
      const onnx::AttributeProto* axes = FindAttribute(node, "axes");
      if (from < kAxesInput && node.op_type().starts_with("Reduce") && axes) {
        onnx::TensorProto* tensor = graph->add_initializer();
        tensor->set_name(node.output(0) + "_axes");
        tensor->set_data_type(onnx::TensorProto::INT64);
        tensor->add_dims(axes->ints_size());
        for (int64_t axis : axes->ints()) tensor->add_int64_data(axis);
        node.add_input(tensor->name());
        RemoveAttribute(&node, "axes");
      }
      if (from < kAxesInput && node.op_type() == "Split" && node.input_size() < 2)
        SetInt(&node, "num_outputs", node.output_size());
      if (from < kNewModes && node.op_type() == "GridSample") {
        for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
          if (attribute.s() == "bilinear") attribute.set_s("linear");
          if (attribute.s() == "bicubic") attribute.set_s("cubic");
        }
      }
    }
  });
}

}  // namespace autotune::onnx_import
