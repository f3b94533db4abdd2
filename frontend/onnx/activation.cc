// Activation functions. Each becomes a formula of the graph language's element-wise operators, which graph passes fuse
// with the operator that computes its input.
#include <cctype>
#include <cmath>

#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

template <Op op>
Status ImportActivation(ImportContext& c) {
  return c.Bind(TRY(c.Apply(op, TRY(c.Tensor(0)))));
}

// Return max(x, 0) and min(x, 0). The graph's max and min return NaN if their second operand is NaN. So the constant is
// the first operand, and NaN elements of x stay NaN.
Result<ValueId> Positive(ImportContext& c, ValueId x) { return c.ApplyToNumber(Op::kMax, 0, x); }
Result<ValueId> Negative(ImportContext& c, ValueId x) { return c.ApplyToNumber(Op::kMin, 0, x); }

Result<ValueId> Affine(ImportContext& c, ValueId x, double scale, double shift) {
  return c.ApplyNumber(Op::kAdd, TRY(c.ApplyNumber(Op::kMul, x, scale)), shift);
}

Result<ValueId> Clamped(ImportContext& c, ValueId x, float low, float high) {
  return c.Emit(Op::kClip, {x}, ClipAttrs{low, high});
}

Status ImportLeakyRelu(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  float alpha = TRY(c.Float("alpha", 0.01f));
  return c.Bind(TRY(c.Emit(Op::kLeakyRelu, {x}, AlphaAttrs{alpha})));
}

Status ImportPRelu(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), slope = TRY(c.Tensor(1));
  const Shape& own = c.ShapeOfValue(slope);
  if (c.opset < 7 && own.size() == 1 && c.Rank(x) > 2) {  // the slope has one number per channel
    Shape channels(static_cast<size_t>(c.Rank(x)) - 1, 1);
    channels[0] = own[0];
    slope = TRY(c.Reshape(slope, channels));
  }
  ValueId y = TRY(c.Apply(Op::kMul, TRY(Negative(c, x)), slope));
  if (c.ShapeOfValue(y) != c.ShapeOfValue(x)) return Err("the slope does not broadcast to ", c.builder.Spec(x).Text());
  return c.Bind(TRY(c.Apply(Op::kAdd, TRY(Positive(c, x)), y)));
}

// Returns exp(x) - 1 for x <= 0 as 2 t / (1 - t) with t = tanh(x / 2), which keeps the digits of small results.
Result<ValueId> ExpMinusOne(ImportContext& c, ValueId x) {
  ValueId t = TRY(c.Apply(Op::kTanh, TRY(c.ApplyNumber(Op::kMul, x, 0.5))));
  return c.Apply(Op::kDiv, TRY(c.Apply(Op::kAdd, t, t)), TRY(c.ApplyToNumber(Op::kSub, 1, t)));
}

// Returns max(x, 0) + alpha * (exp(min(x, 0) * inner) - 1).
Result<ValueId> Exponential(ImportContext& c, ValueId x, double alpha, double inner) {
  ValueId e = TRY(Negative(c, x));
  if (inner != 1) e = TRY(c.ApplyNumber(Op::kMul, e, inner));
  if (inner > 0) {
    e = TRY(c.ApplyNumber(Op::kMul, TRY(ExpMinusOne(c, e)), alpha));
  } else {
    e = TRY(Affine(c, TRY(c.Apply(Op::kExp, e)), alpha, -alpha));
  }
  return c.Apply(Op::kAdd, TRY(Positive(c, x)), e);
}

Status ImportElu(ImportContext& c) {
  return c.Bind(TRY(Exponential(c, TRY(c.Tensor(0)), TRY(c.Float("alpha", 1)), 1)));
}

Status ImportCelu(ImportContext& c) {
  double alpha = TRY(c.Float("alpha", 1));
  if (alpha == 0) return Err("alpha must not be 0");
  return c.Bind(TRY(Exponential(c, TRY(c.Tensor(0)), alpha, 1 / alpha)));
}

Status ImportSelu(ImportContext& c) {
  double alpha = TRY(c.Float("alpha", 1.67326319217681884765625f));
  double gamma = TRY(c.Float("gamma", 1.05070102214813232421875f));
  ValueId y = TRY(Exponential(c, TRY(c.Tensor(0)), alpha, 1));
  return c.Bind(TRY(c.ApplyNumber(Op::kMul, y, gamma)));
}

Status ImportHardSigmoid(ImportContext& c) {
  double alpha = TRY(c.Float("alpha", 0.2f)), beta = TRY(c.Float("beta", 0.5f));
  ValueId y = TRY(Affine(c, TRY(c.Tensor(0)), alpha, beta));
  return c.Bind(TRY(Clamped(c, y, 0, 1)));
}

// Computes x * min(max(x / 6 + 1/2, 0), 1) as x / 6 * min(max(x + 3, 0), 6), since x + 3 is exact near -3.
Status ImportHardSwish(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  ValueId gate = TRY(Clamped(c, TRY(c.ApplyNumber(Op::kAdd, x, 3)), 0, 6));
  return c.Bind(TRY(c.Apply(Op::kMul, TRY(c.ApplyNumber(Op::kMul, x, 1.0 / 6)), gate)));
}

