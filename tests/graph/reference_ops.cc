#include "tests/graph/reference_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ir/float_math.h"

namespace autotune::reference {

int64_t Count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Tensor FromValue(const TensorValue& value) {
  Tensor t{value.spec.shape, std::vector<double>(value.spec.NumElements()), value.spec.dtype};
  for (size_t i = 0; i < t.data.size(); ++i) t.data[i] = value.Number(static_cast<int64_t>(i));
  return t;
}

Tensor Random(const Shape& shape, Rng& rng, DType dtype) {
  Tensor t{shape, std::vector<double>(Count(shape)), dtype};
  for (double& x : t.data) {
    x = dtype.IsBool() ? static_cast<double>(rng.Below(2))
        : dtype.IsInt()
            ? static_cast<double>(static_cast<int64_t>(rng.Below(9)) - (dtype.code == TypeCode::kUInt ? 0 : 4))
            : RoundFloat(static_cast<float>(rng.Normal()), dtype);
  }
  return t;
}

void ForEachIndex(const Shape& shape, const std::function<void(const Shape&)>& f) {
  if (Count(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    f(index);
    int axis = static_cast<int>(shape.size()) - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

double AtBroadcast(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  size_t skip = index.size() - t.shape.size();
  for (size_t i = 0; i < t.shape.size(); ++i) offset = offset * t.shape[i] + (t.shape[i] == 1 ? 0 : index[skip + i]);
  return t.data[offset];
}

double At(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) offset = offset * t.shape[i] + index[i];
  return t.data[offset];
}

Tensor Transposed(const Tensor& t, const std::vector<int64_t>& perm) {
  Tensor out;
  for (int64_t axis : perm) out.shape.push_back(t.shape[axis]);
  Shape from(perm.size());
  ForEachIndex(out.shape, [&](const Shape& index) {
    for (size_t i = 0; i < perm.size(); ++i) from[perm[i]] = index[i];
    out.data.push_back(At(t, from));
  });
  return out;
}

int64_t Flat(const Shape& index, const Shape& shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

bool Inside(const Shape& at, const Shape& extents) {
  bool inside = true;
  for (size_t d = 0; d < at.size(); ++d) inside = inside && at[d] >= 0 && at[d] < extents[d];
  return inside;
}

Tensor Conv(const Tensor& x, const Tensor& w, const ConvAttrs& a, const Shape& out_shape) {
  Tensor y{out_shape, std::vector<double>(Count(out_shape), 0)};
  const Shape in = Spatial(x.shape), out = Spatial(out_shape), kernel = Spatial(w.shape);
  int64_t C = x.shape[1], O = w.shape[0], I = w.shape[1], per_group = O / a.groups;
  ForEachIndex(kernel, [&](const Shape& k) {
    std::vector<std::pair<int64_t, int64_t>> met;  // flat indices of output pixels and of the input pixels that k reads
    std::vector<int64_t> padding;                  // output pixels for which k meets padding
    ForEachIndex(out, [&](const Shape& o) {
      Shape at = Met(a, o, k);
      if (Inside(at, in)) {
        met.emplace_back(Flat(o, out), Flat(at, in));
      } else if (a.pad_value != 0) {
        padding.push_back(Flat(o, out));
      }
    });
    for (int64_t n = 0; n < out_shape[0]; ++n)
      for (int64_t o = 0; o < O; ++o)
        for (int64_t i = 0; i < I; ++i) {
          double weight = w.data[(o * I + i) * Count(kernel) + Flat(k, kernel)];
          const double* from = &x.data[(n * C + o / per_group * I + i) * Count(in)];
          double* to = &y.data[(n * O + o) * Count(out)];
          for (auto [p, q] : met) to[p] += weight * from[q];
          for (int64_t p : padding) to[p] += weight * static_cast<double>(a.pad_value);
        }
  });
  return y;
}

Tensor Pool(const Tensor& x, const PoolAttrs& a, PoolOf what, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  const Shape in = Spatial(x.shape);
  ForEachIndex(out_shape, [&](const Shape& o) {
    double sum = 0, best = -std::numeric_limits<double>::infinity(), count = 0, place = -1;
    ForEachIndex(a.kernel, [&](const Shape& k) {
      Shape at = Met(a, Spatial(o), k), full = {o[0], o[1]};
      bool inside = Inside(at, in), padded = true;  // padded: false for elements that ceil_mode adds after the pads
      for (size_t d = 0; d < at.size(); ++d) padded = padded && at[d] < in[d] + a.pads[d + at.size()];
      count += inside || (a.count_include_pad && padded);
      if (!inside) return;
      full.insert(full.end(), at.begin(), at.end());
      double v = At(x, full);
      if (place < 0 || v > best) place = static_cast<double>(Flat(at, in));
      sum += v;
      best = std::isnan(v) ? v : std::max(best, v);
    });
    y.data.push_back(what == PoolOf::kAverage ? sum / count : what == PoolOf::kMax ? best : place);
  });
  return y;
}

namespace {

// Number k of the weights of block b for a column.
int WeightOf(const Tensor& w, int64_t b, int64_t k, int64_t column, const BlockKind& kind, int64_t block) {
  if (kind.of_words) {
    const auto word = static_cast<int64_t>(At(w, {b, k / 8, column}));
    const int number = static_cast<int>(word >> (k % 8 * 4)) & 15;
    return number < 8 ? number : number - 16;
  }
  if (w.shape[1] == block) return static_cast<int>(At(w, {b, k, column}));
  const auto byte = static_cast<int>(At(w, {b, k / 8 * 4 + k % 4, column}));
  return k % 8 < 4 ? byte & 15 : byte >> 4;
}

}  // namespace

Tensor BlockMatmul(const std::vector<const Tensor*>& in, const BlockKind& kind, const Shape& out_shape) {
  const Tensor &x = *in[0], &w = *in[1];
  const int64_t blocks = w.shape[0], block = x.shape[1] / blocks;
  const size_t offsets = kind.of_integers ? 4 : 3, zeros = offsets + 1;
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      double of_block = 0;
      if (offsets < in.size())
        of_block -= At(*in[offsets], {o[0], b}) * (zeros < in.size() ? At(*in[zeros], {b, o[1]}) : 1);
      for (int64_t k = 0; k < block; ++k)
        of_block += At(x, {o[0], b * block + k}) * WeightOf(w, b, k, o[1], kind, block);
      sum += (kind.of_integers ? At(*in[3], {o[0], b}) : 1) * At(*in[2], {b, o[1]}) * of_block;
    }
    y.data.push_back(sum);
  });
  return y;
}

Tensor Matmul(const Tensor& a, const Tensor& b, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  int64_t K = a.shape.back();
  size_t rank = out_shape.size();
  ForEachIndex(out_shape, [&](const Shape& o) {
    Shape ia = o, ib = o;
    for (size_t i = 0; i + 2 < rank; ++i) {
      if (a.shape[i] == 1) ia[i] = 0;
      if (b.shape[i] == 1) ib[i] = 0;
    }
    double sum = 0;
    for (int64_t k = 0; k < K; ++k) {
      ia[rank - 1] = k;
      ib[rank - 2] = k;
      sum += At(a, ia) * At(b, ib);
    }
    y.data.push_back(sum);
  });
  return y;
}

Tensor Lrn(const Tensor& x, const LrnAttrs& a) {
  Tensor y{x.shape, {}};
  ForEachIndex(x.shape, [&](const Shape& o) {
    double sum = 0;
    for (int64_t k = o[a.axis] - (a.size - 1) / 2; k <= o[a.axis] + a.size / 2; ++k) {
      if (k < 0 || k >= x.shape[a.axis]) continue;
      Shape i = o;
      i[a.axis] = k;
      sum += At(x, i) * At(x, i);
    }
    y.data.push_back(At(x, o) /
                     std::pow(a.bias + a.alpha / static_cast<double>(a.size) * sum, static_cast<double>(a.beta)));
  });
  return y;
}

Tensor Softmax(const Tensor& x, int64_t axis) {
  Tensor y{x.shape, {}};
  ForEachIndex(x.shape, [&](const Shape& o) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    Shape i = o;
    for (i[axis] = 0; i[axis] < x.shape[axis]; ++i[axis]) top = std::max(top, At(x, i));
    for (i[axis] = 0; i[axis] < x.shape[axis]; ++i[axis]) sum += std::exp(At(x, i) - top);
    y.data.push_back(std::exp(At(x, o) - top) / sum);
  });
  return y;
}

