// A register-tiled matrix product, scheduled by hand: its code, its contract and, on demand, its speed.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

// Rows are padded to panels of `mr`, columns to panels of `nr`, at packing; A is packed in `run`, the constant B once.
std::string Gemm(int m, int n, int k, int mr, int nr, int kc, int unroll, int lanes) {
  int mp = (m + mr - 1) / mr, np = (n + nr - 1) / nr, ko = k / kc;
  auto s = [](int x) { return std::to_string(x); };
  std::string text = "func gemm(a: f32[" + s(m) + ", " + s(k) + "] input, b: f32[" + s(k) + ", " + s(n) +
                     "] constant, c: f32[" + s(m) + ", " + s(n) + "] output) {\n";
  text += "alloc ap: f32[" + s(mp) + ", " + s(k) + ", " + s(mr) + "]\n";
  text += "alloc bp: f32[" + s(np) + ", " + s(k) + ", " + s(nr) + "]\n";
  text += "alloc acc: f32[" + s(mp * mr) + ", " + s(np * nr) + "] register\n";
  text += "alloc part: f32[" + s(mp * mr) + ", " + s(np * nr) + "]\n";
  // pack A, B
  text += "for p in " + s(mp) + " parallel { for q in " + s(k) + " { for r in " + s(mr) + " { block pack_a(vp: S " +
          s(mp) + " = p, vq: S " + s(k) + " = q, vr: S " + s(mr) + " = r) { ap[vp, vq, vr] = select(vp * " + s(mr) +
          " + vr < " + s(m) + ", a[vp * " + s(mr) + " + vr, vq], 0.0) } } } }\n";
  text += "for p1 in " + s(np) + " parallel { for q1 in " + s(k) + " { for r1 in " + s(nr) +
          " vectorized { block pack_b(wp: S " + s(np) + " = p1, wq: S " + s(k) + " = q1, wr: S " + s(nr) +
          " = r1) { bp[wp, wq, wr] = select(wp * " + s(nr) + " + wr < " + s(n) + ", b[wq, wp * " + s(nr) +
          " + wr], 0.0) } } } }\n";
  // for jo, ko, io: tile
  auto tile = [&](const std::string& tag, const std::string& body) {
    return "for i" + tag + " in " + s(mr) + " unrolled { for j" + tag + " in " + s(nr / lanes) + " unrolled { for l" +
           tag + " in " + s(lanes) + " vectorized {\n" + body + "} } }\n";
  };
  std::string row = s(mp * mr), col = s(np * nr);
  auto bind = [&](const std::string& tag) {
    return "(x" + tag + ": S " + row + " = io * " + s(mr) + " + i" + tag + ", y" + tag + ": S " + col + " = jo * " +
           s(nr) + " + j" + tag + " * " + s(lanes) + " + l" + tag;
  };
  text += "for io in " + s(mp) + " parallel { for jo in " + s(np) + " {\n";
  text += tile("0", "block zero" + bind("0") + ") { acc[x0, y0] = 0.0 }\n");
  text += "for k0 in " + s(ko) + " { for k1 in " + s(kc / unroll) + " { for k2 in " + s(unroll) + " unrolled {\n";
  text += tile("1", "block update" + bind("1") + ", z: R " + s(k) + " = k0 * " + s(kc) + " + k1 * " + s(unroll) +
                        " + k2) { acc[x1, y1] = acc[x1, y1] + ap[x1 // " + s(mr) + ", z, x1 % " + s(mr) +
                        "] * bp[y1 // " + s(nr) + ", z, y1 % " + s(nr) + "] }\n");
  text += "} } }\n";
  // Through a scratch tile, so that only the copy to C has guards.
  text += tile("2", "block spill" + bind("2") + ") { part[x2, y2] = acc[x2, y2] }\n");
  text += "for i3 in " + s(mr) + " { for l3 in " + s(nr) + " vectorized { block store(x3: S " + row + " = io * " +
          s(mr) + " + i3, y3: S " + col + " = jo * " + s(nr) + " + l3) where io * " + s(mr) + " + i3 < " + s(m) +
          " && jo * " + s(nr) + " + l3 < " + s(n) + " { c[x3, y3] = part[x3, y3] } } }\n";
  text += "} }\n}\n";
  return text;
}

