#include "bench/drawn_tasks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "bench/graphs.h"
#include "compiler/network.h"
#include "graph/to_te.h"
#include "support/check.h"
#include "support/rng.h"

namespace autotune::bench {
namespace {

using graph::AxesAttrs;
using graph::AxisAttrs;
using graph::ConvAttrs;
using graph::GraphBuilder;
using graph::ImageAttrs;
using graph::Layout;
using graph::PoolAttrs;
using graph::Shape;
using graph::TransposeAttrs;
using graph::ValueId;
using GraphOp = graph::Op;

// Limits of compute-bound tasks. In smaller tasks the overhead of a call counts; in larger ones a trial takes seconds.
constexpr double kLeastFlops = 4e6, kMostFlops = 4e8;
// Limits of the inputs of memory-bound tasks, which lie within a core's caches or well beyond them.
constexpr double kLeastElements = 1 << 15, kMostElements = 1 << 22;

// Draws log-uniformly in [low, high] and rounds to a multiple of `multiple`.
int64_t Draw(Rng& rng, int64_t low, int64_t high, int64_t multiple = 1) {
  double log = std::log(static_cast<double>(low)) +
               rng.Uniform() * (std::log(static_cast<double>(high)) - std::log(static_cast<double>(low)));
  return std::max(multiple,
                  static_cast<int64_t>(std::llround(std::exp(log) / static_cast<double>(multiple))) * multiple);
}

ValueId Constant(GraphBuilder& b, const Shape& shape) {
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<size_t>(count), 0.5F);
  return b.AddConstant("", graph::TensorValue::Of<float>(shape, values));
}

ValueId BiasRelu(GraphBuilder& b, ValueId x) {
  return b.Must(GraphOp::kRelu, {b.Must(GraphOp::kAdd, {x, Constant(b, {b.Spec(x).shape.back()})})});
}

enum class Groups { kOne, kSome, kDepthwise };

// Makes a convolution with bias and ReLU, in the layout in which the compiler tunes it, padded by half the kernel.
ValueId Conv(GraphBuilder& b, Rng& rng, int64_t kernel, int64_t stride, Groups groups = Groups::kOne) {
  int64_t size = Draw(rng, 7, 112), in = Draw(rng, 16, 512, 8), out = Draw(rng, 16, 512, 8), group = 1;
  if (kernel == 7 && groups == Groups::kOne) {  // the first layer of a network
    size = Draw(rng, 96, 256, 2), in = Draw(rng, 1, 8), out = Draw(rng, 16, 96, 8);
  } else if (groups == Groups::kDepthwise) {
    in = out = group = Draw(rng, 32, 768, 8);
  } else if (groups == Groups::kSome) {
    group = int64_t{1} << Draw(rng, 1, 5);
    in = group * Draw(rng, 4, 32, 4), out = group * Draw(rng, 4, 32, 4);
  }
  const int64_t pad = kernel / 2;
  ConvAttrs attrs{.strides = {stride, stride}, .pads = {pad, pad, pad, pad}, .groups = group};
  attrs.layout = Layout::kNHWC;
  ValueId x = b.Input("x", F32({1, size, size, in}));
  return BiasRelu(b, b.Must(GraphOp::kConv2d, {x, Constant(b, {kernel, kernel, in / group, out})}, attrs));
}

ValueId Dense(GraphBuilder& b, Rng& rng, int64_t least_rows, int64_t most_rows) {
  int64_t m = Draw(rng, least_rows, most_rows), k = Draw(rng, 64, 4096, 8), n = Draw(rng, 64, 4096, 8);
  return BiasRelu(b, b.Must(GraphOp::kMatmul, {b.Input("x", F32({m, k})), Constant(b, {k, n})}));
}

ValueId RuntimeMatmul(GraphBuilder& b, Rng& rng) {
  int64_t m = Draw(rng, 32, 768), k = Draw(rng, 32, 768), n = Draw(rng, 32, 768);
  return b.Must(GraphOp::kMatmul, {b.Input("x", F32({m, k})), b.Input("y", F32({k, n}))});
}

ValueId BatchMatmul(GraphBuilder& b, Rng& rng) {
  int64_t batch = Draw(rng, 2, 32), m = Draw(rng, 16, 256), k = Draw(rng, 16, 256), n = Draw(rng, 16, 256);
  return b.Must(GraphOp::kBatchMatmul, {b.Input("x", F32({batch, m, k})), b.Input("y", F32({batch, k, n}))});
}

// Makes the first product of attention for all heads of a sequence: queries times keys, scaled.
ValueId AttentionScores(GraphBuilder& b, Rng& rng) {
  int64_t heads = Draw(rng, 4, 16), length = Draw(rng, 48, 384), depth = Draw(rng, 32, 96, 16);
  ValueId q = b.Input("q", F32({heads, length, depth})), k = b.Input("k", F32({heads, depth, length}));
  ValueId scale = b.AddConstant("", graph::TensorValue::Scalar(0.125F));
  return b.Must(GraphOp::kMul, {b.Must(GraphOp::kBatchMatmul, {q, k}), scale});
}

// Makes the second product of attention for all heads of a sequence: weights times values.
ValueId AttentionValues(GraphBuilder& b, Rng& rng) {
  int64_t heads = Draw(rng, 4, 16), length = Draw(rng, 48, 384), depth = Draw(rng, 32, 96, 16);
  return b.Must(GraphOp::kBatchMatmul,
                {b.Input("w", F32({heads, length, length})), b.Input("v", F32({heads, length, depth}))});
}

ValueId Matrix(GraphBuilder& b, Rng& rng) { return b.Input("x", F32({Draw(rng, 32, 4096), Draw(rng, 48, 2048)})); }

ValueId Gelu(GraphBuilder& b, Rng& rng) {
  ValueId x = Matrix(b, rng);
  auto number = [&](float value) { return b.AddConstant("", graph::TensorValue::Scalar(value)); };
  ValueId erf = b.Must(GraphOp::kErf, {b.Must(GraphOp::kMul, {x, number(0.70710678F)})});
  ValueId half = b.Must(GraphOp::kMul, {x, number(0.5F)});
  return b.Must(GraphOp::kMul, {half, b.Must(GraphOp::kAdd, {erf, number(1)})});
}

ValueId Image(GraphBuilder& b, Rng& rng) {
  int64_t size = Draw(rng, 14, 112);
  return b.Input("x", F32({1, size, size, Draw(rng, 16, 256, 8)}));
}

ValueId MaxPool(GraphBuilder& b, Rng& rng) {
  const int64_t stride = 1 + rng.Below(2);
  PoolAttrs attrs{.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}};
  attrs.layout = Layout::kNHWC;
  return b.Must(GraphOp::kMaxPool2d, {Image(b, rng)}, attrs);
}

