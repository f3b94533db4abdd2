// Targets of kind c: the C source, its compilation by a user, failing compilers, and names. Other tests of this folder
// check, for every code generator, that kernels compute the right values.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>

#include "codegen/builder.h"
#include "codegen/guarded_work.h"
#include "codegen/share.h"
#include "codegen/walk.h"
#include "tests/codegen/c_compiler.h"
#include "tests/codegen/kernel.h"
#include "tests/draws.h"
#include "tests/ir/random_program.h"
#include "tests/read.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using test::CompilerIs;
using test::ComplaintOf;
using test::Folder;
using ::testing::HasSubstr;
using ::testing::Not;

Target C(const std::string& options = "") { return Target::Parse("c" + options).value(); }

constexpr std::string_view kAdd =
    R"(func add(a: f32[4, 8] input, w: f32[8] constant, c: f32[4, 8] output) {
  alloc t: f32[8]
  for k in 8 { block twice(u: S 8 = k) { t[u] = w[u] * 2.0 } }
  for i in 4 parallel { for j in 8 vectorized { block x(v: S 4 = i, z: S 8 = j) { c[v, z] = max(a[v, z] + t[z], 0.0) } } }
})";

constexpr const char* kHaswell = " -mtriple=x86_64-linux-gnu -mcpu=haswell -caches=32K,256K,8M -num-cores=4";

TEST(CSource, IsTheGoldenOne) {
  if (!Cpu().triple.starts_with("x86_64")) GTEST_SKIP() << "the golden source is for x86-64";
  auto object = Compile(Parse(kAdd), C(kHaswell));
  ASSERT_TRUE(object.ok()) << object.error().Text();
  EXPECT_EQ(object->source, test::ReadAll(AUTOTUNE_SOURCE_DIR "/tests/codegen/add.c.golden")) << object->source;
}

TEST(CSource, WithoutVectorTypesLanesAreLoops) {
  auto object = Compile(Parse(kAdd), C(" -vectors=none"));
  ASSERT_TRUE(object.ok()) << object.error().Text();
  EXPECT_THAT(object->source, Not(HasSubstr("vector_size")));
  EXPECT_THAT(object->source, HasSubstr("for (int64_t lane = 0; lane < 8; ++lane) {\n"
                                        "      c[i * 8 + lane] = at_max_f32(a[i * 8 + lane] + t[lane], 0.0f);"));
  auto llvm = Compile(Parse(kAdd));
  ASSERT_TRUE(llvm.ok());
  EXPECT_EQ(llvm->source, "");
}

// Compiles the sources of a library and its metadata as a user would, without options for the processor. The result
// must need no other library, load, and give the same outputs as our own library.
void CompilesByHand(const std::string& compiler, const Target& target) {
  SCOPED_TRACE(compiler + " for " + target.Text());
  PrimFunc f = zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 3, .oc = 9, .stride = 2});
  auto object = Compile(f, target);
  ASSERT_TRUE(object.ok()) << object.error().Text();
  Folder folder;
  std::string kernel = folder.Write("lib0.c", object->source);
  std::string metadata = folder.Write("metadata.c", MetadataSource({&*object}, target).value());
  ASSERT_EQ(ComplaintOf({compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,defs",
                         kernel, metadata, "-o", folder.path("lib.so")}),
            "");
  Built built;
  auto artifact = Artifact::FromFile(folder.path("lib.so"));
  ASSERT_TRUE(artifact.ok()) << artifact.error().Text();
  built.artifact = *artifact;
  built.kernel = built.artifact->Find(f.name.str()).value();
  EXPECT_EQ(built.artifact->metadata().target, target.Text());
  auto ours = Build(f, target);
  ASSERT_TRUE(ours.ok());
  std::vector<InterpArray> args = SmallIntegers(f, 3);
  for (InterpArray& array : args) {
    for (double& value : array.data) value /= 3;
  }
  std::vector<InterpArray> got = args, want = args;
  ASSERT_TRUE(Run(built, f, got).ok());
  ASSERT_TRUE(Run(*ours, f, want).ok());
  for (size_t i = 0; i < args.size(); ++i) EXPECT_EQ(got[i].data, want[i].data);
}

