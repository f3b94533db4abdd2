#include "frontend/onnx/walker.h"

#include <algorithm>

#include "frontend/onnx/schema.h"
#include "frontend/onnx/tensor_proto.h"
#include "support/join.h"
#include "support/utf8.h"

namespace autotune::onnx_import {

namespace {
// Limits of the expansion of a model: a small file with nested functions and loops could make a huge graph.
constexpr size_t kMostPlaces = 64;                // depth of nested functions and subgraphs
constexpr int64_t kMostNodes = int64_t{1} << 16;  // nodes from functions and subgraphs; more do not compile in an hour

constexpr const char* kHowToImport = " (--lenient ignores this)";

std::string OperatorName(const OnnxNode& node) { return (node.domain.empty() ? "" : node.domain + ".") + node.op_type; }

// Returns what is wrong with the attributes of a call.
std::vector<std::string> CallFaults(const OnnxNode& node, const OnnxFunction& function) {
  std::vector<std::string> faults;
  for (const auto& [name, attr] : node.attrs) {
    if (!function.attributes.count(name) && !function.defaults.count(name))
      faults.push_back("has an attribute '" + OneLine(name) + "', which the function has not");
  }
  return faults;
}

std::string ShapeText(const std::vector<OnnxDim>& dims) {
  std::vector<std::string> extents;
  for (const OnnxDim& dim : dims) extents.push_back(dim.extent < 0 ? "?" : std::to_string(dim.extent));
  return "[" + Joined(extents, ",") + "]";
}

bool Fits(const std::vector<OnnxDim>& dims, const Shape& shape) {
  bool fits = dims.size() == shape.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i].extent < 0 || dims[i].extent == shape[i];
  return fits;
}

// Says in what the declaration of a tensor contradicts its `spec`; "" if in nothing. The shape of an operator's result
// may contradict it: then it depends on the extents that the user chose.
std::string Contradiction(const OnnxValueInfo& info, const TensorSpec& spec, bool is_initializer) {
  if (info.type == "no type" || info.type == "no tensor") return "";
  const std::string what = "is declared " + info.type + ", but ";
  if (info.dtype != spec.dtype)
    return what + (is_initializer ? "its initializer is " : "is computed as ") + OnnxTypeName(spec.dtype);
  if (is_initializer && info.dims && !Fits(*info.dims, spec.shape))
    return "is declared " + ShapeText(*info.dims) + ", but its initializer has the shape " +
           graph::ShapeText(spec.shape);
  return "";
}
}  // namespace

Walker::Walker(const OnnxModel& model, ImportContext* context) : model_(model), context_(*context) {
  context_.inline_ = [this](const OnnxGraph& body, std::vector<Operand> inputs) {
    return Inline(body, std::move(inputs));
  };
}

std::map<std::string, Operand>* Walker::Initializers(const OnnxGraph& graph) {
  auto [it, is_new] = initializers_.try_emplace(&graph);
  if (is_new) {
    for (const auto& [name, value] : graph.initializers) {
      if (value.ok()) it->second.emplace(name, Operand{*value});
    }
  }
  return &it->second;
}

std::string Walker::Place() const {
  std::string text;
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) text += ", in " + *place;
  return text;
}

std::string Walker::PlaceOf(const OnnxGraph& body) const {
  for (const auto& [name, attr] : context_.node().attrs) {
    if (attr.graph.get() == &body) return name + " of " + context_.node().Text();
  }
  return context_.node().Text();
}

void Walker::Walk(Scope& scope) {
  context_.scope_ = &scope;
  for (const OnnxNode& node : scope.graph->nodes) {
    if (scope.call->Concerns(node)) {
      ImportNode(scope.call->Resolved(node));
    } else {
      ImportNode(node);
    }
  }
  CheckDeclarations(scope);
}

Status Walker::Judge(const std::vector<std::string>& faults, const std::string& what) {
  if (faults.empty()) return {};
  if (!context_.lenient) {
    const std::string all = Joined(faults, "; ");
    return WithCause(all + kHowToImport, faults[0]);
  }
  for (const std::string& fault : faults) {
    const std::string note = what + " " + fault + Place() + "; ignored (--lenient)";
    if (noted_.insert(note).second) context_.Note(note);
  }
  return {};
}

