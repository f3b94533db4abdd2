// Graph: a function on tensors in A-normal form. Every value is defined once, by an input, a constant or a node, and
// has an element type and a static shape. The order of the nodes defines every value before its use. A Graph is a
// value: cheap to copy, since constants share their bytes, and changed only by building a new one with GraphBuilder.
// Unlike a PrimFunc it states what is computed, not how. The graph language has a namespace of its own, since the
// kernel language has an Op, a Call and a Broadcast, too.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::graph {

using ValueId = int32_t;  // index into Graph::values

struct Graph;

struct Value {
  enum class Def : uint8_t { kInput, kConstant, kNode };
  TensorSpec spec;
  std::string name;  // the model's name; may be empty, need not be unique
  Def def = Def::kInput;
  int32_t index = 0;  // index into inputs, constants or nodes, as `def` says
  bool operator==(const Value&) const = default;
};

struct Constant {
  ValueId value = 0;
  // Absent for a constant parameter of a fused body: its value does not change between runs, but is not known to the
  // kernel.
  SharedBytes data;
};

struct Node {
  Op op = Op::kReshape;
  Attrs attrs;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  std::string name;                   // the model's name, for messages and tables
  std::shared_ptr<const Graph> body;  // kFused only; its inputs, then its constants without data, match `inputs`
};

// There are no kernels for tensors without elements, so no node reads or makes one. Only constants, and inputs that no
// node reads, may have no elements.
struct Graph {
  std::vector<Value> values;
  std::vector<ValueId> inputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;
  std::vector<std::string> output_names;  // parallel to outputs

  const TensorSpec& Spec(ValueId v) const { return values[v].spec; }
  // The node that computes v, or null.
  const Node* Producer(ValueId v) const {
    return values[v].def == Value::Def::kNode ? &nodes[values[v].index] : nullptr;
  }
  // The constant v, or null.
  const Constant* FindConstant(ValueId v) const {
    return values[v].def == Value::Def::kConstant ? &constants[values[v].index] : nullptr;
  }
  TensorValue ConstantValue(const Constant& c) const { return {Spec(c.value), c.data}; }
  // How often each value is used by nodes and as an output.
  std::vector<int> UseCounts() const;
};

// Returns true if the node calls a function: its own body, or one of the module.
inline bool IsCall(const Node& node) { return node.op == Op::kFused || node.op == Op::kCall; }

// Returns true if both have equal values, nodes, constants (compared by bytes) and names, in the same order.
bool operator==(const Graph& a, const Graph& b);

// Builds a graph front to back. Not thread-safe.
class GraphBuilder {
 public:
  ValueId Input(std::string name, TensorSpec spec);
  ValueId AddConstant(std::string name, TensorValue value);
  ValueId ConstantParameter(std::string name, TensorSpec spec);  // adds a constant without data
  // Adds a node, and infers the type of its result; an error says what does not fit. Adds a constant instead if the
  // result has no elements. If an operand has no elements, adds a broadcast of a constant instead, or a concatenation
  // of the other operands.
  Result<ValueId> Add(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string name = {});
  // Like Add, for passes whose operands always fit (CHECK).
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string name = {});
  // Returns v in another shape: v itself if its shape is the same, a constant with the same bytes if v is a constant,
  // else the result of a new reshape.
  ValueId Reshape(ValueId v, Shape shape, std::string name = {});
  // Adds a transpose. Returns v itself if the permutation is the identity; adds a reshape if the permutation only moves
  // dimensions of extent 1.
  ValueId Transpose(ValueId v, std::vector<int64_t> perm, std::string name = {});
  ValueId Call(std::shared_ptr<const Graph> body, std::vector<ValueId> inputs, std::string name = {});
  // Adds a call of a function of the module. The result of that function has the type `spec`.
  ValueId CallNamed(std::string function, std::vector<ValueId> inputs, TensorSpec spec, std::string name = {});
  // Adds a copy of a node of another graph, with other inputs of the same types. `spec`: the type of its result.
  ValueId Again(const Node& node, TensorSpec spec, std::vector<ValueId> inputs);
  void Output(ValueId v, std::string name);
  void SetName(ValueId v, std::string name) { graph_.values[v].name = std::move(name); }
  const Graph& graph() const { return graph_; }
  const TensorSpec& Spec(ValueId v) const { return graph_.Spec(v); }
  Graph Finish() { return std::move(graph_); }

 private:
  ValueId NewValue(TensorSpec spec, std::string name, Value::Def def, size_t index);
  Graph graph_;
};

// Returns readable text, one line per value. A constant of one f32 element is printed with its value, any other
// constant with a digest of its bytes.
std::string GraphText(const Graph& graph);

// Checks that values are defined before they are used, and checks arities, types and bodies. CheckModule
// (graph/module.h) checks calls by name. A failure is a bug of the pass that made the graph.
Status CheckGraph(const Graph& graph);
// Checks the arguments and the result of a call: `callee` takes its inputs, then its constants without data, and has
// one output.
Status CheckArguments(const Graph& caller, const Node& call, const Graph& callee);

}  // namespace autotune::graph
