// Tests of OrderViews, which orders the views (slices, reshapes, transposes) that a product reads, and of the views
// that fused attention reads in place.
#include "graph/pass.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

// Slices `extent` elements, from `begin` on, along one axis.
ValueId Slice(Maker& m, ValueId x, size_t axis, int64_t begin, int64_t extent) {
  const Shape& shape = m.b.Spec(x).shape;
  SliceAttrs a{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
  a.begin[axis] = begin;
  a.extent[axis] = extent;
  return m.b.Must(Op::kSlice, {x}, a);
}

// Returns the operators of a graph in order.
std::string OpsOf(const Graph& g) {
  std::string ops;
  for (const Node& node : g.nodes) ops += std::string(ToText(node.op)) + " ";
  return ops;
}

ValueId Multiply(Maker& m, ValueId x) {
  const Shape& shape = m.b.Spec(x).shape;
  if (shape.size() == 2) return m.b.Must(Op::kMatmul, {x, m.b.Input("w", F32({shape.back(), 4}))});
  Shape other(shape.size(), 1);
  other[other.size() - 2] = shape.back();
  other.back() = 4;
  return m.b.Must(Op::kBatchMatmul, {x, m.b.Input("w", F32(other))});
}

Graph Ordered(Maker& m, ValueId result) {
  m.b.Output(result, "y");
  PassEnv env;
  return ExpectKept(m.b.Finish(), {{"order_views", OrderViews}}, env);
}

// A third of a projection, viewed as heads. The reshape moves before the slice.
TEST(OrderViews, HeadsOfAPieceAreAPieceOfHeads) {
  Maker m(1);
  ValueId x = Slice(m, m.b.Input("x", F32({2, 5, 24})), 2, 8, 8);
  x = m.b.Transpose(m.b.Reshape(x, {2, 5, 2, 4}), {0, 2, 1, 3});
  EXPECT_EQ(OpsOf(Ordered(m, Multiply(m, x))), "reshape slice transpose batch_matmul ");
}

// A transpose brings the three tensors of a projection to the front, and a slice takes one of them. The slice moves
// before the transpose.
TEST(OrderViews, PiecesOfATransposeAreTransposedPieces) {
  Maker m(2);
  ValueId x = m.b.Transpose(m.b.Reshape(m.b.Input("x", F32({2, 5, 24})), {2, 5, 3, 2, 4}), {2, 0, 3, 1, 4});
  x = m.b.Reshape(Slice(m, x, 0, 1, 1), {2, 2, 5, 4});
  EXPECT_EQ(OpsOf(Ordered(m, Multiply(m, x))), "reshape slice transpose batch_matmul ");
}

// The order stays if the slice begins within a head, if another node reads the slice, or if no product reads the views.
TEST(OrderViews, StayWhereNothingIsGained) {
  {
    Maker m(3);
    ValueId x = m.b.Reshape(Slice(m, m.b.Input("x", F32({2, 5, 24})), 2, 6, 8), {2, 5, 2, 4});
    EXPECT_EQ(OpsOf(Ordered(m, Multiply(m, x))), "slice reshape batch_matmul ");
  }
  {
    Maker m(4);
    ValueId cut = Slice(m, m.b.Input("x", F32({2, 5, 24})), 2, 8, 8);
    m.b.Output(cut, "cut");
    EXPECT_EQ(OpsOf(Ordered(m, Multiply(m, m.b.Reshape(cut, {2, 5, 2, 4})))), "slice reshape batch_matmul ");
  }
  {
    Maker m(5);
    ValueId x = m.b.Reshape(Slice(m, m.b.Input("x", F32({2, 5, 24})), 2, 8, 8), {2, 5, 2, 4});
    EXPECT_EQ(OpsOf(Ordered(m, m.Relu(x))), "slice reshape relu ");
  }
}

TEST(OrderViews, RandomChainsKeepTheirMeaning) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Maker m(seed);
    auto below = [&](size_t n) { return m.rng.Below(static_cast<int64_t>(n)); };
    Shape shape;
    for (int64_t rank = 2 + below(3); rank > 0; --rank) shape.push_back(int64_t{1} << below(4));
    ValueId x = m.b.Input("x", F32(shape));
    for (int64_t steps = 1 + below(5); steps > 0; --steps) {
      const Shape now = m.b.Spec(x).shape;
      const auto axis = static_cast<size_t>(below(now.size()));
      Shape next = now;
      switch (below(4)) {
        case 0: {  // split a dimension, or add one of extent 1
          const int64_t outer = now[axis] % 2 == 0 && below(2) ? 2 : 1;
          next[axis] /= outer;
          next.insert(next.begin() + static_cast<int64_t>(axis), outer);
          x = m.b.Reshape(x, next);
          break;
        }
        case 1:  // merge two dimensions
          if (axis + 1 < now.size() && now.size() > 2) {
            next[axis] *= next[axis + 1];
            next.erase(next.begin() + static_cast<int64_t>(axis) + 1);
            x = m.b.Reshape(x, next);
          }
          break;
        case 2: {
          std::vector<int64_t> perm;
          for (size_t i = 0; i < now.size(); ++i)
            perm.insert(perm.begin() + below(perm.size() + 1), static_cast<int64_t>(i));
          x = m.b.Transpose(x, perm);
          break;
        }
        default: {
          const int64_t extent = 1 + below(static_cast<size_t>(now[axis])), begin = below(now[axis] - extent + 1);
          x = Slice(m, x, axis, begin, extent);
        }
      }
      if (below(8) == 0) m.b.Output(m.Relu(x), "other" + std::to_string(steps));
    }
    if (m.b.Spec(x).shape.size() < 2) continue;
    m.b.Output(Multiply(m, x), "y");
    const Graph g = m.b.Finish();
    PassEnv env;
    changed += OpsOf(ExpectKept(g, {{"order_views", OrderViews}}, env)) != OpsOf(g);
  }
  EXPECT_GT(changed, 40);
}

