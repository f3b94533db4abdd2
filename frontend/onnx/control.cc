// Control flow: If, Loop and Scan. Import inlines a subgraph for each iteration or chosen branch, so conditions and
// trip counts must be known at import. An If whose condition is not known computes both branches.
#include <algorithm>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

constexpr int64_t kMostIterations = 1000;  // limit of unrolling, since each iteration adds nodes to the network

TensorValue ScalarBool(bool value) { return TensorValue::FromNumbers(DType::Bool(), {}, {value ? 1.0 : 0.0}); }

// Returns the one number of a condition or a trip count. `what` names it in the error.
Result<double> NumberOf(const TensorValue& value, const char* what) {
  if (value.spec.NumElements() != 1) return Err(what, " must be one number, not ", value.spec.Text());
  return value.Number(0);
}

Status BindAll(ImportContext& c, std::vector<Operand> operands) {
  if (c.node().outputs.size() > operands.size())
    return Err("has ", c.node().outputs.size(), " outputs, but its subgraph gives ", operands.size());
  for (size_t i = 0; i < c.node().outputs.size(); ++i) c.Bind(std::move(operands[i]), i);
  return {};
}

// Computes both branches and selects the results. Computing both is safe, since operators have no side effects.
Result<std::vector<Operand>> SelectedBranch(ImportContext& c, const OnnxGraph& yes, const OnnxGraph& no) {
  ValueId condition = TRY(c.Tensor(0));
  if (c.builder.Spec(condition).NumElements() != 1)
    return Err("its condition must be one number, not ", c.builder.Spec(condition).Text());
  condition = TRY(c.Reshape(condition, {}));
  std::vector<Operand> a = TRY(c.Inline(yes, {})), b = TRY(c.Inline(no, {})), selected;
  if (a.size() != b.size()) return Err("its branches give ", a.size(), " and ", b.size(), " outputs");
  for (size_t i = 0; i < a.size(); ++i) {
    if (TensorSpec first = c.SpecOf(a[i]), second = c.SpecOf(b[i]); first != second) {
      return Err("its condition is computed at run time, and its branches give ", first.Text(), " and ", second.Text(),
                 "; only results of one type and shape are supported");
    }
    ValueId from_yes = TRY(c.ToValue(a[i])), from_no = TRY(c.ToValue(b[i]));
    selected.push_back(c.ToOperand(TRY(c.Where(condition, from_yes, from_no))));
  }
  c.Note("If with a condition that is computed at run time: both branches are computed");
  return selected;
}

Status ImportIf(ImportContext& c) {
  const OnnxGraph *yes = TRY(c.Subgraph("then_branch")), *no = TRY(c.Subgraph("else_branch"));
  const TensorValue* condition = c.Known(0);
  if (!condition) return BindAll(c, TRY(SelectedBranch(c, *yes, *no)));
  const bool holds = TRY(NumberOf(*condition, "its condition")) != 0;
  return BindAll(c, TRY(c.Inline(holds ? *yes : *no, {})));
}

// Stacks the elements of a scan output, one per iteration, along a new axis.
Result<Operand> Stacked(ImportContext& c, std::vector<Operand>& parts, int64_t axis) {
  std::vector<ValueId> values;
  for (Operand& part : parts) values.push_back(TRY(c.ToValue(part)));
  return c.ToOperand(TRY(c.Stack(std::move(values), axis)));
}

// The values that a loop carries from one iteration to the next, and the elements that it collects.
struct LoopState {
  std::vector<Operand> carried;
  std::vector<std::vector<Operand>> scans;  // for each scan output, one element per iteration

  // Takes the outputs of an iteration from index `first` on: the carried values, then an element of each scan output.
  Status Take(std::vector<Operand> outputs, size_t first) {
    if (outputs.size() != first + carried.size() + scans.size()) {
      return Err("its subgraph gives ", outputs.size(), " outputs; expected are ",
                 first + carried.size() + scans.size());
    }
    auto next = outputs.begin() + static_cast<int64_t>(first);
    for (Operand& operand : carried) operand = std::move(*next++);
    for (auto& scan : scans) scan.push_back(std::move(*next++));
    return {};
  }
};

// Returns the scan output of a loop without iterations: an empty tensor of the element's type, stacked along `axis`.
Result<Operand> NoIterations(ImportContext& c, const Operand& element, int64_t axis) {
  TensorSpec spec = c.SpecOf(element);
  axis = TRY(NormalizeAxis(axis, spec.rank() + 1));
  spec.shape.insert(spec.shape.begin() + axis, 0);
  return Operand{TensorValue{spec, SharedBytes::Copy("")}};
}

struct LoopNode {
  const OnnxGraph* body = nullptr;
  std::optional<int64_t> trips;
  bool enters = true;
};

