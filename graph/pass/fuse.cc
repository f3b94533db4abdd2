#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "graph/pass.h"
#include "graph/pass/group_body.h"
#include "graph/pass/rewriter.h"
#include "graph/pass/views_in_place.h"
#include "ir/dot.h"

namespace autotune::graph {
namespace {

constexpr size_t kMostAbsorbed = 128;  // a group of this many nodes absorbs no further producers of its operands
constexpr size_t kMostJoined = 64;     // most nodes that join a group at once, because only their last result is read
// The same behind an anchor, whose epilogue is unrolled for all vectors of a tile. Beyond it, a quantized GELU takes
// 1.3 times as long as in a kernel of its own. [measured]
constexpr size_t kMostJoinedBehindAnchor = 16;
constexpr int64_t kFewestRows = 8;       // least number of rows, which are divided among the cores
constexpr int64_t kLongestRow = 32768;   // most elements of a row, so that a cache holds several rows
constexpr int64_t kWorthGathering = 16;  // least number of queries for which gathering the keys pays off

// Forms the groups greedily, front to back. Each node that is in no group yet begins one, which then grows to the nodes
// that read its result. Anchors begin first: what follows them costs least in their kernels, where the results are
// still in registers.
class Fuser {
 public:
  Fuser(const Graph& graph, bool single, bool attends)
      : graph_(graph),
        single_(single),
        attends_(attends),
        group_(graph.nodes.size(), -1),
        is_absorbed_(graph.nodes.size(), false),
        readers_(graph),
        views_(graph, readers_) {
    if (single) return;
    views_.MarkRows(/*of_sums=*/attends);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      ReadOperandsOfAttention(static_cast<int>(i));
      ReadOperandsOfBytes(static_cast<int>(i));
    }
  }

  Graph Run() {
    for (const bool anchors : {true, false}) {
      std::vector<int> absorbing;  // groups of anchors, which first let other anchors take what follows them
      for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        const OpKind kind = KindOf(graph_.nodes[i].op);
        if (group_[i] >= 0 || kind == OpKind::kAlias || IsCall(graph_.nodes[i])) continue;
        if (views_.Has(static_cast<int>(i)) || (anchors && kind != OpKind::kAnchor)) continue;
        Grow(static_cast<int>(i));
        if (anchors) absorbing.push_back(group_[i]);
        if (!anchors) AbsorbOperands(group_[i]);
      }
      for (int id : absorbing) AbsorbOperands(id);
    }
    Rewriter rewriter(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (views_.Has(static_cast<int>(i))) continue;
      if (group_[i] < 0) {
        rewriter.Copy(graph_.nodes[i]);
      } else if (groups_[group_[i]].back() == static_cast<int>(i)) {
        EmitGroup(graph_, {groups_[group_[i]], views_.by_node(), is_absorbed_}, rewriter);
      }
    }
    return rewriter.Finish();
  }