// Options of a graph of attention whose queries, keys and values are heads of one projection or of several. The result
// joins the heads side by side.
struct Heads {
  int64_t batch = 1, queries = 20, width = 4;
  bool one_projection = true, keys_are_read = false, moves_columns = false;
};

Graph AttendHeads(const Heads& form) {
  const int64_t heads = 3, width = form.width, keys = 20, all = heads * width, batch = form.batch;
  Maker m(9);
  ValueId x = m.b.Input("x", F32({batch, keys, 3 * all}));
  auto operand = [&](int64_t which, int64_t rows, std::vector<int64_t> perm) {
    ValueId piece = form.one_projection && rows == keys
                        ? Slice(m, x, 2, which * all, all)
                        : m.b.Input("x" + std::to_string(which), F32({batch, rows, all}));
    ValueId view = m.b.Transpose(m.b.Reshape(piece, {batch, rows, heads, width}), std::move(perm));
    if (which == 1 && form.keys_are_read) m.b.Output(m.Relu(view), "keys");
    return view;
  };
  ValueId q = operand(0, form.queries, {0, 2, 1, 3}), k = operand(1, keys, {0, 2, 3, 1}),
          v = operand(2, keys, {0, 2, 1, 3});
  ValueId w = m.b.Must(Op::kSoftmax, {m.b.Must(Op::kBatchMatmul, {q, k})}, AxisAttrs{3});
  ValueId y = m.b.Must(Op::kBatchMatmul, {w, v});
  m.b.Output(m.b.Transpose(y, form.moves_columns ? std::vector<int64_t>{0, 1, 3, 2} : std::vector<int64_t>{0, 2, 1, 3}),
             "y");
  PassEnv env;
  return ExpectKept(m.b.Finish(), {{"order_views", OrderViews}, {"fuse", Fuse}}, env);
}

size_t Kernels(const Graph& g) { return static_cast<size_t>(CountOps(g, Op::kFused)); }

TEST(Fuse, AttentionReadsHeadsWhereTheyLie) {
  for (const bool one : {false, true}) {
    const Graph g = AttendHeads({.one_projection = one});
    EXPECT_EQ(Kernels(g), 1u) << GraphText(g);
  }
  EXPECT_EQ(Kernels(AttendHeads({.queries = 1, .one_projection = false})), 2u);  // gathering keys does not pay
  EXPECT_EQ(Kernels(AttendHeads({.width = 4600, .one_projection = false})),
            4u);  // the rows of a head lie too far apart
  EXPECT_EQ(Kernels(AttendHeads({.keys_are_read = true})), 4u);
  EXPECT_EQ(Kernels(AttendHeads({.moves_columns = true})), 2u);
  EXPECT_EQ(Kernels(AttendHeads({.batch = 2})), 2u);  // with several batches, the transpose must compute two indices
}

}  // namespace
}  // namespace autotune::graph
