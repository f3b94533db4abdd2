// Imports operators that select, repeat and rearrange elements.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "frontend/onnx/importer.h"
#include "support/integer.h"

namespace autotune::onnx_import {
namespace {

int64_t Offset(const Shape& shape, const Shape& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return offset;
}

// Binds a slice of input 0 to an output. The slice of a constant is computed at once.
Status BindSlice(ImportContext& c, const SliceAttrs& a, size_t output = 0) {
  Shape in = TRY(c.ShapeOf(0));
  if (const TensorValue* value = c.Constant(0)) TRY(InferType(Op::kSlice, a, {value->spec}));
  if (a.extent == in && std::all_of(a.step.begin(), a.step.end(), [](int64_t s) { return s == 1; })) {
    if (const TensorValue* value = c.Constant(0)) return c.BindConstant(*value, output);
    return c.Bind(TRY(c.Reshape(TRY(c.Tensor(0)), in)), output);
  }
  if (const TensorValue* value = c.Constant(0)) {
    return c.BindConstant(Moved(*value, a.extent,
                                [&](const Shape& index) {
                                  Shape from = index;
                                  for (size_t d = 0; d < from.size(); ++d) from[d] = a.begin[d] + index[d] * a.step[d];
                                  return Offset(in, from);
                                }),
                          output);
  }
  ValueId x = TRY(c.Tensor(0));
  return c.Bind(TRY(c.Emit(Op::kSlice, {x}, a)), output);
}

SliceAttrs Whole(const Shape& shape) { return {Shape(shape.size(), 0), shape, Shape(shape.size(), 1)}; }

Status ImportSlice(ImportContext& c) {
  Shape in = TRY(c.ShapeOf(0));
  bool inputs = c.opset >= 10;
  std::vector<int64_t> starts = inputs ? TRY(c.Ints(1, "starts")) : TRY(c.IntList("starts", {}));
  std::vector<int64_t> ends = inputs ? TRY(c.Ints(2, "ends")) : TRY(c.IntList("ends", {}));
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs && c.Has(3)) axes = TRY(c.Ints(3, "axes"));
  if (!inputs) axes = TRY(c.IntList("axes", axes));
  if (inputs && c.Has(4)) steps = TRY(c.Ints(4, "steps"));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return Err("starts, ends, axes and steps differ in length");
  SliceAttrs a = Whole(in);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t d = TRY(NormalizeAxis(axes[i], static_cast<int>(in.size()))), n = in[d], step = steps[i];
    if (step == 0) return Err("has a step of 0");
    if (n == 0) continue;
    step = std::clamp(step, -n - 1, n + 1);  // has the same effect: every step of n or more selects one element
    auto from_front = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i, -n - 1) + n : i; };
    int64_t start = from_front(starts[i]), end = from_front(ends[i]);
    start = std::clamp<int64_t>(start, 0, step > 0 ? n : n - 1);
    end = std::clamp<int64_t>(end, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    int64_t span = step > 0 ? end - start : start - end, stride = std::abs(step);
    a.begin[d] = start;
    a.extent[d] = span > 0 ? CeilDiv(span, stride) : 0;
    a.step[d] = step;
  }
  return BindSlice(c, a);
}

Status ImportSplit(ImportContext& c) {
  Shape in = TRY(c.ShapeOf(0));
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), static_cast<int>(in.size())));
  int64_t parts = static_cast<int64_t>(c.node().outputs.size());
  std::vector<int64_t> sizes;
  if (c.opset < 13) sizes = TRY(c.IntList("split", {}));
  if (c.opset >= 13 && c.Has(1)) sizes = TRY(c.Ints(1, "the sizes of Split"));
  if (sizes.empty() && c.opset >= 18) {  // the parts are equal, except that the last one may be smaller
    int64_t wanted = TRY(c.Int("num_outputs", parts));
    if (wanted != parts) return Err("num_outputs is ", wanted, ", but the node has ", parts, " outputs");
    int64_t size = CeilDiv(in[axis], parts);
    sizes.assign(parts, size);
    sizes.back() = in[axis] - size * (parts - 1);
  }
  if (sizes.empty()) {
    if (in[axis] % parts != 0) return Err("cannot split ", in[axis], " elements into ", parts, " equal parts");
    sizes.assign(parts, in[axis] / parts);
  }
  int64_t left = in[axis];  // subtract the sizes, since their sum might overflow
  for (int64_t size : sizes) left = size < 0 || left < size ? -1 : left - size;
  if (static_cast<int64_t>(sizes.size()) != parts || left != 0) {
    return Err("sizes ", ShapeText(sizes), " do not split dimension ", axis, " of ", ShapeText(in), " into ", parts,
               " parts");
  }
  SliceAttrs a = Whole(in);
  a.begin[axis] = 0;
  for (int64_t i = 0; i < parts; ++i) {
    a.extent[axis] = sizes[i];
    TRY(BindSlice(c, a, i));
    a.begin[axis] += sizes[i];
  }
  return {};
}

