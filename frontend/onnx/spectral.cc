// Imports Fourier transforms, window functions, and the mel weight matrix.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// A transform of up to this length is one product with a table. A longer transform is split into two stages unless its
// length is a prime. With divisors near the square root, its work then grows with n^1.5 or less.
constexpr int64_t kLongestTable = 64;

// A transform of length n. Signals are [batch, parts, n]: the parts are the real and the imaginary one, or only the
// real one.
struct Transform {
  int64_t n = 1;
  bool inverse = false;
  // Returns the angle for input i and frequency k.
  double Angle(int64_t i, int64_t k) const {
    const double turns = static_cast<double>(i * k % n) / static_cast<double>(n);
    return (inverse ? 2 : -2) * std::numbers::pi * turns;
  }
};

// Returns the first `kept` frequencies, by a product with a table [parts * n, 2 * kept].
Result<ValueId> ByTable(ImportContext& c, ValueId x, const Transform& t, int64_t kept) {
  const Shape shape = c.ShapeOfValue(x);
  const int64_t parts = shape[1], n = t.n;
  TRY(c.Reserve({parts * n, 2 * kept}));
  std::vector<double> table(parts * n * 2 * kept);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < kept; ++k) {
      const double angle = t.Angle(i, k), re = std::cos(angle), im = std::sin(angle);
      table[i * 2 * kept + k] = re;
      table[i * 2 * kept + kept + k] = im;
      if (parts < 2) continue;
      table[(n + i) * 2 * kept + k] = -im;
      table[(n + i) * 2 * kept + kept + k] = re;
    }
  }
  ValueId constants = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), {parts * n, 2 * kept}, table));
  ValueId flat = TRY(c.Reshape(x, {shape[0], parts * n}));
  return c.Reshape(TRY(MatMulValues(c, flat, constants)), {shape[0], 2, kept});
}

// Returns the complex z[b, 2, i, k] times exp(j * Angle(i, k)), the twiddle factors between two stages.
Result<ValueId> Twiddled(ImportContext& c, ValueId z, const Transform& t) {
  const Shape shape = c.ShapeOfValue(z);
  const int64_t rows = shape[2], columns = shape[3];
  std::vector<double> cosines(rows * columns), sines(rows * columns);
  TRY(c.Reserve({2, rows, columns}));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      cosines[i * columns + k] = std::cos(t.Angle(i, k));
      sines[i * columns + k] = std::sin(t.Angle(i, k));
    }
  }
  const Shape table = {rows, columns};
  ValueId re = TRY(c.Cut(z, 1, 0, 1)), im = TRY(c.Cut(z, 1, 1, 1));
  ValueId cosine = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(z), table, cosines));
  ValueId sine = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(z), table, sines));
  ValueId real = TRY(c.Apply(Op::kSub, TRY(c.Apply(Op::kMul, re, cosine)), TRY(c.Apply(Op::kMul, im, sine))));
  ValueId imaginary = TRY(c.Apply(Op::kAdd, TRY(c.Apply(Op::kMul, re, sine)), TRY(c.Apply(Op::kMul, im, cosine))));
  return c.Emit(Op::kConcat, {real, imaginary}, AxisAttrs{1});
}

// Transforms x [batch, parts, n] to [batch, 2, n]. With n = n1 n2, i = i1 n2 + i2 and k = k1 + n1 k2, it is a transform
// over i1, a multiplication by the twiddle factors for i2 k1, and a transform over i2.
Result<ValueId> Transformed(ImportContext& c, ValueId x, const Transform& t) {
  const Shape shape = c.ShapeOfValue(x);
  const int64_t batch = shape[0], parts = shape[1];
  int64_t n1 = static_cast<int64_t>(std::sqrt(static_cast<double>(t.n)));
  while (n1 > 1 && t.n % n1 != 0) --n1;
  if (t.n <= kLongestTable || n1 == 1) return ByTable(c, x, t, t.n);
  const int64_t n2 = t.n / n1;
  x = TRY(c.Transpose(TRY(c.Reshape(x, {batch, parts, n1, n2})), {0, 3, 1, 2}));  // [b, i2, parts, i1]
  x = TRY(Transformed(c, TRY(c.Reshape(x, {batch * n2, parts, n1})), {n1, t.inverse}));
  x = TRY(c.Transpose(TRY(c.Reshape(x, {batch, n2, 2, n1})), {0, 2, 1, 3}));  // [b, 2, i2, k1]
  x = TRY(Twiddled(c, x, t));
  x = TRY(c.Transpose(x, {0, 3, 1, 2}));  // [b, k1, 2, i2]
  x = TRY(Transformed(c, TRY(c.Reshape(x, {batch * n1, 2, n2})), {n2, t.inverse}));
  x = TRY(c.Transpose(TRY(c.Reshape(x, {batch, n1, 2, n2})), {0, 2, 3, 1}));  // [b, 2, k2, k1]
  return c.Reshape(x, {batch, 2, t.n});
}