void Walker::CheckDeclarations(Scope& scope) {
  for (const auto* infos : {&scope.graph->inputs, &scope.graph->outputs, &scope.graph->intermediates}) {
    for (const OnnxValueInfo& info : *infos) {
      const Operand* operand = scope.Find(info.name);
      if (!operand) continue;
      const std::string fault =
          Contradiction(info, context_.SpecOf(*operand), scope.graph->initializers.count(info.name) > 0);
      const std::string what = "tensor '" + info.name + "'";
      if (fault.empty() || Judge({fault}, what).ok()) continue;
      Complain(WithCause(what + " " + fault + kHowToImport + Place(), "a declaration is not that of the tensor"));
    }
  }
}

void Walker::NoteDeclaredShapes(Scope& scope) {
  std::string first;
  int others = 0;
  for (const auto* infos : {&scope.graph->outputs, &scope.graph->intermediates}) {
    for (const OnnxValueInfo& info : *infos) {
      const Operand* operand = scope.Find(info.name);
      if (!operand || !info.dims || scope.graph->initializers.count(info.name)) continue;
      const Shape shape = context_.SpecOf(*operand).shape;
      if (Fits(*info.dims, shape)) continue;
      others += first.empty() ? 0 : 1;
      if (first.empty())
        first = "tensor '" + info.name + "' has the shape " + graph::ShapeText(shape) + "; the model declares " +
                ShapeText(*info.dims);
    }
  }
  if (first.empty()) return;
  context_.Note(first + (others ? " (and so for " + std::to_string(others) + " other tensors)" : ""));
}

void Walker::ImportNode(const OnnxNode& node) {
  Scope& scope = *context_.scope_;
  const OnnxFunction* function = model_.FindFunction(node);
  const OperatorRow* row = function ? nullptr : FindOperator(node);
  auto is_unknown = [&](const std::string& name) { return scope.IsUnknown(name); };
  const bool blocked = std::any_of(node.inputs.begin(), node.inputs.end(), is_unknown) ||
                       std::any_of(node.captured.begin(), node.captured.end(), is_unknown);
  const size_t problems = problems_.size();
  const auto index = static_cast<int32_t>(node_operators_.size());
  if (!function) node_operators_.push_back(OperatorName(node));
  Status status;
  if (!function && !row) {
    Complain(WithCause(node.Text() + " is not supported" + Place(), node.op_type + " is not supported"));
  } else if (row) {
    status = CheckVersion(*row);
    if (status.ok() && !node.error) status = Judge(SchemaFaults(node, context_.opset), node.Text());
  }
  if (blocked) {
    ComplainOfOperators(node);
  } else if (status.ok() && (function || row)) {
    context_.node_ = &node;
    status = node.error ? Status(*node.error) : function ? CallFunction(node, *function) : row->import(context_);
    if (row && status.ok()) status = CheckOperandTypes(node, scope);
    if (row) origins_.resize(context_.builder.graph().nodes.size(), index);  // nodes of subgraphs have origins already
  }
  // A problem inside a function or a subgraph has been listed with its own node.
  if (!status.ok() && problems_.size() == problems) {
    Complain(
        WithCause(node.Text() + ": " + status.error().Text() + Place(), node.op_type + ": " + status.error().Cause()));
  }
  if (blocked || !status.ok() || problems_.size() > problems)
    scope.unknown.insert(node.outputs.begin(), node.outputs.end());
}

Status Walker::CheckOperandTypes(const OnnxNode& node, Scope& scope) {
  auto type_of = [&](const std::string& name) {
    const Operand* operand = scope.Find(name);
    return operand ? std::optional(context_.SpecOf(*operand).dtype) : std::nullopt;
  };
  return Judge(TypeFaults(node, context_.opset, type_of), node.Text());
}

Status Walker::CheckVersion(const OperatorRow& row) const {
  if (context_.opset == 0) return Err("the model does not say which ONNX operator set it uses");
  if (context_.opset < row.min_opset || context_.opset > row.max_opset) {
    return Err("is supported in operator sets ", row.min_opset, " to ", row.max_opset, ", not in ", context_.opset);
  }
  return {};
}

