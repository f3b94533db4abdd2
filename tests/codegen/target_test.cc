// Compiled kernels: cross-compilation, determinism, entry points, contracts.
#include <gmock/gmock.h>

#include "runtime/abi.h"
#include "support/cpu_features.h"
#include "target/described_cpu.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Uses many ops, dtypes and kinds of loops, so that a target that needs a library call for one of them fails.
constexpr std::string_view kEverything = R"(func all(
  a: f32[64] input, b: f64[64] input, c: i32[64] input, d: i8[64] input, p: bool[64] input, q: u16[64] input, w: f32[64, 8] constant,
  x: f32[64] output, y: f64[64] output, z: i32[64] output, m: bool[64] output, n: i64[64] output
) {
  alloc wp: f32[8, 64]
  alloc big: f32[64, 128]
  for s in 64 { for t in 8 { block pack(vs: S 64 = s, vt: S 8 = t) { wp[vt, vs] = w[vs, vt] } } }
  for i in 64 parallel {
    for j in 128 vectorized { block fill(u1: S 64 = i, u2: S 128 = j) { big[u1, u2] = a[u2 % 64] + f32(u2) } }
    for r in 128 { block sum(u3: S 64 = i, u4: R 128 = r) { init { x[u3] = 0.0 } x[u3] = x[u3] + big[u3, u4] * wp[u4 % 8, u3] } }
  }
  for k in 64 vectorized {
    block many(v: S 64 = k) {
      y[v] = floor(b[v]) + ceil(b[v]) + round(b[v]) + sqrt(abs(b[v])) + pow(abs(b[v]), 0.5f64) + tanh(b[v]) + f64(c[v]) + log(abs(b[v]) + 1.0f64)
      z[v] = c[v] // 3i32 + c[v] % 5i32 + i32(a[v]) + abs(c[v]) + i32(d[v]) + i32(q[v]) + (c[v] << 2i32) + (c[v] >> 1i32)
      m[v] = isnan(a[v]) || p[v] && a[v] < 0.5
      n[v] = i64(a[v] * exp(a[v] * 0.01)) + i64(c[v]) // (i64(d[v]) * 2i64 + 1i64)
    }
  }
}
)";

TEST(Targets, EveryOpOnThisMachine) { AgreesWithInterpreter(Parse(kEverything), 11, 1e-14); }

TEST(Targets, CrossCompiledWithoutUndefinedSymbols) {
  for (const char* text :
       {"llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "llvm -mtriple=aarch64-linux-gnu -mcpu=generic",
        "llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74", "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64"}) {
    SCOPED_TRACE(text);
    Target target = Target::Parse(text).value();
    auto object = Compile(Parse(kEverything), target);
    ASSERT_TRUE(object.ok()) << object.error().Text();
    auto elf = LinkKernels({&*object}, target);
    ASSERT_TRUE(elf.ok()) << elf.error().Text();
    uint16_t machine = static_cast<uint16_t>(static_cast<unsigned char>(elf->artifact.data[18]));
    EXPECT_EQ(machine, target.triple.starts_with("x86") ? 62 : target.triple.starts_with("aarch64") ? 183 : 243);
  }
}

TEST(Targets, CodeOfOlderProcessorsRunsHereToo) {
  const std::vector<std::string>& here = Cpu().features;
  auto has = [&](const char* feature) { return std::find(here.begin(), here.end(), feature) != here.end(); };
  for (auto [cpu, needs] :
       {std::pair{"x86-64", ""}, {"nehalem", "+sse4.2"}, {"haswell", "+avx2"}, {"skylake-avx512", "+avx512bw"}}) {
    SCOPED_TRACE(cpu);
    if (*needs && !has(needs)) continue;
    Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=" + std::string(cpu)).value();
    AgreesWithInterpreter(Parse(kEverything), 12, target, 1e-14);
  }
}

// Compiles and links a small library for the target. Returns the CPU features that its metadata states. The metadata is
// read from the library's bytes, since a library for another machine cannot be loaded.
std::vector<std::string> CpuFeaturesOf(const std::string& target_text) {
  Target target = Target::Parse("llvm -mtriple=" + target_text).value();
  auto object =
      Compile(Parse("func f(x: f32[1] output) { for i in 1 { block b(v: S 1 = i) { x[v] = 0.0 } } }"), target);
  std::string elf = LinkKernels({&*object}, target).value().artifact.data;
  size_t begin = elf.find("{\"abi_version\"");
  Json metadata = Json::Parse(elf.c_str() + begin).value();
  return FromJson<ArtifactMetadata>(metadata).value().cpu_features;
}