// Returns the pads of all dimensions. `pads` are those of the axes that input 3 lists (since operator set 18), or of
// all axes.
Result<std::vector<int64_t>> SpreadPads(ImportContext& c, std::vector<int64_t> pads, const Shape& in) {
  const size_t rank = in.size();
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.opset >= 18 && c.Has(3)) {
    axes = TRY(c.Ints(3, "axes"));
    for (int64_t& axis : axes) axis = TRY(NormalizeAxis(axis, static_cast<int>(rank)));
    if (std::set<int64_t>(axes.begin(), axes.end()).size() != axes.size()) return Err("names an axis twice");
  }
  if (pads.size() != 2 * axes.size())
    return Err("has ", pads.size(), " pads for ", axes.size(), " axes of ", ShapeText(in));
  std::vector<int64_t> all(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    all[axes[i]] = pads[i];
    all[axes[i] + rank] = pads[i + axes.size()];
  }
  return all;
}

// Pads each end of a dimension with elements from the other end, as if the input were repeated periodically.
Result<ValueId> WrappedAround(ImportContext& c, ValueId x, const PadAttrs& a) {
  for (size_t d = 0; d < a.before.size(); ++d) {
    const int64_t n = c.ShapeOfValue(x)[d], before = a.before[d], wide = before + n + a.after[d];
    if (wide == n) continue;
    if (n == 0) return Err("cannot wrap pads around dimension ", d, " of ", c.builder.Spec(x).Text());
    TRY(c.Reserve({wide}));
    std::vector<int64_t> places(wide);
    for (int64_t i = 0; i < wide; ++i) places[i] = ((i - before) % n + n) % n;
    ValueId indices = c.builder.AddConstant("", TensorValue::Of<int64_t>({wide}, places));
    x = TRY(c.Emit(Op::kGather, {x, indices}, AxisAttrs{static_cast<int64_t>(d)}));
  }
  return x;
}

// Pads with input 2 if its value cannot be an attribute: it is computed at run time, or no double represents it.
Result<ValueId> PaddedWithTensor(ImportContext& c, ValueId x, const PadAttrs& a) {
  ValueId value = TRY(c.Reshape(TRY(c.Tensor(2)), {}));
  ValueId inside = c.builder.AddConstant("", TensorValue::FromNumbers(DType::Bool(), {}, {1}));
  inside = TRY(c.Emit(Op::kBroadcastTo, {inside}, ReshapeAttrs{c.ShapeOfValue(x)}));
  return c.Where(TRY(c.Emit(Op::kPad, {inside}, a)), TRY(c.Emit(Op::kPad, {x}, a)), value);
}

