// How much of the machine's copy bandwidth memory-bound operators reach: bench_memory_ops [--threads N] [--rounds N]
// [NAME...]. Tensors are larger than the last cache. Each operator (default schedules) and copies of as many bytes run
// in alternation, best of the rounds; bytes are those of the inputs and of the output, once each. There are two copies:
// by ordinary stores, which read each line before they write it, and by stores that go around the caches; the last
// column is what part of the faster one an operator reaches.
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "compiler/compile.h"
#include "compiler/network.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "runtime/thread_pool.h"
#include "support/subprocess.h"

namespace autotune {
namespace {

using graph::AxesAttrs;
using graph::AxisAttrs;
using graph::GraphBuilder;
using graph::ImageAttrs;
using graph::Layout;
using graph::PoolAttrs;
using graph::TransposeAttrs;
using graph::ValueId;
using GraphOp = graph::Op;

graph::TensorSpec F32(graph::Shape shape) { return {DType::Float(32), std::move(shape)}; }

ValueId LayerNorm(GraphBuilder& b, ValueId x) {
  int64_t columns = b.Spec(x).shape.back();
  auto number = [&](float value) { return b.AddConstant("", graph::TensorValue::Scalar(value)); };
  auto mean = [&](ValueId v) {
    ValueId sum = b.Must(GraphOp::kReduceSum, {v}, AxesAttrs{{1}});
    return b.Must(GraphOp::kMul, {sum, number(1 / static_cast<float>(columns))});
  };
  ValueId centered = b.Must(GraphOp::kSub, {x, mean(x)});
  ValueId variance = mean(b.Must(GraphOp::kMul, {centered, centered}));
  ValueId deviation = b.Must(GraphOp::kSqrt, {b.Must(GraphOp::kAdd, {variance, number(1e-5f)})});
  std::vector<float> weights(columns, 1.5f);
  ValueId scale = b.AddConstant("", graph::TensorValue::Of<float>({columns}, weights));
  ValueId y = b.Must(GraphOp::kMul, {b.Must(GraphOp::kDiv, {centered, deviation}), scale});
  return b.Must(GraphOp::kAdd, {y, b.AddConstant("", graph::TensorValue::Of<float>({columns}, weights))});
}

ValueId MaxPool(GraphBuilder& b, ValueId x, int64_t stride) {
  PoolAttrs attrs{.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}};
  attrs.layout = Layout::kNHWC;
  return b.Must(GraphOp::kMaxPool2d, {x}, attrs);
}

struct Case {
  const char* name;
  std::vector<graph::Shape> inputs;
  std::function<ValueId(GraphBuilder&, const std::vector<ValueId>&)> make;
};

const std::vector<Case>& Cases() {
  using Values = const std::vector<ValueId>&;
  static const std::vector<Case> cases = {
      {"relu", {{16777216}}, [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kRelu, {v[0]}); }},
      {"add", {{4096, 4096}, {4096, 4096}}, [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kAdd, v); }},
      {"softmax",
       {{16384, 1024}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kSoftmax, v, AxisAttrs{1}); }},
      {"softmax of 1000",
       {{16384, 1000}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kSoftmax, v, AxisAttrs{1}); }},
      {"layer norm", {{21845, 768}}, [](GraphBuilder& b, Values v) { return LayerNorm(b, v[0]); }},
      {"row sums",
       {{16384, 1024}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kReduceSum, v, AxesAttrs{{1}}); }},
      {"column sums",
       {{16384, 1024}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kReduceSum, v, AxesAttrs{{0}}); }},
      {"global average pool",
       {{64, 64, 64, 64}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kGlobalAvgPool, v, ImageAttrs{Layout::kNHWC}); }},
      {"max pool 3x3, stride 2", {{20, 112, 112, 64}}, [](GraphBuilder& b, Values v) { return MaxPool(b, v[0], 2); }},
      {"max pool 3x3, stride 1", {{20, 112, 112, 64}}, [](GraphBuilder& b, Values v) { return MaxPool(b, v[0], 1); }},
      {"transpose NCHW to NHWC",
       {{20, 64, 112, 112}},
       [](GraphBuilder& b, Values v) {
         return b.Must(GraphOp::kTranspose, v, TransposeAttrs{{0, 2, 3, 1}});
       }},
      {"transpose NHWC to NCHW",
       {{20, 112, 112, 64}},
       [](GraphBuilder& b, Values v) {
         return b.Must(GraphOp::kTranspose, v, TransposeAttrs{{0, 3, 1, 2}});
       }},
      {"transpose of a matrix",
       {{4096, 4096}},
       [](GraphBuilder& b, Values v) {
         return b.Must(GraphOp::kTranspose, v, TransposeAttrs{{1, 0}});
       }},
      {"attention heads apart",
       {{64, 384, 12, 64}},
       [](GraphBuilder& b, Values v) {
         return b.Must(GraphOp::kTranspose, v, TransposeAttrs{{0, 2, 1, 3}});
       }},
      {"concat of channels",
       {{20, 112, 112, 32}, {20, 112, 112, 32}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kConcat, v, AxisAttrs{3}); }},
      {"concat of rows",
       {{8192, 1024}, {8192, 1024}},
       [](GraphBuilder& b, Values v) { return b.Must(GraphOp::kConcat, v, AxisAttrs{0}); }},
  };
  return cases;
}