TEST(CSource, CompilesByHand) {
  for (const Target& target : {C(), C(" -vectors=none")}) {
    CompilesByHand("cc", target);
    if (ComplaintOf({"clang", "--version"}) == "" || ComplaintOf({"clang-19", "--version"}) == "") {
      CompilesByHand(ComplaintOf({"clang", "--version"}) == "" ? "clang" : "clang-19", target);
    }
  }
}

TEST(CSource, AnotherCompilerGivesTheSameBits) {
  if (!ComplaintOf({"clang", "--version"}).empty()) GTEST_SKIP() << "clang is not installed";
  CompilerIs clang("exec clang \"$@\"");
  for (uint64_t seed = 50; seed < 56; ++seed) AgreesWithInterpreter(test::MakeRandomProgram(seed), seed);
  AgreesWithInterpreter(zoo::Elementwise(7, 13));
}

// If the code had undefined behaviour, the compiler's sanitizer would end this process.
TEST(CSource, HasNoUndefinedBehaviour) {
  CompilerIs trapping(test::kTrapping);
  for (const Target& target : {C(), C(" -vectors=none")}) {
    SCOPED_TRACE(target.Text());
    AgreesWithInterpreter(zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 3, .oc = 9, .stride = 2}), 1, target);
    AgreesWithInterpreter(zoo::MaxPool({.h = 7, .w = 6, .oc = 5, .stride = 2}), 1, target);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      if (test::IsDrawn(seed, 4)) AgreesWithInterpreter(test::MakeRandomProgram(seed), seed, target);
    }
    AgreesWithInterpreter(Parse(R"(func f(a: i32[8] input, b: i16[8] input, u: u16[8] input, x: f32[8] input,
      y: i32[8] output, z: i16[8] output, w: u16[8] output, v: i32[8] output) {
      for i in 8 { block k(n: S 8 = i) {
        y[n] = (a[n] + 2147483640i32) * 65537i32 - (a[n] << 30i32) + abs(a[n] - 2147483647i32) // -1i32
        z[n] = b[n] * 32767i16 - (-b[n] * 30000i16)
        w[n] = u[n] * 65535u16 * 65535u16
        v[n] = select(x[n] > 0.0, i32(x[n]), select(a[n] == 0i32, 5i32, 100i32 // a[n] % 7i32))
      } } })"),
                          1, target);
  }
}

TEST(CSource, UndefinedBehaviourWouldBeNoticed) {
  CompilerIs trapping(test::kTrapping);
  PrimFunc f =
      Parse("func f(a: i64[2] input, c: i64[2] output) { for i in 2 { block b(v: S 2 = i) { c[v] = a[v] // a[v] } } }");
  auto built = Build(f, C());
  ASSERT_TRUE(built.ok()) << built.error().Text();
  std::vector<InterpArray> zeros = SmallIntegers(f, 1);
  for (InterpArray& array : zeros) array.data.assign(array.data.size(), 0);
  auto run = [&] {
    std::signal(SIGILL, SIG_DFL);  // removes AddressSanitizer's handler, which would report the signal instead
    (void)autotune::Run(*built, f, zeros);
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGILL), "");
}

// Guards against a bug of GCC 12: if it if-converts the second loop, its masked loads use the wrong lanes of the mask.
TEST(CSource, ChoicesInShortLoops) {
  AgreesWithInterpreter(Parse(
      R"(func choose(x: f32[8, 2] input, y: f32[2] input, sum: f32[8, 2] input, greater: bool[8, 2] output, chosen: f32[8, 2] output) {
  for i in 8 { for j in 2 { block is(v: S 8 = i, u: S 2 = j) { greater[v, u] = x[v, u] > y[u] } } }
  for m in 8 { for n in 2 { block choice(w: S 8 = m, z: S 2 = n) { chosen[w, z] = select(greater[w, z], x[w, z], sum[w, z]) } } }
})"));
}

