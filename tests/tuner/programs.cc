#include "tests/tuner/programs.h"

#include "ir/nibble.h"
#include "te/create_prim_func.h"
#include "te/error_bound.h"
#include "te/reference.h"
#include "tests/topi/find_alternative.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "topi/norm.h"
#include "topi/pool.h"
#include "topi/reduce.h"
#include "topi/select.h"
#include "topi/transform.h"

namespace autotune::test {

PrimFunc ConvBiasRelu(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t kernel, topi::ConvAttrs attrs,
                      std::string_view alternative, int64_t images) {
  auto make = topi::FindAlternative(topi::ConvAlternatives(), alternative)->make;
  te::Tensor data = te::Placeholder("data", {images, h, w, ic});
  te::Tensor weight = te::Placeholder("weight", {kernel, kernel, ic / attrs.groups, oc});
  te::Tensor bias = te::Placeholder("bias", {oc});
  te::Tensor out = topi::Relu("relu", topi::Add("add", make("conv", data, weight, attrs, TestTarget()), bias));
  return te::CreatePrimFunc("conv_bias_relu",
                            {{data, ParamRole::kInput},
                             {weight, ParamRole::kConstant},
                             {bias, ParamRole::kConstant},
                             {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc ConvChannelsFirst(const te::Shape& shape, const te::Shape& kernel, topi::ConvAttrs attrs) {
  te::Tensor data = te::Placeholder("data", shape), weight = te::Placeholder("weight", kernel);
  te::Tensor bias = te::Placeholder("bias", {kernel[0], 1, 1});
  te::Tensor conv = topi::ConvChannelsFirst("conv", data, weight, attrs);
  te::Tensor out = topi::Relu("relu", topi::Add("add", conv, bias));
  return te::CreatePrimFunc("conv_channels_first",
                            {{data, ParamRole::kInput},
                             {weight, ParamRole::kConstant},
                             {bias, ParamRole::kConstant},
                             {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc ConvResidualSwish(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t kernel) {
  te::Tensor data = te::Placeholder("data", {1, h, w, ic}), residual = te::Placeholder("residual", {1, h, w, oc});
  te::Tensor weight = te::Placeholder("weight", {kernel, kernel, ic, oc});
  te::Tensor scale = te::Placeholder("scale", {oc}), shift = te::Placeholder("shift", {oc});
  const int64_t pad = kernel / 2;
  te::Tensor conv = topi::Conv("conv", data, weight, {.pad = {pad, pad, pad, pad}});
  te::Tensor normed = topi::Add("shifted", topi::Mul("scaled", conv, scale), shift);
  te::Tensor sum = topi::Add("sum", normed, residual);
  te::Tensor out = topi::Mul("out", sum, topi::ApplyOp("sigmoid", Op::kSigmoid, sum));
  return te::CreatePrimFunc("conv_residual_swish",
                            {{data, ParamRole::kInput},
                             {weight, ParamRole::kConstant},
                             {scale, ParamRole::kConstant},
                             {shift, ParamRole::kConstant},
                             {residual, ParamRole::kInput},
                             {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc Dense(int64_t m, int64_t n, int64_t k, ParamRole role) {
  te::Tensor a = te::Placeholder("a", {m, k}), b = te::Placeholder("b", {k, n});
  te::Tensor out = topi::MatMul("dense", a, b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, role}, {out, ParamRole::kOutput}}, {.use_fma = true});
}

PrimFunc BytesDense(int64_t m, int64_t n, int64_t k, bool is_signed) {
  te::Tensor a = te::Placeholder("a", {m, k}, is_signed ? DType::Int(8) : DType::UInt(8));
  te::Tensor b = te::Placeholder("b", {k, n}, DType::Int(8));
  te::Tensor out = topi::MatMul("dense", a, b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kConstant}, {out, ParamRole::kOutput}});
}

PrimFunc ComputedBytes(int64_t batch, int64_t m, int64_t n, int64_t k, bool transposed) {
  te::Tensor a = te::Placeholder("a", {batch, m, k}, DType::UInt(8));
  te::Tensor b = te::Placeholder("b", transposed ? topi::Shape{batch, n, k} : topi::Shape{batch, k, n}, DType::Int(8));
  te::Tensor out = topi::MatMul("dense", a, transposed ? topi::Transpose("turned", b, {0, 2, 1}) : b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}});
}

PrimFunc BlockProducts(int64_t rows, int64_t n, int64_t blocks, int64_t block, bool in_halves, bool has_zeros) {
  const DType floats = DType::Float(32), byte = DType::UInt(8);
  const topi::BlockRows x{te::Placeholder("x", {rows, blocks * block}, DType::Int(8)),
                          te::Placeholder("xs", {rows, blocks}, floats),
                          te::Placeholder("o", {rows, blocks}, DType::Int(32))};
  topi::BlockColumns w{te::Placeholder("w", {blocks, in_halves ? block / 2 : block, n}, byte),
                       te::Placeholder("ws", {blocks, n}, floats),
                       {}};
  if (has_zeros) w.zeros = te::Placeholder("z", {blocks, n}, byte);
  std::vector<te::TensorParam> params = {{x.numbers, ParamRole::kInput},
                                         {x.scales, ParamRole::kInput},
                                         {x.offsets, ParamRole::kInput},
                                         {w.numbers, ParamRole::kConstant},
                                         {w.scales, ParamRole::kConstant}};
  if (has_zeros) params.push_back({w.zeros, ParamRole::kConstant});
  params.push_back({topi::BlockMatMul("dense", x, w), ParamRole::kOutput});
  return te::CreatePrimFunc("dense", params, {.use_fma = true});
}

PrimFunc FloatBlockProducts(int64_t rows, int64_t n, int64_t blocks, int64_t block, bool in_words, bool has_zeros) {
  const DType floats = DType::Float(32), byte = DType::Int(8);
  topi::BlockRows x{te::Placeholder("x", {rows, blocks * block}, floats), {}, {}};
  topi::BlockColumns w{in_words ? te::Placeholder("w", {blocks, block / kNibblesOfWord, n}, kWordOfNibbles)
                                : te::Placeholder("w", {blocks, block, n}, byte),
                       te::Placeholder("ws", {blocks, n}, floats),
                       {}};
  std::vector<te::TensorParam> params = {
      {x.numbers, ParamRole::kInput}, {w.numbers, ParamRole::kConstant}, {w.scales, ParamRole::kConstant}};
  if (has_zeros) {
    x.offsets = te::Placeholder("o", {rows, blocks}, floats);
    w.zeros = te::Placeholder("z", {blocks, n}, byte);
    params.insert(params.end(), {{x.offsets, ParamRole::kInput}, {w.zeros, ParamRole::kConstant}});
  }
  params.push_back({topi::BlockMatMul("dense", x, w), ParamRole::kOutput});
  return te::CreatePrimFunc("dense", params, {.use_fma = true});
}

PrimFunc Bf16Dense(int64_t m, int64_t n, int64_t k) {
  te::Tensor a = te::Placeholder("a", {m, k}, DType::BFloat16()), b = te::Placeholder("b", {k, n}, DType::BFloat16());
  te::Tensor out = topi::MatMul("dense", a, b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kConstant}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc WordsDense(int64_t m, int64_t n, int64_t k) {
  te::Tensor a = te::Placeholder("a", {m, k}, DType::Int(16)), b = te::Placeholder("b", {k, n}, DType::Int(16));
  te::Tensor out = topi::MatMul("dense", a, b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kConstant}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc BytesConv(int64_t h, int64_t w, int64_t c, int64_t oc, const topi::ConvAttrs& attrs, bool skips_padding) {
  const DType weights = attrs.groups == c ? DType::Float(32) : DType::Int(8);
  te::Tensor x = te::Placeholder("x", {1, h, w, c}, DType::UInt(8));
  te::Tensor k = te::Placeholder("k", {3, 3, c / attrs.groups, oc}, weights);
  te::Tensor out = skips_padding ? topi::ConvSkippingPadding("conv", x, k, attrs) : topi::Conv("conv", x, k, attrs);
  return te::CreatePrimFunc("conv", {{x, ParamRole::kInput}, {k, ParamRole::kConstant}, {out, ParamRole::kOutput}});
}

te::Shape Joined(te::Shape a, std::initializer_list<int64_t> b) {
  a.insert(a.end(), b);
  return a;
}

PrimFunc MakeAttention(const Attention& a) {
  te::Shape shared = a.batch;
  if (a.shared > 1) shared.back() = 1;
  std::vector<te::TensorParam> params;
  auto operand = [&](const std::string& name, const te::Shape& batch, int64_t rows, int64_t columns, bool turned) {
    if (!a.heads_inside) {
      te::Tensor x = te::Placeholder(name, Joined(batch, {turned ? columns : rows, turned ? rows : columns}));
      params.push_back({x, ParamRole::kInput});
      return x;
    }
    const int64_t heads = batch[1];
    te::Tensor x = te::Placeholder(name, {batch[0], rows, a.piece ? 3 * heads : heads, columns});
    params.push_back({x, ParamRole::kInput});
    if (a.piece) x = topi::Slice(name + "_piece", x, {0, 0, heads, 0}, {batch[0], rows, heads, columns}, {1, 1, 1, 1});
    return topi::Transpose(name + "_heads", x, turned ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{0, 2, 1, 3});
  };
  te::Tensor q = operand("q", a.batch, a.queries, a.width, false), k = operand("k", shared, a.keys, a.width, true),
             v = operand("v", shared, a.keys, a.depth, false);
  te::Tensor s = topi::MatMul("scores", q, k);
  if (a.scale != 1) s = topi::Mul("scaled", s, te::Splat({}, a.scale));
  if (!a.mask.empty()) {
    te::Tensor mask = te::Placeholder("mask", a.mask);
    params.push_back({mask, ParamRole::kInput});
    s = topi::Add("masked", s, mask);
  }
  topi::SoftmaxFactors f;
  if (a.exponentials) {
    f = topi::FactorsOfSoftmax("softmax", s, {s.rank() - 1});
  } else {
    f.exp = topi::Sub("below", s, topi::ReduceAxes("most", s, {s.rank() - 1}, te::Combiner::kMax));
    f.scale = topi::ReduceAxes("sum", f.exp, {s.rank() - 1}, te::Combiner::kSum);
  }
  te::Tensor out = topi::Mul("weighted", f.scale, topi::MatMul("values", f.exp, v));
  if (a.ends_in_add) out = topi::Add("shifted", out, te::Splat({}, 1));
  if (a.heads_inside && a.batch[0] == 1) out = topi::Transpose("back", out, {0, 2, 1, 3});
  params.push_back({out, ParamRole::kOutput});
  return te::CreatePrimFunc("attention", params, {.use_fma = true});
}

PrimFunc Products(int64_t batch, int64_t m, int64_t n, int64_t k) {
  te::Tensor a = te::Placeholder("a", {batch, m, k}), b = te::Placeholder("b", {batch, k, n});
  te::Tensor out = topi::MatMul("products", a, b);
  return te::CreatePrimFunc("products", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc Softmax(const te::Shape& shape, int axis) {
  te::Tensor x = te::Placeholder("x", shape);
  te::Tensor y = topi::Softmax("softmax", x, {axis < 0 ? static_cast<int>(shape.size()) - 1 : axis});
  return te::CreatePrimFunc("softmax", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

PrimFunc CenteredSquares(int64_t rows, int64_t columns) {
  te::Tensor x = te::Placeholder("x", {rows, columns});
  te::Tensor sum = topi::ReduceAxes("sum", x, {1}, te::Combiner::kSum);
  te::Tensor centered = topi::Sub("centered", x, sum);
  te::Tensor square = topi::Mul("square", centered, centered);
  te::Tensor variance = topi::ReduceAxes("variance", square, {1}, te::Combiner::kSum);
  te::Tensor y = topi::Add("y", centered, variance);
  return te::CreatePrimFunc("centered_squares", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}}, {.use_fma = true});
}

PrimFunc RowSums(int64_t rows, int64_t columns) {
  te::Tensor x = te::Placeholder("x", {rows, columns});
  te::Tensor y = topi::ReduceAxes("sum", x, {1}, te::Combiner::kSum);
  return te::CreatePrimFunc("row_sums", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

PrimFunc ScalarProduct(int64_t length) {
  te::Tensor x = te::Placeholder("x", {length}), y = te::Placeholder("y", {length});
  te::Tensor sum = te::Reduce("sum", {}, {{"k", length}}, te::Combiner::kSum, {x, y},
                              [&](const std::vector<Expr>&, const std::vector<Expr>& r) { return x(r) * y(r); });
  return te::CreatePrimFunc("scalar_product",
                            {{x, ParamRole::kInput}, {y, ParamRole::kInput}, {sum, ParamRole::kOutput}});
}

PrimFunc ColumnSums(const te::Shape& shape, const std::vector<int>& axes) {
  te::Tensor x = te::Placeholder("x", shape);
  te::Tensor y = topi::ReduceAxes("sum", x, axes, te::Combiner::kSum);
  return te::CreatePrimFunc("column_sums", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

PrimFunc SumOfSquares(const te::Shape& shape, const std::vector<int>& axes) {
  te::Tensor x = te::Placeholder("x", shape);
  te::Tensor sum = topi::ReduceAxes("sum", topi::Mul("square", x, x), axes, te::Combiner::kSum);
  te::Tensor y = topi::Mul("half", sum, te::Splat({}, 0.5));
  return te::CreatePrimFunc("sum_of_squares", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}}, {.use_fma = true});
}

PrimFunc Transposed(const te::Shape& shape, const std::vector<int>& perm) {
  te::Tensor x = te::Placeholder("x", shape);
  te::Tensor y = topi::Transpose("transpose", x, perm);
  return te::CreatePrimFunc("transpose", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

PrimFunc MaxPool(const te::Shape& shape, int64_t kernel, int64_t stride) {
  te::Tensor x = te::Placeholder("x", shape);
  const int64_t pad = kernel % 2;
  te::Tensor y =
      topi::MaxPool("pool", x, {.kernel = {kernel, kernel}, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}});
  return te::CreatePrimFunc("max_pool", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

PrimFunc Joined(const te::Shape& a, const te::Shape& b, int axis) {
  te::Tensor x = te::Placeholder("x", a), y = te::Placeholder("y", b);
  te::Tensor z = topi::Concat("concat", {x, y}, axis);
  return te::CreatePrimFunc("concat", {{x, ParamRole::kInput}, {y, ParamRole::kInput}, {z, ParamRole::kOutput}});
}

PrimFunc Gathered(const te::Shape& shape, int64_t rows) {
  te::Tensor x = te::Placeholder("x", shape), i = te::Placeholder("i", {rows}, DType::Int(32));
  te::Tensor y = topi::Gather("gather", x, i, 0);
  return te::CreatePrimFunc("gather", {{x, ParamRole::kInput}, {i, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

TuneTask MakeTask(const std::string& label, PrimFunc func, int weight) {
  TuneTask task{.hash = HashBytes128(label), .label = label, .weight = weight};
  task.reference = te::ToReference(func);
  task.bounded = te::ToBoundedReference(func);
  task.takes_steps = te::TakesSteps(func);
  task.alternatives.push_back({"direct", std::move(func)});
  return task;
}

PrimFunc BestOfRows(int64_t rows, int64_t columns, int64_t k) {
  te::Tensor x = te::Placeholder("x", {rows, columns});
  te::Tensor out = topi::TopK("top", x, k, true);
  return te::CreatePrimFunc("best_of_rows", {{x, ParamRole::kInput}, {out, ParamRole::kOutput}});
}

PrimFunc AddedRows(int64_t rows, int64_t columns, int64_t updates, bool own_places) {
  te::Tensor x = te::Placeholder("x", {rows, columns}), u = te::Placeholder("u", {updates, columns});
  te::Tensor i = te::Placeholder("i", {updates, own_places ? columns : 1}, DType::Int(32));
  te::Tensor out = topi::Scatter("scatter", x, u, i, 0, te::Combiner::kSum);
  return te::CreatePrimFunc(
      "added_rows",
      {{x, ParamRole::kInput}, {u, ParamRole::kInput}, {i, ParamRole::kInput}, {out, ParamRole::kOutput}});
}

PrimFunc GatheredSums(int64_t rows, int64_t channels, int64_t points, int64_t taps) {
  te::Tensor x = te::Placeholder("x", {1, rows, channels}), w = te::Placeholder("w", {1, points, taps});
  te::Tensor i = te::Placeholder("i", {1, points, taps}, DType::Int(32));
  te::Tensor out = topi::GatherSum("sum", x, w, i);
  return te::CreatePrimFunc(
      "gathered_sums",
      {{x, ParamRole::kInput}, {w, ParamRole::kInput}, {i, ParamRole::kInput}, {out, ParamRole::kOutput}},
      {.use_fma = true});
}

}  // namespace autotune::test
