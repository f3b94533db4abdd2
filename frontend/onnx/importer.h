// ImportContext: what an operator's import function sees. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "frontend/onnx/evaluate.h"
#include "frontend/onnx/proto_reader.h"
#include "frontend/onnx/scope.h"
#include "graph/graph.h"

namespace autotune::onnx_import {

using namespace graph;  // the importer speaks the graph language throughout
using graph::Op;        // not the kernel language's

class ImportContext {
 public:
  int64_t opset = 0;
  std::map<std::string, int64_t> dims;  // that the user states, by name
  GraphBuilder builder;

  // --- inputs of the current node
  bool Has(size_t i) const { return i < node().inputs.size() && !node().inputs[i].empty(); }
  // As a value of the graph; a constant becomes one. Floats of 16 bits come as f32, since graphs only store them.
  Result<ValueId> Tensor(size_t i);
  // The same, of the type that the model declares.
  Result<ValueId> StoredTensor(size_t i);
  Result<DType> StoredType(size_t i) const;
  Result<std::vector<ValueId>> AllTensors();
  // Null if it is not known at import, or large and not computed yet.
  const TensorValue* Constant(size_t i) const;
  // The same, for what import cannot do without: computes what follows from constants alone.
  const TensorValue* Known(size_t i) const;
  Result<Shape> ShapeOf(size_t i) const;
  // An integer constant (shape, axes) as numbers; `what` names it in the error.
  Result<std::vector<int64_t>> Ints(size_t i, const char* what) const;
  // A constant of one element (bounds, depths) as a number.
  Result<double> ConstantNumber(size_t i, const char* what) const;

  // --- attributes of the current node
  bool HasAttr(const char* name) const { return node().attrs.count(name) > 0; }
  Result<int64_t> Int(const char* name, int64_t fallback) const;
  Result<float> Float(const char* name, float fallback) const;
  Result<std::string> String(const char* name, const char* fallback) const;
  Result<std::vector<int64_t>> IntList(const char* name, std::vector<int64_t> fallback) const;
  Result<std::vector<float>> FloatList(const char* name, std::vector<float> fallback) const;
  Result<std::vector<std::string>> StringList(const char* name, std::vector<std::string> fallback) const;

  // --- subgraphs
  Result<const OnnxGraph*> Subgraph(const char* name) const;
  // Imports a subgraph of the current node once more, its inputs being these tensors, and returns its outputs. An error
  // ends the import of the node; the nodes of the subgraph that cannot be imported are listed already.
  Result<std::vector<Operand>> Inline(const OnnxGraph& body, std::vector<Operand> inputs) {
    return inline_(body, inputs);
  }
  Result<Operand> Input(size_t i) const;
  // Null if it is not known at import.
  const TensorValue* Known(const Operand& operand) const;
  TensorSpec SpecOf(const Operand& operand) const;
  // As a value of the graph; a constant becomes one, under that name.
  Result<ValueId> ToValue(Operand& operand, const std::string& name = "");
  // What a value of the graph is, perhaps a constant.
  Operand ToOperand(ValueId v) const;
  void Bind(Operand operand, size_t output);