Status Walker::Enter(Scope& scope, std::string place) {
  nodes_ += static_cast<int64_t>(scope.graph->nodes.size());
  if (nodes_ > kMostNodes) return Err("functions and loops make more than ", kMostNodes, " nodes of this model");
  if (places_.size() == kMostPlaces) return Err("functions and subgraphs lie more than ", kMostPlaces, " deep");
  Scope* const scope_before = context_.scope_;
  const OnnxNode* const node_before = context_.node_;
  const int64_t opset_before = context_.opset;
  const size_t problems = problems_.size();
  context_.opset = scope.call->opset;
  places_.push_back(std::move(place));
  Walk(scope);
  places_.pop_back();
  context_.scope_ = scope_before;
  context_.node_ = node_before;
  context_.opset = opset_before;
  if (problems_.size() > problems) return Err("some of its nodes cannot be imported");
  return {};
}

Status Walker::CallFunction(const OnnxNode& node, const OnnxFunction& function) {
  if (node.inputs.size() > function.body.inputs.size())
    return Err("has ", node.inputs.size(), " inputs, the function ", function.body.inputs.size());
  if (node.outputs.size() > function.body.outputs.size())
    return Err("has ", node.outputs.size(), " outputs, the function ", function.body.outputs.size());
  TRY(Judge(CallFaults(node, function), node.Text()));
  FunctionCall call{.opset = context_.opset, .attrs = function.defaults};
  if (auto own = function.opsets.find(""); own != function.opsets.end()) {
    call.opset = own->second;
    if (call.opset < kMinOpset || call.opset > kMaxOpset)
      return Err("the function uses ONNX operator set ", call.opset, "; supported are ", kMinOpset, " to ", kMaxOpset);
  }
  for (const auto& [name, attr] : node.attrs) call.attrs[name] = attr;
  Scope scope{&function.body, &call};
  for (size_t i = 0; i < function.body.inputs.size(); ++i) {
    const std::string& name = function.body.inputs[i].name;
    if (context_.Has(i)) {
      Operand operand = TRY(context_.Input(i));
      scope.tensors.emplace(name, std::move(operand));
    } else {
      call.omitted.insert(name);
    }
  }
  TRY(Enter(scope, "function " + function.Text() + " (" + NodeLabel(node.name, node.index) + ")"));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& name = function.body.outputs[i].name;
    Operand* operand = scope.Find(name);
    if (operand) {
      context_.Bind(*operand, i);
    } else if (!node.outputs[i].empty()) {
      return Err("output '", name, "' of the function is an input that the call leaves out");
    }
  }
  return {};
}

Result<std::vector<Operand>> Walker::Inline(const OnnxGraph& body, std::vector<Operand> inputs) {
  if (inputs.size() != body.inputs.size())
    return Err("the subgraph has ", body.inputs.size(), " inputs; ", inputs.size(), " are given");
  Scope scope{&body, context_.scope_->call, context_.scope_, Initializers(body)};
  for (size_t i = 0; i < inputs.size(); ++i) scope.tensors.insert_or_assign(body.inputs[i].name, std::move(inputs[i]));
  TRY(Enter(scope, PlaceOf(body)));
  std::vector<Operand> outputs;
  for (const OnnxValueInfo& info : body.outputs) {
    Operand* operand = scope.Find(info.name);
    if (!operand) return scope.WhyAbsent(info.name).Note("as an output of the subgraph");
    outputs.push_back(*operand);
  }
  return outputs;
}

void Walker::ComplainOfOperators(const OnnxNode& node) {
  if (places_.size() == kMostPlaces) return;
  if (const OnnxFunction* function = model_.FindFunction(node)) {
    if (!complained_.insert(&function->body).second) return;
    places_.push_back("function " + function->Text());
    ComplainOfOperators(function->body);
    places_.pop_back();
  }
  for (const auto& [name, attr] : node.attrs) {
    if (!attr.graph || !complained_.insert(attr.graph.get()).second) continue;
    places_.push_back(name + " of " + node.Text());
    ComplainOfOperators(*attr.graph);
    places_.pop_back();
  }
}

void Walker::ComplainOfOperators(const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    if (!model_.FindFunction(node)) node_operators_.push_back(OperatorName(node));
    if (!model_.FindFunction(node) && !FindOperator(node)) {
      Complain(WithCause(node.Text() + " is not supported" + Place(), node.op_type + " is not supported"));
    } else {
      ComplainOfOperators(node);
    }
  }
}

}  // namespace autotune::onnx_import