TEST(CSource, AnyNames) {
  size_t number = 0;
  for (const char* name : {"for", "int", "main", "exp", "memset", "restrict", "t1", "f32x8", "at_max_f32", "a.b",
                           "AtContext", "\"a b\"", "\"\xc3\xbc\"", "\"1st\"", "\"?\?/*/\"", "context"}) {
    SCOPED_TRACE(name);
    const std::string quoted = std::string(name) == "a.b" ? "\"a.b\"" : name == std::string("for") ? "\"for\"" : name;
    ++number;
    for (const Target& target : {C(), C(" -vectors=none")}) {
      if (!test::IsDrawn(number++, 2)) continue;
      AgreesWithInterpreter(
          Parse("func " + quoted +
                "(x: f32[4, 8] input, \"a b\": f32[8] input, a_b: f32[4, 8] output, lane: f32[4, 8] output) {"
                " for args in 4 parallel { for context in 8 vectorized { block k(v: S 4 = args, w: S 8 = context) {"
                " a_b[v, w] = max(x[v, w] + \"a b\"[w], 0.0) lane[v, w] = x[v, w] - 1.0 } } } }"),
          1, target);
      AgreesWithInterpreter(Parse("func k(" + quoted +
                                  ": f32[8] input, y: f32[8] output) { for i in 8 { block b(v: S 8 = i) {"
                                  " y[v] = " +
                                  quoted + "[v] * 2.0 } } }"),
                            1, target);
    }
  }
}

// A function with many operations is defined once in a source, and unrolled code calls it. Compilers took minutes for
// inlined copies.
TEST(CSource, LongFunctionsAreNotCopied) {
  const PrimFunc f = Parse(R"(func f(x: f32[16, 8] input, y: f32[16, 8] output) {
    for i in 16 unrolled { for j in 8 vectorized { block b(v: S 16 = i, w: S 8 = j) {
      y[v, w] = pow(abs(x[v, w]), 1.5) } } } })");
  for (const Target& target : {C(), C(" -vectors=none")}) {
    SCOPED_TRACE(target.Text());
    auto object = Compile(f, target);
    ASSERT_TRUE(object.ok()) << object.error().Text();
    const std::string name = target.vector_types ? " at_pow_f32x8(" : " at_pow_f32(";
    int mentioned = 0;
    for (size_t at = 0; (at = object->source.find(name.substr(1), at)) != std::string::npos; ++at) ++mentioned;
    EXPECT_EQ(mentioned, 17);
    EXPECT_THAT(object->source, HasSubstr("\nstatic " + std::string(target.vector_types ? "f32x8" : "float") + name));
    EXPECT_LT(object->source.size(), 25000u);
    AgreesWithInterpreter(f, 1, {Cpu(), target}, 1e-6);
  }
}

// A chain of stages that each use their input twice, written as one expression, has a thousand terms, and ten different
// ones. Each is computed once. Without that, compilers took minutes.
TEST(CSource, EqualTermsOfLargeExpressionsAreComputedOnce) {
  constexpr int kStages = 10;
  for (const int stages : {2, kStages}) {
    SCOPED_TRACE(stages);
    std::string value = "x[v]";
    for (int i = 0; i < stages; ++i)
      value = "(" + value + " - floor(" + value + " * 0.5) * " + std::to_string(i + 1) + ".0)";
    const PrimFunc f =
        Parse("func f(x: f32[32] input, y: f32[32] output) { for i in 32 vectorized { block b(v: S 32 = i) { y[v] = " +
              value + " } } }");
    for (const Target& target : {C(), C(" -vectors=none")}) {
      SCOPED_TRACE(target.Text());
      auto object = Compile(f, target);
      ASSERT_TRUE(object.ok()) << object.error().Text();
      EXPECT_LT(object->source.size(), 30000u);
    }
    AgreesWithInterpreter(f);
  }
  // Only large expressions change.
  Expr small = IndexVar("i"), large = small;
  for (int i = 0; i < 4; ++i) small = small + small * small;
  EXPECT_TRUE(WithSharedTerms(small).Same(small));
  for (int i = 0; i < kStages; ++i) large = large * IntConst(3) + (large * IntConst(3) + IntConst(i));
  const Expr shared = WithSharedTerms(large);
  EXPECT_TRUE(Equal(shared, large));
  int terms = 0;
  WalkOnce(shared, [&](const Expr&) { return ++terms, true; });
  EXPECT_LT(terms, 5 * kStages);
}