// Returns log(1 + exp(x)), computed as max(x, 0) + log(1 + exp(-|x|)) so that it cannot overflow.
Result<ValueId> Softplus(ImportContext& c, ValueId x) {
  ValueId e = TRY(c.Apply(Op::kExp, TRY(c.Apply(Op::kNeg, TRY(c.Apply(Op::kAbs, x))))));
  return c.Apply(Op::kAdd, TRY(Positive(c, x)), TRY(LogOnePlus(c, e)));
}

Status ImportSoftplus(ImportContext& c) { return c.Bind(TRY(Softplus(c, TRY(c.Tensor(0))))); }

// Computes x tanh(softplus(x)). With w = exp(x), tanh(log(1 + w)) = (w^2 + 2 w) / (w^2 + 2 w + 2). For x > 20 this
// factor is 1 in f32, so x may be limited to 20 in w, and w^2 does not overflow.
Status ImportMish(ImportContext& c) {
  constexpr double kOneBeyond = 20;
  ValueId x = TRY(c.Tensor(0));
  ValueId w = TRY(c.Apply(Op::kExp, TRY(c.ApplyToNumber(Op::kMin, kOneBeyond, x))));
  ValueId top = TRY(c.Apply(Op::kMul, w, TRY(c.ApplyNumber(Op::kAdd, w, 2))));
  ValueId share = TRY(c.Apply(Op::kDiv, top, TRY(c.ApplyNumber(Op::kAdd, top, 2))));
  return c.Bind(TRY(c.Apply(Op::kMul, x, share)));
}

}  // namespace

// Kernels compute 1 + erf(z) and 1 + tanh(z) as one function, which keeps the digits of small results (lower/math.cc).
Result<ValueId> GeluValue(ImportContext& c, ValueId x, bool by_tanh) {
  ValueId share = 0;
  if (!by_tanh) {
    share = TRY(c.Apply(Op::kErf, TRY(c.ApplyNumber(Op::kMul, x, std::sqrt(0.5)))));
  } else {
    ValueId cube = TRY(c.Apply(Op::kMul, TRY(c.Apply(Op::kMul, x, x)), x));
    ValueId inner = TRY(c.Apply(Op::kAdd, x, TRY(c.ApplyNumber(Op::kMul, cube, 0.044715))));
    share = TRY(c.Apply(Op::kTanh, TRY(c.ApplyNumber(Op::kMul, inner, std::sqrt(2 / std::acos(-1.0))))));
  }
  ValueId half = TRY(c.ApplyNumber(Op::kMul, x, 0.5));
  return c.Apply(Op::kMul, half, TRY(c.ApplyNumber(Op::kAdd, share, 1)));
}

Result<ValueId> SwishValue(ImportContext& c, ValueId x, double alpha) {
  ValueId inner = alpha == 1 ? x : TRY(c.ApplyNumber(Op::kMul, x, alpha));
  return c.Apply(Op::kMul, x, TRY(c.Apply(Op::kSigmoid, inner)));
}

namespace {

Status ImportGelu(ImportContext& c) {
  std::string approximate = TRY(c.String("approximate", "none"));
  if (approximate != "none" && approximate != "tanh")
    return Err("approximate '", approximate, "' is neither none nor tanh");
  return c.Bind(TRY(GeluValue(c, TRY(c.Tensor(0)), approximate == "tanh")));
}

Status ImportSwish(ImportContext& c) { return c.Bind(TRY(SwishValue(c, TRY(c.Tensor(0)), TRY(c.Float("alpha", 1))))); }

Status ImportSwiGlu(ImportContext& c) {
  ValueId gate = TRY(c.Tensor(0)), value = TRY(c.Tensor(1));
  if (c.ShapeOfValue(gate) != c.ShapeOfValue(value))
    return Err("its inputs' shapes differ: ", c.builder.Spec(gate).Text(), " and ", c.builder.Spec(value).Text());
  return c.Bind(TRY(c.Apply(Op::kMul, TRY(SwishValue(c, gate, TRY(c.Float("alpha", 1)))), value)));
}

Result<ValueId> Softsign(ImportContext& c, ValueId x) {
  ValueId divisor = TRY(c.ApplyNumber(Op::kAdd, TRY(c.Apply(Op::kAbs, x)), 1));
  return c.Apply(Op::kDiv, x, divisor);
}

Status ImportSoftsign(ImportContext& c) { return c.Bind(TRY(Softsign(c, TRY(c.Tensor(0))))); }

Result<ValueId> ThresholdedRelu(ImportContext& c, ValueId x, double alpha) {
  ValueId above = TRY(c.ApplyToNumber(Op::kLess, alpha, x));
  return c.Where(above, x, c.Number(0, x));
}

Status ImportThresholdedRelu(ImportContext& c) {
  return c.Bind(TRY(ThresholdedRelu(c, TRY(c.Tensor(0)), TRY(c.Float("alpha", 1)))));
}

Status ImportShrink(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  double bias = TRY(c.Float("bias", 0)), lambda = TRY(c.Float("lambd", 0.5f));
  ValueId below = TRY(c.ApplyNumber(Op::kLess, x, -lambda)), above = TRY(c.ApplyToNumber(Op::kLess, lambda, x));
  ValueId down = TRY(c.ApplyNumber(Op::kSub, x, bias)), up = TRY(c.ApplyNumber(Op::kAdd, x, bias));
  ValueId rest = TRY(c.Where(above, down, c.Number(0, x)));
  return c.Bind(TRY(c.Where(below, up, rest)));
}

}  // namespace

