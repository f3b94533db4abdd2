// Imports RotaryEmbedding, and builds the rotation of pairs that other operators use too.
#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

// The operand of RotaryEmbedding as heads: [B, H, S, D], or [B, S, H, D] if the heads of a token lie in one dimension.
struct Heads {
  ValueId x = 0;
  size_t sequence = 2;  // index of dimension S
  int64_t rotated = 0;  // number of elements of D that are rotated
};

Result<Heads> ReadHeads(ImportContext& c) {
  Heads h;
  h.x = TRY(c.Tensor(0));
  const Shape shape = c.ShapeOfValue(h.x);
  if (shape.size() == 3) {
    const int64_t heads = TRY(c.Int("num_heads", 0));
    if (heads < 1 || shape[2] % heads != 0)
      return Err("num_heads ", heads, " does not divide ", c.builder.Spec(h.x).Text());
    h.x = TRY(c.Reshape(h.x, {shape[0], shape[1], heads, shape[2] / heads}));
    h.sequence = 1;
  } else if (shape.size() != 4) {
    return Err("the input must have rank 3 or 4, not ", c.builder.Spec(h.x).Text());
  }
  const int64_t width = c.ShapeOfValue(h.x).back(), wanted = TRY(c.Int("rotary_embedding_dim", 0));
  h.rotated = wanted == 0 ? width : wanted;
  if (h.rotated < 0 || h.rotated > width || h.rotated % 2 != 0)
    return Err("cannot rotate ", h.rotated, " of ", width, " elements of a head");
  return h;
}

// Returns cosines or sines in a shape that broadcasts to the heads. If input 3 gives positions, they are looked up in
// the cache.
Result<ValueId> ReadAngles(ImportContext& c, size_t input, const Heads& h) {
  ValueId cache = TRY(c.Tensor(input));
  const Shape x = c.ShapeOfValue(h.x);
  if (c.Has(3)) {
    if (c.Rank(cache) != 2) return Err("caches beside positions must be matrices, not ", c.builder.Spec(cache).Text());
    ValueId positions = TRY(c.Tensor(3));
    cache = TRY(c.Emit(Op::kGather, {cache, positions}, AxisAttrs{0}));
  }
  const Shape wanted = {x[0], x[h.sequence], h.rotated / 2};
  if (c.ShapeOfValue(cache) != wanted)
    return Err("angles must have shape ", ShapeText(wanted), ", not ", ShapeText(c.ShapeOfValue(cache)));
  Shape along = {x[0], 1, 1, h.rotated / 2};
  along[h.sequence] = x[h.sequence];
  return c.Reshape(cache, along);
}

// Returns `count` elements of the last dimension: begin, begin + step, ....
Result<ValueId> Part(ImportContext& c, ValueId x, int64_t begin, int64_t count, int64_t step) {
  SliceAttrs a{Shape(4, 0), c.ShapeOfValue(x), Shape(4, 1)};
  a.begin[3] = begin;
  a.extent[3] = count;
  a.step[3] = step;
  return c.Emit(Op::kSlice, {x}, a);
}

}  // namespace

Result<ValueId> RotateHeads(ImportContext& c, ValueId x, const Rotation& r) {
  const int64_t half = r.rotated / 2, width = c.ShapeOfValue(x).back();
  if (half == 0) return x;
  ValueId a = TRY(Part(c, x, 0, half, r.interleaved ? 2 : 1));
  ValueId b = TRY(Part(c, x, r.interleaved ? 1 : half, half, r.interleaved ? 2 : 1));
  ValueId real = TRY(c.Apply(Op::kSub, TRY(c.Apply(Op::kMul, a, r.cos)), TRY(c.Apply(Op::kMul, b, r.sin))));
  ValueId imaginary = TRY(c.Apply(Op::kAdd, TRY(c.Apply(Op::kMul, a, r.sin)), TRY(c.Apply(Op::kMul, b, r.cos))));
  Shape shape = c.ShapeOfValue(real);
  if (r.interleaved) {
    shape.push_back(1);
    real = TRY(c.Reshape(real, shape));
    imaginary = TRY(c.Reshape(imaginary, shape));
  }
  ValueId y = TRY(c.Emit(Op::kConcat, {real, imaginary}, AxisAttrs{r.interleaved ? 4 : 3}));
  shape = c.ShapeOfValue(x);
  shape[3] = r.rotated;
  y = TRY(c.Reshape(y, shape));
  if (r.rotated == width) return y;
  ValueId rest = TRY(Part(c, x, r.rotated, width - r.rotated, 1));
  return c.Emit(Op::kConcat, {y, rest}, AxisAttrs{3});
}

namespace {

Status ImportRotaryEmbedding(ImportContext& c) {
  const Heads h = TRY(ReadHeads(c));
  Rotation r{.rotated = h.rotated};
  r.interleaved = TRY(c.Int("interleaved", 0)) != 0;
  r.cos = TRY(ReadAngles(c, 1, h));
  r.sin = TRY(ReadAngles(c, 2, h));
  return c.Bind(TRY(c.Reshape(TRY(RotateHeads(c, h.x, r)), TRY(c.ShapeOf(0)))));
}

}  // namespace

const std::vector<OperatorRow>& RotaryOperators() {
  static const std::vector<OperatorRow> rows = {
      {"RotaryEmbedding", 23, 28, ImportRotaryEmbedding},
  };
  return rows;
}

}  // namespace autotune::onnx_import