Status ImportPad(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape in = c.ShapeOfValue(x);
  size_t rank = in.size();
  std::vector<int64_t> pads = c.opset < 11 ? TRY(c.IntList("pads", {})) : TRY(c.Ints(1, "pads"));
  pads = TRY(SpreadPads(c, std::move(pads), in));
  PadAttrs a{Shape(rank, 0), Shape(rank, 0), Shape(rank, 0), PadMode::kConstant, 0};
  std::string mode = TRY(c.String("mode", "constant"));
  const bool wraps = mode == "wrap" && c.opset >= 19;
  if (mode == "edge") {
    a.mode = PadMode::kEdge;
  } else if (mode == "reflect") {
    a.mode = PadMode::kReflect;
  } else if (mode != "constant" && !wraps) {
    return Err("mode '", mode, "' is not one of constant, edge, reflect", c.opset >= 19 ? ", wrap" : "");
  }
  bool by_tensor = false;
  if (mode == "constant" && c.opset < 11) a.value = TRY(c.Float("value", 0));
  if (mode == "constant" && c.opset >= 11 && c.Has(2)) {
    constexpr double kMostExact = 0x1p53;  // limit of exact integers, since the attribute is a double
    by_tensor = !c.Known(2);
    if (!by_tensor) a.value = TRY(c.ConstantNumber(2, "the value of Pad"));
    by_tensor |= c.Type(x).IsInt() && std::abs(a.value) >= kMostExact;
  }
  // Negative pads remove elements.
  SliceAttrs cut = Whole(in);
  for (size_t d = 0; d < rank; ++d) {
    int64_t before = pads[d], after = pads[d + rank];
    constexpr int64_t kMostPad = int64_t{1} << 40;  // larger than any extent, and small enough for sums
    if (std::max(before, after) > kMostPad || std::min(before, after) < -kMostPad)
      return Err("pads ", before, " and ", after, " are impossible");
    cut.begin[d] = std::max<int64_t>(0, -before);
    cut.extent[d] = in[d] - cut.begin[d] - std::max<int64_t>(0, -after);
    a.before[d] = std::max<int64_t>(0, before);
    a.after[d] = std::max<int64_t>(0, after);
  }
  if (cut.extent != in) x = TRY(c.Emit(Op::kSlice, {x}, cut));
  if (wraps) return c.Bind(TRY(WrappedAround(c, x, a)));
  if (!by_tensor) return c.Bind(TRY(c.Emit(Op::kPad, {x}, a)));
  a.value = 0;
  return c.Bind(TRY(PaddedWithTensor(c, x, a)));
}

Status ImportGather(ImportContext& c) {
  Shape data = TRY(c.ShapeOf(0)), inner = TRY(c.ShapeOf(1));
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), static_cast<int>(data.size())));
  if (c.Constant(1)) {  // the bounds of constant indices are checked here
    std::vector<int64_t> indices = TRY(c.Ints(1, "the indices of Gather"));
    for (int64_t& i : indices) {
      if (i < -data[axis] || i >= data[axis]) return Err("index ", i, " is outside ", ShapeText(data));
      if (i < 0) i += data[axis];
    }
    if (const TensorValue* value = c.Constant(0); value && value->spec.rank() == 1)
      return c.BindConstant(Moved(*value, inner, [&](const Shape& index) { return indices[Offset(inner, index)]; }));
    if (indices.size() == 1) {  // one index selects an ordinary slice
      ValueId x = TRY(c.Tensor(0));
      SliceAttrs a = Whole(data);
      a.begin[axis] = indices[0];
      a.extent[axis] = 1;
      Shape out(data.begin(), data.begin() + axis);
      out.insert(out.end(), inner.begin(), inner.end());
      out.insert(out.end(), data.begin() + axis + 1, data.end());
      return c.Bind(TRY(c.Reshape(TRY(c.Emit(Op::kSlice, {x}, a)), out)));
    }
  }
  ValueId x = TRY(c.Tensor(0)), indices = TRY(c.Tensor(1));
  return c.Bind(TRY(c.Emit(Op::kGather, {x, indices}, AxisAttrs{axis})));
}

Status ImportGatherElements(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), indices = TRY(c.Tensor(1));
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), c.Rank(x)));
  return c.Bind(TRY(c.Emit(Op::kGatherElements, {x, indices}, AxisAttrs{axis})));
}

