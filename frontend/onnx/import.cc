#include "frontend/onnx/import.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/walker.h"
#include "support/join.h"

namespace autotune {
namespace onnx_import {

constexpr int64_t kNewestFormat = 13;  // ONNX's IR version that came with operator set 28

std::vector<OperatorRow> AllOperators(bool microsoft) {
  using Family = const std::vector<OperatorRow>& (*)();
  static constexpr Family kOnnx[] = {ConvOperators,     MathOperators,      ActivationOperators, ReduceOperators,
                                     NormPoolOperators, ShapeOperators,     MoveOperators,       ResizeOperators,
                                     LossOperators,     QuantizeOperators,  RotaryOperators,     AttentionOperators,
                                     StateOperators,    RecurrentOperators, SelectOperators,     EinsumOperators,
                                     SpectralOperators, SampleOperators,    RegionOperators,     UnpoolOperators,
                                     NgramOperators,    ControlOperators};
  static constexpr Family kMicrosoft[] = {MicrosoftOperators, MicrosoftAttentionOperators, MicrosoftQuantizedOperators};
  std::vector<OperatorRow> all;
  for (Family family : microsoft ? std::span<const Family>(kMicrosoft) : std::span<const Family>(kOnnx))
    all.insert(all.end(), family().begin(), family().end());
  return all;
}

const OperatorRow* FindOperator(const OnnxNode& node) {
  static const std::vector<OperatorRow> kOnnx = AllOperators(false), kMicrosoft = AllOperators(true);
  if (!node.domain.empty() && node.domain != "com.microsoft") return nullptr;
  for (const OperatorRow& row : node.domain.empty() ? kOnnx : kMicrosoft) {
    if (node.op_type == row.name) return &row;
  }
  return nullptr;
}

// Makes a module of a model. Collects all problems of the model before it returns an error.
class Importer {
 public:
  Importer(OnnxModel& model, const ImportOptions& options, std::string source)
      : model_(model), options_(options), source_(std::move(source)) {}

  Result<ImportedModel> Run() {
    if (options_.facts) FillFacts(*options_.facts);
    if (model_.ir_version > kNewestFormat) {
      context_.Note("the file's ONNX IR version is " + std::to_string(model_.ir_version) + ", newer than " +
                    std::to_string(kNewestFormat) + ": newer fields are ignored");
    }
    // A model that uses only operators of other domains need not name a version of ONNX's own operator set.
    const int64_t opset = model_.opsets.count("") ? model_.opsets.at("") : 0;
    if (model_.opsets.count("") && (opset < kMinOpset || opset > kMaxOpset)) {
      std::string uses = "uses ONNX operator set " + std::to_string(opset) + "; supported are " +
                         std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset);
      return WithCause(source_ + " " + uses + " (onnx.version_converter converts)", uses);
    }
    call_.opset = context_.opset = opset;
    context_.dims = options_.dims;
    context_.lenient = options_.lenient;
    TRY(AddInputs());
    scope_.exposed.insert(options_.extra_outputs.begin(), options_.extra_outputs.end());
    walker_.Walk(scope_);
    if (options_.shapes.empty()) walker_.NoteDeclaredShapes(scope_);
    if (options_.facts) {
      options_.facts->nodes = walker_.node_operators();
      options_.facts->origins = walker_.origins();
    }
    if (!walker_.problems().empty()) return Refusal(" cannot be imported: ");
    TRY(AddOutputs());
    NoteHalves();
    ImportedModel out{IRModule(context_.builder.Finish()), model_.graph.name, opset, std::move(context_.notes)};
    if (Status valid = CheckModule(out.module); !valid.ok()) CHECK(false) << valid.error().Text();
    return out;
  }