// Returns the real signal [batch, 1, n] whose first frequencies are x, [batch, 2, kept]. The frequencies of a real
// signal are symmetric: the others are the conjugates of these.
Result<ValueId> RealInverse(ImportContext& c, ValueId x, int64_t n) {
  const int64_t batch = c.ShapeOfValue(x)[0], kept = c.ShapeOfValue(x)[2];
  TRY(c.Reserve({2 * kept, n}));
  std::vector<double> table(2 * kept * n);
  const Transform t{n, true};
  for (int64_t k = 0; k < kept; ++k) {
    const double times = (k == 0 || 2 * k == n ? 1.0 : 2.0) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      table[k * n + i] = times * std::cos(t.Angle(i, k));
      table[(kept + k) * n + i] = -times * std::sin(t.Angle(i, k));
    }
  }
  ValueId constants = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), {2 * kept, n}, table));
  ValueId y = TRY(MatMulValues(c, TRY(c.Reshape(x, {batch, 2 * kept})), constants));
  return c.Reshape(y, {batch, 1, n});
}

// Cuts the last dimension to n elements, or extends it to n with zeros.
Result<ValueId> OfLength(ImportContext& c, ValueId x, int64_t n) {
  const int64_t last = c.Rank(x) - 1, now = c.ShapeOfValue(x).back();
  if (now >= n) return c.Cut(x, last, 0, n);
  PadAttrs a{Shape(last + 1, 0), Shape(last + 1, 0), Shape(last + 1, 0), PadMode::kConstant, 0};
  a.after.back() = n - now;
  return c.Emit(Op::kPad, {x}, a);
}

// The options of a transform from [batch, parts, m] to [batch, 2, kept], or to [batch, 1, n] if inverse and one-sided.
struct DftOptions {
  int64_t n = 1;
  bool inverse = false, one_sided = false;
};
Result<ValueId> Dft(ImportContext& c, ValueId x, const DftOptions& o) {
  if (o.inverse && o.one_sided) return RealInverse(c, TRY(OfLength(c, x, o.n / 2 + 1)), o.n);
  x = TRY(OfLength(c, x, o.n));
  const Transform t{o.n, o.inverse};
  const int64_t kept = o.one_sided ? o.n / 2 + 1 : o.n;
  if (o.n <= kLongestTable) {
    x = TRY(ByTable(c, x, t, kept));
  } else {
    x = TRY(c.Cut(TRY(Transformed(c, x, t)), 2, 0, kept));
  }
  return o.inverse ? c.ApplyNumber(Op::kMul, x, 1.0 / static_cast<double>(o.n)) : x;
}

Result<int64_t> Length(ImportContext& c, size_t input, int64_t fallback, const char* what) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t n = c.Has(input) ? static_cast<int64_t>(TRY(c.ConstantNumber(input, what))) : fallback;
  if (n < 1 || n > kMost) return Err(what, " ", n, " is not between 1 and ", kMost);
  return n;
}