// The same for choices within a choice, whose sides load under a condition. What the next stage's condition has
// computed is not computed again in its sides, and neither is what both sides use.
TEST(CSource, EqualTermsOfNestedChoicesAreComputedOnce) {
  constexpr int kStages = 8;
  for (const bool own : {true, false}) {
    std::string value = "x[v]";
    for (int i = 0; i < kStages; ++i) {
      const std::string condition = (own ? value : "c[v]") + " < " + std::to_string(i) + ".0";
      value = "select(" + condition + ", " + value + " * 2.0, " + value + " - 1.0)";
    }
    for (const char* kind : {"serial", "vectorized"}) {
      const PrimFunc f =
          Parse("func f(x: f32[32] input, c: f32[32] input, y: f32[32] output) { for i in 32 " + std::string(kind) +
                " { block b(v: S 32 = i) { y[v] = select(c[v] < 0.5, " + value + ", 7.0) } } }");
      for (const Target& target : {C(), C(" -vectors=none")}) {
        SCOPED_TRACE(target.Text());
        auto object = Compile(f, target);
        ASSERT_TRUE(object.ok()) << object.error().Text();
        EXPECT_LT(object->source.size(), 10000u) << object->source;
      }
      const auto native = Compile(f);
      ASSERT_TRUE(native.ok()) << native.error().Text();
      EXPECT_LT(native->objects[0].data.size(), 10000u);
      AgreesWithInterpreter(f);
    }
  }
}

// A load that one side of a select uses under a further condition may be out of bounds where only the other side is
// used: it is no common term.
TEST(CSource, CommonTermsAreUsedUnconditionally) {
  const Buffer x = Buffer::Make("x", DType::Float(32), {Expr(8)});
  const Expr zero = ConstOf(0, DType::Float(32)), load = MakeLoad(x, {IndexVar("i")}), a = load + load;
  const auto among = [&](const Expr& b) {
    bool found = false;
    for (const Expr& term : CommonTerms(a, b)) found |= term.Same(load);
    return found;
  };
  EXPECT_TRUE(among(load * load));
  EXPECT_TRUE(among(MakeSelect(load < zero, zero, zero - load)));
  EXPECT_FALSE(among(MakeSelect(IndexVar("i") < Expr(7), load, zero)));
  EXPECT_FALSE(among(zero));
}

// A program may use names that the generated source needs for itself: names of registers, parallel loops and functions,
// names of stdint.h, and keywords. The generated code must still compute the right results.
TEST(CSource, NamesThatSourcesMakeUp) {
  for (const char* program : {
           R"(func k(x: f32[64] input, acc_0: f32[64] input, y: f32[64] output) {
             alloc acc: f32[8] register
             for i in 8 parallel {
               for j in 8 vectorized { block a(v: S 8 = i, w: S 8 = j) { acc[w] = x[v * 8 + w] * 2.0 } }
               for l in 8 vectorized { block b(p: S 8 = i, q: S 8 = l) { y[p * 8 + q] = acc[q] + acc_0[p * 8 + q] } }
             } })",
           R"(func k(tasks_0: f32[64] input, shared_0: f32[64] input, code_0: f32[64] output) {
             for i in 64 parallel { block a(v: S 64 = i) { code_0[v] = tasks_0[v] + shared_0[v] } } })",
           R"(func k(x: f32[64] input, y: f32[64] output) {
             alloc shared: f32[64]
             for i in 8 parallel {
               for j in 8 { block a(v: S 8 = i, w: S 8 = j) { shared[v * 8 + w] = x[v * 8 + w] * 2.0 } }
               for l in 8 { block b(p: S 8 = i, q: S 8 = l) { y[p * 8 + q] = shared[p * 8 + 7 - q] } }
             } })",
           R"(func k(k_raw_parallel0_task: f32[64] input, k_raw_parallel0: f32[64] output) {
             for k_raw_body in 64 parallel { block a(v: S 64 = k_raw_body) {
               k_raw_parallel0[v] = max(k_raw_parallel0_task[v], 1.0) } } })",
           R"(func AtTensor(INT64_C: f32[64] input, INT32_MAX: f32[64] output) {
             for SIZE_MAX in 64 parallel { block a(v: S 64 = SIZE_MAX) { INT32_MAX[v] = INT64_C[v] + 1.0 } } })",
           R"(func int_fast8_t("true": f32[64] input, nullptr: f32[64] output) {
             for values in 64 { block a(v: S 64 = values) { nullptr[v] = "true"[v] + 1.0 } } })",
       }) {
    SCOPED_TRACE(program);
    AgreesWithInterpreter(Parse(program));
  }
}

