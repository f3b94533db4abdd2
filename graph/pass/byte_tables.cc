// A function of one tensor of 8 bits whose results have 8 bits, too, becomes a table of its 256 values:
//
//   quantize(x sigmoid(x)), x = dequantize(q)  ->  look_up(q, table)
//
// The table is constant arithmetic, which FoldConstants computes. So activations, and quantization with another scale,
// cost a look-up, whatever they compute, and equal kernels may have different functions. Steps between, which are
// quantized as well, become a part of the table, unless something else reads them.
#include <algorithm>
#include <map>
#include <set>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "ir/byte_table.h"

namespace autotune::graph {
namespace {

// Fewest operators of a function that a look-up in registers replaces. It is five instructions for up to 64 bytes.
// [chosen]
constexpr int kFewestForRegisters = 8;

// Longest chain of operators in a table. Constants are computed by kernels, whose compile time grows faster than the
// chain. [chosen; some 25 quantized steps]
constexpr int64_t kMostDepth = 256;

// Returns whether kernels compute the operator as a polynomial. Any look-up is faster. Look-ups by loads, some three
// instructions for each byte, are slower than the vectors of other arithmetic.
bool IsPolynomial(Op op) {
  using enum Op;
  switch (op) {
    case kSigmoid:
    case kTanh:
    case kErf:
    case kExp:
    case kLog:
    case kSin:
    case kCos:
    case kTan:
    case kAsin:
    case kAcos:
    case kAtan:
    case kSinh:
    case kCosh:
    case kAsinh:
    case kAcosh:
    case kAtanh:
    case kPow:
      return true;
    default:
      return false;
  }
}

class ByteTablesPass {
 public:
  ByteTablesPass(const Graph& graph, bool in_registers)
      : graph_(graph),
        in_registers_(in_registers),
        is_kept_(graph.values.size(), false),
        roots_(graph.values.size(), -1),
        is_constant_(ConstantValues(graph)),
        rewriter_(graph) {
    FindRoots();
    FindKept();
    FindRoots();
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (IsByte(graph_.Spec(node.output).dtype) && IsWorthATable(node.output)) {
        const ValueId table = TableOf(node.output), bytes = rewriter_.Map(roots_[node.output]);
        rewriter_.Set(node.output, rewriter_.builder.Must(Op::kLookUp, {bytes, table}, {}, node.name));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  bool IsByteTensor(ValueId v) const {
    const TensorSpec& spec = graph_.Spec(v);
    return IsByte(spec.dtype) && spec.NumElements() >= kByteValues && !graph_.FindConstant(v);
  }

  // Returns whether the value is a single number that follows from constants.
  bool IsNumber(ValueId v) const { return is_constant_[v] && graph_.Spec(v).NumElements() == 1; }

  // Finds the tensor of bytes of which each value is a function, element by element. Bytes at the end of a long chain
  // are the root of what follows.
  void FindRoots() {
    std::vector<int64_t> depths(graph_.values.size(), 0);  // operators between a value and its root
    for (const Node& node : graph_.nodes) {
      const ValueId made = node.output, root = roots_[made] = RootOf(node);
      if (root < 0) continue;
      for (const ValueId v : node.inputs)
        if (v != root) depths[made] = std::max(depths[made], depths[v]);
      if (++depths[made] >= kMostDepth && IsByteTensor(made)) is_kept_[made] = true;
    }
  }

  ValueId RootOf(const Node& node) const {
    if (KindOf(node.op) != OpKind::kElementwise || node.op == Op::kBatchNorm) return -1;
    ValueId root = -1;
    for (const ValueId v : node.inputs) {
      if (IsNumber(v)) continue;
      const ValueId from = roots_[v] >= 0 && !is_kept_[v] ? roots_[v] : IsByteTensor(v) ? v : -1;
      if (from < 0 || (root >= 0 && from != root)) return -1;
      root = from;
    }
    // A number of a higher rank changes the shape of the result.
    return root >= 0 && graph_.Spec(root).shape == graph_.Spec(node.output).shape ? root : -1;
  }

  // Finds the bytes that memory has to hold, since they are an output or decide more than bytes with their root: the
  // sum of two functions, or floats that leave the kernel. What follows then reads them and not their root.
  void FindKept() {
    std::vector<bool> leaks(graph_.values.size(), false);
    for (const ValueId v : graph_.outputs) leaks[v] = true;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const ValueId made = node->output;
      const bool ends = roots_[made] >= 0 && IsByte(graph_.Spec(made).dtype);
      if (!ends && (roots_[made] < 0 || leaks[made]))
        for (const ValueId v : node->inputs) leaks[v] = true;
    }
    for (const Node& node : graph_.nodes)
      is_kept_[node.output] = leaks[node.output] && IsByte(graph_.Spec(node.output).dtype);
  }

  bool IsWorthATable(ValueId v) const {
    const ValueId root = roots_[v];
    if (root < 0) return false;
    std::set<ValueId> seen = {v, root};
    std::vector<ValueId> pending = {v};
    int operators = 0;
    while (!pending.empty()) {
      const Node& node = *graph_.Producer(pending.back());
      pending.pop_back();
      if (IsPolynomial(node.op) || (in_registers_ && ++operators == kFewestForRegisters)) return true;
      for (const ValueId input : node.inputs)
        if (!IsNumber(input) && seen.insert(input).second) pending.push_back(input);
    }
    return false;
  }

  // Returns the values of a function for all bytes, in the order of their bits.
  ValueId TableOf(ValueId v) {
    const auto [made, is_new] = tables_.try_emplace({roots_[v], v}, -1);
    if (!is_new) return made->second;
    // In the order of the graph, since a chain may be too long for a recursion.
    std::set<ValueId> needed;
    std::vector<ValueId> pending = {v};
    while (!pending.empty()) {
      const ValueId next = pending.back();
      pending.pop_back();
      if (next == roots_[v] || IsNumber(next) || !needed.insert(next).second) continue;
      for (const ValueId input : graph_.Producer(next)->inputs) pending.push_back(input);
    }
    std::vector<const Node*> nodes;
    for (const ValueId value : needed) nodes.push_back(graph_.Producer(value));
    std::ranges::sort(nodes, {}, [&](const Node* node) { return graph_.values[node->output].index; });
    for (const Node* node : nodes) {
      ValueId& value = tables_.try_emplace({roots_[v], node->output}, -1).first->second;
      if (value >= 0) continue;
      std::vector<ValueId> inputs;
      for (const ValueId input : node->inputs) inputs.push_back(EntriesOf(roots_[v], input));
      value = rewriter_.builder.Must(node->op, inputs, node->attrs);
    }
    return tables_.at({roots_[v], v});
  }

  ValueId EntriesOf(ValueId root, ValueId v) {
    if (IsNumber(v)) return rewriter_.builder.Reshape(rewriter_.Map(v), {});
    return v == root ? AllBytes(graph_.Spec(v).dtype) : tables_.at({root, v});
  }

  ValueId AllBytes(DType type) {
    const auto [made, is_new] = bytes_.try_emplace(type.IsSigned(), -1);
    if (!is_new) return made->second;
    std::vector<double> numbers;
    for (int64_t i = 0; i < kByteValues; ++i)
      numbers.push_back(static_cast<double>(type.IsSigned() && i >= kByteValues / 2 ? i - kByteValues : i));
    return made->second = rewriter_.builder.AddConstant("", TensorValue::FromNumbers(type, {kByteValues}, numbers));
  }

  const Graph& graph_;
  const bool in_registers_;              // how kernels look bytes up
  std::vector<bool> is_kept_;            // by value: bytes that are roots, not steps between
  std::vector<ValueId> roots_;           // by value: the tensor of which it is a function; -1: there is none
  const std::vector<bool> is_constant_;  // by value
  Rewriter rewriter_;
  std::map<std::pair<ValueId, ValueId>, ValueId> tables_;  // root and function, in graph_ -> the table
  std::map<bool, ValueId> bytes_;                          // all numbers of i8 (true) and of u8
};

}  // namespace

Result<Graph> ByteTables(const Graph& graph, const PassEnv& env) {
  if (env.byte_look_ups == ByteLookUps::kNone) return graph;
  return DropDeadCode(ByteTablesPass(graph, env.byte_look_ups == ByteLookUps::kInRegisters).Run(), env);
}

}  // namespace autotune::graph