Status ImportDft(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape shape = c.ShapeOfValue(x);
  const int rank = c.Rank(x);
  if (rank < 2 || shape.back() < 1 || shape.back() > 2 || !c.Type(x).IsFloat())
    return Err("the input must be floats whose last dimension is 1 (real) or 2 (complex), not ",
               c.builder.Spec(x).Text());
  int64_t axis = c.opset >= 20 ? -2 : TRY(c.Int("axis", 1));
  if (c.opset >= 20 && c.Has(2)) axis = static_cast<int64_t>(TRY(c.ConstantNumber(2, "the axis")));
  axis = TRY(NormalizeAxis(axis, rank));
  if (axis == rank - 1) return Err("cannot transform along the last axis, which holds the real and imaginary parts");
  DftOptions o;
  o.inverse = TRY(c.Int("inverse", 0)) != 0;
  o.one_sided = TRY(c.Int("onesided", 0)) != 0;
  const bool complex = shape.back() == 2;
  if (o.one_sided && o.inverse != complex)
    return Err("onesided takes ", o.inverse ? "complex" : "real", " input, not ", c.builder.Spec(x).Text());
  const int64_t whole = o.inverse && o.one_sided ? std::max<int64_t>(1, 2 * (shape[axis] - 1)) : shape[axis];
  o.n = TRY(Length(c, 1, whole, "dft_length"));
  if (c.builder.Spec(x).NumElements() == 0) return Err("the input has no elements");
  // Bring the signal into the layout [others, parts, n].
  std::vector<int64_t> perm;
  for (int64_t d = 0; d + 1 < rank; ++d) {
    if (d != axis) perm.push_back(d);
  }
  perm.push_back(rank - 1);
  perm.push_back(axis);
  x = TRY(c.Transpose(x, perm));
  Shape moved = c.ShapeOfValue(x);
  const int64_t others = c.builder.Spec(x).NumElements() / (moved.back() * shape.back());
  x = TRY(c.Reshape(x, {others, shape.back(), moved.back()}));
  x = TRY(Dft(c, x, o));
  moved[rank - 2] = c.ShapeOfValue(x)[1];
  moved[rank - 1] = c.ShapeOfValue(x)[2];
  std::vector<int64_t> back(rank);
  for (int64_t d = 0; d < rank; ++d) back[perm[d]] = d;
  return c.Bind(TRY(c.Transpose(TRY(c.Reshape(x, moved)), back)));
}

Status ImportStft(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.ShapeOfValue(x);
  if (shape.size() == 2) shape.push_back(1);
  if (shape.size() != 3 || shape[2] < 1 || shape[2] > 2 || !c.Type(x).IsFloat())
    return Err("the signal must be floats [batch, length, 1 or 2], not ", c.builder.Spec(x).Text());
  const int64_t step = TRY(Length(c, 1, 0, "frame_step"));
  int64_t fallback = shape[1];
  if (c.Has(2)) {
    const Shape window = TRY(c.ShapeOf(2));
    if (window.size() != 1) return Err("the window must be a vector, not ", ShapeText(window));
    fallback = window[0];
  }
  const int64_t length = TRY(Length(c, 3, fallback, "frame_length"));
  const bool one_sided = TRY(c.Int("onesided", 1)) != 0;
  if (one_sided && shape[2] == 2) return Err("onesided takes a real signal, not ", c.builder.Spec(x).Text());
  if (length > shape[1]) return Err("a frame of ", length, " elements does not fit ", shape[1]);
  const int64_t frames = (shape[1] - length) / step + 1;
  TRY(c.Reserve({frames, length}));
  std::vector<int64_t> places(frames * length);
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t i = 0; i < length; ++i) places[f * length + i] = f * step + i;
  }
  ValueId at = c.builder.AddConstant("", TensorValue::Of<int64_t>({frames, length}, places));
  x = TRY(c.Transpose(TRY(c.Reshape(x, shape)), {0, 2, 1}));
  x = TRY(c.Emit(Op::kGather, {x, at}, AxisAttrs{2}));  // [batch, parts, frames, length]
  if (c.Has(2)) {
    ValueId window = TRY(c.Tensor(2));
    if (c.ShapeOfValue(window) != Shape{length} || c.Type(window) != c.Type(x))
      return Err("the window ", c.builder.Spec(window).Text(), " does not fit frames of ", length);
    x = TRY(c.Apply(Op::kMul, x, window));
  }
  x = TRY(c.Reshape(TRY(c.Transpose(x, {0, 2, 1, 3})), {shape[0] * frames, shape[2], length}));
  x = TRY(Dft(c, x, {.n = length, .one_sided = one_sided}));
  const int64_t kept = c.ShapeOfValue(x)[2];
  x = TRY(c.Reshape(x, {shape[0], frames, 2, kept}));
  return c.Bind(TRY(c.Transpose(x, {0, 1, 3, 2})));
}

