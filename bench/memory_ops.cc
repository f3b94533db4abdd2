// Measures which part of the memory bandwidth memory-bound operators reach.
//   bench_memory_ops [--threads N] [--rounds N] [NAME...]
// Tensors are larger than the last-level cache. Each operator, with its default schedule, runs in alternation with two
// loops that read and write as many bytes; the best round counts. The bytes are those of the inputs and of the output,
// each counted once. One loop uses ordinary stores, which read each line before they write it. The other loop uses
// streaming stores, which bypass the caches. The last two columns are the speed of the operator relative to each loop.
// A loop copies if it reads as many bytes as it writes; otherwise each line that it writes is the sum of several lines
// that it reads.
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/graphs.h"
#include "codegen/builder.h"
#include "compiler/compile.h"
#include "compiler/network.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "runtime/tensor.h"
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

using bench::F32;
using bench::LayerNorm;

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

constexpr int64_t kLine = 16;  // floats in a cache line

// Sets each line of `to` to the sum of `ratio` lines of `from`. Uses streaming stores if kAround is true. Does not call
// memcpy, which chooses the kind of its stores by the size.
template <bool kAround>
__attribute__((noinline)) void Combine(float* to, const float* from, int64_t lines, int64_t ratio) {
  typedef float Vector __attribute__((vector_size(16), aligned(16)));
  auto at = [](const float* p) { return *reinterpret_cast<const Vector*>(p); };
  auto store = [](float* p, Vector v) {
#if defined(__SSE2__)
    if (kAround) return _mm_stream_ps(p, v);
#endif
    *reinterpret_cast<Vector*>(p) = v;
  };
  for (int64_t line = 0; line < lines; ++line, to += kLine) {
    Vector a = at(from), b = at(from + 4), c = at(from + 8), d = at(from + 12);
    from += kLine;
    for (int64_t i = 1; i < ratio; ++i, from += kLine) {
      a += at(from), b += at(from + 4), c += at(from + 8), d += at(from + 12);
    }
    store(to, a), store(to + 4, b), store(to + 8, c), store(to + 12, d);
  }
#if defined(__SSE2__)
  if (kAround) _mm_sfence();
#endif
}

class Loop {
 public:
  Loop(double read_bytes, double written_bytes, int threads)
      : ratio_(std::max<int64_t>(1, std::llround(read_bytes / written_bytes))),
        lines_(static_cast<int64_t>((read_bytes + written_bytes) / (4.0 * kLine)) / (1 + ratio_)),
        from_(Tensor::Empty({lines_ * ratio_ * kLine}, "f32").value()),
        to_(Tensor::Empty({lines_ * kLine}, "f32").value()),
        pool_({.num_threads = threads}) {
    std::fill_n(from_.Data<float>(), from_.num_elements(), 1.f);
    std::fill_n(to_.Data<float>(), to_.num_elements(), 0.f);
  }
  double bytes() const { return 4.0 * kLine * static_cast<double>(lines_ * (1 + ratio_)); }
  void Run(bool around) {
    constexpr int64_t kTasks = 64;
    pool_.For(kTasks, [&](int task) {
      int64_t begin = lines_ * task / kTasks, end = lines_ * (task + 1) / kTasks;
      (around ? Combine<true> : Combine<false>)(to_.Data<float>() + begin * kLine,
                                                from_.Data<float>() + begin * ratio_ * kLine, end - begin, ratio_);
    });
  }

 private:
  int64_t ratio_, lines_;
  Tensor from_, to_;
  ThreadPool pool_;
};

Status Measure(const Case& c, int threads, int rounds, Builder& builder) {
  GraphBuilder b;
  std::vector<ValueId> inputs;
  double read = 0;
  for (const graph::Shape& shape : c.inputs) {
    inputs.push_back(b.Input("x" + std::to_string(inputs.size()), F32(shape)));
    read += static_cast<double>(b.Spec(inputs.back()).Bytes());
  }
  ValueId y = c.make(b, inputs);
  const double written = static_cast<double>(b.Spec(y).Bytes());
  b.Output(y, "y");
  Target target = TRY(Target::Parse("cpu"));
  target.num_cores = threads;
  Network network = TRY(MakeNetwork(IRModule(b.Finish()), {}, target, builder));
  CompileResult compiled = TRY(Compile(network, target, nullptr, builder));
  for (const KernelChoice& choice : compiled.choices) {
    if (!choice.note.empty()) printf("note: %s\n", choice.note.c_str());
  }
  LoadedModel model = TRY(LoadModel(std::move(compiled.package), threads));
  for (int64_t i = 0; i < model.executor->num_inputs(); ++i) FillRandom(model.executor->Input(i), i + 1);
  Loop loop(read, written, threads);
  TRY(model.executor->Run());
  loop.Run(true);
  loop.Run(false);
  double ours = 1e9, plain = 1e9, around = 1e9;
  for (int round = 0; round < rounds; ++round) {
    plain = std::min(plain, Seconds([&] { loop.Run(false); }));
    around = std::min(around, Seconds([&] { loop.Run(true); }));
    Status status;
    ours = std::min(ours, Seconds([&] { status = model.executor->Run(); }));
    TRY(std::move(status));
  }
  const double reached = (read + written) / ours * 1e-9, bytes = loop.bytes() * 1e-9;
  printf("%-24s %d  %8.2f ms %7.2f GB/s  loops %6.2f, %6.2f GB/s  %5.2f, %5.2f\n", c.name, threads, ours * 1e3, reached,
         bytes / plain, bytes / around, reached * plain / bytes, reached * around / bytes);
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