struct Kind {
  const char* name;
  bool counts_flops;  // unit of the task's size: true: operations; false: elements of its inputs
  std::function<ValueId(GraphBuilder&, Rng&)> make;
};

const std::vector<Kind>& Kinds() {
  using B = GraphBuilder;
  static const std::vector<Kind> kinds = {
      {"conv 1x1", true, [](B& b, Rng& r) { return Conv(b, r, 1, 1); }},
      {"conv 3x3", true, [](B& b, Rng& r) { return Conv(b, r, 3, 1); }},
      {"softmax", false, [](B& b, Rng& r) { return b.Must(GraphOp::kSoftmax, {Matrix(b, r)}, AxisAttrs{1}); }},
      {"dense", true, [](B& b, Rng& r) { return Dense(b, r, 32, 512); }},
      {"conv depthwise", true, [](B& b, Rng& r) { return Conv(b, r, 3, 1, Groups::kDepthwise); }},
      {"matmul", true, RuntimeMatmul},
      {"layer norm", false, [](B& b, Rng& r) { return LayerNorm(b, Matrix(b, r)); }},
      {"conv 3x3 stride 2", true, [](B& b, Rng& r) { return Conv(b, r, 3, 2); }},
      {"attention scores", true, AttentionScores},
      {"transpose", false,
       [](B& b, Rng& r) {
         return b.Must(GraphOp::kTranspose, {Image(b, r)}, TransposeAttrs{{0, 3, 1, 2}});
       }},
      {"conv grouped", true, [](B& b, Rng& r) { return Conv(b, r, 3, 1, Groups::kSome); }},
      {"batch matmul", true, BatchMatmul},
      {"max pool", false, MaxPool},
      {"conv 7x7 stride 2", true, [](B& b, Rng& r) { return Conv(b, r, 7, 2); }},
      {"dense few rows", true, [](B& b, Rng& r) { return Dense(b, r, 1, 8); }},
      {"row sums", false, [](B& b, Rng& r) { return b.Must(GraphOp::kReduceSum, {Matrix(b, r)}, AxesAttrs{{1}}); }},
      {"attention values", true, AttentionValues},
      {"conv depthwise 5x5 stride 2", true, [](B& b, Rng& r) { return Conv(b, r, 5, 2, Groups::kDepthwise); }},
      {"gelu", false, Gelu},
      {"global average pool", false,
       [](B& b, Rng& r) { return b.Must(GraphOp::kGlobalAvgPool, {Image(b, r)}, ImageAttrs{Layout::kNHWC}); }},
  };
  return kinds;
}

bool HasUsualSize(const Kind& kind, const graph::Graph& graph) {
  double elements = 0;
  for (graph::ValueId input : graph.inputs) elements += static_cast<double>(graph.Spec(input).Bytes()) / 4;
  double size = kind.counts_flops ? graph::FlopsOf(graph, Target::Parse("cpu").value()).value() : elements;
  return size >= (kind.counts_flops ? kLeastFlops : kLeastElements) &&
         size <= (kind.counts_flops ? kMostFlops : kMostElements);
}

}  // namespace

std::vector<std::string> TaskKinds() {
  std::vector<std::string> names;
  for (const Kind& kind : Kinds()) names.push_back(kind.name);
  return names;
}

graph::Graph DrawGraph(uint64_t seed, int index) {
  Rng rng(HashCombine(seed, static_cast<uint64_t>(index)));
  const Kind& kind = Kinds()[static_cast<size_t>(index) % Kinds().size()];
  for (;;) {
    GraphBuilder b;
    b.Output(kind.make(b, rng), "y");
    graph::Graph graph = b.Finish();
    if (HasUsualSize(kind, graph)) return graph;
  }
}

Result<std::vector<DrawnTask>> DrawTasks(uint64_t seed, int count, const Target& target, Builder& builder) {
  std::vector<DrawnTask> drawn;
  const std::vector<std::string> kinds = TaskKinds();
  for (int i = 0; i < count; ++i) {
    const std::string& kind = kinds[static_cast<size_t>(i) % kinds.size()];
    Network network =
        TRY_NOTE(MakeNetwork(IRModule(DrawGraph(seed, i)), {}, target, builder), "while drawing a " + kind);
    CHECK(!network.tasks.empty());
    drawn.push_back({kind, MakeTuneTask(network, network.tasks[0])});
  }
  return drawn;
}

}  // namespace autotune::bench
