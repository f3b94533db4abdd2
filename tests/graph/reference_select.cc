#include "tests/graph/reference_select.h"

#include <algorithm>
#include <numeric>

namespace autotune::reference {
namespace {

double Determinant(const std::vector<std::vector<double>>& m) {
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

}  // namespace

Tensor Scatter(Tensor data, const Tensor& updates, const Tensor& indices, const ScatterAttrs& a, DType dtype) {
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

Tensor Cumulate(const Tensor& x, const CumulateAttrs& a, DType dtype) {
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

Tensor SelectBoxes(const Tensor& boxes, const Tensor& scores, const Tensor& order, const BoxesAttrs& a) {
  const int64_t batches = scores.shape[0], classes = scores.shape[1], n = scores.shape[2];
  Tensor y{{a.rows, 3}, {}};
  struct Box {
    double low[2], high[2];
    double Area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
  };
  auto box = [&](int64_t b, int64_t i) {
    Box r{};
    for (int d : {0, 1}) {
      const double u = At(boxes, {b, i, d}), v = At(boxes, {b, i, d + 2});
      r.low[d] = a.centers ? u - v / 2 : std::min(u, v);
      r.high[d] = a.centers ? u + v / 2 : std::max(u, v);
    }
    return r;
  };
  auto overlap = [](const Box& p, const Box& q) {
    Box common{};
    for (int d : {0, 1}) {
      common.low[d] = std::max(p.low[d], q.low[d]);
      common.high[d] = std::min(p.high[d], q.high[d]);
      if (common.high[d] <= common.low[d]) return 0.0;
    }
    return common.Area() / (p.Area() + q.Area() - common.Area());
  };
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t c = 0; c < classes; ++c) {
      std::vector<int64_t> taken;
      for (int64_t j = 0; j < n; ++j) {
        const int64_t i = std::clamp<int64_t>(static_cast<int64_t>(At(order, {b, c, j})), 0, n - 1);
        if (!a.any_score && At(scores, {b, c, i}) <= a.least_score) continue;
        const bool near = std::any_of(taken.begin(), taken.end(),
                                      [&](int64_t t) { return overlap(box(b, i), box(b, t)) > a.overlap; });
        if (near || static_cast<int64_t>(taken.size()) >= a.most) continue;
        taken.push_back(i);
        if (static_cast<int64_t>(y.data.size()) < 3 * a.rows)
          y.data.insert(y.data.end(), {static_cast<double>(b), static_cast<double>(c), static_cast<double>(i)});
      }
    }
  }
  y.data.resize(3 * a.rows, -1);
  return y;
}

Tensor TopK(const Tensor& x, const TopKAttrs& a, const Shape& shape) {
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

Tensor Determinants(const Tensor& x, const Shape& shape) {
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