double Seconds(const std::function<void()>& run) {
  auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// No calls of memcpy, which chooses between the two by sizes of its own.
__attribute__((noinline)) void CopyAround(float* to, const float* from, int64_t n) {
  int64_t i = 0;
#if defined(__SSE2__)
  for (; i < n && reinterpret_cast<uintptr_t>(to + i) % 16; ++i) to[i] = from[i];
  for (; i + 16 <= n; i += 16) {
    __m128 a = _mm_loadu_ps(from + i), b = _mm_loadu_ps(from + i + 4), c = _mm_loadu_ps(from + i + 8),
           d = _mm_loadu_ps(from + i + 12);
    _mm_stream_ps(to + i, a), _mm_stream_ps(to + i + 4, b), _mm_stream_ps(to + i + 8, c), _mm_stream_ps(to + i + 12, d);
  }
  _mm_sfence();
#endif
  for (; i < n; ++i) to[i] = from[i];
}

__attribute__((noinline)) void CopyVectors(float* to, const float* from, int64_t n) {
  typedef float Vector __attribute__((vector_size(32), aligned(4)));
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    Vector a = *reinterpret_cast<const Vector*>(from + i), b = *reinterpret_cast<const Vector*>(from + i + 8),
           c = *reinterpret_cast<const Vector*>(from + i + 16), d = *reinterpret_cast<const Vector*>(from + i + 24);
    *reinterpret_cast<Vector*>(to + i) = a;
    *reinterpret_cast<Vector*>(to + i + 8) = b;
    *reinterpret_cast<Vector*>(to + i + 16) = c;
    *reinterpret_cast<Vector*>(to + i + 24) = d;
  }
  for (; i < n; ++i) to[i] = from[i];
}

class CopyLoop {
 public:
  CopyLoop(int64_t bytes, int threads)
      : floats_(bytes / 8), from_(floats_, 1.f), to_(floats_, 0.f), pool_({.num_threads = threads}) {}
  double bytes() const { return 8.0 * static_cast<double>(floats_); }
  void Run(bool around) {
    constexpr int kTasks = 64;
    pool_.For(kTasks, [&](int task) {
      int64_t begin = floats_ * task / kTasks, end = floats_ * (task + 1) / kTasks;
      (around ? CopyAround : CopyVectors)(to_.data() + begin, from_.data() + begin, end - begin);
    });
  }

 private:
  int64_t floats_;
  std::vector<float> from_, to_;
  ThreadPool pool_;
};

Status Measure(const Case& c, int threads, int rounds, Builder& builder) {
  GraphBuilder b;
  std::vector<ValueId> inputs;
  double bytes = 0;
  for (const graph::Shape& shape : c.inputs) {
    inputs.push_back(b.Input("x" + std::to_string(inputs.size()), F32(shape)));
    bytes += static_cast<double>(b.Spec(inputs.back()).Bytes());
  }
  ValueId y = c.make(b, inputs);
  bytes += static_cast<double>(b.Spec(y).Bytes());
  b.Output(y, "y");
  Target target = TRY(Target::Parse("cpu"));
  target.num_cores = threads;
  Network network = TRY(MakeNetwork(b.Finish(), {}, target, builder));
  CompileResult compiled = TRY(Compile(network, target, nullptr, builder));
  for (const KernelChoice& choice : compiled.choices) {
    if (!choice.note.empty()) printf("note: %s\n", choice.note.c_str());
  }
  LoadedModel model = TRY(LoadModel(std::move(compiled.package), threads));
  for (int64_t i = 0; i < model.executor->num_inputs(); ++i) FillRandom(model.executor->Input(i), i + 1);
  CopyLoop copy(static_cast<int64_t>(bytes), threads);
  TRY(model.executor->Run());
  copy.Run(true);
  copy.Run(false);
  double ours = 1e9, plain = 1e9, around = 1e9;
  for (int round = 0; round < rounds; ++round) {
    plain = std::min(plain, Seconds([&] { copy.Run(false); }));
    around = std::min(around, Seconds([&] { copy.Run(true); }));
    Status status;
    ours = std::min(ours, Seconds([&] { status = model.executor->Run(); }));
    TRY(std::move(status));
  }
  double reached = bytes / ours * 1e-9, copied = copy.bytes() * 1e-9;
  printf("%-24s %d  %8.2f ms %7.2f GB/s  copies %6.2f, %6.2f GB/s  %5.2f\n", c.name, threads, ours * 1e3, reached,
         copied / plain, copied / around, reached * std::min(plain, around) / copied);
  fflush(stdout);
  return {};
}

Status Main(int argc, char** argv) {
  std::vector<int> threads = {1, 2};
  int rounds = 20;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if ((word == "--threads" || word == "--rounds") && i + 1 < argc) {
      int number = std::max(1, atoi(argv[++i]));
      if (word == "--threads") threads = {number};
      if (word == "--rounds") rounds = number;
    } else {
      names.push_back(word);
    }
  }
  auto builder = TRY(MakeBuildWorkers({.command = {"/proc/self/exe", "--build-worker"}}));
  for (int count : threads) {
    for (const Case& c : Cases()) {
      bool wanted = names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                      return std::string(c.name).find(name) != std::string::npos;
                    });
      if (wanted) TRY_NOTE(Measure(c, count, rounds, *builder), std::string("while measuring ") + c.name);
    }
  }
  return {};
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--build-worker") == 0) {
    autotune::EndWithParent();
    return autotune::BuildWorkerMain(autotune::kBuildWorkerFd);
  }
  autotune::Status status = autotune::Main(argc, argv);
  if (!status.ok()) fprintf(stderr, "%s\n", status.error().Text().c_str());
  return status.ok() ? 0 : 1;
}
