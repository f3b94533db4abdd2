#include "graph/pass/views_in_place.h"

#include <algorithm>
#include <functional>

#include "ir/dot.h"

namespace autotune::graph {
namespace {
constexpr int64_t kWidestSpread = int64_t{1} << 20;  // most bytes from the first to the last row of a head: an L2 cache
}  // namespace

Readers::Readers(const Graph& graph) : nodes_(graph.values.size()), is_output_(graph.values.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId v : graph.nodes[i].inputs) {
      std::vector<int>& list = nodes_[v];
      if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
    }
  }
  for (const ValueId v : graph.outputs) is_output_[v] = true;
}

bool WidensForSum(const Graph& graph, const Readers& readers, int node) {
  const Node& n = graph.nodes[node];
  const int reader = readers.OnlyOneOf(n.output);
  return n.op == Op::kCast && IsByte(graph.Spec(n.inputs[0]).dtype) && reader >= 0 &&
         graph.nodes[reader].op == Op::kReduceSum;
}

bool MakesSumOfBytes(const Graph& graph, const Readers& readers, int node) {
  const Node& n = graph.nodes[node];
  if (n.op == Op::kCast) return WidensForSum(graph, readers, node);
  const bool arithmetic = n.op == Op::kSub || n.op == Op::kMul || n.op == Op::kReshape;
  const auto is_sum = [&](ValueId v) { return graph.Spec(v).NumElements() > 1; };
  if ((!arithmetic && n.op != Op::kReduceSum) || std::ranges::count_if(n.inputs, is_sum) != 1) return false;
  const Node* from = graph.Producer(*std::ranges::find_if(n.inputs, is_sum));
  return from && arithmetic == (from->op != Op::kCast) &&
         MakesSumOfBytes(graph, readers, graph.values[from->output].index);
}

bool KeepsRows(const Node& transpose) {
  const std::vector<int64_t>& perm = std::get<TransposeAttrs>(transpose.attrs).perm;
  return perm.back() + 1 == static_cast<int64_t>(perm.size());
}

void ViewsInPlace::MarkRows(bool of_sums) {
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    if (IsOfRows(graph_.nodes[i], of_sums)) is_in_place_[i] = true;
}

bool ViewsInPlace::IsOfRows(const Node& node, bool of_sums) const {
  const std::vector<int>& readers = readers_.Of(node.output);
  if (readers_.IsOutput(node.output) || readers.empty()) return false;
  if (node.op == Op::kTranspose) {
    const auto widens = [&](int reader) { return WidensForSum(graph_, readers_, reader); };
    return of_sums && KeepsRows(node) && std::ranges::all_of(readers, widens);
  }
  if (node.op != Op::kSlice || std::get<SliceAttrs>(node.attrs).step.back() != 1) return false;
  return std::ranges::all_of(readers, [&](int reader) {
    const Node& n = graph_.nodes[reader];
    return KindOf(n.op) == OpKind::kElementwise && n.op != Op::kBatchNorm &&
           graph_.Spec(n.output).shape == graph_.Spec(node.output).shape;
  });
}

void ViewsInPlace::MarkOperand(ValueId v, int innermost) {
  const Node* node = graph_.Producer(v);
  const auto widens = [&](int reader) { return WidensForSum(graph_, readers_, reader); };
  if (!node || readers_.IsOutput(v) || std::ranges::count_if(readers_.Of(v), std::not_fn(widens)) != 1) return;
  if (node->op == Op::kTranspose) {
    const std::vector<int64_t>& perm = std::get<TransposeAttrs>(node->attrs).perm;
    const auto last = static_cast<int64_t>(perm.size()) - 1;
    if (std::find(perm.end() - innermost, perm.end(), last) == perm.end() || SpreadOf(*node) > kWidestSpread) return;
    MarkOperand(node->inputs[0], 1);
  } else if (node->op != Op::kSlice || std::get<SliceAttrs>(node->attrs).step.back() != 1) {
    return;
  }
  is_in_place_[graph_.values[v].index] = true;
}

// Returns the bytes from the first to the last row of one matrix of the transpose, in the operand's memory.
int64_t ViewsInPlace::SpreadOf(const Node& transpose) const {
  ValueId source = transpose.inputs[0];
  const Shape& whole = graph_.Spec(source).shape;
  const Node* producer = graph_.Producer(source);
  const Shape& memory = producer && producer->op == Op::kSlice ? graph_.Spec(producer->inputs[0]).shape : whole;
  const std::vector<int64_t>& perm = std::get<TransposeAttrs>(transpose.attrs).perm;
  const size_t rank = perm.size(), last = rank - 1;
  const auto rows = static_cast<size_t>(perm[last] == static_cast<int64_t>(last) ? perm[last - 1] : perm[last]);
  int64_t bytes = graph_.Spec(source).dtype.Bytes() * whole[rows];
  for (size_t d = rows + 1; d < rank; ++d) bytes *= memory[d];
  return bytes;
}

}  // namespace autotune::graph
