// Operators of ONNX Runtime's domain com.microsoft that are compositions of others: activations, normalizations,
// products. microsoft_attention.cc has the attention operators.
#include <cmath>
#include <numeric>

#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

Status ImportPlainGelu(ImportContext& c) { return c.Bind(TRY(GeluValue(c, TRY(c.Tensor(0)), false))); }

// Returns input 0 plus the bias of its last dimension, if input `bias` is given.
Result<ValueId> Biased(ImportContext& c, size_t bias) {
  ValueId x = TRY(c.Tensor(0));
  if (!c.Has(bias)) return x;
  ValueId sum = TRY(c.Apply(Op::kAdd, x, TRY(c.Tensor(bias))));
  if (c.ShapeOfValue(sum) != c.ShapeOfValue(x)) return Err("the bias does not fit ", c.builder.Spec(x).Text());
  return sum;
}

Status ImportBiasGelu(ImportContext& c) {
  if (!c.Has(1)) return Err("has no bias");
  return c.Bind(TRY(GeluValue(c, TRY(Biased(c, 1)), false)));
}
Status ImportFastGelu(ImportContext& c) { return c.Bind(TRY(GeluValue(c, TRY(Biased(c, 1)), true))); }
Status ImportQuickGelu(ImportContext& c) {
  return c.Bind(TRY(SwishValue(c, TRY(c.Tensor(0)), TRY(c.Float("alpha", 1.702f)))));
}

// Returns an operand of a product. Exchanges its last two dimensions if attribute `transposed` is set; a vector stays
// as it is.
Result<ValueId> Factor(ImportContext& c, size_t input, const char* transposed, const char* batch_transposed) {
  if (TRY(c.Int(batch_transposed, 0)) != 0) return Err(batch_transposed, " is not supported");
  ValueId x = TRY(c.Factor(input));
  if (TRY(c.Int(transposed, 0)) == 0 || c.Rank(x) < 2) return x;
  std::vector<int64_t> perm(c.Rank(x));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return c.Transpose(x, perm);
}

Status ImportFusedMatMul(ImportContext& c) {
  ValueId a = TRY(Factor(c, 0, "transA", "transBatchA")), b = TRY(Factor(c, 1, "transB", "transBatchB"));
  ValueId y = TRY(MatMulValues(c, a, b));
  const float alpha = TRY(c.Float("alpha", 1));
  return c.Bind(alpha == 1 ? y : TRY(c.ApplyNumber(Op::kMul, y, alpha)));
}

// Applies the activation of FusedConv to x.
Result<ValueId> Activated(ImportContext& c, ValueId x) {
  const std::string name = TRY(c.String("activation", ""));
  const std::vector<float> params = TRY(c.FloatList("activation_params", {}));
  const size_t wanted = name == "LeakyRelu" ? 1 : name == "Clip" || name == "HardSigmoid" ? 2 : 0;
  if (params.size() != wanted) return Err("activation '", name, "' takes ", wanted, " parameters, not ", params.size());
  if (name.empty()) return x;
  if (name == "Relu") return c.Apply(Op::kRelu, x);
  if (name == "Tanh") return c.Apply(Op::kTanh, x);
  if (name == "Sigmoid") return c.Apply(Op::kSigmoid, x);
  if (name == "LeakyRelu") return c.Emit(Op::kLeakyRelu, {x}, AlphaAttrs{params[0]});
  if (name == "Clip") return c.Emit(Op::kClip, {x}, ClipAttrs{params[0], params[1]});
  if (name != "HardSigmoid") return Err("activation '", name, "' is not supported");
  ValueId line = TRY(c.ApplyNumber(Op::kAdd, TRY(c.ApplyNumber(Op::kMul, x, params[0])), params[1]));
  return c.Emit(Op::kClip, {line}, ClipAttrs{0, 1});
}

Status ImportFusedConv(ImportContext& c) {
  constexpr size_t kAddend = 3;
  ValueId y = TRY(ConvValue(c));
  if (c.Has(kAddend)) {
    ValueId z = TRY(c.Tensor(kAddend));
    if (c.ShapeOfValue(z) != c.ShapeOfValue(y))
      return Err("Z must be ", c.builder.Spec(y).Text(), ", not ", c.builder.Spec(z).Text());
    y = TRY(c.Apply(Op::kAdd, y, z));
  }
  return c.Bind(TRY(Activated(c, y)));
}

// Returns the normalized rows of x times the input `gamma`, plus the input `beta` if it is given.
Result<ValueId> ScaledRows(ImportContext& c, ValueId x, ValueId rows, size_t gamma, size_t beta) {
  ValueId y = TRY(c.Apply(Op::kMul, rows, TRY(c.Tensor(gamma))));
  if (c.Has(beta)) y = TRY(c.Apply(Op::kAdd, y, TRY(c.Tensor(beta))));
  if (c.ShapeOfValue(y) != c.ShapeOfValue(x)) return Err("gamma or beta do not fit ", c.builder.Spec(x).Text());
  return y;
}

constexpr float kEpsilon = 1e-12f;  // ONNX Runtime's default