TEST(Gemm, RegisterTiledAgreesWithInterpreter) {
  AgreesWithInterpreter(Parse(Gemm(13, 20, 8, 6, 16, 4, 2, 8)));
  AgreesWithInterpreter(Parse(Gemm(12, 32, 8, 6, 16, 8, 4, 8)));
  AgreesWithInterpreter(Parse(Gemm(15, 9, 6, 14, 8, 6, 1, 8)));
}

// Of this thread: other processes' work does not count.
double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST(Gemm, Report) {
  const char* wanted = getenv("AUTOTUNE_GEMM");
  if (!wanted) GTEST_SKIP() << "set AUTOTUNE_GEMM=MxNxK,MRxNR,KC,UNROLL to measure";
  int m, n, k, mr, nr, kc, unroll;
  ASSERT_EQ(sscanf(wanted, "%dx%dx%d,%dx%d,%d,%d", &m, &n, &k, &mr, &nr, &kc, &unroll), 7);
  PrimFunc f = Parse(Gemm(m, n, k, mr, nr, kc, unroll, 8));
  PassContext context;
  if (const char* pass = getenv("AUTOTUNE_DUMP_PASS")) {
    context.after = [pass](std::string_view name, const PrimFunc& g) {
      if (name == pass) puts(ToText(g).c_str());
    };
  }
  for (int round = 0; round < (getenv("AUTOTUNE_ROUNDS") ? atoi(getenv("AUTOTUNE_ROUNDS")) : 3); ++round) {
    auto start = std::chrono::steady_clock::now();
    context.times_ms.clear();
    auto lowered = Lower(f, Cpu(), context);
    ASSERT_TRUE(lowered.ok()) << lowered.error().Text();
    if (round == 0 && getenv("AUTOTUNE_DUMP")) puts(ToText(lowered->run).c_str());
    double lower_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    CodegenOptions options;
    options.keep_spills = true;
    auto object = CompileKernel(*lowered, Cpu(), options);
    ASSERT_TRUE(object.ok());
    BuildFacts facts = object->facts;
    ASSERT_TRUE(LinkKernels({&*object}, Cpu(), &facts).ok());
    printf("lower %.2f ms", lower_ms);
    for (auto& [pass, ms] : context.times_ms) printf(" %s %.2f", pass.c_str(), ms);
    printf("\n");
    for (auto& [stage, ms] : facts.times_ms) printf(" %s %.2f", stage.c_str(), ms);
    printf(" spills %ld (in loops %ld) code %ld\n", (long)facts.spills, (long)facts.spills_in_register_loops,
           (long)facts.code_bytes);
  }
  CodegenOptions options;
  options.keep_spills = true;
  options.keep_assembly = true;
  auto built = Build(f, Cpu(), options);
  ASSERT_TRUE(built.ok()) << built.error().Text();
  if (getenv("AUTOTUNE_DUMP")) puts(built->object.assembly.c_str());
  KernelContext kernel_context(1);
  auto args = AllocateArgs(built->kernel->metadata).value();
  for (auto& t : args) {
    for (int64_t i = 0; i < t.num_elements(); ++i) t.Data<float>()[i] = static_cast<float>(i % 7);
  }
  auto prepared = PrepareConstants(*built->kernel, kernel_context, std::vector<Tensor>{args[1]}).value();
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    double start = CpuSeconds();
    ASSERT_TRUE(CallKernel(*built->kernel, kernel_context, args, prepared).ok());
    best = std::min(best, CpuSeconds() - start);
  }
  printf("%.3f ms, %.1f GFLOPS\n", best * 1e3, 2e-9 * m * n * k / best);
}

}  // namespace
}  // namespace autotune