// Imports GatherND, which gathers slices of the data. Both inputs share the first `batch_dims` dimensions. The last
// dimension of the indices holds the coordinates of a slice in the data's dimensions after these. Import flattens the
// shared and the indexed dimensions of the data to one, and the coordinates of a slice to one index.
Status ImportGatherNd(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), indices = TRY(c.Tensor(1));
  const Shape data = c.ShapeOfValue(x), places = c.ShapeOfValue(indices);
  const int64_t batch = c.opset < 12 ? 0 : TRY(c.Int("batch_dims", 0));
  if (places.empty() || data.empty()) return Err("needs tensors of rank 1 or more");
  if (batch < 0 || batch >= static_cast<int64_t>(std::min(data.size(), places.size())))
    return Err("batch_dims ", batch, " is outside ", c.builder.Spec(indices).Text());
  const int64_t depth = places.back(), first = batch + depth;
  if (depth < 1 || first > static_cast<int64_t>(data.size()))
    return Err("indices ", c.builder.Spec(indices).Text(), " do not fit ", c.builder.Spec(x).Text());
  if (!std::equal(data.begin(), data.begin() + batch, places.begin()))
    return Err("batches of ", c.builder.Spec(x).Text(), " and ", c.builder.Spec(indices).Text(), " differ");
  std::vector<int64_t> extents(data.begin() + batch, data.begin() + first), strides(depth, 1);
  for (int64_t i = depth - 1; i-- > 0;) strides[i] = strides[i + 1] * extents[i + 1];
  const int64_t rows = strides[0] * extents[0],
                batches = std::accumulate(data.begin(), data.begin() + batch, int64_t{1}, std::multiplies<>());
  indices = TRY(c.Cast(indices, DType::Int(64)));
  ValueId from_end =
      TRY(c.Apply(Op::kAdd, indices, c.builder.AddConstant("", TensorValue::Of<int64_t>({depth}, extents))));
  indices = TRY(c.Where(TRY(c.ApplyNumber(Op::kLess, indices, 0)), from_end, indices));
  indices = TRY(c.Apply(Op::kMul, indices, c.builder.AddConstant("", TensorValue::Of<int64_t>({depth}, strides))));
  ValueId place = TRY(c.Reduce(Op::kReduceSum, indices, {static_cast<int64_t>(places.size()) - 1}));
  if (batch > 0) {
    TRY(c.Reserve({batches}));
    std::vector<int64_t> begins(batches);
    for (int64_t i = 0; i < batches; ++i) begins[i] = i * rows;
    Shape along(places.size(), 1);
    std::copy_n(data.begin(), batch, along.begin());
    place = TRY(c.Apply(Op::kAdd, place, c.builder.AddConstant("", TensorValue::Of<int64_t>(along, begins))));
  }
  Shape flat = {batches * rows};
  flat.insert(flat.end(), data.begin() + first, data.end());
  place = TRY(c.Reshape(place, {places.begin(), places.end() - 1}));
  x = TRY(c.Reshape(x, flat));
  return c.Bind(TRY(c.Emit(Op::kGather, {x, place}, AxisAttrs{0})));
}

// Imports CenterCropPad: crops dimensions, or pads them with zeros, at both ends. If the number of cropped or added
// elements is odd, the end gets one more than the begin.
Status ImportCenterCropPad(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape in = c.ShapeOfValue(x);
  std::vector<int64_t> wanted = TRY(c.Ints(1, "the shape of CenterCropPad")), axes(in.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = TRY(c.IntList("axes", axes));
  if (axes.size() != wanted.size()) return Err("has ", wanted.size(), " extents for ", axes.size(), " axes");
  SliceAttrs cut = Whole(in);
  PadAttrs a{Shape(in.size(), 0), Shape(in.size(), 0), Shape(in.size(), 0), PadMode::kConstant, 0};
  std::set<int64_t> seen;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t d = TRY(NormalizeAxis(axes[i], static_cast<int>(in.size())));
    if (!seen.insert(d).second) return Err("names an axis twice");
    if (wanted[i] < 0 || wanted[i] > int64_t{1} << 40) return Err("extent ", wanted[i], " is negative or too large");
    const int64_t less = std::max<int64_t>(0, in[d] - wanted[i]), more = std::max<int64_t>(0, wanted[i] - in[d]);
    cut.begin[d] = less / 2;
    cut.extent[d] = in[d] - less;
    a.before[d] = more / 2;
    a.after[d] = more - more / 2;
  }
  if (cut.extent != in) x = TRY(c.Emit(Op::kSlice, {x}, cut));
  return c.Bind(TRY(c.Emit(Op::kPad, {x}, a)));
}

Status ImportExpand(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape wanted = TRY(c.Ints(1, "the shape of Expand"));
  Shape shape = TRY(BroadcastShapes(c.ShapeOfValue(x), wanted));
  if (shape == c.ShapeOfValue(x)) return c.Bind(TRY(c.Reshape(x, shape)));
  return c.Bind(TRY(c.Emit(Op::kBroadcastTo, {x}, ReshapeAttrs{shape})));
}