TEST(CSource, NamesThatNoAssemblerTakes) {
  for (const char* name : {"say \"hi\"", "back\\slash", "line\nbreak"}) {
    PrimFunc f = Parse(kAdd);
    f.name = Name(name);
    auto object = Compile(f, C());
    ASSERT_FALSE(object.ok());
    EXPECT_THAT(object.error().Text(), HasSubstr("without quotes, backslashes and control characters"));
    EXPECT_EQ(object.error().Text().find('\n'), std::string::npos);
  }
}

std::string FailureOf(const Target& target = C()) {
  auto object = Compile(Parse(kAdd), target);
  EXPECT_FALSE(object.ok());
  const std::string text = object.ok() ? "" : object.error().Text();
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

TEST(CCompiler, ThatIsMissing) {
  setenv("AUTOTUNE_CC", "/no/such/cc", 1);
  EXPECT_THAT(FailureOf(), AllOf(HasSubstr("cannot start /no/such/cc"), HasSubstr("install gcc or clang")));
  unsetenv("AUTOTUNE_CC");
  std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(FailureOf(), AllOf(HasSubstr("cannot start cc"), HasSubstr("install gcc or clang")));
  // Code for another architecture needs a cross compiler.
  EXPECT_THAT(FailureOf(C(" -mtriple=riscv64-linux-gnu -mcpu=sifive-u74")),
              HasSubstr("install riscv64-linux-gnu-gcc, or"));
  setenv("PATH", path.c_str(), 1);
}

// A triple that differs only in vendor or C library names the same machine, so `cc` serves it.
TEST(CCompiler, IsCcForEveryTripleOfThisArchitecture) {
  if (!Cpu().triple.starts_with("x86_64")) GTEST_SKIP() << "the triples are of x86-64";
  for (const char* triple : {"x86_64-linux-gnu", "x86_64-pc-linux-gnu", "x86_64-unknown-linux-musl"})
    EXPECT_TRUE(Compile(Parse(kAdd), C(" -mcpu=x86-64 -mtriple=" + std::string(triple))).ok()) << triple;
}

TEST(CCompiler, ThatIsForAnotherMachine) {
  if (!Cpu().triple.starts_with("x86_64")) GTEST_SKIP() << "the test needs a cc that does not compile for AArch64";
  const std::string other = "; cc compiles for x86_64-linux-gnu: name a compiler for aarch64-linux-gnu in AUTOTUNE_CC";
  const Target arm = C(" -mtriple=aarch64-linux-gnu -mcpu=cortex-a72");
  setenv("AUTOTUNE_CC", "cc", 1);
  EXPECT_THAT(FailureOf(arm), AllOf(HasSubstr("assembly is not understood"), HasSubstr(other)));
  EXPECT_TRUE(Compile(Parse(kAdd), C()).ok());
  unsetenv("AUTOTUNE_CC");
  // This compiler fails for every source, as a compiler does that lacks a required option or attribute.
  CompilerIs failing("[ \"$1\" = -dumpmachine ] && exec echo s390x-linux-gnu; exit 1");
  EXPECT_THAT(FailureOf(), AllOf(HasSubstr("exited with code 1; "), HasSubstr("compiles for s390x-linux-gnu: ")));
}

TEST(CCompiler, ThatFails) {
  {
    CompilerIs failing("echo 'In file x:' >&2; echo '<stdin>:3:1: error: boom' >&2; exit 3");
    EXPECT_THAT(FailureOf(),
                AllOf(HasSubstr("the C compiler"), HasSubstr("exited with code 3: <stdin>:3:1: error: boom")));
  }
  {
    CompilerIs dying("kill -9 $$");
    EXPECT_THAT(FailureOf(), HasSubstr("was ended by signal 9 (Killed)"));
  }
  {
    CompilerIs silent("exit 0");
    EXPECT_THAT(FailureOf(), HasSubstr("gave no assembly"));
  }
  {
    CompilerIs deaf("exec <&-; sleep 0.1; exit 7");  // it closes its standard input before the source is written
    EXPECT_THAT(FailureOf(), HasSubstr("exited with code 7"));
  }
  {
    CompilerIs wrong("echo '\tno such instruction'");
    EXPECT_THAT(FailureOf(),
                AllOf(HasSubstr("the compiler's assembly is not understood: line 1"), HasSubstr("kernel add")));
  }
  {
    CompilerIs talking("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; exit 1");  // more than a pipe holds
    EXPECT_THAT(FailureOf(), HasSubstr("exited with code 1"));
  }
  Target unknown = C(" -mcpu=x86-64");
  unknown.features = {"+nosuchfeature"};
  EXPECT_THAT(FailureOf(unknown), HasSubstr("LLVM does not know -mattr=+nosuchfeature"));
}

bool IsAlive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(stat, text) && text.find(") Z ") == std::string::npos;
}