// The weights of a window function: w(i) = constant + once * cos(angle) + twice * cos(2 angle).
struct Cosines {
  double constant, once, twice;
};
Status BindWindow(ImportContext& c, const Cosines& w) {
  const int64_t size = TRY(Length(c, 0, 0, "the size"));
  const DType type = TRY(SupportedType(TRY(c.Int("output_datatype", 1))));
  const bool periodic = TRY(c.Int("periodic", 1)) != 0;
  TRY(c.Reserve({size}));
  std::vector<double> numbers(size);
  const double period = static_cast<double>(std::max<int64_t>(1, periodic ? size : size - 1));
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    numbers[i] = w.constant + w.once * std::cos(angle) + w.twice * std::cos(2 * angle);
  }
  return c.BindConstant(TensorValue::FromNumbers(type, {size}, numbers));
}
Status ImportHannWindow(ImportContext& c) { return BindWindow(c, {0.5, -0.5, 0}); }
Status ImportHammingWindow(ImportContext& c) { return BindWindow(c, {25.0 / 46, -21.0 / 46, 0}); }
Status ImportBlackmanWindow(ImportContext& c) { return BindWindow(c, {0.42, -0.5, 0.08}); }

// Imports MelWeightMatrix: triangles over the frequencies of a transform. Their corners have equal distances on the mel
// scale.
Status ImportMelWeightMatrix(ImportContext& c) {
  constexpr double kMels = 2595, kBreak = 700;  // Hz = kBreak (10^(mel / kMels) - 1)
  const int64_t bins = TRY(Length(c, 0, 0, "num_mel_bins")), length = TRY(Length(c, 1, 0, "dft_length"));
  const double rate = TRY(c.ConstantNumber(2, "sample_rate")), low = TRY(c.ConstantNumber(3, "lower_edge_hertz")),
               high = TRY(c.ConstantNumber(4, "upper_edge_hertz"));
  const DType type = TRY(SupportedType(TRY(c.Int("output_datatype", 1))));
  const int64_t rows = length / 2 + 1;
  if (!(rate > 0 && low >= 0 && high >= low))
    return Err("sample_rate must be positive, and 0 <= lower_edge_hertz <= upper_edge_hertz");
  TRY(c.Reserve({rows, bins}));
  auto mel = [](double hertz) { return kMels * std::log10(1 + hertz / kBreak); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<int64_t> corners(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = kBreak * (std::pow(10, (mel(low) + static_cast<double>(i) * step) / kMels) - 1);
    corners[i] = static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate));
    if (corners[i] >= rows) return Err("a frequency of ", hertz, " Hz is above half of the sample rate");
  }
  std::vector<double> weights(rows * bins, 0);
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t left = corners[i], top = corners[i + 1], right = corners[i + 2];
    if (top == left) weights[top * bins + i] = 1;
    for (int64_t j = left; top > left && j <= top; ++j)
      weights[j * bins + i] = static_cast<double>(j - left) / static_cast<double>(top - left);
    for (int64_t j = top; j < right; ++j)
      weights[j * bins + i] = static_cast<double>(right - j) / static_cast<double>(right - top);
  }
  return c.BindConstant(TensorValue::FromNumbers(type, {rows, bins}, weights));
}

}  // namespace

const std::vector<OperatorRow>& SpectralOperators() {
  static const std::vector<OperatorRow> rows = {
      {"DFT", 17, 28, ImportDft},
      {"STFT", 17, 28, ImportStft},
      {"HannWindow", 17, 28, ImportHannWindow},
      {"HammingWindow", 17, 28, ImportHammingWindow},
      {"BlackmanWindow", 17, 28, ImportBlackmanWindow},
      {"MelWeightMatrix", 17, 28, ImportMelWeightMatrix},
  };
  return rows;
}

}  // namespace autotune::onnx_import