Status ImportTile(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape in = c.ShapeOfValue(x), repeats = TRY(c.Ints(1, "the repeats of Tile")), apart, wide, out;
  if (repeats.size() != in.size()) return Err("has ", repeats.size(), " repeats for ", ShapeText(in));
  for (size_t d = 0; d < in.size(); ++d) {
    if (repeats[d] < 0) return Err("cannot repeat a dimension ", repeats[d], " times");
    for (Shape* shape : {&apart, &wide}) {
      shape->push_back(shape == &wide ? repeats[d] : 1);
      shape->push_back(in[d]);
    }
    if (__builtin_mul_overflow(repeats[d], in[d], &out.emplace_back(0))) return Err("its result is too large");
  }
  x = TRY(c.Reshape(x, apart));
  x = TRY(c.Emit(Op::kBroadcastTo, {x}, ReshapeAttrs{wide}));
  return c.Bind(TRY(c.Reshape(x, out)));
}

// SpaceToDepth and DepthToSpace: the pixels of a block become channels, or the other way round. Both are a transpose
// between two reshapes.
struct Blocks {
  Shape shape;
  int64_t size = 1;
};
Result<Blocks> ReadBlocks(ImportContext& c) {
  Blocks b;
  b.shape = TRY(c.ShapeOf(0));
  b.size = TRY(c.Int("blocksize", 0));
  if (b.shape.size() != 4) return Err("the input must be an image of 4 dimensions, not ", ShapeText(b.shape));
  if (b.size < 1 || b.size > 1 << 15) return Err("blocksize ", b.size, " is not between 1 and ", 1 << 15);
  return b;
}

Status ImportDepthToSpace(ImportContext& c) {
  Blocks b = TRY(ReadBlocks(c));
  int64_t n = b.shape[0], channels = b.shape[1], h = b.shape[2], w = b.shape[3], s = b.size, out = channels / (s * s);
  if (channels % (s * s) != 0) return Err(channels, " channels do not divide into blocks of ", s, " x ", s);
  std::string mode = TRY(c.String("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return Err("mode '", mode, "' is neither DCR nor CRD");
  bool depth_first = mode == "DCR";
  ValueId x = TRY(c.Reshape(TRY(c.Tensor(0)), depth_first ? Shape{n, s, s, out, h, w} : Shape{n, out, s, s, h, w}));
  std::vector<int64_t> perm = depth_first ? Shape{0, 3, 4, 1, 5, 2} : Shape{0, 1, 4, 2, 5, 3};
  return c.Bind(TRY(c.Reshape(TRY(c.Transpose(x, perm)), {n, out, h * s, w * s})));
}

Status ImportSpaceToDepth(ImportContext& c) {
  Blocks b = TRY(ReadBlocks(c));
  int64_t n = b.shape[0], channels = b.shape[1], h = b.shape[2], w = b.shape[3], s = b.size;
  if (h % s != 0 || w % s != 0) return Err(ShapeText(b.shape), " does not divide into blocks of ", s, " x ", s);
  ValueId x = TRY(c.Reshape(TRY(c.Tensor(0)), {n, channels, h / s, s, w / s, s}));
  x = TRY(c.Transpose(x, {0, 3, 5, 1, 2, 4}));
  return c.Bind(TRY(c.Reshape(x, {n, channels * s * s, h / s, w / s})));
}

// Returns a matrix with ones on a diagonal and below it (`upper`: above it), and zeros elsewhere.
std::vector<double> Triangle(int64_t rows, int64_t columns, int64_t diagonal, bool upper) {
  std::vector<double> ones(rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) ones[i * columns + j] = upper ? j >= i + diagonal : j <= i + diagonal;
  }
  return ones;
}

Status ImportTrilu(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) < 2) return Err("the input must be a matrix, not ", c.builder.Spec(x).Text());
  std::vector<int64_t> k = {0};
  if (c.Has(1)) k = TRY(c.Ints(1, "k"));
  if (k.size() != 1) return Err("k must be one number");
  if (c.builder.Spec(x).NumElements() == 0) return c.Bind(x);
  int64_t rows = c.ShapeOfValue(x)[c.Rank(x) - 2], columns = c.ShapeOfValue(x).back();
  TRY(c.Reserve({rows, columns}));
  int64_t diagonal = std::clamp<int64_t>(k[0], -rows - 1, columns + 1);
  std::vector<double> ones = Triangle(rows, columns, diagonal, TRY(c.Int("upper", 1)) != 0);
  ValueId mask = c.builder.AddConstant("", TensorValue::FromNumbers(DType::Bool(), {rows, columns}, ones));
  return c.Bind(TRY(c.Where(mask, x, c.Number(0, x))));
}