// A worker that exceeds its time is killed, together with the compiler that it started.
TEST(CCompiler, ThatHangsEndsWithItsWorker) {
  Folder folder;
  const std::string pids = folder.path("pids");
  CompilerIs hanging("sleep 1000 & echo $$ $! >> " + pids + "; wait");
  BuildWorkersOptions options;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--build-worker"};
  options.workers = 1;
  options.timeout_seconds = 1;
  auto workers = MakeBuildWorkers(options).value();
  BuildRequest request;
  request.func = kAdd;
  request.target = C().Text();
  BuildResult result = workers->Build({request})[0];
  EXPECT_EQ(result.status, TrialStatus::kBuildTimedOut) << result.text;
  std::ifstream file(pids);
  int count = 0;
  for (pid_t pid; file >> pid; ++count) {
    for (int i = 0; i < 100 && IsAlive(pid); ++i) usleep(20000);
    EXPECT_FALSE(IsAlive(pid));
  }
  EXPECT_EQ(count, 2);
}

TEST(CTarget, IsCheckedAndBuiltByWorkers) {
  BuildWorkersOptions options;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--build-worker"};
  options.workers = 1;
  auto workers = MakeBuildWorkers(options).value();
  EXPECT_TRUE(CheckTarget(C(), *workers).ok());
  BuildRequest request;
  request.func = kAdd;
  request.target = C().Text();
  CompiledKernel kernel = workers->Compile({request}, Patience::kNeeded)[0];
  ASSERT_EQ(kernel.status, TrialStatus::kOk) << kernel.text;
  EXPECT_THAT(kernel.object.source, HasSubstr("int32_t add("));
  EXPECT_EQ(kernel.object.objects.size(), 1u);
  EXPECT_GT(kernel.object.facts.times_ms["compile"], 0);
  CompilerIs failing("exit 1");
  EXPECT_THAT(CheckTarget(C(), *MakeBuildWorkers(options).value()).error().Text(),
              HasSubstr("nothing can be built for c "));
}

TEST(CTarget, CompilersKnowTheInstructionsOfAllModels) {
  if (!Cpu().triple.starts_with("x86_64")) GTEST_SKIP() << "the models are of x86-64";
  for (const char* cpu :
       {"x86-64", "x86-64-v2", "znver1", "znver2", "znver3", "znver4", "sapphirerapids", "icelake-server",
        "cascadelake", "skylake-avx512", "alderlake", "skylake", "broadwell", "haswell", "bdver4"}) {
    auto object = Compile(Parse(kAdd), C(" -mtriple=x86_64-linux-gnu -mcpu=" + std::string(cpu)));
    EXPECT_TRUE(object.ok()) << cpu << ": " << object.error().Text();
  }
}

}  // namespace
}  // namespace autotune