TEST(Targets, LibrariesStateTheCpuFeaturesThatTheyMayNeed) {
  EXPECT_THAT(CpuFeaturesOf("x86_64-linux-gnu -mcpu=x86-64"), testing::IsEmpty());
  EXPECT_THAT(CpuFeaturesOf("x86_64-linux-gnu -mcpu=x86-64 -mattr=+fma"),
              testing::IsSupersetOf({"avx", "fma", "sse4.2", "ssse3"}));
  EXPECT_THAT(CpuFeaturesOf("x86_64-linux-gnu -mcpu=haswell -mattr=-avx2,-fma"),
              testing::Not(testing::Contains("fma")));
  EXPECT_THAT(CpuFeaturesOf("x86_64-linux-gnu -mcpu=bdver4"), testing::IsSupersetOf({"fma4", "tbm", "xop"}));
  EXPECT_THAT(CpuFeaturesOf("aarch64-linux-gnu -mcpu=cortex-a72"), testing::IsEmpty());
  EXPECT_THAT(CpuFeaturesOf("aarch64-linux-gnu -mcpu=neoverse-n1"), testing::IsSupersetOf({"dotprod", "lse", "rdm"}));
  EXPECT_TRUE(CheckCpuFeatures(CpuFeaturesOf(Cpu().Text().substr(strlen("llvm -mtriple=")))).ok())
      << "a library compiled for this machine must run on it";
}

TEST(Targets, FeaturesOfHostModelsAreThoseOfLlvm) {
  for (const char* cpu : {"znver1", "znver2", "znver3", "znver4", "sapphirerapids", "icelake-server", "cascadelake",
                          "skylake-avx512", "alderlake", "skylake", "broadwell", "haswell"}) {
    std::vector<std::string> features = FeaturesOfModel(cpu);
    std::erase_if(features, [](const std::string& name) { return name.starts_with("amx-"); });  // not in this kernel
    EXPECT_EQ(CpuFeaturesOf("x86_64-linux-gnu -mcpu=" + std::string(cpu)), features) << cpu;
  }
  for (const char* cpu : {"cortex-a35", "cortex-a53", "cortex-a55", "cortex-a57", "cortex-a72", "cortex-a73",
                          "cortex-a75", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-a710", "cortex-x1",
                          "neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1", "apple-m2"}) {
    EXPECT_EQ(CpuFeaturesOf("aarch64-linux-gnu -mcpu=" + std::string(cpu)), FeaturesOfModel(cpu)) << cpu;
  }
}

TEST(Targets, UnknownNamesAreErrors) {
  Target target = Cpu();
  target.cpu = "z80";
  auto object = Compile(Parse(kEverything), target);
  ASSERT_FALSE(object.ok());
  EXPECT_THAT(object.error().Text(), HasSubstr("z80"));
}

TEST(Artifact, EqualTextGivesEqualBytes) {
  std::string first;
  for (int i = 0; i < 3; ++i) {
    auto object = Compile(Parse(kEverything));
    ASSERT_TRUE(object.ok());
    std::string bytes = LinkKernels({&*object}, Cpu())->artifact.data;
    if (i == 0) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

constexpr std::string_view kAdd =
    R"(func add(a: f32[4, 8] input, w: f32[8] constant, unused: f32[2] constant, c: f32[4, 8] output) {
  alloc t: f32[8]
  for k in 8 { block twice(u: S 8 = k) { t[u] = w[u] * 2.0 } }
  for i in 4 { for j in 8 { block x(v: S 4 = i, z: S 8 = j) { c[v, z] = a[v, z] + t[z] } } }
})";

