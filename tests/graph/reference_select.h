// The meaning of operators that sort, scatter and eliminate, in doubles. Part of tests/graph/reference.h.
#pragma once
#include <numeric>

#include "tests/graph/reference_ops.h"

namespace autotune::reference {

inline Tensor Scatter(Tensor data, const Tensor& updates, const Tensor& indices, const ScatterAttrs& a, DType dtype) {
  ForEachIndex(updates.shape, [&](const Shape& o) {
    Shape at = o;
    at[a.axis] = Subscript(AtBroadcast(indices, o), data.shape[a.axis]);
    double &old = data.data[Flat(at, data.shape)], now = At(updates, o);
    old = a.mode == ScatterMode::kAdd   ? old + now
          : a.mode == ScatterMode::kMul ? old * now
          : a.mode == ScatterMode::kMax ? std::max(old, now)
          : a.mode == ScatterMode::kMin ? std::min(old, now)
                                        : now;
  });
  data.dtype = dtype;
  return data;
}

inline Tensor Cumulate(const Tensor& x, const CumulateAttrs& a, DType dtype) {
  Tensor y{x.shape, {}};
  ForEachIndex(x.shape, [&](const Shape& o) {
    double all = a.product ? 1 : 0;
    for (int64_t i = 0; i < x.shape[a.axis]; ++i) {
      if (a.reverse ? i < o[a.axis] : i > o[a.axis]) continue;
      if (a.exclusive && i == o[a.axis]) continue;
      Shape at = o;
      at[a.axis] = i;
      all = a.product ? all * At(x, at) : all + At(x, at);
    }
    y.data.push_back(all);
  });
  y.dtype = dtype;
  return y;
}

inline Tensor TopK(const Tensor& x, const TopKAttrs& a, const Shape& shape) {
  Tensor y{shape, {}};
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < Count(x.shape) / n; ++row) {
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double l = x.data[row * n + i], r = x.data[row * n + j];
      return a.largest ? l > r : l < r;
    });
    for (int64_t i = 0; i < a.k; ++i) y.data.push_back(static_cast<double>(order[i]));
  }
  return y;
}

// By expansion along the first row.
inline double Determinant(const std::vector<std::vector<double>>& m) {
  if (m.empty()) return 1;
  double sum = 0;
  for (size_t j = 0; j < m.size(); ++j) {
    std::vector<std::vector<double>> minor;
    for (size_t i = 1; i < m.size(); ++i) {
      minor.push_back(m[i]);
      minor.back().erase(minor.back().begin() + static_cast<std::ptrdiff_t>(j));
    }
    sum += (j % 2 ? -1 : 1) * m[0][j] * Determinant(minor);
  }
  return sum;
}

inline Tensor Determinants(const Tensor& x, const Shape& shape) {
  Tensor y{shape, {}};
  const int64_t n = x.shape.back();
  for (int64_t b = 0; b < Count(shape); ++b) {
    std::vector<std::vector<double>> m;
    for (int64_t i = 0; i < n; ++i)
      m.emplace_back(x.data.begin() + (b * n + i) * n, x.data.begin() + (b * n + i + 1) * n);
    y.data.push_back(Determinant(m));
  }
  return y;
}

}  // namespace autotune::reference
