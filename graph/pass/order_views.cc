#include <algorithm>
#include <optional>
#include <set>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "graph/pass/shape_groups.h"

namespace autotune::graph {
namespace {

struct Cut {
  Shape shape;  // shape of the tensor that is sliced
  SliceAttrs attrs;
};

// Returns a reshape and a slice after it that together give the same as `slice` of a tensor of shape `from`, followed
// by a reshape to `shape`. Returns nothing if the slice would begin or end within an element of the new outermost
// dimension.
std::optional<Cut> CutBehindReshape(const SliceAttrs& slice, const Shape& from, const Shape& shape) {
  Cut cut{shape, {Shape(shape.size(), 0), shape, Shape(shape.size(), 1)}};
  for (const ShapeGroup& g : GroupsOf(slice.extent, shape)) {
    auto whole = [&](size_t d) { return slice.begin[d] == 0 && slice.extent[d] == from[d] && slice.step[d] == 1; };
    size_t sliced = g.i;
    while (sliced < g.i_end && whole(sliced)) ++sliced;
    if (sliced == g.i_end) continue;
    // Only the outermost dimension of the group is sliced, so the elements are contiguous in the group.
    int64_t rest = 1;
    for (size_t d = g.i; d < g.i_end; ++d) {
      if (d < sliced ? from[d] != 1 : d > sliced && !whole(d)) return std::nullopt;
      if (d > sliced) rest *= from[d];
    }
    if (slice.step[sliced] != 1) return std::nullopt;
    size_t outer = g.j;
    while (outer + 1 < g.j_end && shape[outer] == 1) ++outer;
    if (outer == g.j_end) return std::nullopt;
    int64_t inner = 1;
    for (size_t d = outer + 1; d < g.j_end; ++d) inner *= shape[d];
    const int64_t begin = slice.begin[sliced] * rest, length = from[sliced] * rest;
    if (begin % inner != 0 || length % inner != 0) return std::nullopt;
    cut.shape[outer] = length / inner;
    cut.attrs.begin[outer] = begin / inner;
  }
  return cut;
}

class ViewOrderer {
 public:
  explicit ViewOrderer(const Graph& graph) : graph_(graph), rewriter_(graph), readers_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (ValueId v : node.inputs) readers_[v].push_back(&node);
    }
    for (ValueId v : graph.outputs) readers_[v].push_back(nullptr);
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (const std::optional<ValueId> now = FeedsProduct(node.output) ? Ordered(node) : std::nullopt) {
        rewriter_.Set(node.output, *now);
      } else {
        rewriter_.Copy(node);
      }
      if (readers_[node.output].size() > 1) shared_.insert(rewriter_.Map(node.output));
    }
    return rewriter_.Finish();
  }

 private:
  GraphBuilder& builder() { return rewriter_.builder; }

  // Returns true if only one operator reads the value, directly or through views, and this operator is a product.
  bool FeedsProduct(ValueId v) const {
    while (readers_[v].size() == 1 && readers_[v][0]) {
      const Node& reader = *readers_[v][0];
      if (reader.op == Op::kMatmul || reader.op == Op::kBatchMatmul) return true;
      if (reader.op != Op::kReshape && reader.op != Op::kTranspose && reader.op != Op::kSlice) return false;
      v = reader.output;
    }
    return false;
  }

  std::optional<ValueId> Ordered(const Node& node) {
    if (node.op == Op::kReshape)
      return Reshaped(rewriter_.Map(node.inputs[0]), graph_.Spec(node.output).shape, node.name);
    const auto& readers = readers_[node.inputs[0]];
    auto slices = [](const Node* reader) { return reader && reader->op == Op::kSlice; };
    if (node.op != Op::kSlice || !std::all_of(readers.begin(), readers.end(), slices)) return std::nullopt;
    return Sliced(rewriter_.Map(node.inputs[0]), std::get<SliceAttrs>(node.attrs), node.name);
  }

  // Rewrites slice(transpose(x)) as transpose(slice'(x)).
  std::optional<ValueId> Sliced(ValueId v, const SliceAttrs& slice, const std::string& name) {
    const Node* source = builder().graph().Producer(v);
    if (!source || source->op != Op::kTranspose) return std::nullopt;
    const ValueId x = source->inputs[0];
    const std::vector<int64_t> perm = std::get<TransposeAttrs>(source->attrs).perm;
    SliceAttrs before = slice;
    for (size_t i = 0; i < perm.size(); ++i) {
      before.begin[perm[i]] = slice.begin[i];
      before.extent[perm[i]] = slice.extent[i];
      before.step[perm[i]] = slice.step[i];
    }
    return builder().Transpose(builder().Must(Op::kSlice, {x}, before, name), perm, name);
  }

  // Rewrites reshape(slice(x)) as slice'(reshape'(x)), and reshape(transpose(x)) as transpose'(reshape'(x)), if that is
  // possible and nothing else reads the slice or the transpose.
  ValueId Reshaped(ValueId v, const Shape& shape, const std::string& name) {
    const Node* source = builder().graph().Producer(v);
    if (source && source->op == Op::kReshape) return Reshaped(source->inputs[0], shape, name);
    if (!source || shared_.contains(v)) return builder().Reshape(v, shape, name);
    const ValueId x = source->inputs[0];
    const Shape from = builder().Spec(x).shape;
    if (source->op == Op::kSlice) {
      const std::optional<Cut> cut = CutBehindReshape(std::get<SliceAttrs>(source->attrs), from, shape);
      if (cut) return builder().Must(Op::kSlice, {Reshaped(x, cut->shape, name)}, cut->attrs, name);
    } else if (source->op == Op::kTranspose) {
      const std::vector<int64_t> perm = std::get<TransposeAttrs>(source->attrs).perm;
      if (auto moved = TransposedReshape(x, from, perm, shape, name)) return *moved;
    }
    return builder().Reshape(v, shape, name);
  }

  // Rewrites reshape(transpose(x)) if the reshape only adds or drops dimensions of extent 1.
  std::optional<ValueId> TransposedReshape(ValueId x, const Shape& from, const std::vector<int64_t>& perm,
                                           const Shape& shape, const std::string& name) {
    std::vector<int64_t> long_axes;  // axes of x with several elements, in the order of the transposed tensor
    for (int64_t axis : perm) {
      if (from[axis] != 1) long_axes.push_back(axis);
    }
    // Reshapes x so that all dimensions of extent 1 come first, then transposes.
    const int64_t units = std::count(shape.begin(), shape.end(), 1);
    if (shape.size() - static_cast<size_t>(units) != long_axes.size()) return std::nullopt;
    Shape before(static_cast<size_t>(units), 1);
    std::vector<int64_t> sorted = long_axes, now;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t axis : sorted) before.push_back(from[axis]);
    size_t next = 0;
    for (int64_t unit = 0; int64_t extent : shape) {
      if (extent == 1) {
        now.push_back(unit++);
        continue;
      }
      const int64_t axis = long_axes[next++];
      if (from[axis] != extent) return std::nullopt;
      now.push_back(units + (std::lower_bound(sorted.begin(), sorted.end(), axis) - sorted.begin()));
    }
    return builder().Transpose(Reshaped(x, before, name), now, name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<const Node*>> readers_;  // nodes that read each value; null: it is an output
  std::set<ValueId> shared_;                       // new values with more than one reader
};

}  // namespace

Result<Graph> OrderViews(const Graph& graph, const PassEnv& env) { return DropDeadCode(ViewOrderer(graph).Run(), env); }

}  // namespace autotune::graph