  // --- results
  // Must be called before import makes a constant. The size of the file does not bound such constants, so this bounds
  // their total number of elements; beyond the limit it returns an error.
  Status Reserve(const Shape& shape);
  Result<ValueId> Emit(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  // Formulas: an operator without attributes on values, or on a value and a number of that value's type.
  Result<ValueId> Apply(Op op, ValueId a) { return Emit(op, {a}); }
  Result<ValueId> Apply(Op op, ValueId a, ValueId b) { return Emit(op, {a, b}); }
  Result<ValueId> ApplyNumber(Op op, ValueId a, double b) { return Emit(op, {a, Number(b, a)}); }
  Result<ValueId> ApplyToNumber(Op op, double a, ValueId b) { return Emit(op, {Number(a, b), b}); }
  Result<ValueId> Where(ValueId condition, ValueId a, ValueId b) { return Emit(Op::kWhere, {condition, a, b}); }
  Result<ValueId> Cast(ValueId v, DType to) { return Type(v) == to ? v : Emit(Op::kCast, {v}, CastAttrs{to}); }
  Result<ValueId> Reduce(Op op, ValueId v, std::vector<int64_t> axes) {
    return axes.empty() ? v : Emit(op, {v}, AxesAttrs{std::move(axes)});
  }
  Result<ValueId> Mean(ValueId v, const std::vector<int64_t>& axes);
  // Elements [begin, begin + extent) of a dimension; v itself if these are all.
  Result<ValueId> Cut(ValueId v, int64_t axis, int64_t begin, int64_t extent);
  // A scalar of the type of `like`.
  ValueId Number(double value, ValueId like) {
    return builder.AddConstant("", TensorValue::FromNumbers(Type(like), {}, {value}));
  }
  // As the builder's, but for operands that may not fit.
  Result<ValueId> Reshape(ValueId v, Shape shape);
  Result<ValueId> Transpose(ValueId v, std::vector<int64_t> perm);
  // Values of one shape side by side along a new axis, which counts from the end if it is negative.
  Result<ValueId> Stack(std::vector<ValueId> values, int64_t axis);
  const Shape& ShapeOfValue(ValueId v) const { return builder.Spec(v).shape; }
  DType Type(ValueId v) const { return builder.Spec(v).dtype; }
  int Rank(ValueId v) const { return builder.Spec(v).rank(); }
  // Binds the value to an output of the current node. Converts an f32 to a 16-bit float if the node computes with
  // these: its first operand is one, or is no float and another operand is one. Does not convert results of operators
  // that name their result types themselves (OperatorRow), nor values that BindAs binds.
  Status Bind(ValueId v, size_t output = 0);
  Status BindAs(ValueId v, size_t output);
  Status BindConstant(TensorValue value, size_t output = 0);
  // Returns true if a node or an output of the model reads it.
  bool IsUsed(size_t output) const;
  // The second and later outputs that import ignores must have no reader.
  Status RefuseExtraOutputs(const char* why) const;
  // Tells the user what import has assumed.
  void Note(std::string note) { notes.push_back(std::move(note)); }
  std::vector<std::string> notes;

  const OnnxNode& node() const { return *node_; }

 private:
  friend class Walker;
  Result<Operand*> Find(size_t i) const;
  // Of floats of 16 bits that the current node computes with; null: none.
  std::optional<DType> HalfOfResults() const;
  std::optional<ValueId> Folded(Op op, const std::vector<ValueId>& inputs, const Attrs& attrs);

  const OnnxNode* node_ = nullptr;
  Scope* scope_ = nullptr;  // of the current node
  std::function<Result<std::vector<Operand>>(const OnnxGraph&, std::vector<Operand>)> inline_;
  mutable ConstantValues values_{builder.graph()};
  // Maps each 16-bit float value to the f32 value from which it was rounded, or to its conversion. A node that uses the
  // result of another node computes with the number before rounding.
  std::map<ValueId, ValueId> singles_;
  int64_t reserved_ = 0;  // elements of the constants made by import
};

// Axis in [0, rank) from ONNX's [-rank, rank).
Result<int64_t> NormalizeAxis(int64_t axis, int rank);
// Each normalized; ascending; an error if one is named twice.
Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank);

// The type that ONNX's number stands for; an error if it is none that graphs can hold.
Result<DType> SupportedType(int64_t onnx_type);

// The elements of `from` at `source(index)` for each index of `shape`, in the importer itself: for constants.
TensorValue Moved(const TensorValue& from, const Shape& shape, const std::function<int64_t(const Shape&)>& source);

// One row per operator.
struct OperatorRow {
  const char* name;
  int min_opset, max_opset;  // those whose meaning the function implements
  Status (*import)(ImportContext&);
  bool names_types = false;  // the types of results do not follow from those of its operands
};
// The lists of the families; an operator stands in exactly one.
const std::vector<OperatorRow>& ConvOperators();        // conv.cc: Conv, Gemm, MatMul
const std::vector<OperatorRow>& MathOperators();        // math.cc: arithmetic, comparisons, logic, casts
const std::vector<OperatorRow>& ActivationOperators();  // activation.cc
const std::vector<OperatorRow>& ReduceOperators();      // reduce.cc
const std::vector<OperatorRow>& NormPoolOperators();    // norm_pool.cc
const std::vector<OperatorRow>& ShapeOperators();       // shape.cc: other shapes, constants
const std::vector<OperatorRow>& MoveOperators();        // move.cc: slices, gathers, pads
const std::vector<OperatorRow>& ResizeOperators();      // resize.cc
const std::vector<OperatorRow>& LossOperators();        // loss.cc
const std::vector<OperatorRow>& QuantizeOperators();    // quantize.cc
const std::vector<OperatorRow>& RotaryOperators();      // rotary.cc
const std::vector<OperatorRow>& RecurrentOperators();   // recurrent.cc
const std::vector<OperatorRow>& SelectOperators();      // select.cc: sorting, scattering, what depends on values
const std::vector<OperatorRow>& EinsumOperators();      // einsum.cc
const std::vector<OperatorRow>& SpectralOperators();    // spectral.cc: Fourier transforms, windows
const std::vector<OperatorRow>& SampleOperators();      // sample.cc: images at computed positions
const std::vector<OperatorRow>& RegionOperators();      // regions.cc
const std::vector<OperatorRow>& UnpoolOperators();      // unpool.cc
const std::vector<OperatorRow>& NgramOperators();       // ngrams.cc
const std::vector<OperatorRow>& ControlOperators();     // control.cc: If, Loop, Scan
const std::vector<OperatorRow>& AttentionOperators();   // attention.cc
const std::vector<OperatorRow>& StateOperators();       // state.cc
// Of the domain com.microsoft. They have one version, in models of any of ONNX's operator sets.
const std::vector<OperatorRow>& MicrosoftOperators();           // microsoft.cc
const std::vector<OperatorRow>& MicrosoftAttentionOperators();  // microsoft_attention.cc
// The rows of all families of one domain: ONNX's own, or com.microsoft.
std::vector<OperatorRow> AllOperators(bool microsoft);
// The row of an operator, or null.
const OperatorRow* FindOperator(const OnnxNode& node);

// Element-wise arithmetic of short integer and bool constants, as shape computations of exported models need it. Null
// if the current node's inputs are not all such constants.
std::optional<Result<TensorValue>> FoldIntegers(const ImportContext& context);

// An activation function of a recurrent net, with its numbers.
struct RecurrentActivation {
  const char* name;  // in lower case
  int numbers;       // how many of alpha and beta it takes
  float alpha, beta;
  Result<ValueId> (*apply)(ImportContext&, const RecurrentActivation&, ValueId x);
};
// By its name in any case, with default numbers.
std::optional<RecurrentActivation> FindRecurrentActivation(const std::string& name);

// x - log(sum(exp(x))) along the axis.
Result<ValueId> LogSoftmaxValue(ImportContext& context, ValueId x, int64_t axis);

// A convolution as Conv defines it, of values in place of inputs 0 and 1, without a bias; attributes are the node's.
Result<ValueId> ConvValues(ImportContext& context, ValueId x, ValueId w);

// A product as MatMul defines it.
Result<ValueId> MatMulValues(ImportContext& context, ValueId a, ValueId b);

// Pads and output-independent geometry of a sliding window, from ONNX's attributes; 1-D windows get a unit height, and
// are of images that Lifted has given one.
struct Window {
  bool one_dimensional = false;
  std::vector<int64_t> kernel, strides, pads, dilations;  // 2, 2, 4, 2 numbers; in three dimensions 3, 3, 6, 3
  // Of images and weights whose spatial dimensions come last; and back.
  Shape Lifted(Shape shape) const;
  Shape Lowered(Shape shape) const;
};
// `spatial`: extents of the input; `kernel`: from the weight, or empty to read kernel_shape.
Result<Window> ReadWindow(const ImportContext& context, const Shape& spatial, std::vector<int64_t> kernel);

}  // namespace autotune::onnx_import