Result<LoopNode> ReadLoop(ImportContext& c) {
  LoopNode loop;
  loop.body = TRY(c.Subgraph("body"));
  if (c.Has(0)) {
    const TensorValue* trips = c.Known(0);
    if (!trips) return Err("its trip count is computed at run time; it must be a constant");
    loop.trips = static_cast<int64_t>(std::clamp(TRY(NumberOf(*trips, "its trip count")), 0.0, 0x1p62));
  }
  if (c.Has(1)) {
    const TensorValue* condition = c.Known(1);
    if (!condition) return Err("its condition is computed at run time; it must be a constant");
    loop.enters = TRY(NumberOf(*condition, "its condition")) != 0;
  }
  return loop;
}

Result<std::vector<Operand>> Iterate(ImportContext& c, const LoopNode& loop, int64_t i, const LoopState& state) {
  std::vector<Operand> inputs = {{TensorValue::Of<int64_t>({}, {i})}, {ScalarBool(true)}};
  inputs.insert(inputs.end(), state.carried.begin(), state.carried.end());
  return c.Inline(*loop.body, std::move(inputs));
}

Status ImportLoop(ImportContext& c) {
  const LoopNode loop = TRY(ReadLoop(c));
  LoopState state;
  for (size_t i = 2; i < c.node().inputs.size(); ++i) state.carried.push_back(TRY(c.Input(i)));
  const size_t fixed = 1 + state.carried.size();  // number of the body's outputs before the scan outputs
  if (loop.body->outputs.size() < fixed)
    return Err("its subgraph gives ", loop.body->outputs.size(), " outputs; expected are ", fixed, " or more");
  state.scans.resize(loop.body->outputs.size() - fixed);
  int64_t count = 0;
  for (bool goes_on = loop.enters; goes_on && (!loop.trips || count < *loop.trips); ++count) {
    if (count == kMostIterations) return Err("runs more than ", kMostIterations, " times, too many to unroll");
    std::vector<Operand> outputs = TRY(Iterate(c, loop, count, state));
    const TensorValue* condition = outputs.empty() ? nullptr : c.Known(outputs[0]);
    const bool is_last = loop.trips && count + 1 == *loop.trips;
    // Obey the body's condition even if the node has none. ONNX's specification ignores it in that case. ONNX Runtime
    // obeys it, and onnxscript relies on this for `for` loops with `break`.
    if (!condition && !is_last)
      return Err("computes at run time whether it goes on; only loops of a known number of iterations are supported");
    if (!is_last) goes_on = TRY(NumberOf(*condition, "its condition")) != 0;
    TRY(state.Take(std::move(outputs), 1));
  }
  std::vector<Operand> results = state.carried;
  if (count == 0 && !state.scans.empty()) {  // import an unused iteration, to learn the types of the scan outputs
    std::vector<Operand> outputs = TRY(Iterate(c, loop, 0, state));
    for (size_t i = fixed; i < outputs.size(); ++i) results.push_back(TRY(NoIterations(c, outputs[i], 0)));
  } else {
    for (auto& scan : state.scans) results.push_back(TRY(Stacked(c, scan, 0)));
  }
  return BindAll(c, std::move(results));
}

// Returns an attribute with one number for each scan input or output; zeros if the attribute is absent.
Result<std::vector<int64_t>> PerScan(ImportContext& c, const char* name, size_t count) {
  std::vector<int64_t> list = TRY(c.IntList(name, std::vector<int64_t>(count, 0)));
  if (list.size() != count) return Err(name, " has ", list.size(), " numbers for ", count, " tensors");
  return list;
}