Tensor Concat(const std::vector<const Tensor*>& in, int64_t axis, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    Shape i = o;
    size_t which = 0;
    while (i[axis] >= in[which]->shape[axis]) i[axis] -= in[which++]->shape[axis];
    y.data.push_back(At(*in[which], i));
  });
  return y;
}

Tensor BatchNorm(const std::vector<const Tensor*>& in, const BatchNormAttrs& a) {
  Tensor y{in[0]->shape, {}};
  ForEachIndex(y.shape, [&](const Shape& o) {
    int64_t c = o[a.axis];
    y.data.push_back((At(*in[0], o) - in[3]->data[c]) / std::sqrt(in[4]->data[c] + a.epsilon) * in[1]->data[c] +
                     in[2]->data[c]);
  });
  return y;
}

Tensor Reduce(const Tensor& x, const std::vector<int64_t>& axes, Op op, const Shape& out_shape) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double start = op == Op::kReduceSum ? 0 : op == Op::kReduceProd ? 1 : op == Op::kReduceMax ? -kInfinity : kInfinity;
  Tensor y{out_shape, std::vector<double>(Count(out_shape), start)};
  int64_t offset = 0;
  ForEachIndex(x.shape, [&](const Shape& i) {
    int64_t to = 0;
    for (size_t d = 0; d < i.size(); ++d) {
      bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
      to = to * out_shape[d] + (reduced ? 0 : i[d]);
    }
    double v = x.data[offset++], &sum = y.data[to];
    sum = op == Op::kReduceSum    ? sum + v
          : op == Op::kReduceProd ? sum * v
          : op == Op::kReduceMax  ? std::max(sum, v)
                                  : std::min(sum, v);
  });
  return y;
}