// The logarithm of the rounded sum, plus a correction for the rounding error of the sum. The logarithm alone would lose
// the digits of a small y. A y above 1 needs no correction.
Result<ValueId> LogOnePlus(ImportContext& c, ValueId y) {
  const ValueId logarithm = TRY(c.Apply(Op::kLog, TRY(c.ApplyNumber(Op::kAdd, y, 1))));
  const ValueId small = TRY(Clamped(c, y, 0, 1)), sum = TRY(c.ApplyNumber(Op::kAdd, small, 1));
  const ValueId error = TRY(c.Apply(Op::kSub, small, TRY(c.ApplyNumber(Op::kSub, sum, 1))));
  return c.Apply(Op::kAdd, logarithm, TRY(c.Apply(Op::kDiv, error, sum)));
}

std::optional<RecurrentActivation> FindRecurrentActivation(const std::string& name) {
  using A = RecurrentActivation;
  using C = ImportContext;
  // ONNX has no default parameters for Affine and ScaledTanh. With the parameters of this table, Affine is the identity
  // and ScaledTanh is tanh.
  static const std::vector<A> all = {
      {"relu", 0, 0, 0, [](C& c, const A&, ValueId x) { return Positive(c, x); }},
      {"tanh", 0, 0, 0, [](C& c, const A&, ValueId x) { return c.Apply(Op::kTanh, x); }},
      {"sigmoid", 0, 0, 0, [](C& c, const A&, ValueId x) { return c.Apply(Op::kSigmoid, x); }},
      {"softsign", 0, 0, 0, [](C& c, const A&, ValueId x) { return Softsign(c, x); }},
      {"softplus", 0, 0, 0, [](C& c, const A&, ValueId x) { return Softplus(c, x); }},
      {"leakyrelu", 1, 0.01f, 0,
       [](C& c, const A& a, ValueId x) { return c.Emit(Op::kLeakyRelu, {x}, AlphaAttrs{a.alpha}); }},
      {"thresholdedrelu", 1, 1, 0, [](C& c, const A& a, ValueId x) { return ThresholdedRelu(c, x, a.alpha); }},
      {"elu", 1, 1, 0, [](C& c, const A& a, ValueId x) { return Exponential(c, x, a.alpha, 1); }},
      {"affine", 2, 1, 0, [](C& c, const A& a, ValueId x) { return Affine(c, x, a.alpha, a.beta); }},
      {"hardsigmoid", 2, 0.2f, 0.5f,
       [](C& c, const A& a, ValueId x) -> Result<ValueId> {
         return Clamped(c, TRY(Affine(c, x, a.alpha, a.beta)), 0, 1);
       }},
      {"scaledtanh", 2, 1, 1,
       [](C& c, const A& a, ValueId x) -> Result<ValueId> {
         ValueId inner = TRY(c.ApplyNumber(Op::kMul, x, a.beta));
         return c.ApplyNumber(Op::kMul, TRY(c.Apply(Op::kTanh, inner)), a.alpha);
       }},
  };
  std::string lower = name;
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const A& row : all) {
    if (lower == row.name) return row;
  }
  return std::nullopt;
}

const std::vector<OperatorRow>& ActivationOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Relu", 6, 28, ImportActivation<Op::kRelu>},
      {"Sigmoid", 6, 28, ImportActivation<Op::kSigmoid>},
      {"Tanh", 6, 28, ImportActivation<Op::kTanh>},
      {"LeakyRelu", 6, 28, ImportLeakyRelu},
      {"PRelu", 6, 28, ImportPRelu},
      {"Elu", 6, 28, ImportElu},
      {"Celu", 12, 28, ImportCelu},
      {"Selu", 6, 28, ImportSelu},
      {"HardSigmoid", 6, 28, ImportHardSigmoid},
      {"HardSwish", 14, 28, ImportHardSwish},
      {"Softplus", 1, 28, ImportSoftplus},
      {"Mish", 18, 28, ImportMish},
      {"Gelu", 20, 28, ImportGelu},
      {"Swish", 24, 28, ImportSwish},
      {"SwiGLU", 28, 28, ImportSwiGlu},
      {"Softsign", 1, 28, ImportSoftsign},
      {"ThresholdedRelu", 10, 28, ImportThresholdedRelu},
      {"Shrink", 9, 28, ImportShrink},
  };
  return rows;
}

}  // namespace autotune::onnx_import
