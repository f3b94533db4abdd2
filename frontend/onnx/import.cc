#include "frontend/onnx/import.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>

#include "frontend/onnx/importer.h"

namespace autotune {
namespace onnx_import {

constexpr int kMinOpset = 1, kMaxOpset = 28;  // of models; operators have their own
constexpr int64_t kNewestFormat = 13;         // ONNX's IR version of operator set 28

Result<int64_t> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return Err("axis ", axis, " is outside a tensor of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank) {
  for (int64_t& axis : axes) axis = TRY(NormalizeAxis(axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return Err("names an axis twice");
  return axes;
}

TensorValue Moved(const TensorValue& from, const Shape& shape, const std::function<int64_t(const Shape&)>& source) {
  TensorSpec spec{from.spec.dtype, shape};
  int64_t size = spec.dtype.Bytes(), n = spec.NumElements();
  char* out = nullptr;
  SharedBytes bytes = SharedBytes::Allocate(n * size, &out);
  Shape index(shape.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out + i * size, from.bytes.data() + source(index) * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return {std::move(spec), std::move(bytes)};
}

Status ImportContext::Reserve(const Shape& shape) {
  constexpr int64_t kMostElements = int64_t{1} << 27;  // 1 GiB: some are computed as doubles
  TensorSpec spec{DType::Float(64), shape};
  TRY(CheckSize(spec));
  reserved_ += spec.NumElements();
  if (reserved_ <= kMostElements) return {};
  return Err("makes a constant of shape ", ShapeText(shape), ": more than ", kMostElements,
             " elements of constants that the file does not hold");
}

Result<const ImportContext::Entry*> ImportContext::Find(size_t i) const {
  if (!Has(i)) return Err("input ", i, " is missing");
  auto it = env_.find(node().inputs[i]);
  if (it == env_.end()) return Err("there is no tensor '", node().inputs[i], "'");
  return &it->second;
}

Result<DType> ImportContext::StoredType(size_t i) const {
  const Entry* entry = TRY(Find(i));
  if (const ValueId* v = std::get_if<ValueId>(entry)) return Type(*v);
  return std::get<TensorValue>(*entry).spec.dtype;
}

std::optional<DType> ImportContext::HalfOfResults() const {
  for (size_t i = 0; i < node().inputs.size() && !names_types_; ++i) {
    const Result<DType> type = Has(i) ? StoredType(i) : Result<DType>(DType::Bool());
    if (!type.ok() || !type->IsFloat()) continue;
    if (type->IsHalf()) return *type;
    if (i == 0) break;
  }
  return std::nullopt;
}

Result<ValueId> ImportContext::Tensor(size_t i) {
  ValueId v = TRY(StoredTensor(i));
  if (!Type(v).IsHalf()) return v;
  auto known = singles_.find(v);
  if (known == singles_.end()) known = singles_.emplace(v, TRY(Cast(v, DType::Float(32)))).first;
  return known->second;
}

Result<ValueId> ImportContext::StoredTensor(size_t i) {
  const Entry* entry = TRY(Find(i));
  if (const ValueId* v = std::get_if<ValueId>(entry)) return *v;
  const TensorValue& value = std::get<TensorValue>(*entry);
  const std::string& name = node().inputs[i];
  TRY_NOTE(CheckSize(value.spec), "of input '" + name + "'");
  auto [it, is_new] = materialized_.try_emplace(name, 0);
  if (is_new) it->second = builder.AddConstant(name, value);
  return it->second;
}

Result<std::vector<ValueId>> ImportContext::AllTensors() {
  std::vector<ValueId> all;
  for (size_t i = 0; i < node().inputs.size(); ++i) all.push_back(TRY(Tensor(i)));
  if (all.empty()) return Err("has no inputs");
  return all;
}

const TensorValue* ImportContext::Constant(size_t i) const {
  Result<const Entry*> entry = Find(i);
  return entry.ok() ? std::get_if<TensorValue>(*entry) : nullptr;
}

Result<Shape> ImportContext::ShapeOf(size_t i) const {
  const Entry* entry = TRY(Find(i));
  if (const ValueId* v = std::get_if<ValueId>(entry)) return builder.Spec(*v).shape;
  return std::get<TensorValue>(*entry).spec.shape;
}

Result<std::vector<int64_t>> ImportContext::Ints(size_t i, const char* what) const {
  TRY(Find(i));
  const TensorValue* value = Constant(i);
  if (!value) return Err(what, " is computed at run time; it must be a constant");
  std::vector<int64_t> out(value->spec.NumElements());
  for (size_t k = 0; k < out.size(); ++k) {
    if (value->spec.dtype == DType::Int(64)) {
      out[k] = value->As<int64_t>()[k];
    } else if (value->spec.dtype == DType::Int(32)) {
      out[k] = value->As<int32_t>()[k];
    } else {
      return Err(what, " must be integers, not ", value->spec.Text());
    }
  }
  return out;
}

Result<double> ImportContext::ConstantNumber(size_t i, const char* what) const {
  TRY(Find(i));
  const TensorValue* value = Constant(i);
  if (!value) return Err(what, " is computed at run time; it must be a constant");
  if (value->spec.NumElements() != 1) return Err(what, " must be one number, not ", value->spec.Text());
  return value->Number(0);
}

Result<ValueId> ImportContext::Mean(ValueId v, const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= ShapeOfValue(v)[axis];
  if (!Type(v).IsFloat()) return Err("takes the mean of ", builder.Spec(v).Text(), "; only floats are supported");
  return ApplyNumber(Op::kMul, TRY(Reduce(Op::kReduceSum, v, axes)), 1.0 / static_cast<double>(count));
}

namespace {
template <class T>
Result<T> ReadAttr(const OnnxNode& node, const char* name, T fallback, std::optional<T> OnnxAttr::*member,
                   const char* type) {
  auto it = node.attrs.find(name);
  if (it == node.attrs.end()) return fallback;
  if (!(it->second.*member)) return Err("attribute '", name, "' must be ", type);
  return *(it->second.*member);
}
}  // namespace

Result<int64_t> ImportContext::Int(const char* name, int64_t fallback) const {
  return ReadAttr(node(), name, fallback, &OnnxAttr::i, "an integer");
}
Result<float> ImportContext::Float(const char* name, float fallback) const {
  return ReadAttr(node(), name, fallback, &OnnxAttr::f, "a float");
}
Result<std::string> ImportContext::String(const char* name, const char* fallback) const {
  return ReadAttr(node(), name, std::string(fallback), &OnnxAttr::s, "a string");
}
Result<std::vector<int64_t>> ImportContext::IntList(const char* name, std::vector<int64_t> fallback) const {
  return ReadAttr(node(), name, std::move(fallback), &OnnxAttr::ints, "a list of integers");
}

Result<std::vector<float>> ImportContext::FloatList(const char* name, std::vector<float> fallback) const {
  return ReadAttr(node(), name, std::move(fallback), &OnnxAttr::floats, "a list of floats");
}

Result<ValueId> ImportContext::Emit(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  std::string name = node().name.empty() && !node().outputs.empty() ? node().outputs[0] : node().name;
  return builder.Add(op, std::move(inputs), std::move(attrs), std::move(name));
}

Result<ValueId> ImportContext::Reshape(ValueId v, Shape shape) {
  TRY(InferType(Op::kReshape, ReshapeAttrs{shape}, {builder.Spec(v)}));
  return builder.Reshape(v, std::move(shape), node().name);
}

Result<ValueId> ImportContext::Transpose(ValueId v, std::vector<int64_t> perm) {
  TRY(InferType(Op::kTranspose, TransposeAttrs{perm}, {builder.Spec(v)}));
  return builder.Transpose(v, std::move(perm), node().name);
}

Status ImportContext::Bind(ValueId v, size_t output) {
  const std::optional<DType> half = HalfOfResults();
  if (!half || Type(v) != DType::Float(32)) return BindAs(v, output);
  ValueId rounded = TRY(Cast(v, *half));
  singles_.emplace(rounded, v);
  return BindAs(rounded, output);
}

Status ImportContext::BindAs(ValueId v, size_t output) {
  if (output >= node().outputs.size() || node().outputs[output].empty()) return {};
  const std::string& name = node().outputs[output];
  if (builder.graph().values[v].name.empty()) builder.SetName(v, name);
  env_.insert_or_assign(name, v);
  return {};
}

Status ImportContext::BindConstant(TensorValue value, size_t output) {
  const std::optional<DType> half = HalfOfResults();
  if (half && value.spec.dtype == DType::Float(32)) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < value.spec.NumElements(); ++i) numbers.push_back(value.Number(i));
    value = TensorValue::FromNumbers(*half, value.spec.shape, numbers);
  }
  if (output < node().outputs.size()) env_.insert_or_assign(node().outputs[output], std::move(value));
  return {};
}

bool ImportContext::IsUsed(size_t output) const {
  if (output >= node().outputs.size()) return false;
  const std::string& name = node().outputs[output];
  return !name.empty() && used_.count(name) > 0;  // "" stands for inputs and outputs that are left out
}

Status ImportContext::RefuseExtraOutputs(const char* why) const {
  for (size_t i = 1; i < node().outputs.size(); ++i) {
    if (IsUsed(i)) return Err("output '", node().outputs[i], "' is used, but ", why);
  }
  return {};
}

// Walks the model once; collects all complaints before it gives up.
class Importer {
 public:
  Importer(const OnnxModel& model, const ImportOptions& options, std::string source)
      : model_(model), options_(options), source_(std::move(source)) {}

  Result<ImportedModel> Run() {
    if (model_.ir_version > kNewestFormat) {
      notes_.push_back("the file's ONNX IR version is " + std::to_string(model_.ir_version) + ", newer than " +
                       std::to_string(kNewestFormat) + ": fields that came since are ignored");
    }
    if (model_.opset < kMinOpset || model_.opset > kMaxOpset) {
      std::string uses = "uses ONNX operator set " + std::to_string(model_.opset) + "; supported are " +
                         std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset);
      return WithCause(source_ + " " + uses + " (onnx.version_converter converts)", uses);
    }
    context_.opset = model_.opset;
    TRY(AddInputs());
    for (const auto& [name, value] : model_.initializers) context_.env_.insert_or_assign(name, value);
    CollectUses();
    ImportNodes();
    if (!problems_.empty()) return Refusal(" cannot be imported: ");
    TRY(AddOutputs());
    NoteHalves();
    ImportedModel out{IRModule(context_.builder.Finish()), model_.graph_name, model_.opset, std::move(notes_)};
    if (Status valid = CheckModule(out.module); !valid.ok()) CHECK(false) << valid.error().Text();
    return out;
  }

 private:
  Status AddInputs() {
    std::set<std::string> names;
    for (const OnnxValueInfo& info : model_.inputs) {
      names.insert(info.name);
      if (!info.dtype) {
        std::string is = "is " + info.type + "; floats of 16, 32 and 64 bits, integers and bools are supported";
        Complain("input '" + info.name + "' " + is, "input " + is);
        continue;
      }
      if (auto fixed = options_.fixed.find(info.name); fixed != options_.fixed.end()) {
        FixInput(info, fixed->second);
        continue;
      }
      if (std::optional<Shape> shape = ChooseShape(info)) {
        if (Status fits = CheckSize({*info.dtype, *shape}); !fits.ok()) {
          Complain("input '" + info.name + "': " + fits.error().Text(), "an input that is too large");
        } else {
          TensorSpec spec{*info.dtype, *shape};
          ValueId v = context_.builder.Input(info.name, spec);
          if (spec.NumElements() > 0) {
            context_.env_.insert_or_assign(info.name, v);
          } else {  // all is known of it
            context_.env_.insert_or_assign(info.name, TensorValue{spec, SharedBytes::Copy("")});
          }
        }
      }
    }
    auto check_name = [&](const char* flag, const std::string& name) {
      if (names.count(name)) return;
      std::string known;
      for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
      Complain(flag + (" names input '" + name) + "', which the model does not have (it has: " + known + ")",
               flag + std::string(" names no input of the model"));
    };
    for (const auto& [name, shape] : options_.shapes) check_name("--shape", name);
    for (const auto& [name, value] : options_.fixed) check_name("--bind", name);
    if (problems_.empty()) return {};
    return Refusal(": ");
  }

  void NoteHalves() {
    for (const Value& value : context_.builder.graph().values) {
      if (!value.spec.dtype.IsHalf()) continue;
      notes_.push_back("floats of 16 bits are stored as such and computed in 32 bits");
      return;
    }
  }

  void Complain(std::string text, std::string cause) {
    problems_.push_back(WithCause(std::move(text), std::move(cause)));
  }

  // Returns all complaints in one line, with the cause of the first one.
  Error Refusal(const char* what) const {
    std::string text = source_ + what;
    for (size_t i = 0; i < problems_.size(); ++i) text += (i ? "; " : "") + problems_[i].message;
    return WithCause(std::move(text), problems_[0].cause);
  }

  void FixInput(const OnnxValueInfo& info, const TensorValue& value) {
    bool fits =
        info.dtype && *info.dtype == value.spec.dtype && (!info.dims || info.dims->size() == value.spec.shape.size());
    for (size_t i = 0; fits && info.dims && i < info.dims->size(); ++i) {
      int64_t extent = (*info.dims)[i].extent;
      fits = extent < 0 || extent == value.spec.shape[i];
    }
    if (fits) {
      context_.env_.insert_or_assign(info.name, value);
    } else {
      Complain("input '" + info.name + "' cannot be fixed to " + value.spec.Text(), "an input cannot be fixed");
    }
  }

  std::optional<Shape> ChooseShape(const OnnxValueInfo& info) {
    if (auto it = options_.shapes.find(info.name); it != options_.shapes.end()) {
      if (info.dims && info.dims->size() != it->second.size()) {
        Complain("--shape gives input '" + info.name + "' " + std::to_string(it->second.size()) +
                     " dimensions, the model " + std::to_string(info.dims->size()),
                 "--shape contradicts the model");
        return std::nullopt;
      }
      return it->second;
    }
    if (!info.dims) {
      Complain("input '" + info.name + "' has no shape; give it, for example --shape " + info.name + ":1,3,224,224",
               "an input has no shape");
      return std::nullopt;
    }
    Shape shape;
    std::string symbols;
    bool open = false;
    for (size_t i = 0; i < info.dims->size(); ++i) {
      const OnnxDim& dim = (*info.dims)[i];
      bool symbolic = dim.extent < 0;
      symbols += (i ? "," : "") + (symbolic ? (dim.symbol.empty() ? "?" : dim.symbol) : std::to_string(dim.extent));
      // The example's numbers: what images and sequences usually have.
      int64_t guess = i == 0 ? 1 : info.dims->size() == 4 ? (i == 1 ? 3 : 224) : 128;
      shape.push_back(symbolic ? guess : dim.extent);
      open |= symbolic && i > 0;
    }
    if (open) {
      std::string flag = info.name + ":";
      for (size_t i = 0; i < shape.size(); ++i) flag += (i ? "," : "") + std::to_string(shape[i]);
      Complain("input '" + info.name + "' leaves dimensions open, [" + symbols +
                   "]; choose them, for example --shape " + flag,
               "an input leaves dimensions open");
      return std::nullopt;
    }
    if (!info.dims->empty() && (*info.dims)[0].extent < 0) {
      notes_.push_back("input '" + info.name + "': its open first dimension became 1 (--shape " + info.name +
                       ":... chooses another)");
    }
    return shape;
  }

  void CollectUses() {
    for (const OnnxNode& node : model_.nodes) context_.used_.insert(node.inputs.begin(), node.inputs.end());
    for (const OnnxValueInfo& info : model_.outputs) context_.used_.insert(info.name);
    context_.used_.insert(options_.extra_outputs.begin(), options_.extra_outputs.end());
  }

  using Family = const std::vector<OperatorRow>& (*)();

  static const OperatorRow* FindIn(std::initializer_list<Family> families, const std::string& op) {
    for (Family family : families) {
      for (const OperatorRow& row : family()) {
        if (op == row.name) return &row;
      }
    }
    return nullptr;
  }

  static const OperatorRow* FindRow(const OnnxNode& node) {
    if (node.domain == "com.microsoft") return FindIn({MicrosoftOperators, MicrosoftAttentionOperators}, node.op_type);
    if (!node.domain.empty() && node.domain != "ai.onnx") return nullptr;
    return FindIn({ConvOperators, MathOperators, ActivationOperators, ReduceOperators, NormPoolOperators,
                   ShapeOperators, MoveOperators, ResizeOperators, LossOperators, QuantizeOperators, RotaryOperators,
                   AttentionOperators, StateOperators},
                  node.op_type);
  }

  void ImportNodes() {
    std::set<std::string> unknown;  // results of nodes that could not be imported
    for (const OnnxNode& node : model_.nodes) {
      const OperatorRow* row = FindRow(node);
      Status status;
      bool blocked = false;
      if (!row) {
        Complain(node.Text() + " is not supported", node.op_type + " is not supported");
        blocked = true;
      } else if (model_.opset < row->min_opset || model_.opset > row->max_opset) {
        status =
            Err("is supported in operator sets ", row->min_opset, " to ", row->max_opset, ", not in ", model_.opset);
      } else {
        blocked = std::any_of(node.inputs.begin(), node.inputs.end(),
                              [&](const std::string& n) { return unknown.count(n) > 0; });
        if (!blocked) {
          context_.node_ = &node;
          context_.names_types_ = row->names_types;
          status = node.error ? Status(*node.error) : row->import(context_);
        }
      }
      if (!status.ok())
        Complain(node.Text() + ": " + status.error().Text(), node.op_type + ": " + status.error().Cause());
      if (blocked || !status.ok()) unknown.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  Status AddOutputs() {
    std::vector<std::string> names;
    for (const OnnxValueInfo& info : model_.outputs) names.push_back(info.name);
    names.insert(names.end(), options_.extra_outputs.begin(), options_.extra_outputs.end());
    if (names.empty()) return Err(source_, " has no outputs");
    for (const std::string& name : names) {
      // The name stands as the input of an imagined last node.
      OnnxNode reader;
      reader.inputs = {name};
      context_.node_ = &reader;
      context_.builder.Output(TRY_NOTE(context_.StoredTensor(0), "as an output of " + source_), name);
    }
    return {};
  }

  const OnnxModel& model_;
  const ImportOptions& options_;
  std::string source_;
  ImportContext context_;
  std::vector<Error> problems_;
  std::vector<std::string> notes_;
};

}  // namespace onnx_import

Result<ImportedModel> ImportOnnxBytes(std::string_view bytes, const std::string& source, const ImportOptions& options) {
  onnx_import::OnnxModel model = TRY(onnx_import::ReadOnnxModel(bytes, source, options.folder));
  return onnx_import::Importer(model, options, source).Run();
}

Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  std::string bytes = TRY(onnx_import::ReadProtoFile(path));
  ImportOptions here = options;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  here.folder = folder.empty() ? "." : folder.string();
  return ImportOnnxBytes(bytes, path, here);
}

Result<std::pair<std::string, graph::Shape>> ParseShapeOption(std::string_view text) {
  auto bad = [&] { return Err("--shape ", text, " is not of the form name:1,3,224,224"); };
  size_t colon = text.rfind(':');
  if (colon == 0 || colon == std::string_view::npos) return bad();
  graph::Shape shape;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    size_t comma = std::min(rest.find(','), rest.size());
    int64_t extent = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + comma, extent);
    if (error != std::errc() || end != rest.data() + comma || extent < 1 ||
        extent > std::numeric_limits<int32_t>::max())
      return bad();
    shape.push_back(extent);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  return std::pair{std::string(text.substr(0, colon)), std::move(shape)};
}

}  // namespace autotune