TEST(Artifact, MetadataTellsWhatTheCallerNeeds) {
  auto built = Build(Parse(kAdd));
  ASSERT_TRUE(built.ok()) << built.error().Text();
  const KernelMetadata& m = built->kernel->metadata;
  EXPECT_EQ(m.name, "add");
  ASSERT_EQ(m.params.size(), 4u);
  EXPECT_EQ(m.params[1].kind, ParamKind::kConstant);
  EXPECT_EQ(m.params[0].shape, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(m.prepared, std::vector<int64_t>{32});
  EXPECT_EQ(m.prepare_only, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(m.flops, 40);
  EXPECT_EQ(built->artifact->metadata().target, Cpu().Text());
}

TEST(Artifact, TheCheckedEntryRefusesWhatDoesNotFit) {
  auto built = Build(Parse(kAdd));
  ASSERT_TRUE(built.ok());
  KernelContext context(1);
  auto call = [&](std::vector<Tensor> args, std::vector<Tensor> prepared) {
    Status status = CallKernel(*built->kernel, context, args, prepared);
    return status.ok() ? std::string("ok") : status.error().Text();
  };
  std::vector<Tensor> args = AllocateArgs(built->kernel->metadata).value();
  for (const Tensor& t : args) memset(t.data(), 0, t.num_bytes());
  std::vector<Tensor> prepared =
      PrepareConstants(*built->kernel, context, std::vector<Tensor>{args[1], args[2]}).value();
  EXPECT_EQ(call(args, prepared), "ok");
  EXPECT_THAT(call(args, {}), HasSubstr("takes 5 arguments"));
  auto with = [&](size_t i, Tensor t) {
    std::vector<Tensor> changed = args;
    changed[i] = t;
    return changed;
  };
  EXPECT_THAT(call(with(1, Tensor::Zeros({9}, "f32").value()), prepared), HasSubstr("argument 1 (w) must be f32[8]"));
  EXPECT_THAT(call(with(0, Tensor::Zeros({8, 4}, "f32").value()), prepared), HasSubstr("argument 0 (a)"));
  EXPECT_THAT(call(with(0, Tensor::Zeros({32}, "f32").value()), prepared), HasSubstr("argument 0 (a)"));
  EXPECT_THAT(call(with(3, Tensor::Zeros({4, 8}, "i32").value()), prepared), HasSubstr("argument 3 (c)"));
  EXPECT_THAT(call(args, {Tensor::Zeros({31}, "u8").value()}), HasSubstr("prepared buffer"));
  auto memory = Tensor::Zeros({64}, "f32").value();
  Tensor shifted = Tensor::View(memory.Data<float>() + 4, {8}, memory.dtype(), nullptr).value();
  EXPECT_THAT(call(with(1, shifted), prepared), HasSubstr("aligned to 64 bytes"));  // a constant
  const auto at_byte = [&](int64_t offset) {
    return Tensor::View(static_cast<char*>(memory.data()) + offset, {4, 8}, memory.dtype(), nullptr).value();
  };
  EXPECT_EQ(call(with(0, at_byte(4)), prepared), "ok");
  EXPECT_EQ(call(with(3, at_byte(4)), prepared), "ok");
  EXPECT_THAT(call(with(0, at_byte(2)), prepared), HasSubstr("argument 0 (a)"));
  EXPECT_THAT(call(with(3, at_byte(1)), prepared), HasSubstr("aligned to 4 bytes"));
  // Compact strides are accepted, others are not. The stride of a dimension of extent 1 does not matter.
  DLTensor strided = *args[0].dl();
  int64_t compact[] = {8, 1}, transposed[] = {1, 4};
  strided.strides = compact;
  const void* pointers[] = {&strided, args[1].dl(), args[2].dl(), args[3].dl(), prepared[0].dl()};
  EXPECT_EQ(built->kernel->checked(context.abi(), pointers, 5), 0);
  strided.strides = transposed;
  EXPECT_NE(built->kernel->checked(context.abi(), pointers, 5), 0);
  pointers[0] = nullptr;
  EXPECT_NE(built->kernel->checked(context.abi(), pointers, 5), 0);
}

int32_t FailingParallelFor(AtContext*, int32_t, int32_t (*)(AtContext*, void*, int32_t), void*) { return 42; }
void* NoMemory(AtContext*, uint64_t) { return nullptr; }
void* SomeMemory(AtContext*, uint64_t bytes) { return aligned_alloc(64, bytes); }
void FreeMemory(AtContext*, void* memory) { free(memory); }
std::string* g_error = nullptr;
void KeepError(AtContext*, const char* text) { *g_error = text; }

TEST(Artifact, FailuresOfTheRuntimeComeBack) {
  PrimFunc f = Parse(R"(func f(a: f32[65536] input, c: f32[65536] output) {
    alloc t: f32[65536]
    for i in 16 parallel { for j in 4096 { block x(v: S 65536 = i * 4096 + j) { t[v] = a[v] * 2.0 } } }
    for k in 65536 { block y(w: S 65536 = k) { c[w] = t[65535 - w] } }
  })");
  auto built = Build(f);
  ASSERT_TRUE(built.ok()) << built.error().Text();
  EXPECT_EQ(built->kernel->metadata.workspace_bytes, 65536 * 4);
  KernelContext real(2);
  AtContext context = *real.abi();  // a copy, which the functions of the original do not accept
  std::string error;
  g_error = &error;
  context.set_error = KeepError;
  context.workspace_free = FreeMemory;
  std::vector<Tensor> args = AllocateArgs(built->kernel->metadata).value();
  void* pointers[] = {args[0].data(), args[1].data()};
  context.workspace_alloc = NoMemory;
  EXPECT_NE(built->kernel->raw(&context, pointers), 0);
  EXPECT_THAT(error, HasSubstr("out of memory"));
  context.workspace_alloc = SomeMemory;
  context.num_threads = 2;
  context.parallel_for = FailingParallelFor;
  EXPECT_EQ(built->kernel->raw(&context, pointers), 42);
}

TEST(Artifact, SpillsInARegisterLoopAreRejected) {
  // 14 x 16 floats need 28 accumulators of 8 lanes; there are 16 registers.
  std::string text = R"(func f(a: f32[512, 14] input, b: f32[512, 16] input, c: f32[14, 16] output) {
    alloc r: f32[ROWS, 16] register
    for i0 in ROWS unrolled { for j0 in 16 vectorized { block z(x0: S ROWS = i0, y0: S 16 = j0) { r[x0, y0] = 0.0 } } }
    for k in 512 { for i in ROWS unrolled { for j in 16 vectorized {
      block u(x: S ROWS = i, y: S 16 = j, vk: R 512 = k) { r[x, y] = r[x, y] + a[vk, x] * b[vk, y] } } } }
    for i2 in ROWS unrolled { for j2 in 16 vectorized { block s(x2: S ROWS = i2, y2: S 16 = j2) { c[x2, y2] = r[x2, y2] } } }
  })";
  auto with_rows = [&](const std::string& rows) {
    std::string t = text;
    for (size_t at = 0; (at = t.find("ROWS", at)) != std::string::npos;) t.replace(at, 4, rows);
    return Parse(t);
  };
  Target c = Target::Parse("c -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value();
  auto spilled = Compile(with_rows("14"), c);
  ASSERT_TRUE(spilled.ok()) << spilled.error().Text();
  EXPECT_THAT(spilled->rejected, HasSubstr("spills"));
  EXPECT_TRUE(spilled->objects.empty());
  auto kept = Compile(with_rows("14"), c, {.keep_spills = true});
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->rejected, "");
  EXPECT_GT(kept->facts.spills, kept->facts.spills_in_register_loops);
  auto whole = Compile(with_rows("6"), c, {.keep_assembly = true});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->rejected, "");
  EXPECT_EQ(whole->facts.spills_in_register_loops, 0);
  EXPECT_THAT(whole->assembly, testing::ContainsRegex("(vfmadd(.|\n)*){12}"));
  Target avx2 = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value();
  auto object = Compile(with_rows("14"), avx2);
  ASSERT_TRUE(object.ok()) << object.error().Text();
  EXPECT_THAT(object->rejected, HasSubstr("spills"));
  EXPECT_TRUE(object->objects.empty());
  auto fits = Compile(with_rows("6"), avx2, {.keep_assembly = true});
  ASSERT_TRUE(fits.ok());
  EXPECT_EQ(fits->rejected, "");
  EXPECT_EQ(fits->facts.spills_in_register_loops, 0);
  // The loop has twelve fused multiply-adds, loads of two vectors of b and six broadcasts, and it does not use the
  // stack.
  const std::string& assembly = fits->assembly;
  size_t begin = assembly.find(".LBB0_1:");
  ASSERT_NE(begin, std::string::npos) << assembly;
  size_t end = assembly.find("\tjb\t", begin);
  ASSERT_NE(end, std::string::npos) << assembly;
  std::string loop = assembly.substr(begin, end - begin);
  auto count = [&](const std::string& what) {
    int n = 0;
    for (size_t at = 0; (at = loop.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("vfmadd"), 12) << loop;
  EXPECT_EQ(count("vbroadcastss"), 6) << loop;
  EXPECT_EQ(count("vmovaps") + count("vmovups"), 2) << loop;
  EXPECT_EQ(count("rsp"), 0) << loop;
}

TEST(Artifact, KernelsOfOneNameDoNotLink) {
  auto object = Compile(Parse(kAdd));
  ASSERT_TRUE(object.ok());
  auto twice = LinkKernels({&*object, &*object}, Cpu());
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().Text(), HasSubstr("duplicate symbol"));
}

}  // namespace
}  // namespace autotune
