// The slow, obvious meaning of graphs: one naive loop nest per operator, in doubles. An oracle for tests of graph
// passes, importer and compiler; shares no code with any of them. Header only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "graph/graph.h"
#include "support/rng.h"

namespace autotune::reference {

using namespace graph;
using graph::Op;  // not the kernel language's

struct Tensor {
  Shape shape;
  std::vector<double> data;
};

inline int64_t Count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

inline Tensor FromValue(const TensorValue& value) {
  Tensor t{value.spec.shape, std::vector<double>(value.spec.NumElements())};
  for (size_t i = 0; i < t.data.size(); ++i) t.data[i] = value.As<float>()[i];
  return t;
}

inline TensorValue ToValue(const Tensor& t) { return TensorValue::Of<float>(t.shape, {t.data.begin(), t.data.end()}); }

// Normal numbers, rounded to float32.
inline Tensor Random(const Shape& shape, Rng& rng) {
  Tensor t{shape, std::vector<double>(Count(shape))};
  for (double& x : t.data) x = static_cast<float>(rng.Normal());
  return t;
}

// Calls f(index) for every index of a shape, last axis fastest.
inline void ForEachIndex(const Shape& shape, const std::function<void(const Shape&)>& f) {
  if (Count(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    f(index);
    int axis = static_cast<int>(shape.size()) - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

// Element at an index of a shape that t broadcasts to.
inline double AtBroadcast(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  size_t skip = index.size() - t.shape.size();
  for (size_t i = 0; i < t.shape.size(); ++i) offset = offset * t.shape[i] + (t.shape[i] == 1 ? 0 : index[skip + i]);
  return t.data[offset];
}
inline double At(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) offset = offset * t.shape[i] + index[i];
  return t.data[offset];
}

inline Tensor Transposed(const Tensor& t, const std::vector<int64_t>& perm) {
  Tensor out;
  for (int64_t axis : perm) out.shape.push_back(t.shape[axis]);
  Shape from(perm.size());
  ForEachIndex(out.shape, [&](const Shape& index) {
    for (size_t i = 0; i < perm.size(); ++i) from[perm[i]] = index[i];
    out.data.push_back(At(t, from));
  });
  return out;
}

inline Tensor Conv2dNchw(const Tensor& x, const Tensor& w, const Conv2dAttrs& a, const Shape& out_shape) {
  Tensor y{out_shape, std::vector<double>(Count(out_shape), 0)};
  int64_t C = x.shape[1], H = x.shape[2], W = x.shape[3], O = w.shape[0], I = w.shape[1], KH = w.shape[2],
          KW = w.shape[3];
  int64_t OH = out_shape[2], OW = out_shape[3], per_group = O / a.groups;
  for (int64_t n = 0; n < out_shape[0]; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t i = 0; i < I; ++i)
        for (int64_t kh = 0; kh < KH; ++kh)
          for (int64_t kw = 0; kw < KW; ++kw) {
            double weight = w.data[((o * I + i) * KH + kh) * KW + kw];
            int64_t c = o / per_group * I + i;
            for (int64_t oh = 0; oh < OH; ++oh) {
              int64_t h = oh * a.strides[0] + kh * a.dilations[0] - a.pads[0];
              if (h < 0 || h >= H) continue;
              for (int64_t ow = 0; ow < OW; ++ow) {
                int64_t v = ow * a.strides[1] + kw * a.dilations[1] - a.pads[1];
                if (v >= 0 && v < W)
                  y.data[((n * O + o) * OH + oh) * OW + ow] += weight * x.data[((n * C + c) * H + h) * W + v];
              }
            }
          }
  return y;
}

inline Tensor Pool2dNchw(const Tensor& x, const Pool2dAttrs& a, bool average, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  int64_t H = x.shape[2], W = x.shape[3];
  ForEachIndex(out_shape, [&](const Shape& o) {
    double sum = 0, best = -std::numeric_limits<double>::infinity(), count = 0;
    for (int64_t kh = 0; kh < a.kernel[0]; ++kh)
      for (int64_t kw = 0; kw < a.kernel[1]; ++kw) {
        int64_t h = o[2] * a.strides[0] + kh * a.dilations[0] - a.pads[0],
                w = o[3] * a.strides[1] + kw * a.dilations[1] - a.pads[1];
        bool inside = h >= 0 && h < H && w >= 0 && w < W;
        bool padded = h < H + a.pads[2] && w < W + a.pads[3];
        if (inside) {
          double v = At(x, {o[0], o[1], h, w});
          sum += v;
          best = std::isnan(v) ? v : std::max(best, v);
        }
        count += inside || (a.count_include_pad && padded);
      }
    y.data.push_back(average ? sum / count : best);
  });
  return y;
}

inline Tensor Matmul(const Tensor& a, const Tensor& b, const Shape& out_shape) {
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

inline Tensor Lrn(const Tensor& x, const LrnAttrs& a) {
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

inline Tensor Softmax(const Tensor& x, int64_t axis) {
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

inline Tensor Concat(const std::vector<const Tensor*>& in, int64_t axis, const Shape& out_shape) {
  Tensor y{out_shape, {}};
  ForEachIndex(out_shape, [&](const Shape& o) {
    Shape i = o;
    size_t which = 0;
    while (i[axis] >= in[which]->shape[axis]) i[axis] -= in[which++]->shape[axis];
    y.data.push_back(At(*in[which], i));
  });
  return y;
}

inline Tensor BatchNorm(const std::vector<const Tensor*>& in, const BatchNormAttrs& a) {
  Tensor y{in[0]->shape, {}};
  ForEachIndex(y.shape, [&](const Shape& o) {
    int64_t c = o[a.axis];
    y.data.push_back((At(*in[0], o) - in[3]->data[c]) / std::sqrt(in[4]->data[c] + a.epsilon) * in[1]->data[c] +
                     in[2]->data[c]);
  });
  return y;
}

inline std::vector<Tensor> Evaluate(const Graph& graph, const std::vector<Tensor>& inputs);

inline Tensor EvaluateNode(const Graph& graph, const Node& node, const std::vector<const Tensor*>& in) {
  const Shape& shape = graph.Spec(node.output).shape;
  auto map = [&](const std::function<double(double)>& f) {
    Tensor y{shape, {}};
    for (double v : in[0]->data) y.data.push_back(f(v));
    return y;
  };
  auto zip = [&](const std::function<double(double, double)>& f) {
    Tensor y{shape, {}};
    y.data.reserve(Count(shape));
    ForEachIndex(shape, [&](const Shape& o) { y.data.push_back(f(AtBroadcast(*in[0], o), AtBroadcast(*in[1], o))); });
    return y;
  };
  // Image operators are defined in NCHW; NHWC goes there and back.
  const std::vector<int64_t> to_nchw = {0, 3, 1, 2}, to_nhwc = {0, 2, 3, 1}, hwio_to_oihw = {3, 2, 0, 1};
  auto nchw_shape = [&](Layout layout) {
    return layout == Layout::kNCHW ? shape : Shape{shape[0], shape[3], shape[1], shape[2]};
  };
  auto image = [&](Layout layout, const std::function<Tensor(const Tensor&)>& f) {
    return layout == Layout::kNCHW ? f(*in[0]) : Transposed(f(Transposed(*in[0], to_nchw)), to_nhwc);
  };
  switch (node.op) {
    case Op::kConv2d: {
      const auto& a = std::get<Conv2dAttrs>(node.attrs);
      Tensor w = a.layout == Layout::kNCHW ? *in[1] : Transposed(*in[1], hwio_to_oihw);
      return image(a.layout, [&](const Tensor& x) { return Conv2dNchw(x, w, a, nchw_shape(a.layout)); });
    }
    case Op::kMatmul:
    case Op::kBatchMatmul:
      return Matmul(*in[0], *in[1], shape);
    case Op::kBatchNorm:
      return BatchNorm(in, std::get<BatchNormAttrs>(node.attrs));
    case Op::kRelu:
      return map([](double v) { return v < 0 ? 0 : v; });
    case Op::kClip: {
      ClipAttrs a = std::get<ClipAttrs>(node.attrs);
      return map([&](double v) { return std::min<double>(std::max<double>(v, a.min), a.max); });
    }
    case Op::kSigmoid:
      return map([](double v) { return 1 / (1 + std::exp(-v)); });
    case Op::kSqrt:
      return map([](double v) { return std::sqrt(v); });
    case Op::kAdd:
      return zip([](double a, double b) { return a + b; });
    case Op::kSub:
      return zip([](double a, double b) { return a - b; });
    case Op::kMul:
      return zip([](double a, double b) { return a * b; });
    case Op::kDiv:
      return zip([](double a, double b) { return a / b; });
    case Op::kMaxPool2d:
    case Op::kAvgPool2d: {
      const auto& a = std::get<Pool2dAttrs>(node.attrs);
      return image(a.layout,
                   [&](const Tensor& x) { return Pool2dNchw(x, a, node.op == Op::kAvgPool2d, nchw_shape(a.layout)); });
    }
    case Op::kGlobalAvgPool:
      return image(std::get<ImageAttrs>(node.attrs).layout, [&](const Tensor& x) {
        Pool2dAttrs whole;
        whole.kernel = {x.shape[2], x.shape[3]};
        return Pool2dNchw(x, whole, true, {x.shape[0], x.shape[1], 1, 1});
      });
    case Op::kLrn:
      return Lrn(*in[0], std::get<LrnAttrs>(node.attrs));
    case Op::kSoftmax:
      return Softmax(*in[0], std::get<AxisAttrs>(node.attrs).axis);
    case Op::kConcat:
      return Concat(in, std::get<AxisAttrs>(node.attrs).axis, shape);
    case Op::kReshape:
      return {shape, in[0]->data};
    case Op::kTranspose:
      return Transposed(*in[0], std::get<TransposeAttrs>(node.attrs).perm);
    case Op::kFused: {
      std::vector<Tensor> arguments;
      for (const Tensor* t : in) arguments.push_back(*t);
      return Evaluate(*node.body, arguments)[0];
    }
  }
  UNREACHABLE();
  return {};
}

// `inputs`: the graph's inputs, then its constants without data.
inline std::vector<Tensor> Evaluate(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.values.size());
  size_t next = 0;
  for (ValueId v : graph.inputs) values[v] = inputs.at(next++);
  for (const Constant& c : graph.constants)
    values[c.value] = c.data ? FromValue(graph.ConstantValue(c)) : inputs.at(next++);
  std::vector<int> uses = graph.UseCounts();
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor*> in;
    for (ValueId v : node.inputs) in.push_back(&values[v]);
    values[node.output] = EvaluateNode(graph, node, in);
    CHECK(values[node.output].shape == graph.Spec(node.output).shape);
    CHECK(static_cast<int64_t>(values[node.output].data.size()) == Count(values[node.output].shape)) << ToText(node.op);
    for (ValueId v : node.inputs) {
      if (--uses[v] == 0) values[v] = {};
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId v : graph.outputs) outputs.push_back(values[v]);
  return outputs;
}

// Largest |a - b| - (absolute * max|b| + relative * |b|); positive means too far apart. Infinity if shapes or NaNs
// differ.
inline double Excess(const Tensor& a, const Tensor& b, double absolute = 1e-5, double relative = 1e-4) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.shape != b.shape || a.data.size() != b.data.size()) return kInfinity;
  double top = 0, worst = -kInfinity;
  for (double v : b.data) top = std::max(top, std::isfinite(v) ? std::abs(v) : 0);
  for (size_t i = 0; i < a.data.size(); ++i) {
    double x = a.data[i], y = b.data[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double excess = std::abs(x - y) - (absolute * top + relative * std::abs(y));
    worst = std::max(worst, std::isnan(excess) ? kInfinity : excess);
  }
  return worst;
}

}  // namespace autotune::reference
