// Compares matrix products of compiled packages with OpenBLAS and with the peak of multiply-adds. Each round runs every
// product of ours, the same product of OpenBLAS, and a loop of independent multiply-adds; the least time of each
// counts. bench/sgemm.py makes and tunes the packages and runs this program. OpenBLAS is not a dependency: it is loaded
// at run time.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/main.h"
#include "package/load.h"
#include "runtime/compare.h"
#include "runtime/fill.h"
#include "runtime/npy.h"
#include "runtime/thread_pool.h"
#include "support/clock.h"

namespace autotune {
namespace {

constexpr double kBurstSeconds = 0.02;  // duration of one side's calls in one round

struct Blas {
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                         const float* b, int ldb, float beta, float* c, int ldc);
  Sgemm sgemm = nullptr;
  std::string core;
};

Result<Blas> LoadBlas(const std::string& path, int threads) {
  setenv("OPENBLAS_NUM_THREADS", std::to_string(threads).c_str(), 1);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Err("cannot load OpenBLAS: ", dlerror(), "; apt-get install libopenblas0-pthread, or --blas PATH");
  Blas blas;
  blas.sgemm = reinterpret_cast<Blas::Sgemm>(dlsym(library, "cblas_sgemm"));
  if (!blas.sgemm) return Err(path, " has no cblas_sgemm");
  if (auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) blas.core = core();
  return blas;
}

// The peak loop computes multiply-adds of independent accumulators, as wide as this machine's vectors.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
// Number of independent sums that hide the latency of a multiply-add: four ports times four cycles on the widest Arm
// cores. x86-64 has two ports, and before AVX-512 it has registers for at most 14 sums.
#if defined(__x86_64__)
constexpr int kAccumulators = 12;
#else
constexpr int kAccumulators = 16;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
#if defined(__x86_64__)
#define AUTOTUNE_HIDE(v) asm("" : "+x"(v))  // hides the value of v from the compiler
#elif defined(__aarch64__)
#define AUTOTUNE_HIDE(v) asm("" : "+w"(v))
#else
#define AUTOTUNE_HIDE(v) asm("" : "+m"(v))
#endif

double PeakGflops(ThreadPool& pool, float* sink) {
  // The loop takes as long as a large product, since the CPU may run short bursts at a higher clock.
  constexpr int kSteps = 4000000;
  double begin = SteadySeconds();
  pool.For(pool.num_threads(), [&](int thread) {
    // The accumulators are separate variables, since the compiler would keep an array in memory. Their values differ,
    // since the compiler would merge equal accumulators.
    Vector a = {}, b = {};
    a += 0.5F;
    b += 1.0F;
    Vector x0 = a, x1 = x0 + b, x2 = x1 + b, x3 = x2 + b, x4 = x3 + b, x5 = x4 + b;
    Vector x6 = x5 + b, x7 = x6 + b, x8 = x7 + b, x9 = x8 + b, x10 = x9 + b, x11 = x10 + b;
    Vector x12 = x11 + b, x13 = x12 + b, x14 = x13 + b, x15 = x14 + b;
    AUTOTUNE_HIDE(a);
    AUTOTUNE_HIDE(b);
    for (int i = 0; i < kSteps; ++i) {
      x0 = x0 * a + b, x1 = x1 * a + b, x2 = x2 * a + b, x3 = x3 * a + b, x4 = x4 * a + b, x5 = x5 * a + b;
      x6 = x6 * a + b, x7 = x7 * a + b, x8 = x8 * a + b, x9 = x9 * a + b, x10 = x10 * a + b, x11 = x11 * a + b;
      if constexpr (kAccumulators == 16) x12 = x12 * a + b, x13 = x13 * a + b, x14 = x14 * a + b, x15 = x15 * a + b;
    }
    Vector sum = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + x10 + x11 + x12 + x13 + x14 + x15;
    sink[thread * 64] = sum[0];
  });
  return 2.0 * kSteps * kAccumulators * kLanes * pool.num_threads() / (SteadySeconds() - begin) / 1e9;
}

struct Product {
  int m = 0, n = 0, k = 0;
  LoadedModel model;
  Tensor a, b, c;  // operands and result of OpenBLAS
  int runs = 1;
  double ours = 1e30, theirs = 1e30;
  double error = 0;  // largest difference of the two sides, relative to the allowed one
};

Result<double> LeastOf(int runs, const std::function<Status()>& call) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    double begin = SteadySeconds();
    TRY(call());
    best = std::min(best, SteadySeconds() - begin);
  }
  return best;
}