 private:
  // The rows of a group. A value of the group has the shape `full`. After a reduction of the rows, it may also have the
  // shape `full` with extent 1 in all dimensions from `first` on (`first` is -1 before such a reduction). Element-wise
  // nodes on both shapes and reductions of rows make one kernel, which keeps a row in the cache. A reduction over other
  // axes may join after plain element-wise nodes. It computes these nodes again for each element that it reads.
  // `reduced` is the shape of its result, which all nodes that join later must have.
  struct Rows {
    bool allowed = false;
    Shape full;
    int first = -1;
    bool plain = false;  // true: all nodes so far are plain (IsPlain)
    std::optional<Shape> reduced;
    bool IsReduced(const Shape& shape) const {
      if (first < 0 || shape.size() != full.size()) return false;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] != (static_cast<int>(d) < first ? full[d] : 1)) return false;
      }
      return true;
    }
  };

  // Returns the first dimension of the rows that the node reduces or normalizes, with all later dimensions. Returns -1
  // if the node does nothing such, if there are too few rows to divide among the cores, or if a row is too long for a
  // cache.
  int ReducedRows(const Node& node) const {
    const Shape& shape = graph_.Spec(node.inputs[0]).shape;
    const auto* attrs = std::get_if<AxesAttrs>(&node.attrs);
    const int rank = static_cast<int>(shape.size());
    const int first = attrs ? rank - static_cast<int>(attrs->axes.size()) : rank - 1;
    if (attrs ? attrs->axes[0] != first : !IsRowSoftmax(node)) return -1;
    int64_t rows = 1, length = 1;
    for (int d = 0; d < rank; ++d) (d < first ? rows : length) *= shape[d];
    return rows >= kFewestRows && length <= kLongestRow ? first : -1;
  }

  static bool IsReduction(Op op) {
    return op == Op::kReduceSum || op == Op::kReduceProd || op == Op::kReduceMax || op == Op::kReduceMin;
  }

  // Returns true if a reduction may compute this node for each element that it reads: the node takes one or two vector
  // instructions, and the order of the elements does not matter.
  bool IsPlain(const Node& node) const {
    constexpr Op kCheap[] = {Op::kRelu, Op::kClip, Op::kAbs, Op::kNeg,  Op::kAdd, Op::kSub,
                             Op::kMul,  Op::kMax,  Op::kMin, Op::kCast, Op::kFma};
    const Shape& shape = graph_.Spec(node.output).shape;
    return std::find(std::begin(kCheap), std::end(kCheap), node.op) != std::end(kCheap) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
             const TensorSpec& spec = graph_.Spec(v);
             return spec.shape == shape || spec.NumElements() == 1;
           });
  }

  // Returns true if the node normalizes the rows of its operand, which fit a cache.
  bool IsRowSoftmax(const Node& node) const {
    const Shape& shape = graph_.Spec(node.output).shape;
    return node.op == Op::kSoftmax && shape.back() <= kLongestRow &&
           std::get<AxisAttrs>(node.attrs).axis + 1 == static_cast<int64_t>(shape.size());
  }

  // Returns the nodes of attention after `tail`, the scores that the product `root` computes. These nodes turn each row
  // of scores into weights, and the last one multiplies the weights by a matrix. Returns nothing if there are no such
  // nodes, or if other nodes read one of their values.
  std::vector<int> AttentionRegion(int root, ValueId tail) const {
    const bool of_bytes = IsComputedProductOfBytes(graph_.nodes[root]);
    if (!of_bytes && (!attends_ || !IsComputedProduct(graph_, graph_.nodes[root]))) return {};
    std::vector<int> region;
    Rows rows{.allowed = true, .full = graph_.Spec(tail).shape};
    const int last = static_cast<int>(rows.full.size()) - 1;
    while (!readers_.IsOutput(tail)) {
      const int next = readers_.OnlyOneOf(tail), product = rows.first == last ? WeightedProduct(root, tail) : -1;
      std::vector<int> part;
      if (next >= 0 && group_[next] < 0 && rows.first < 0 && IsRowSoftmax(graph_.nodes[next])) {
        part = {next};
        rows.first = last;
      } else if (product >= 0) {
        region.push_back(product);
        return region;
      } else if (next >= 0 && group_[next] < 0 && of_bytes && rows.first == last && PadsRows(graph_.nodes[next])) {
        part = {next};
      } else {
        part = NextRegion(tail, rows);
      }
      if (part.empty()) return {};
      region.insert(region.end(), part.begin(), part.end());
      tail = graph_.nodes[part.back()].output;
    }
    return {};
  }

  // Returns true if the node adds zeros behind rows, so that they are whole groups of a product's terms.
  bool PadsRows(const Node& node) const {
    const auto* pad = std::get_if<PadAttrs>(&node.attrs);
    if (!pad || pad->mode != PadMode::kConstant || pad->value != 0 || pad->after.back() >= kByteGroup) return false;
    const auto none = [](int64_t count) { return count == 0; };
    return std::ranges::all_of(pad->before, none) && std::ranges::all_of(pad->interior, none) &&
           std::all_of(pad->after.begin(), pad->after.end() - 1, none);
  }

  // Returns the product of the weights and a matrix, of the same kind as the product `root` of the scores, if it alone
  // reads the weights, beside sums of bytes that correct it; else -1.
  int WeightedProduct(int root, ValueId weights) const {
    const bool of_bytes = IsComputedProductOfBytes(graph_.nodes[root]);
    int product = -1;
    std::vector<int> sums;  // the nodes that read them last
    for (const int reader : readers_.Of(weights)) {
      const Node& n = graph_.nodes[reader];
      if (group_[reader] >= 0) return -1;
      if (of_bytes && WidensForSum(graph_, readers_, reader)) {
        sums.push_back(ReaderOfSum(reader));
      } else if (product < 0 && n.op == graph_.nodes[root].op && n.inputs[0] == weights && n.inputs[1] != weights &&
                 (of_bytes ? IsComputedProductOfBytes(n) : IsComputedProduct(graph_, n))) {
        product = reader;
      } else {
        return -1;
      }
    }
    const auto corrects = [&](int reader) { return FollowsFrom(reader, product); };
    return product >= 0 && std::ranges::all_of(sums, corrects) ? product : -1;
  }

  // Returns the only node that reads a sum of bytes, behind its arithmetic; -1: there is none. `node`: widens the
  // bytes.
  int ReaderOfSum(int node) const {
    while (node >= 0 && MakesSumOfBytes(graph_, readers_, node)) node = readers_.OnlyOneOf(graph_.nodes[node].output);
    return node;
  }

  // Returns true if `node` is among the element-wise nodes that follow a product, one after the other.
  bool FollowsFrom(int node, int product) const {
    for (int next = product; next >= 0 && node >= 0;) {
      if (next == node) return true;
      const ValueId tail = graph_.nodes[next].output;
      next = readers_.OnlyOneOf(tail);
      if (next < 0 || group_[next] >= 0 || KindOf(graph_.nodes[next].op) != OpKind::kElementwise ||
          graph_.Spec(graph_.nodes[next].output).shape != graph_.Spec(tail).shape)
        return false;
    }
    return false;
  }

  // Returns true if the node may join a group whose last value is of this type. If the node is the first reduction of
  // the group, also sets `rows` by it.
  bool Joins(int node, const TensorSpec& tail, Rows& rows) const {
    if (group_[node] >= 0) return false;
    const Node& n = graph_.nodes[node];
    const Shape& shape = graph_.Spec(n.output).shape;
    if (rows.reduced) return KindOf(n.op) == OpKind::kElementwise && shape == *rows.reduced;
    if (KindOf(n.op) == OpKind::kElementwise) {
      rows.plain = rows.plain && IsPlain(n);
      return shape == tail.shape || (rows.first >= 0 && (shape == rows.full || rows.IsReduced(shape)));
    }
    if (!rows.allowed || graph_.Spec(n.inputs[0]).shape != rows.full) return false;
    int first = ReducedRows(n);
    if (first < 0 && rows.first < 0 && rows.plain && IsReduction(n.op) && shape != rows.full) {
      rows.reduced = shape;
      return true;
    }
    if (first < 0 || (rows.first >= 0 && first != rows.first)) return false;
    rows.first = first;
    return true;
  }

  // Marks the transposes and slices that make queries, keys and values and that only attention reads, if attention can
  // read their operands in place. It can if the elements of a query, of a key and of a value are contiguous there, as
  // in the heads of one projection.
  void ReadOperandsOfAttention(int root) {
    const std::vector<int> region = AttentionRegion(root, graph_.nodes[root].output);
    if (region.empty() || IsComputedProductOfBytes(graph_.nodes[root])) return;  // as other products of bytes
    const Node &scores = graph_.nodes[root], &weighted = graph_.nodes[region.back()];
    const Shape& shape = graph_.Spec(scores.output).shape;
    const bool gathers = shape[shape.size() - 2] >= kWorthGathering;
    views_.MarkOperand(scores.inputs[0], 1);
    views_.MarkOperand(scores.inputs[1], gathers ? 2 : 1);
    views_.MarkOperand(weighted.inputs[1], 1);
  }

  // Marks the transposes and slices that make the operands of a product of computed bytes. The product copies its right
  // operand to panels from any order, and reads rows of its left one.
  void ReadOperandsOfBytes(int root) {
    if (!IsComputedProductOfBytes(graph_.nodes[root])) return;
    views_.MarkOperand(graph_.nodes[root].inputs[0], 1);
    views_.MarkOperand(graph_.nodes[root].inputs[1], 2);
  }

  // Returns true if the node multiplies computed bytes, and if a rule of the target reads and stores rows of heads in
  // the order of other dimensions. The operands have different signs, so they are no pieces of one tensor: a schedule
  // copies an operand by its parameter.
  bool IsComputedProductOfBytes(const Node& node) const {
    const auto is_byte = [&](ValueId v) { return IsByte(graph_.Spec(v).dtype) && !graph_.FindConstant(v); };
    return attends_ && (node.op == Op::kMatmul || node.op == Op::kBatchMatmul) &&
           std::ranges::all_of(node.inputs, is_byte) && graph_.Spec(node.output).shape.back() > 1 &&
           graph_.Spec(node.inputs[0]).dtype != graph_.Spec(node.inputs[1]).dtype;
  }

  // Returns true if the transpose moves whole rows of matrices, so that one index identifies a row.
  bool MovesRows(const Node& node) const {
    const Shape& shape = graph_.Spec(node.inputs[0]).shape;
    return KeepsRows(node) && std::count_if(shape.begin(), shape.end() - 2, [](int64_t d) { return d > 1; }) <= 1;
  }

  // Adds the element-wise producers of the group's operands that have the shape of its elements and no readers outside
  // the group. Those of an anchor's own operands stay outside, since an anchor reads its operands several times. Also
  // adds the sums that correct a product of bytes.
  void AbsorbOperands(int id) {
    std::vector<int>& group = groups_[static_cast<size_t>(id)];
    const std::optional<Shape> shape = std::exchange(absorbed_[static_cast<size_t>(id)], std::nullopt);
    if (!shape) return;
    const int anchor = KindOf(graph_.nodes[group.front()].op) == OpKind::kAnchor ? group.front() : -1;
    const bool corrects = anchor >= 0 && IsComputedProductOfBytes(graph_.nodes[anchor]);
    for (size_t i = anchor < 0 ? 0 : 1; i < group.size(); ++i) {
      for (ValueId v : graph_.nodes[group[i]].inputs) {
        if (graph_.values[v].def != Value::Def::kNode || readers_.IsOutput(v)) continue;
        const int node = graph_.values[v].index;
        const Node& n = graph_.nodes[node];
        const bool inside = std::ranges::all_of(
            readers_.Of(v), [&](int c) { return group_[c] == id && KindOf(graph_.nodes[c].op) != OpKind::kAnchor; });
        const bool joins = KindOf(n.op) == OpKind::kElementwise && graph_.Spec(v).shape == *shape;
        const bool is_sum = corrects && MakesSumOfBytes(graph_, readers_, node);
        if (group_[node] >= 0 || !inside || !(is_sum || (joins && group.size() < kMostAbsorbed))) continue;
        group_[node] = id;
        is_absorbed_[node] = true;
        group.push_back(node);
      }
    }
    const std::vector<int> grown(group.begin(), std::ranges::find_if(group, [&](int n) { return is_absorbed_[n]; }));
    group.clear();
    for (const int node : grown) AddBehindAbsorbed(node, group);
  }

  // Appends a node behind what it reads of the nodes that its group has absorbed. The order depends on nothing but the
  // group, so that equal kernels become equal tasks wherever their operands come from.
  void AddBehindAbsorbed(int node, std::vector<int>& group) const {
    for (const ValueId v : graph_.nodes[node].inputs) {
      if (graph_.values[v].def != Value::Def::kNode) continue;
      const int producer = graph_.values[v].index;
      const bool inside = group_[producer] == group_[node] && is_absorbed_[producer];
      if (inside && std::ranges::find(group, producer) == group.end()) AddBehindAbsorbed(producer, group);
    }
    group.push_back(node);
  }

  // Returns the transpose that alone reads `tail`, if the group can store its results in the transposed order at no
  // cost: element-wise groups and slices in any order, attention and products of bytes in whole rows.
  std::vector<int> TransposeBehind(int root, ValueId tail, bool attends) const {
    const int next = readers_.OnlyOneOf(tail);
    if (next < 0) return {};
    const Node& node = graph_.nodes[next];
    if (group_[next] >= 0 || views_.Has(next) || node.op != Op::kTranspose) return {};
    const Op op = graph_.nodes[root].op;
    const bool stores_rows = attends || IsComputedProductOfBytes(graph_.nodes[root]);
    const bool movable = KindOf(op) == OpKind::kElementwise || op == Op::kSlice || (stores_rows && MovesRows(node));
    return movable ? std::vector<int>{next} : std::vector<int>{};
  }

  // Returns the padding by a number that alone reads `tail`, if the group can store its results in the padded tensor.
  std::vector<int> PaddingBehind(int root, ValueId tail) const {
    const int next = readers_.OnlyOneOf(tail);
    if (next < 0) return {};
    const auto* pad = std::get_if<PadAttrs>(&graph_.nodes[next].attrs);
    if (group_[next] >= 0 || !pad || pad->mode != PadMode::kConstant) return {};
    const Op op = graph_.nodes[root].op;
    const bool movable = KindOf(op) == OpKind::kElementwise || op == Op::kSlice || op == Op::kTranspose;
    return movable ? std::vector<int>{next} : std::vector<int>{};
  }

  // Makes the group of a node.
  void Grow(int root) {
    std::vector<int>& group = groups_.emplace_back(std::vector<int>{root});
    absorbed_.emplace_back();
    int id = static_cast<int>(groups_.size()) - 1;
    group_[root] = id;
    OpKind kind = KindOf(graph_.nodes[root].op);
    const bool opaque = kind == OpKind::kOpaque && !IsRowSoftmax(graph_.nodes[root]);
    // A concatenation has one loop nest per operand, so no node can join its loops.
    if (single_ || opaque || graph_.nodes[root].op == Op::kConcat) return;
    bool has_transpose = graph_.nodes[root].op == Op::kTranspose, is_padded = false, attends = false;
    Rows rows{.allowed = kind == OpKind::kElementwise, .full = graph_.Spec(graph_.nodes[root].output).shape};
    rows.plain = rows.allowed && IsPlain(graph_.nodes[root]);
    if (int first = ReducedRows(graph_.nodes[root]); first >= 0)
      rows = {.allowed = true, .full = graph_.Spec(graph_.nodes[root].inputs[0]).shape, .first = first};
    while (true) {
      ValueId tail = graph_.nodes[group.back()].output;
      std::vector<int> region;
      if (!readers_.IsOutput(tail)) region = NextRegion(tail, rows);
      const bool moves = !is_padded && rows.first < 0 && !rows.reduced;
      if (region.empty() && moves && !has_transpose) {
        region = TransposeBehind(root, tail, attends);
        has_transpose = !region.empty();
      }
      if (region.empty() && moves) {
        region = PaddingBehind(root, tail);
        is_padded = !region.empty();
      }
      rows.allowed = rows.allowed && !has_transpose && !is_padded;
      if (region.empty() && !attends && !readers_.IsOutput(tail)) {
        region = AttentionRegion(root, tail);
        attends = !region.empty();
      }
      if (region.empty()) break;
      for (int node : region) group_[node] = id;
      group.insert(group.end(), region.begin(), region.end());
      if (attends && KindOf(graph_.nodes[group.back()].op) == OpKind::kAnchor)
        rows.full = graph_.Spec(graph_.nodes[group.back()].output).shape;
    }
    EndAtFewestBits(group);
    const bool absorbs = kind != OpKind::kAnchor ? rows.allowed && !rows.reduced
                                                 : !attends || IsComputedProductOfBytes(graph_.nodes[root]);
    if (absorbs && !is_padded && (!has_transpose || kind == OpKind::kAnchor)) absorbed_.back() = rows.full;
  }

  // Lets the group end at a value of fewer bits if what follows is cheap and can join the kernels that read the result,
  // as dequantization can. Memory then holds the value of fewer bits.
  void EndAtFewestBits(std::vector<int>& group) {
    const auto output = [&](size_t i) { return graph_.nodes[group[i]].output; };
    const auto bits = [&](size_t i) { return graph_.Spec(output(i)).dtype.bits; };
    size_t end = group.size(), fewest = end - 1;
    for (size_t i = end - 1; i > 0 && IsCheapAfter(graph_.nodes[group[i]], output(i - 1)); --i)
      if (bits(i - 1) < bits(fewest)) fewest = i - 1;
    if (fewest + 1 == end || readers_.IsOutput(output(end - 1)) || !JoinsReaders(group[fewest + 1], output(end - 1)))
      return;
    for (size_t i = fewest + 1; i < end; ++i) group_[group[i]] = -1;
    group.resize(fewest + 1);
  }

  // Returns true if the node reads one element of `before`, and otherwise constants of one element.
  bool IsCheapAfter(const Node& node, ValueId before) const {
    return IsPlain(node) &&
           std::ranges::all_of(node.inputs, [&](ValueId v) { return v == before || graph_.FindConstant(v); });
  }

  // Returns true if what ends with `tail` can join the groups of the nodes that read it. `first`: its first node.
  bool JoinsReaders(int first, ValueId tail) const {
    const std::vector<int>& readers = readers_.Of(tail);
    const Shape& shape = graph_.Spec(tail).shape;
    if (readers.size() == 1 && group_[readers[0]] >= 0)
      return KindOf(graph_.nodes[readers[0]].op) == OpKind::kElementwise && absorbed_[group_[readers[0]]] == shape;
    Rows rows{.allowed = true, .full = shape};
    return !NextRegion(tail, rows).empty() || !TransposeBehind(first, tail, false).empty() ||
           !PaddingBehind(first, tail).empty();
  }

  // Returns the smallest set of nodes after `tail` that can join the group: no node outside the set reads `tail`, and
  // nodes outside read only the result of the last node in the set. Returns nothing if there is no such set. No node of
  // the set depends on the group through nodes outside, since such nodes would have to read a value of the group.
  std::vector<int> NextRegion(ValueId tail, Rows& rows) const {
    const size_t most = rows.allowed ? kMostJoined : kMostJoinedBehindAnchor;
    Rows now = rows;
    std::vector<int> region;
    std::set<int> inside;
    std::set<ValueId> open = {tail};  // values that nodes outside the region read
    while (region.size() < most) {
      int next = -1;
      for (ValueId v : open) {
        for (int node : readers_.Of(v)) {
          if (!inside.count(node) && (next < 0 || node < next)) next = node;
        }
      }
      // No later candidate can complete the region without this one.
      if (next < 0 || !Joins(next, graph_.Spec(tail), now)) return {};
      region.push_back(next);
      inside.insert(next);
      open.insert(graph_.nodes[next].output);
      for (auto it = open.begin(); it != open.end();) {
        bool closed =
            !readers_.IsOutput(*it) && *it != graph_.nodes[next].output &&
            std::all_of(readers_.Of(*it).begin(), readers_.Of(*it).end(), [&](int n) { return inside.count(n) > 0; });
        it = closed ? open.erase(it) : std::next(it);
      }
      if (open.size() == 1 && *open.begin() == graph_.nodes[next].output) {
        rows = now;
        return region;
      }
    }
    return {};
  }

  const Graph& graph_;
  const bool single_;                           // true: every node is a group of its own
  const bool attends_;                          // true: attention is one group
  std::vector<int> group_;                      // by node; -1: none
  std::vector<std::vector<int>> groups_;        // nodes of each group in order; the last node has the group's output
  std::vector<bool> is_absorbed_;               // by node: its group has absorbed it
  std::vector<std::optional<Shape>> absorbed_;  // by group: shape of the operands that it may absorb; none: it may not
  const Readers readers_;
  ViewsInPlace views_;
};

}  // namespace

Result<Graph> Fuse(const Graph& graph, const PassEnv& env) {
  return Fuser(graph, env.context.Get(kFuseGroups) == kFuseNone, env.fuses_attention).Run();
}

}  // namespace autotune::graph