Tensor ArgReduce(const Tensor& x, const ArgAttrs& a, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    Shape i = o;
    int64_t best = 0;
    for (int64_t k = 1; k < x.shape[a.axis]; ++k) {
      i[a.axis] = best;
      double before = At(x, i);
      i[a.axis] = k;
      double now = At(x, i);
      if (a.largest ? now > before : now < before) best = k;
      if (a.last && now == before) best = k;
    }
    y.data.push_back(static_cast<double>(best));
  });
  return y;
}

int64_t Subscript(double index, int64_t extent) {
  int64_t i = static_cast<int64_t>(index);
  return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent - 1);
}

Tensor Gather(const Tensor& x, const Tensor& indices, int64_t axis, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    auto first = o.begin() + axis, rest = first + static_cast<int64_t>(indices.shape.size());
    Shape from(o.begin(), first);
    from.push_back(Subscript(At(indices, Shape(first, rest)), x.shape[axis]));
    from.insert(from.end(), rest, o.end());
    y.data.push_back(At(x, from));
  });
  return y;
}

Tensor Pad(const Tensor& x, const PadAttrs& a, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    Shape i = o;
    bool inside = true;
    for (size_t d = 0; d < o.size(); ++d) {
      int64_t n = x.shape[d], at = o[d] - a.before[d], step = a.interior[d] + 1;
      if (a.mode == PadMode::kConstant) {
        inside = inside && at >= 0 && at <= (n - 1) * step && at % step == 0;
        at /= step;
      } else if (a.mode == PadMode::kEdge) {
        at = std::clamp<int64_t>(at, 0, n - 1);
      } else if (at < 0 || at >= n) {
        at = at < 0 ? -at : 2 * (n - 1) - at;
      }
      i[d] = at;
    }
    y.data.push_back(inside ? At(x, i) : a.value);
  });
  return y;
}

double ToType(double v, DType to) {
  if (to.IsBool()) return v != 0;
  if (!to.IsInt()) return RoundFloat(v, to);
  v = std::trunc(v);
  if (to.bits == 64) return v;
  double range = std::ldexp(1.0, to.bits), low = to.code == TypeCode::kUInt ? 0 : -range / 2;
  return v - std::floor((v - low) / range) * range;
}

uint64_t ToBits(double v) { return v < 0 ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v); }

double FromBits(uint64_t bits, DType dtype) {
  if (dtype.bits < 64) bits &= (uint64_t{1} << dtype.bits) - 1;
  if (dtype.code == TypeCode::kUInt && dtype.bits < 64) return static_cast<double>(bits);
  const int unused = 64 - dtype.bits;
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

Tensor BitCast(const Tensor& x, DType to) {
  Tensor y{x.shape, {}};
  for (double v : x.data) {
    const uint64_t bits = x.dtype.IsFloat() ? FloatToBits(v, x.dtype) : ToBits(v);
    y.data.push_back(to.IsFloat() ? FloatFromBits(bits & (~uint64_t{0} >> (64 - to.bits)), to) : FromBits(bits, to));
  }
  return y;
}

}  // namespace autotune::reference