struct ScanNode {
  const OnnxGraph* body = nullptr;
  size_t states = 0, inputs = 0, outputs = 0;  // counts of state variables, scan inputs and scan outputs
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

// Reads the node of a Scan. `first` is the index of the first state variable among the inputs.
Result<ScanNode> ReadScan(ImportContext& c, size_t first) {
  ScanNode scan;
  scan.body = TRY(c.Subgraph("body"));
  const int64_t inputs = TRY(c.Int("num_scan_inputs", 0)),
                all = static_cast<int64_t>(c.node().inputs.size()) - static_cast<int64_t>(first);
  if (inputs < 1 || inputs > all) return Err("num_scan_inputs is ", inputs, " of ", all, " inputs");
  scan.inputs = static_cast<size_t>(inputs);
  scan.states = static_cast<size_t>(all - inputs);
  if (scan.body->outputs.size() < scan.states)
    return Err("its subgraph gives ", scan.body->outputs.size(), " outputs; expected are ", scan.states, " or more");
  scan.outputs = scan.body->outputs.size() - scan.states;
  const bool old = c.opset < 9;
  scan.input_axes = TRY(PerScan(c, "scan_input_axes", scan.inputs));
  scan.input_directions = TRY(PerScan(c, old ? "directions" : "scan_input_directions", scan.inputs));
  scan.output_axes = TRY(PerScan(c, "scan_output_axes", scan.outputs));
  scan.output_directions = TRY(PerScan(c, "scan_output_directions", scan.outputs));
  return scan;
}

// Returns the slice at one index of an axis, without that axis.
Result<Operand> At(ImportContext& c, Operand operand, int64_t axis, int64_t index) {
  ValueId x = TRY(c.ToValue(operand));
  Shape shape = c.ShapeOfValue(x);
  shape.erase(shape.begin() + axis);
  return c.ToOperand(TRY(c.Reshape(TRY(c.Cut(x, axis, index, 1)), shape)));
}

// Unrolls a scan and returns its results. `inputs` holds the state variables, then the scan inputs.
Result<std::vector<Operand>> RunScan(ImportContext& c, const ScanNode& scan, const std::vector<Operand>& inputs) {
  LoopState state{{inputs.begin(), inputs.begin() + static_cast<int64_t>(scan.states)}, {}};
  state.scans.resize(scan.outputs);
  std::vector<int64_t> axes;
  std::optional<int64_t> length;
  for (size_t i = 0; i < scan.inputs; ++i) {
    const Shape shape = c.SpecOf(inputs[scan.states + i]).shape;
    axes.push_back(TRY(NormalizeAxis(scan.input_axes[i], static_cast<int>(shape.size()))));
    const int64_t extent = shape[axes.back()];
    if (length && *length != extent) return Err("its inputs have ", *length, " and ", extent, " elements to scan");
    length = extent;
  }
  if (*length > kMostIterations) return Err("runs more than ", kMostIterations, " times, too many to unroll");
  if (*length == 0) return Err("has no elements to scan");
  for (int64_t t = 0; t < *length; ++t) {
    std::vector<Operand> arguments = state.carried;
    for (size_t i = 0; i < scan.inputs; ++i) {
      const int64_t index = scan.input_directions[i] == 1 ? *length - 1 - t : t;
      arguments.push_back(TRY(At(c, inputs[scan.states + i], axes[i], index)));
    }
    TRY(state.Take(TRY(c.Inline(*scan.body, std::move(arguments))), 0));
  }
  std::vector<Operand> results = state.carried;
  for (size_t i = 0; i < scan.outputs; ++i) {
    if (scan.output_directions[i] == 1) std::reverse(state.scans[i].begin(), state.scans[i].end());
    results.push_back(TRY(Stacked(c, state.scans[i], scan.output_axes[i])));
  }
  return results;
}

// Imports the Scan of operator set 8, where all tensors have a batch dimension in front. Each batch entry is a scan of
// its own.
Status ImportBatchedScan(ImportContext& c) {
  if (c.Has(0)) return Err("sequences of several lengths are not supported");
  const ScanNode scan = TRY(ReadScan(c, 1));
  std::vector<Operand> inputs;
  for (size_t i = 1; i < c.node().inputs.size(); ++i) inputs.push_back(TRY(c.Input(i)));
  const Shape shape = c.SpecOf(inputs.back()).shape;
  const int64_t batch = shape.empty() ? 0 : shape[0];
  if (batch < 1) return Err("needs a batch, not ", ShapeText(shape));
  if (batch > kMostIterations) return Err("runs more than ", kMostIterations, " times, too many to unroll");
  std::vector<std::vector<Operand>> results(scan.states + scan.outputs);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Operand> row;
    for (const Operand& input : inputs) {
      const Shape own = c.SpecOf(input).shape;
      if (own.empty() || own[0] != batch) return Err("its inputs are of batches ", batch, " and ", ShapeText(own));
      row.push_back(TRY(At(c, input, 0, b)));
    }
    std::vector<Operand> outputs = TRY(RunScan(c, scan, row));
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(outputs[i]));
  }
  std::vector<Operand> stacked;
  for (auto& result : results) stacked.push_back(TRY(Stacked(c, result, 0)));
  return BindAll(c, std::move(stacked));
}

Status ImportScan(ImportContext& c) {
  if (c.opset < 9) return ImportBatchedScan(c);
  const ScanNode scan = TRY(ReadScan(c, 0));
  std::vector<Operand> inputs;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) inputs.push_back(TRY(c.Input(i)));
  return BindAll(c, TRY(RunScan(c, scan, inputs)));
}

}  // namespace

const std::vector<OperatorRow>& ControlOperators() {
  static const std::vector<OperatorRow> rows = {
      {"If", 1, 28, ImportIf},
      {"Loop", 1, 28, ImportLoop},
      {"Scan", 8, 28, ImportScan},
  };
  return rows;
}

}  // namespace autotune::onnx_import