// Returns the sum of inputs 0 (input), 1 (skip) and, if it is given, `bias`.
Result<ValueId> SkipSum(ImportContext& c, size_t bias) {
  ValueId x = TRY(c.Tensor(0));
  ValueId sum = TRY(c.Apply(Op::kAdd, x, TRY(c.Tensor(1))));
  if (c.Has(bias)) sum = TRY(c.Apply(Op::kAdd, sum, TRY(c.Tensor(bias))));
  if (c.Rank(x) < 1 || c.ShapeOfValue(sum) != c.ShapeOfValue(x))
    return Err("skip or bias do not fit ", c.builder.Spec(x).Text());
  return sum;
}

Status BindSkip(ImportContext& c, ValueId y, const Normalized& n, ValueId sum) {
  if (c.IsUsed(1)) TRY(c.BindAs(n.mean, 1));
  TRY(c.BindAs(n.inverse, 2));
  TRY(c.Bind(sum, 3));
  return c.Bind(y);
}

Status ImportSkipLayerNormalization(ImportContext& c) {
  ValueId sum = TRY(SkipSum(c, 4));
  const Normalized n = TRY(Normalize(c, sum, {c.Rank(sum) - 1}, TRY(c.Float("epsilon", kEpsilon))));
  return BindSkip(c, TRY(ScaledRows(c, sum, n.y, 2, 3)), n, sum);
}

Status ImportSkipSimplifiedLayerNormalization(ImportContext& c) {
  constexpr size_t kNone = 99;  // index of an input that no node has, so that no beta is added
  if (c.IsUsed(1)) return Err("has no means, but output '", c.node().outputs[1], "' is used");
  ValueId sum = TRY(SkipSum(c, 3));
  const Normalized n = TRY(NormalizeByRoot(c, sum, {c.Rank(sum) - 1}, TRY(c.Float("epsilon", kEpsilon))));
  return BindSkip(c, TRY(ScaledRows(c, sum, n.y, 2, kNone)), n, sum);
}

Result<ValueId> Rows(ImportContext& c, size_t table, ValueId ids) {
  ValueId t = TRY(c.Tensor(table));
  if (c.Rank(t) != 2 || c.Rank(ids) != 2 || !c.Type(ids).IsInt())
    return Err("embeddings must be matrices, their indices a matrix of integers");
  return c.Emit(Op::kGather, {t, ids}, AxisAttrs{0});
}

Status ImportEmbedLayerNormalization(ImportContext& c) {
  enum { kIds, kSegments, kWords, kPositions, kSegmentTable, kGamma, kBeta, kMask, kPositionIds };
  ValueId ids = TRY(c.Tensor(kIds));
  ValueId sum = TRY(Rows(c, kWords, ids));
  const Shape shape = c.ShapeOfValue(ids);
  ValueId positions = 0;
  if (c.Has(kPositionIds)) {
    positions = TRY(c.Tensor(kPositionIds));
  } else {
    TRY(c.Reserve({shape[1]}));
    std::vector<int64_t> numbers(shape[1]);
    std::iota(numbers.begin(), numbers.end(), 0);
    positions = c.builder.AddConstant("", TensorValue::Of<int64_t>({1, shape[1]}, numbers));
  }
  sum = TRY(c.Apply(Op::kAdd, sum, TRY(Rows(c, kPositions, positions))));
  if (c.Has(kSegments)) sum = TRY(c.Apply(Op::kAdd, sum, TRY(Rows(c, kSegmentTable, TRY(c.Tensor(kSegments))))));
  const Normalized n = TRY(Normalize(c, sum, {2}, TRY(c.Float("epsilon", kEpsilon))));
  TRY(c.Bind(TRY(ScaledRows(c, sum, n.y, kGamma, kBeta))));
  TRY(c.Bind(sum, 2));
  if (!c.IsUsed(1)) return {};
  // Output 1 is the number of tokens in the mask, for each batch entry; 0 without a mask.
  if (!c.Has(kMask)) {
    TRY(c.Reserve({shape[0]}));
    return c.BindConstant(TensorValue::FromNumbers(DType::Int(32), {shape[0]}, std::vector<double>(shape[0])), 1);
  }
  ValueId mask = TRY(c.Tensor(kMask));
  if (c.ShapeOfValue(mask) != shape) return Err("the mask must have shape ", ShapeText(shape));
  ValueId ones = TRY(c.Cast(TRY(c.ApplyNumber(Op::kEqual, mask, 1)), DType::Int(32)));
  return c.Bind(TRY(c.Reshape(TRY(c.Reduce(Op::kReduceSum, ones, {1})), {shape[0]})), 1);
}

}  // namespace

const std::vector<OperatorRow>& MicrosoftOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Gelu", 1, 28, ImportPlainGelu},
      {"BiasGelu", 1, 28, ImportBiasGelu},
      {"FastGelu", 1, 28, ImportFastGelu},
      {"QuickGelu", 1, 28, ImportQuickGelu},
      {"FusedMatMul", 1, 28, ImportFusedMatMul},
      {"FusedConv", 1, 28, ImportFusedConv},
      {"LayerNormalization", 1, 28, ImportLayerNormalization},
      {"SimplifiedLayerNormalization", 1, 28, ImportSimplifiedLayerNormalization},
      {"SkipLayerNormalization", 1, 28, ImportSkipLayerNormalization},
      {"SkipSimplifiedLayerNormalization", 1, 28, ImportSkipSimplifiedLayerNormalization},
      {"EmbedLayerNormalization", 1, 28, ImportEmbedLayerNormalization},
  };
  return rows;
}

}  // namespace autotune::onnx_import