 private:
  void FillFacts(ImportFacts& facts) const {
    facts = {.ir_version = model_.ir_version, .opsets = model_.opsets};
    for (const OnnxValueInfo& info : model_.graph.inputs) facts.inputs.push_back({info.name, TypeText(info)});
    for (const OnnxValueInfo& info : model_.graph.outputs) facts.outputs.push_back({info.name, TypeText(info)});
    for (const auto& [name, value] : model_.graph.initializers) {
      if (!value.ok()) continue;
      facts.parameters += value->spec.NumElements();
      facts.parameter_bytes += value->spec.Bytes();
    }
  }

  static std::string DimText(const OnnxDim& dim) {
    return dim.extent >= 0 ? std::to_string(dim.extent) : dim.symbol.empty() ? "?" : dim.symbol;
  }

  // Describes the type of a tensor: "float32[batch,3]"; "float32" if the file states no shape.
  static std::string TypeText(const OnnxValueInfo& info) {
    if (!info.dims) return info.type;
    std::string text;
    for (const OnnxDim& dim : *info.dims) text += (text.empty() ? "[" : ",") + DimText(dim);
    return info.type + (text.empty() ? "[" : text) + "]";
  }

  Status AddInputs() {
    std::set<std::string> names;
    for (const OnnxValueInfo& info : model_.graph.inputs) {
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
            scope_.tensors.insert_or_assign(info.name, Operand{v});
          } else {  // an input without elements is a constant
            scope_.tensors.insert_or_assign(info.name, Operand{TensorValue{spec, SharedBytes::Copy("")}});
          }
        }
      }
    }
    auto check_name = [&](const char* flag, const std::string& name) {
      if (names.count(name)) return;
      Complain(flag + (" names input '" + name) + "', which the model does not have (it has: " + Joined(names) + ")",
               flag + std::string(" names no input of the model"));
    };
    for (const auto& [name, shape] : options_.shapes) check_name("--shape", name);
    for (const auto& [name, value] : options_.fixed) check_name("--bind", name);
    CheckDimNames();
    if (walker_.problems().empty()) return {};
    return Refusal(": ");
  }

  void NoteHalves() {
    for (const Value& value : context_.builder.graph().values) {
      if (!value.spec.dtype.IsHalf()) continue;
      context_.Note("floats of 16 bits are stored as such, and sums of them are computed in 32 bits");
      return;
    }
  }

  void CheckDimNames() {
    std::set<std::string> symbols;
    std::string known;
    for (const OnnxValueInfo& info : model_.graph.inputs) {
      for (const OnnxDim& dim : info.dims.value_or(std::vector<OnnxDim>())) {
        if (!dim.symbol.empty() && symbols.insert(dim.symbol).second) known += (known.empty() ? "" : ", ") + dim.symbol;
      }
    }
    // --dim with the name of a NonMaxSuppression's result states the largest number of that result's rows.
    for (const OnnxNode& node : model_.graph.nodes) {
      if (node.op_type == "NonMaxSuppression" && !node.outputs.empty()) symbols.insert(node.outputs[0]);
    }
    for (const auto& [name, extent] : options_.dims) {
      if (!symbols.count(name))
        Complain("--dim names '" + name + "', which no input of the model has (they have: " + known + ")",
                 "--dim names no dimension of the model");
    }
  }

  void Complain(std::string text, std::string cause) { walker_.Complain(WithCause(std::move(text), std::move(cause))); }

  // Returns all complaints in one line, with the cause of the first one.
  Error Refusal(const char* what) const {
    const std::vector<Error>& problems = walker_.problems();
    std::string text = source_ + what;
    for (size_t i = 0; options_.facts && i < problems.size(); ++i)
      options_.facts->problems.push_back(problems[i].message);
    for (size_t i = 0; i < problems.size(); ++i) text += (i ? "; " : "") + problems[i].message;
    return WithCause(std::move(text), problems[0].cause);
  }

  void FixInput(const OnnxValueInfo& info, const TensorValue& value) {
    bool fits =
        info.dtype && *info.dtype == value.spec.dtype && (!info.dims || info.dims->size() == value.spec.shape.size());
    for (size_t i = 0; fits && info.dims && i < info.dims->size(); ++i) {
      int64_t extent = (*info.dims)[i].extent;
      fits = extent < 0 || extent == value.spec.shape[i];
    }
    if (fits) {
      scope_.tensors.insert_or_assign(info.name, Operand{value});
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
      for (size_t i = 0; info.dims && i < it->second.size(); ++i) {
        const int64_t fixed = (*info.dims)[i].extent;
        if (fixed < 0 || fixed == it->second[i]) continue;
        context_.Note("--shape changes dimension " + std::to_string(i) + " of input '" + info.name +
                      "', which the model fixes, from " + std::to_string(fixed) + " to " +
                      std::to_string(it->second[i]));
      }
      return it->second;
    }
    if (!info.dims) {
      Complain("input '" + info.name + "' has no shape; give it, for example --shape " + info.name + ":1,3,224,224",
               "an input has no shape");
      return std::nullopt;
    }
    Shape shape;
    std::string symbols, named;
    bool open = false, first_open = false;
    for (size_t i = 0; i < info.dims->size(); ++i) {
      OnnxDim dim = (*info.dims)[i];
      if (auto stated = options_.dims.find(dim.symbol); dim.extent < 0 && stated != options_.dims.end())
        dim.extent = stated->second;
      bool symbolic = dim.extent < 0;
      symbols += (i ? "," : "") + DimText(dim);
      if (symbolic && i > 0 && !dim.symbol.empty()) named = dim.symbol;
      // The numbers of the example in the error are usual sizes of images and sequences.
      int64_t guess = i == 0 ? 1 : info.dims->size() == 4 ? (i == 1 ? 3 : 224) : 128;
      shape.push_back(symbolic ? guess : dim.extent);
      open |= symbolic && i > 0;
      first_open |= symbolic && i == 0;
    }
    if (open) {
      const std::string flag = info.name + ":" + Joined(shape, ",");
      Complain("input '" + info.name + "' leaves dimensions open, [" + symbols +
                   "]; choose them, for example --shape " + flag + (named.empty() ? "" : " or --dim " + named + "=128"),
               "an input leaves dimensions open");
      return std::nullopt;
    }
    if (first_open) {
      context_.Note("input '" + info.name + "': its open first dimension became 1 (--shape " + info.name +
                    ":... chooses another)");
    }
    return shape;
  }

  Status AddOutputs() {
    std::vector<std::string> names;
    for (const OnnxValueInfo& info : model_.graph.outputs) names.push_back(info.name);
    names.insert(names.end(), options_.extra_outputs.begin(), options_.extra_outputs.end());
    if (names.empty()) return Err(source_, " has no outputs");
    for (const std::string& name : names) {
      Operand* operand = scope_.Find(name);
      if (!operand) return scope_.WhyAbsent(name).Note("as an output of " + source_);
      context_.builder.Output(TRY_NOTE(context_.ToValue(*operand, name), "as an output of " + source_), name);
    }
    return {};
  }

  OnnxModel& model_;
  const ImportOptions& options_;
  std::string source_;
  ImportContext context_;
  Walker walker_{model_, &context_};
  FunctionCall call_;
  Scope scope_ = walker_.Outermost(call_);
};

}  // namespace onnx_import

namespace {
Result<ImportedModel> ImportFrom(std::string_view bytes, const std::string& source,
                                 const onnx_import::ModelFolder& folder, const ImportOptions& options) {
  onnx_import::OnnxModel model = TRY(onnx_import::ReadOnnxModel(bytes, source, folder));
  return onnx_import::Importer(model, options, source).Run();
}
}  // namespace

Result<ImportedModel> ImportOnnxBytes(std::string_view bytes, const std::string& source, const ImportOptions& options) {
  return ImportFrom(bytes, source, {.path = options.folder}, options);
}

Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  std::string bytes = TRY(onnx_import::ReadProtoFile(path));
  return ImportFrom(bytes, path, onnx_import::DataFolderOf(path), options);
}

}  // namespace autotune