Status Cumulated(ImportContext& c, bool product) {
  ValueId x = TRY(c.Tensor(0));
  std::vector<int64_t> axes = TRY(c.Ints(1, "the axis"));
  if (axes.size() != 1) return Err("axis must be one number");
  CumulateAttrs attrs{.product = product};
  attrs.axis = TRY(NormalizeAxis(axes[0], c.Rank(x)));
  attrs.exclusive = TRY(c.Int("exclusive", 0)) != 0;
  attrs.reverse = TRY(c.Int("reverse", 0)) != 0;
  if (c.builder.Spec(x).NumElements() == 0) return c.Bind(x);
  return c.Bind(TRY(c.Emit(Op::kCumulate, {x}, attrs)));
}

Status ImportCumSum(ImportContext& c) { return Cumulated(c, false); }
Status ImportCumProd(ImportContext& c) { return Cumulated(c, true); }

Status ImportOneHot(ImportContext& c) {
  ValueId indices = TRY(c.Tensor(0)), values = TRY(c.Tensor(2));
  double depth = TRY(c.ConstantNumber(1, "the depth of OneHot"));
  if (!(depth >= 1 && depth <= 1 << 24)) return Err("depth ", depth, " is not between 1 and ", 1 << 24);
  if (c.ShapeOfValue(values) != Shape{2}) return Err("values must be two, not ", c.builder.Spec(values).Text());
  if (c.Type(indices).IsBool()) return Err("indices must be numbers");
  int64_t n = static_cast<int64_t>(depth), rank = c.Rank(indices);
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -1)), static_cast<int>(rank) + 1));
  indices = TRY(c.Cast(indices, DType::Int(64)));
  ValueId wrapped = TRY(c.ApplyNumber(Op::kAdd, indices, depth));
  indices = TRY(c.Where(TRY(c.ApplyNumber(Op::kLess, indices, 0)), wrapped, indices));
  Shape shape = c.ShapeOfValue(indices), along(rank + 1, 1);
  shape.insert(shape.begin() + axis, 1);
  along[axis] = n;
  TRY(c.Reserve({n}));
  std::vector<int64_t> positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  ValueId all = c.builder.AddConstant("", TensorValue::Of<int64_t>(along, positions));
  ValueId hot = TRY(c.Apply(Op::kEqual, TRY(c.Reshape(indices, shape)), all));
  ValueId off = TRY(c.Emit(Op::kSlice, {values}, SliceAttrs{{0}, {1}, {1}}));
  ValueId on = TRY(c.Emit(Op::kSlice, {values}, SliceAttrs{{1}, {1}, {1}}));
  return c.Bind(TRY(c.Where(hot, on, off)));
}

}  // namespace

const std::vector<OperatorRow>& MoveOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Slice", 1, 28, ImportSlice},
      {"Split", 2, 28, ImportSplit},
      {"Pad", 2, 28, ImportPad},
      {"Gather", 1, 28, ImportGather},
      {"GatherElements", 11, 28, ImportGatherElements},
      {"GatherND", 11, 28, ImportGatherNd},
      {"CenterCropPad", 18, 28, ImportCenterCropPad},
      {"Expand", 8, 28, ImportExpand},
      {"Tile", 6, 28, ImportTile},
      {"DepthToSpace", 1, 28, ImportDepthToSpace},
      {"SpaceToDepth", 1, 28, ImportSpaceToDepth},
      {"Trilu", 14, 28, ImportTrilu},
      {"CumSum", 11, 28, ImportCumSum},
      {"CumProd", 26, 28, ImportCumProd},
      {"OneHot", 9, 28, ImportOneHot},
  };
  return rows;
}

}  // namespace autotune::onnx_import