Result<Tensor> Matrix(int64_t rows, int64_t columns) { return Tensor::Empty({rows, columns}, "f32"); }

Result<Product> Load(const std::string& folder, int threads) {
  Product p;
  p.model = TRY(LoadModel(folder + "/tuned.tar", threads));
  GraphExecutor& executor = *p.model.executor;
  Tensor a = executor.Input(0), y = executor.Output(0);
  p.m = static_cast<int>(a.shape()[0]);
  p.k = static_cast<int>(a.shape()[1]);
  p.n = static_cast<int>(y.shape()[1]);
  p.a = TRY(Matrix(p.m, p.k));
  p.c = TRY(Matrix(p.m, p.n));
  FillRandom(p.a, 1);
  TRY(executor.SetInput(0, p.a));
  if (executor.num_inputs() > 1) {
    p.b = TRY(Matrix(p.k, p.n));
    FillRandom(p.b, 2);
    TRY(executor.SetInput(1, p.b));
  } else {
    p.b = TRY(ReadNpy(folder + "/b.npy"));
  }
  return p;
}

Result<int> Main(int argc, char** argv) {
  int threads = 1, rounds = 20;
  std::string path = "libopenblas.so.0";
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (word == "--rounds" && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else if (word == "--blas" && i + 1 < argc) {
      path = argv[++i];
    } else {
      folders.push_back(word);
    }
  }
  if (folders.empty() || threads < 1 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: bench_sgemm [--threads N] [--rounds N] [--blas PATH] FOLDER...   (see bench/sgemm.py)\n");
    return 2;
  }
  Blas blas = TRY(LoadBlas(path, threads));
  std::vector<Product> products;
  for (const std::string& folder : folders) products.push_back(TRY_NOTE(Load(folder, threads), folder));

  auto ours = [&](Product& p) { return [&p] { return p.model.executor->Run(); }; };
  auto theirs = [&](Product& p) {
    return [&p, &blas]() -> Status {
      constexpr int kRowMajor = 101, kNoTrans = 111;
      blas.sgemm(kRowMajor, kNoTrans, kNoTrans, p.m, p.n, p.k, 1, p.a.Data<float>(), p.k, p.b.Data<float>(), p.n, 0,
                 p.c.Data<float>(), p.n);
      return {};
    };
  };
  for (Product& p : products) {
    p.ours = TRY(LeastOf(2, ours(p)));
    TRY(theirs(p)());
    p.runs = std::clamp(static_cast<int>(kBurstSeconds / p.ours), 3, 1000);  // at least 3, since the first is cold
    const Comparison compared = TRY(CompareTensors(p.model.executor->Output(0), p.c));
    if (!compared.ok) return Err(p.m, "x", p.n, "x", p.k, " differs from OpenBLAS: ", compared.Text());
    p.error = compared.worst_ratio;
  }
  ThreadPool pool({.num_threads = threads});
  std::vector<float> sink(static_cast<size_t>(threads) * 64);
  double peak = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Product& p : products) {
      p.ours = std::min(p.ours, TRY(LeastOf(p.runs, ours(p))));
      p.theirs = std::min(p.theirs, TRY(LeastOf(p.runs, theirs(p))));
      peak = std::max(peak, PeakGflops(pool, sink.data()));
    }
  }
  std::printf("%d thread%s, peak %.1f GFLOPS, OpenBLAS for %s, GFLOPS\n", threads, threads == 1 ? "" : "s", peak,
              blas.core.c_str());
  std::printf("    M     N     K     ours   OpenBLAS   ratio   %% peak    error\n");
  double product_of_ratios = 1, least = 1e30;
  for (const Product& p : products) {
    double flops = 2e-9 * p.m * p.n * p.k, ratio = p.theirs / p.ours;
    std::printf("%5d %5d %5d %8.1f %10.1f %7.3f %8.1f %8.1e\n", p.m, p.n, p.k, flops / p.ours, flops / p.theirs, ratio,
                100 * flops / p.ours / peak, p.error);
    product_of_ratios *= ratio;
    least = std::min(least, ratio);
  }
  std::printf("geomean %.3f, least %.3f\n", std::pow(product_of_ratios, 1.0 / static_cast<double>(products.size())),
              least);
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) { return autotune::bench::ExitCode("bench_sgemm", autotune::Main(argc, argv)); }
