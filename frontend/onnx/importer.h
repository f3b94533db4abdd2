// ImportContext is the interface between the importer and the import functions of operators. Internal to frontend/onnx;
// not thread-safe.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/onnx/evaluate.h"
#include "frontend/onnx/proto_reader.h"
#include "frontend/onnx/scope.h"
#include "graph/graph.h"

namespace autotune::onnx_import {

using namespace graph;  // the importer uses the graph language throughout
using graph::Op;        // Op means the graph language's, not the kernel language's

class ImportContext {
 public:
  int64_t opset = 0;
  std::map<std::string, int64_t> dims;  // dimensions that the user states, by name
  bool lenient = false;                 // ImportOptions::lenient
  GraphBuilder builder;

  // --- inputs of the current node
  bool Has(size_t i) const { return i < node().inputs.size() && !node().inputs[i].empty(); }
  // Returns input i as a value of the graph; a constant is added to the graph. A 16-bit float is converted to f32:
  // graphs can store 16-bit floats, but compute in f32.
  Result<ValueId> Tensor(size_t i);
  // Returns input i, an operand of a product, as Tensor does. But a bf16 is rounded as its operator rounds it, so that
  // targets can multiply bf16. Nodes that read the input later read the rounded number, too: kernels then store it
  // once.
  Result<ValueId> Factor(size_t i);
  // Returns input i as a value of the graph, in the type that the model declares.
  Result<ValueId> StoredTensor(size_t i);
  Result<DType> StoredType(size_t i) const;
  Result<std::vector<ValueId>> AllTensors();
  // Returns the value of input i if it is a constant, else null. Computes nothing.
  const TensorValue* Constant(size_t i) const;
  // Returns the value of input i if it depends on constants alone, and computes it if necessary. Returns null if it
  // depends on an input of the model, or if computing it would take too long. Use Constant for a value that import can
  // do without.
  const TensorValue* Known(size_t i) const;
  Result<Shape> ShapeOf(size_t i) const;
  // Returns an integer constant (shape, axes) as numbers; `what` names it in the error.
  Result<std::vector<int64_t>> Ints(size_t i, const char* what) const;
  // Returns a constant of one element (bounds, depths) as a number; `what` names it in the error.
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
  // Imports one run of a subgraph of the current node on `inputs`, and returns its outputs. An error ends the import of
  // the node; by then, the problems of the subgraph's nodes are listed.
  Result<std::vector<Operand>> Inline(const OnnxGraph& body, std::vector<Operand> inputs) {
    return inline_(body, inputs);
  }
  Result<Operand> Input(size_t i) const;
  // Returns the operand's value, or null if it is not known at import.
  const TensorValue* Known(const Operand& operand) const;
  TensorSpec SpecOf(const Operand& operand) const;
  // Returns the operand as a value of the graph; a constant is added to the graph under `name`.
  Result<ValueId> ToValue(Operand& operand, const std::string& name = "");
  // Returns a value of the graph as an operand, which is a constant if the value is one.
  Operand ToOperand(ValueId v) const;
  void Bind(Operand operand, size_t output);

