#include "tests/frontend/mutator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "support/check.h"

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

namespace autotune {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

// clang-format off
// Values that exporters write, and values that no exporter should write.
constexpr int64_t kNumbers[] = {
    0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17, -1, -1, -2, -3, 64, 255, 1000, 1 << 20, 1 << 30, int64_t{1} << 31,
    int64_t{1} << 60, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
constexpr float kFloats[] = {
    0, 1, -1, 0.5f, 2, 1e-5f, 1e30f, -1e30f, std::numeric_limits<float>::infinity(),
    std::numeric_limits<float>::quiet_NaN()};
const char* const kWords[] = {
    "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "constant", "edge", "reflect", "nearest", "linear", "cubic",
    "half_pixel", "align_corners", "DCR", "CRD", "none", "sum", "mean", "floor", "nonsense", "\xff"};
const char* const kIntAttributes[] = {
    "axis", "keepdims", "group", "ceil_mode", "count_include_pad", "storage_order", "transA", "allowzero",
    "exclusive", "reverse", "training_mode", "fmod", "select_last_index", "to", "blocksize", "size"};
const char* const kListAttributes[] = {
    "axes", "strides", "pads", "dilations", "kernel_shape", "perm", "split", "output_padding", "output_shape",
    "starts", "ends"};
const char* const kOperators[] = {
    "Abs", "Add", "And", "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat",
    "Conv", "ConvTranspose", "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf",
    "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "Greater", "HardSigmoid", "Hardmax", "Identity", "InstanceNormalization", "IsInf", "IsNaN",
    "LRN", "LayerNormalization", "LeakyRelu", "Less", "Log", "LogSoftmax", "MatMul", "MatMulInteger", "Max",
    "MaxPool", "Mean", "MeanVarianceNormalization", "Min", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "PRelu", "Pad",
    "Pow", "QuantizeLinear", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize",
    "Round", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Size", "Slice", "Softmax", "Softplus", "SpaceToDepth",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
    "Loop"};
// Element types. FLOAT and DOUBLE are listed twice, so that they are drawn more often.
constexpr int kTypes[] = {
    TensorProto::FLOAT, TensorProto::FLOAT, TensorProto::DOUBLE, TensorProto::DOUBLE, TensorProto::INT32,
    TensorProto::INT64, TensorProto::INT8, TensorProto::UINT8, TensorProto::INT16, TensorProto::UINT16,
    TensorProto::UINT32, TensorProto::UINT64, TensorProto::BOOL, TensorProto::FLOAT16, TensorProto::STRING};
// clang-format on

template <class T, size_t n>
const T& Pick(const T (&list)[n], Rng& rng) {
  return list[rng.Below(static_cast<int64_t>(n))];
}

std::string Text(int64_t number) { return std::to_string(number); }

void AddSubgraphs(onnx::GraphProto& graph, std::vector<onnx::GraphProto*>& all) {
  for (auto& node : *graph.mutable_node()) {
    for (auto& a : *node.mutable_attribute()) {
      if (!a.has_g()) continue;
      all.push_back(a.mutable_g());
      AddSubgraphs(*a.mutable_g(), all);
    }
  }
}

// Returns a random subgraph in half of all cases, if the network has any, and otherwise the whole network.
onnx::GraphProto& AnyGraph(onnx::ModelProto& model, Rng& rng) {
  std::vector<onnx::GraphProto*> subgraphs;
  AddSubgraphs(*model.mutable_graph(), subgraphs);
  if (subgraphs.empty() || rng.Below(2) == 0) return *model.mutable_graph();
  return *subgraphs[rng.Below(static_cast<int64_t>(subgraphs.size()))];
}

class ModelMutator {
 public:
  ModelMutator(onnx::ModelProto& model, Rng& rng) : model_(model), graph_(AnyGraph(model, rng)), rng_(rng) {}

  // Makes a random change and returns its description. Returns "" if the change that was drawn does not apply.
  std::string Change() {
    using Method = std::string (ModelMutator::*)();
    // Changes that usually leave a model valid are listed more than once, so that they are drawn more often.
    static constexpr Method kMethods[] = {
        &ModelMutator::ChangeAttribute,  &ModelMutator::ChangeAttribute,  &ModelMutator::ChangeAttribute,
        &ModelMutator::RemoveAttribute,  &ModelMutator::AddAttribute,     &ModelMutator::ChangeInputType,
        &ModelMutator::ChangeInputShape, &ModelMutator::ChangeInputShape, &ModelMutator::ChangeConstant,
        &ModelMutator::ChangeConstant,   &ModelMutator::ConvertFloats,    &ModelMutator::ConvertFloats,
        &ModelMutator::DuplicateNode,    &ModelMutator::DuplicateNode,    &ModelMutator::RemoveNode,
        &ModelMutator::Rewire,           &ModelMutator::Rewire,           &ModelMutator::DropInput,
        &ModelMutator::RenameOperator,   &ModelMutator::RenameOperator,   &ModelMutator::ChangeOpset,
        &ModelMutator::MoveNode,         &ModelMutator::ExposeTensor,     &ModelMutator::ExposeTensor};
    return (this->*Pick(kMethods, rng_))();
  }

 private:
  bool Chance(int percent) { return rng_.Below(100) < percent; }

  onnx::NodeProto* Node() {
    if (graph_.node_size() == 0) return nullptr;
    return graph_.mutable_node(static_cast<int>(rng_.Below(graph_.node_size())));
  }

  int64_t Number(int64_t now) {
    if (Chance(30)) return now == std::numeric_limits<int64_t>::max() ? 0 : now + 1;
    if (Chance(20)) return now == std::numeric_limits<int64_t>::min() ? 0 : now - 1;
    return Pick(kNumbers, rng_);
  }

  template <class List>
  void ChangeList(List* list) {
    int n = list->size();
    int64_t action = rng_.Below(5);
    if (n == 0 || action == 0) {
      list->Add(Pick(kNumbers, rng_));
    } else if (action == 1) {
      list->RemoveLast();
    } else {
      int at = static_cast<int>(rng_.Below(n));
      list->Set(at, Number(list->Get(at)));
    }
  }

  std::string ChangeAttribute() {
    onnx::NodeProto* node = Node();
    if (!node || node->attribute_size() == 0) return "";
    AttributeProto* a = node->mutable_attribute(static_cast<int>(rng_.Below(node->attribute_size())));
    std::string what = node->op_type() + "." + a->name();
    if (Chance(5)) {
      a->set_type(static_cast<AttributeProto::AttributeType>(rng_.Below(12)));
      return what + ": another type";
    }
    switch (a->type()) {
      case AttributeProto::INT:
        a->set_i(Number(a->i()));
        return what + " = " + Text(a->i());
      case AttributeProto::FLOAT:
        a->set_f(Pick(kFloats, rng_));
        return what + " = " + std::to_string(a->f());
      case AttributeProto::STRING:
        a->set_s(Pick(kWords, rng_));
        return what + " = '" + a->s() + "'";
      case AttributeProto::INTS:
        ChangeList(a->mutable_ints());
        return what + " = [" + Joined(a->ints()) + "]";
      case AttributeProto::TENSOR:
        return what + ": " + ChangeTensor(a->mutable_t());
      default:
        return "";
    }
  }

  template <class List>
  static std::string Joined(const List& list) {
    std::string text;
    for (auto x : list) text += (text.empty() ? "" : ",") + std::to_string(x);
    return text;
  }

  std::string RemoveAttribute() {
    onnx::NodeProto* node = Node();
    if (!node || node->attribute_size() == 0) return "";
    int at = static_cast<int>(rng_.Below(node->attribute_size()));
    std::string what = node->op_type() + " without " + node->attribute(at).name();
    node->mutable_attribute()->DeleteSubrange(at, 1);
    return what;
  }

  std::string AddAttribute() {
    onnx::NodeProto* node = Node();
    if (!node) return "";
    AttributeProto* a = node->add_attribute();
    if (Chance(60)) {
      a->set_name(Pick(kIntAttributes, rng_));
      a->set_type(AttributeProto::INT);
      a->set_i(Number(0));
    } else {
      a->set_name(Pick(kListAttributes, rng_));
      a->set_type(AttributeProto::INTS);
      for (int64_t i = rng_.Below(5); i > 0; --i) a->add_ints(Number(1));
    }
    return node->op_type() + " with " + a->name() + " = " + Text(a->i()) + "[" + Joined(a->ints()) + "]";
  }

  onnx::TypeProto::Tensor* InputType(std::string& name) {
    if (graph_.input_size() == 0) return nullptr;
    auto* info = graph_.mutable_input(static_cast<int>(rng_.Below(graph_.input_size())));
    name = info->name();
    return info->mutable_type()->mutable_tensor_type();
  }

  std::string ChangeInputType() {
    std::string name;
    auto* type = InputType(name);
    if (!type) return "";
    type->set_elem_type(Pick(kTypes, rng_));
    return "input " + name + ": element type " + Text(type->elem_type());
  }

  std::string ChangeInputShape() {
    std::string name;
    auto* type = InputType(name);
    if (!type) return "";
    auto* shape = type->mutable_shape();
    int64_t action = rng_.Below(6);
    if (shape->dim_size() == 0 || action == 0) {
      shape->add_dim()->set_dim_value(Pick(kNumbers, rng_));
    } else if (action == 1) {
      shape->mutable_dim()->RemoveLast();
    } else if (action == 2) {
      shape->mutable_dim()->SwapElements(0, shape->dim_size() - 1);
    } else {
      auto* dim = shape->mutable_dim(static_cast<int>(rng_.Below(shape->dim_size())));
      dim->set_dim_value(Number(dim->dim_value()));
    }
    std::string text;
    for (const auto& dim : shape->dim()) text += (text.empty() ? "" : ",") + Text(dim.dim_value());
    return "input " + name + ": [" + text + "]";
  }

  std::string ChangeConstant() {
    if (graph_.initializer_size() == 0) return "";
    auto* tensor = graph_.mutable_initializer(static_cast<int>(rng_.Below(graph_.initializer_size())));
    return "initializer " + tensor->name() + ": " + ChangeTensor(tensor);
  }

  // Changes the element type, the shape or an element of a tensor, and returns a description. After 85% of the changes
  // of the shape, the number of elements is made to match the new shape.
  std::string ChangeTensor(TensorProto* t) {
    std::vector<double> numbers = Numbers(*t);
    int64_t action = rng_.Below(5);
    if (action == 0) {
      Store(t, Pick(kTypes, rng_), numbers);
      return "element type " + Text(t->data_type());
    }
    if (action == 1 || numbers.empty()) {
      ChangeList(t->mutable_dims());
      int64_t n = 1;
      for (int64_t d : t->dims()) n = d < 0 || d > 4096 || n > 4096 ? -1 : n * d;
      if (n >= 0 && Chance(85)) {
        numbers.resize(n, 1);
        Store(t, t->data_type(), numbers);
      }
      return "shape [" + Joined(t->dims()) + "]";
    }
    double& number = numbers[rng_.Below(static_cast<int64_t>(numbers.size()))];
    number = t->data_type() == TensorProto::INT64 || t->data_type() == TensorProto::INT32
                 ? static_cast<double>(Number(static_cast<int64_t>(number)) % (int64_t{1} << 53))
                 : Pick(kFloats, rng_);
    Store(t, t->data_type(), numbers);
    return "an element = " + std::to_string(number);
  }

  template <class T>
  static void ReadRaw(const std::string& raw, std::vector<double>& out) {
    for (size_t i = 0; i + sizeof(T) <= raw.size(); i += sizeof(T)) {
      T x;
      std::memcpy(&x, raw.data() + i, sizeof(T));
      out.push_back(static_cast<double>(x));
    }
  }

  static std::vector<double> Numbers(const TensorProto& t) {
    std::vector<double> out(t.float_data().begin(), t.float_data().end());
    out.insert(out.end(), t.double_data().begin(), t.double_data().end());
    out.insert(out.end(), t.int32_data().begin(), t.int32_data().end());
    out.insert(out.end(), t.int64_data().begin(), t.int64_data().end());
    out.insert(out.end(), t.uint64_data().begin(), t.uint64_data().end());
    if (t.data_type() == TensorProto::FLOAT) ReadRaw<float>(t.raw_data(), out);
    if (t.data_type() == TensorProto::DOUBLE) ReadRaw<double>(t.raw_data(), out);
    if (t.data_type() == TensorProto::INT32) ReadRaw<int32_t>(t.raw_data(), out);
    if (t.data_type() == TensorProto::INT64) ReadRaw<int64_t>(t.raw_data(), out);
    if (t.data_type() == TensorProto::INT8) ReadRaw<int8_t>(t.raw_data(), out);
    if (t.data_type() == TensorProto::UINT8 || t.data_type() == TensorProto::BOOL) ReadRaw<uint8_t>(t.raw_data(), out);
    return out;
  }

  static void Store(TensorProto* t, int type, const std::vector<double>& numbers) {
    t->clear_raw_data();
    t->clear_float_data();
    t->clear_double_data();
    t->clear_int32_data();
    t->clear_int64_data();
    t->clear_uint64_data();
    t->set_data_type(type);
    for (double x : numbers) {
      double whole = std::clamp(std::isnan(x) ? 0.0 : x, -0x1p53, 0x1p53);
      if (type == TensorProto::FLOAT) {
        t->add_float_data(static_cast<float>(x));
      } else if (type == TensorProto::DOUBLE) {
        t->add_double_data(x);
      } else if (type == TensorProto::INT64) {
        t->add_int64_data(static_cast<int64_t>(whole));
      } else if (type == TensorProto::UINT32 || type == TensorProto::UINT64) {
        t->add_uint64_data(static_cast<uint64_t>(std::abs(whole)));
      } else {
        int64_t number = static_cast<int64_t>(whole);
        t->add_int32_data(static_cast<int32_t>(type == TensorProto::BOOL ? number != 0 : number % 128));
      }
    }
  }

  // Converts all f32 inputs, initializers and tensor attributes to another type, which usually leaves the model valid.
  std::string ConvertFloats() {
    int to = Chance(60) ? TensorProto::DOUBLE : Pick(kTypes, rng_);
    auto convert = [&](TensorProto* t) {
      if (t->data_type() == TensorProto::FLOAT) Store(t, to, Numbers(*t));
    };
    for (auto& t : *graph_.mutable_initializer()) convert(&t);
    for (auto& node : *graph_.mutable_node()) {
      for (auto& a : *node.mutable_attribute()) {
        if (a.has_t()) convert(a.mutable_t());
      }
    }
    for (auto& info : *graph_.mutable_input()) {
      auto* type = info.mutable_type()->mutable_tensor_type();
      if (type->elem_type() == TensorProto::FLOAT) type->set_elem_type(to);
    }
    return "all floats: element type " + Text(to);
  }

  std::string DuplicateNode() {
    onnx::NodeProto* node = Node();
    if (!node) return "";
    onnx::NodeProto copy = *node;
    int at = 0;
    while (&graph_.node(at) != node) ++at;
    std::string what = copy.op_type() + " twice";
    if (Chance(90)) {
      // The copy's first result becomes an output or an operand of a random node.
      for (std::string& name : *copy.mutable_output()) name += name.empty() ? "" : "_again";
      if (copy.output_size() == 0) return "";
      onnx::NodeProto* reader = Chance(50) ? Node() : nullptr;
      if (reader && reader->input_size() > 0) {
        reader->set_input(static_cast<int>(rng_.Below(reader->input_size())), copy.output(0));
      } else {
        graph_.add_output()->set_name(copy.output(0));
      }
    }
    *graph_.add_node() = copy;
    for (int i = graph_.node_size() - 1; i > at + 1; --i) graph_.mutable_node()->SwapElements(i, i - 1);
    return what;
  }

  std::string RemoveNode() {
    if (graph_.node_size() < 2) return "";
    int at = static_cast<int>(rng_.Below(graph_.node_size()));
    onnx::NodeProto gone = graph_.node(at);
    graph_.mutable_node()->DeleteSubrange(at, 1);
    // In most cases, the readers of the removed node's first result read its first operand instead.
    if (Chance(85) && gone.input_size() > 0 && gone.output_size() > 0) {
      for (auto& node : *graph_.mutable_node()) {
        for (std::string& name : *node.mutable_input()) {
          if (name == gone.output(0)) name = gone.input(0);
        }
      }
      for (auto& info : *graph_.mutable_output()) {
        if (info.name() == gone.output(0)) info.set_name(gone.input(0));
      }
    }
    return "without " + gone.op_type();
  }

  // Returns the names of the tensors that are defined before node `before`. With `any`, returns the names of all
  // tensors and a name that does not exist.
  std::vector<std::string> Tensors(int before, bool any) const {
    std::vector<std::string> names;
    for (const auto& info : graph_.input()) names.push_back(info.name());
    for (const auto& t : graph_.initializer()) names.push_back(t.name());
    for (int i = 0; i < (any ? graph_.node_size() : before); ++i) {
      for (const std::string& name : graph_.node(i).output()) names.push_back(name);
    }
    if (any) names.push_back("nowhere");
    return names;
  }

  std::string Rewire() {
    if (graph_.node_size() == 0) return "";
    int at = static_cast<int>(rng_.Below(graph_.node_size()));
    onnx::NodeProto* node = graph_.mutable_node(at);
    std::vector<std::string> names = Tensors(at, Chance(10));
    if (names.empty()) return "";
    const std::string& name = names[rng_.Below(static_cast<int64_t>(names.size()))];
    int input = static_cast<int>(rng_.Below(node->input_size() + 1));
    if (input == node->input_size()) {
      node->add_input(name);
    } else {
      node->set_input(input, name);
    }
    return node->op_type() + " reads " + name + " as input " + Text(input);
  }

  std::string DropInput() {
    onnx::NodeProto* node = Node();
    if (!node || node->input_size() == 0) return "";
    int input = static_cast<int>(rng_.Below(node->input_size()));
    node->set_input(input, "");
    if (input + 1 == node->input_size() && Chance(60)) node->mutable_input()->RemoveLast();
    return node->op_type() + " without input " + Text(input);
  }

  std::string RenameOperator() {
    onnx::NodeProto* node = Node();
    if (!node) return "";
    std::string what = node->op_type() + " becomes ";
    node->set_op_type(Pick(kOperators, rng_));
    return what + node->op_type();
  }

  std::string ChangeOpset() {
    if (model_.opset_import_size() == 0) return "";
    auto* opset = model_.mutable_opset_import(0);
    opset->set_version(Chance(70) ? 6 + rng_.Below(12) : Number(opset->version()));
    return "operator set " + Text(opset->version());
  }

  std::string MoveNode() {
    if (graph_.node_size() < 2) return "";
    int a = static_cast<int>(rng_.Below(graph_.node_size())), b = static_cast<int>(rng_.Below(graph_.node_size()));
    graph_.mutable_node()->SwapElements(a, b);
    return "nodes " + Text(a) + " and " + Text(b) + " swapped";
  }

  std::string ExposeTensor() {
    std::vector<std::string> names = Tensors(graph_.node_size(), Chance(5));
    if (names.empty()) return "";  // a subgraph without nodes
    const std::string& name = names[rng_.Below(static_cast<int64_t>(names.size()))];
    auto named = [&](const auto& info) { return info.name() == name; };
    if (Chance(95) && std::any_of(graph_.output().begin(), graph_.output().end(), named)) return "";
    graph_.add_output()->set_name(name);
    return "output " + name;
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  Rng& rng_;
};

bool Parse(std::string_view bytes, onnx::ModelProto& model) {
  return model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && model.graph().node_size() > 0;
}

}  // namespace

bool IsModel(std::string_view bytes) {
  onnx::ModelProto model;
  return Parse(bytes, model);
}

Mutant Mutate(std::string_view bytes, Rng& rng) {
  onnx::ModelProto model;
  CHECK(Parse(bytes, model));
  // Makes one change in 60% of all cases. Of several changes, one usually makes the model invalid, and its error hides
  // the effect of the others.
  const int64_t percent = rng.Below(100);
  int64_t wanted = percent < 60 ? 1 : percent < 85 ? 2 : 3;
  Mutant mutant;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && wanted > 0; ++i) {
    std::string change = ModelMutator(model, rng).Change();
    if (change.empty()) continue;
    mutant.what += (mutant.what.empty() ? "" : "; ") + change;
    --wanted;
  }
  mutant.bytes = model.SerializeAsString();
  return mutant;
}

}  // namespace autotune