  // --- results
  // Must be called before import makes a constant of `shape`. The size of the file does not limit such constants, so
  // this function limits their total number of elements: beyond the limit it returns an error.
  Status Reserve(const Shape& shape);
  // Emit evaluates an operator on constants of few elements, which may decide shapes; EmitUnfolded does not.
  Result<ValueId> Emit(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  Result<ValueId> EmitUnfolded(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  // Apply adds an operator without attributes. Its operands are values, or a value and a number of that value's type.
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
  // Returns elements [begin, begin + extent) of a dimension; v itself if these are all elements.
  Result<ValueId> Cut(ValueId v, int64_t axis, int64_t begin, int64_t extent);
  // Returns a scalar constant of the type of `like`.
  ValueId Number(double value, ValueId like) {
    return builder.AddConstant("", TensorValue::FromNumbers(Type(like), {}, {value}));
  }
  // Reshape and Transpose return an error if the operand does not fit; those of the builder require that it fits.
  Result<ValueId> Reshape(ValueId v, Shape shape);
  Result<ValueId> Transpose(ValueId v, std::vector<int64_t> perm);
  // Stacks values of one shape along a new axis, which counts from the end if it is negative.
  Result<ValueId> Stack(std::vector<ValueId> values, int64_t axis);
  const Shape& ShapeOfValue(ValueId v) const { return builder.Spec(v).shape; }
  DType Type(ValueId v) const { return builder.Spec(v).dtype; }
  int Rank(ValueId v) const { return builder.Spec(v).rank(); }
  // Bind makes the value an output of the current node. If the node computes with 16-bit floats, Bind converts an f32
  // to their type. A node does so if its first operand is a 16-bit float, or is no float and another operand is one,
  // unless the operator states its result types (OperatorRow::names_types). BindAs never converts.
  Status Bind(ValueId v, size_t output = 0);
  Status BindAs(ValueId v, size_t output);
  Status BindConstant(TensorValue value, size_t output = 0);
  // Returns true if a node or an output of the model reads this output of the current node.
  bool IsUsed(size_t output) const;
  // Returns an error with the reason `why` if the second or a later output is used. Call it if import ignores them.
  Status RefuseExtraOutputs(const char* why) const;
  // Adds a note to the user about an assumption of the import.
  void Note(std::string_view note) { notes.emplace_back(note); }
  std::vector<std::string> notes;

  const OnnxNode& node() const { return *node_; }

 private:
  friend class Walker;
  Result<Operand*> Find(size_t i) const;
  // Returns the 16-bit float type with which the current node computes; nothing if there is none.
  std::optional<DType> HalfOfResults() const;
  std::optional<ValueId> Folded(Op op, const std::vector<ValueId>& inputs, const Attrs& attrs);

  const OnnxNode* node_ = nullptr;
  Scope* scope_ = nullptr;  // scope of the current node
  std::function<Result<std::vector<Operand>>(const OnnxGraph&, std::vector<Operand>)> inline_;
  mutable ConstantValues values_{builder.graph()};
  // Maps each 16-bit float value to an f32 value: the one from which it was rounded, or else its conversion to f32. So
  // a node that reads the result of another node computes with the number before rounding, unless a product needs the
  // rounded one.
  std::map<ValueId, ValueId> singles_;
  std::map<ValueId, ValueId> factors_;  // bf16 values that products read -> their conversions to f32
  int64_t reserved_ = 0;                // number of elements of the constants that import has made
};

// Converts an axis from ONNX's range [-rank, rank) to [0, rank).
Result<int64_t> NormalizeAxis(int64_t axis, int rank);
// Returns the axes normalized and in ascending order. Returns an error if an axis occurs twice.
Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank);

// Returns the type with ONNX's number `onnx_type`, or an error if graphs cannot hold this type.
Result<DType> SupportedType(int64_t onnx_type);

// Makes a constant of `shape` from a constant: its element at `index` is the element of `from` at `source(index)`.
TensorValue Moved(const TensorValue& from, const Shape& shape, const std::function<int64_t(const Shape&)>& source);

// The import function of one operator.
struct OperatorRow {
  const char* name;
  int min_opset, max_opset;  // first and last operator set whose definition the function implements
  Status (*import)(ImportContext&);
  bool names_types = false;  // the operator states the types of its results; they do not follow from its operands
};
// The operators of each file. An operator is in exactly one list.
const std::vector<OperatorRow>& ConvOperators();        // conv.cc: Conv, ConvTranspose, Gemm, MatMul
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
const std::vector<OperatorRow>& SelectOperators();      // select.cc: sorting, scattering, selection by value
const std::vector<OperatorRow>& EinsumOperators();      // einsum.cc
const std::vector<OperatorRow>& SpectralOperators();    // spectral.cc: Fourier transforms, windows
const std::vector<OperatorRow>& SampleOperators();      // sample.cc: images at computed positions
const std::vector<OperatorRow>& RegionOperators();      // regions.cc
const std::vector<OperatorRow>& UnpoolOperators();      // unpool.cc
const std::vector<OperatorRow>& NgramOperators();       // ngrams.cc
const std::vector<OperatorRow>& ControlOperators();     // control.cc: If, Loop, Scan
const std::vector<OperatorRow>& AttentionOperators();   // attention.cc
const std::vector<OperatorRow>& StateOperators();       // state.cc
// The operators of the domain com.microsoft. They have one version, whatever ONNX operator set a model uses.
const std::vector<OperatorRow>& MicrosoftOperators();           // microsoft.cc
const std::vector<OperatorRow>& MicrosoftAttentionOperators();  // microsoft_attention.cc
const std::vector<OperatorRow>& MicrosoftQuantizedOperators();  // microsoft_quantized.cc
// Returns the rows of all operators of ONNX's own domain, or of com.microsoft.
std::vector<OperatorRow> AllOperators(bool microsoft);
// Returns the row of a node's operator, or null.
const OperatorRow* FindOperator(const OnnxNode& node);

// Computes the current node if it is element-wise arithmetic of short integer and bool constants, as in the shape
// computations of exported models. Returns nothing if an input is not such a constant.
std::optional<Result<TensorValue>> FoldIntegers(const ImportContext& context);

// An activation function of a recurrent operator, with its parameters.
struct RecurrentActivation {
  const char* name;  // name in lower case
  int numbers;       // number of parameters: 0, 1 (alpha) or 2 (alpha and beta)
  float alpha, beta;
  Result<ValueId> (*apply)(ImportContext&, const RecurrentActivation&, ValueId x);
};
// Finds an activation by its name, in upper or lower case. The parameters are the defaults.
std::optional<RecurrentActivation> FindRecurrentActivation(const std::string& name);

// Returns x - log(sum(exp(x))) along the axis.
Result<ValueId> LogSoftmaxValue(ImportContext& context, ValueId x, int64_t axis);

// Returns the convolution of x and w as Conv defines it, without a bias. The attributes are those of the current node.
Result<ValueId> ConvValues(ImportContext& context, ValueId x, ValueId w);

// Returns the product of a and b as MatMul defines it.
Result<ValueId> MatMulValues(ImportContext& context, ValueId a, ValueId b);

// The geometry of a sliding window, from ONNX's attributes. A 1-D window becomes a 2-D one with height 1; its images
// must be converted with Lifted.
struct Window {
  bool one_dimensional = false;
  std::vector<int64_t> kernel, strides, pads, dilations;  // 2, 2, 4, 2 numbers; in three dimensions 3, 3, 6, 3
  // Lifted adds a height of 1 to the shape of a 1-D image or weight, whose spatial dimensions come last; Lowered
  // removes it.
  Shape Lifted(Shape shape) const;
  Shape Lowered(Shape shape) const;
};
// Reads the window of the current node. `spatial` are the input's spatial extents, `kernel` those of the weight; an
// empty `kernel` is read from kernel_shape.
Result<Window> ReadWindow(const ImportContext& context, const Shape& spatial, std::vector<int64_t> kernel);

}  // namespace autotune::onnx_import
