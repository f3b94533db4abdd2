// Checks which instructions compiled code has: none that the target lacks, and those by which an optimization shows,
// such as streaming stores. binutils disassembles code for three generations of x86-64; for other architectures LLVM
// prints the assembly. target_test.cc and scripts/cross.sh run code and compare its results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>

#include "support/unique_fd.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

// A matrix product, and a loop that rounds its diagonal. The vectorized code has loads, broadcasts, fma, selects and
// conversions.
constexpr std::string_view kProgram =
    R"(func k(a: f32[64, 32] input, b: f32[32, 64] input, c: f32[64, 64] output, d: i32[64] output) {
  for i in 64 {
    for j in 64 vectorized { block zero(z0: S 64 = i, z1: S 64 = j) { c[z0, z1] = 0.0 } }
    for r in 32 {
      for j2 in 64 vectorized {
        block sum(v0: S 64 = i, v1: S 64 = j2, v2: R 32 = r) { c[v0, v1] = c[v0, v1] + a[v0, v2] * b[v2, v1] }
      }
    }
  }
  for q in 64 vectorized { block whole(w: S 64 = q) { d[w] = select(c[w, w] > 0.5, i32(floor(c[w, w])), -1i32) } }
}
)";

std::string Disassembly(const std::string& cpu, std::string_view program = kProgram) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=" + cpu + " -num-cores=1").value();
  auto object = Compile(Parse(program), target);
  EXPECT_TRUE(object.ok()) << object.error().Text();
  auto elf = LinkKernels({&*object}, target);
  EXPECT_TRUE(elf.ok()) << elf.error().Text();
  std::string path = ::testing::TempDir() + "instructions-XXXXXX";
  UniqueFd file(mkstemp(path.data()));
  std::ofstream(path, std::ios::binary) << elf->artifact.data;
  std::string text;
  FILE* pipe = popen(("objdump -d --no-show-raw-insn " + path + " | cut -f 2-").c_str(), "r");
  for (char line[512]; pipe && fgets(line, sizeof line, pipe);) text += line;
  EXPECT_TRUE(pipe && pclose(pipe) == 0) << "objdump failed";
  unlink(path.c_str());
  return text;
}

// Returns the first match of the pattern; empty if there is none.
std::string Find(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match.str() : "";
}

constexpr char kAvx[] = "%[yz]mm|\nv[a-z]", kAvx512[] = "%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])",
               kFma[] = "vfmadd[0-9a-z]* .*%ymm";

TEST(Instructions, NoneBeyondTheTarget) {
  std::string sse = Disassembly("nehalem"), avx2 = Disassembly("haswell"), avx512 = Disassembly("skylake-avx512");
  EXPECT_EQ(Find(sse, kAvx), "");
  EXPECT_NE(Find(sse, "mulps"), "");
  EXPECT_EQ(Find(avx2, kAvx512), "");
  EXPECT_NE(Find(avx2, kFma), "") << "a sum of products must become fma where the target has it\n";
  EXPECT_NE(Find(avx512, "%zmm"), "");
  // The patterns do match where the instructions occur.
  EXPECT_NE(Find(avx2, kAvx), "");
  EXPECT_NE(Find(avx512, kAvx512), "");
}

std::string Assembly(const std::string& target) {
  auto object = Compile(Parse(kProgram), Target::Parse(target).value(), {.keep_assembly = true});
  EXPECT_TRUE(object.ok()) << object.error().Text();
  return object.ok() ? object->assembly : "";
}

TEST(Instructions, VectorsOfOtherArchitectures) {
  std::string neon = Assembly("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72");
  EXPECT_NE(Find(neon, "fmla\\s+v[0-9]+\\.4s"), "");
  const std::string riscv = "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64";
  std::string scalar = Assembly(riscv), vector = Assembly(riscv + " -mattr=+v");
  EXPECT_NE(Find(vector, "vfmacc|vfmadd"), "");
  EXPECT_NE(Find(scalar, "fmadd\\.s"), "");
  EXPECT_EQ(Find(scalar, "vsetvli|vsetivli|vf[a-z]*\\.v"), "");
  EXPECT_NE(Find(vector, "vsetvli|vsetivli|vf[a-z]*\\.v"), "") << "the pattern must match vector instructions";
}

// The sigmoid of x expands to select(x < 0, e, 1) / (1 + e) with e = exp(-|x|). The condition has loaded the operands
// of x, so the branch must neither load them nor compute e again.
TEST(Instructions, WhatAConditionLoadsIsNotLoadedAgainInItsBranches) {
  auto multiply_adds = [](const std::string& value) {
    std::string program =
        "func k(a: f32[64] input, b: f32[64] input, c: f32[64] output) { for i in 8 { for j in 8 vectorized {"
        " block y(v: S 64 = i * 8 + j) { c[v] = " +
        value + " } } } }";
    std::string text = Disassembly("haswell", program);
    const std::regex pattern("vfn?m(add|sub)");
    return std::distance(std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator());
  };
  std::ptrdiff_t exponential = multiply_adds("exp(a[v] + b[v])");
  EXPECT_GT(exponential, 5);
  EXPECT_EQ(multiply_adds("sigmoid(a[v] + b[v])"), exponential);
  EXPECT_EQ(multiply_adds("exp(a[v]) + exp(b[v])"), 2 * exponential) << "the count must see both exponentials";
}

// Lanes near each other are loaded as one vector and permuted; lanes far apart are loaded one by one.
TEST(Instructions, LanesNearEachOtherAreOneLoad) {
  auto program = [](const std::string& index) {
    return "func k(x: f32[1024] input, y: f32[4, 64] output) { for i in 4 { for j in 64 vectorized {"
           " block b(r: S 4 = i, v: S 64 = j) { y[r, v] = x[" +
           index + "] } } } }";
  };
  constexpr char kOneByOne[] = "vinsertps|vunpcklps|vinsertf", kPermute[] = "vpermilps|vpermps|vshufps|vmovs[hl]dup";
  for (const char* cpu : {"skylake-avx512", "haswell"}) {
    for (const char* index : {"v // 4 * 4 + r", "v // 2 * 2 + 1"}) {
      std::string near = Disassembly(cpu, program(index));
      EXPECT_EQ(Find(near, kOneByOne), "") << cpu << " " << index;
      EXPECT_NE(Find(near, kPermute), "") << cpu << " " << index;
    }
    EXPECT_NE(Find(Disassembly(cpu, program("v * 16 + r")), kOneByOne), "") << cpu;
  }
}

// Returns the text of y = x + 1 on rows x columns elements, by all threads, each row in vectors of 16. With
// `read_back`, a second block doubles y in place.
std::string Sum(int64_t rows, int64_t columns, bool read_back = false) {
  std::string r = std::to_string(rows), c = std::to_string(columns), shape = "f32[" + r + ", " + c + "]";
  return "func k(x: " + shape + " input, y: " + shape + " output) { for i in " + r + " parallel { for j in " +
         std::to_string((columns + 15) / 16) + " { for l in 16 vectorized { block sum(v0: S " + r + " = i, v1: S " + c +
         " = j * 16 + l) where j * 16 + l < " + c + " { y[v0, v1] = x[v0, v1] + 1.0 } }" +
         (read_back ? " for m in 16 { block again(w0: S " + r + " = i, w1: S " + c +
                          " = j * 16 + m) where j * 16 + m < " + c + " { y[w0, w1] = y[w0, w1] * 2.0 } }"
                    : "") +
         " } } }";
}

TEST(Instructions, LargeResultsGoAroundTheCaches) {
  constexpr char kStreamed[] = "movnt[a-z]*", kFence[] = "sfence";
  for (const char* cpu : {"skylake-avx512", "haswell", "nehalem"}) {
    std::string large = Disassembly(cpu, Sum(2048, 4096));
    EXPECT_NE(Find(large, kStreamed), "") << cpu;
    EXPECT_NE(Find(large, kFence), "") << cpu;
    for (const auto& [what, program] : {std::pair{"a small result", Sum(1024, 4096)},
                                        {"vectors that are not aligned", Sum(8192, 1030)},
                                        {"a result that is read back", Sum(2048, 4096, true)}}) {
      std::string text = Disassembly(cpu, program);
      EXPECT_EQ(Find(text, kStreamed), "") << cpu << ": " << what;
      EXPECT_EQ(Find(text, kFence), "") << cpu << ": " << what;
    }
  }
}

// The caller's array decides at run time which stores a kernel uses: streaming ones of whole vectors, those of 16
// bytes, or cached ones.
TEST(Instructions, StreamingStoresWorkOnAnyArray) {
  constexpr int64_t kRows = 2048, kColumns = 4096, kElements = kRows * kColumns;
  auto built = Build(Parse(Sum(kRows, kColumns)), Target::Parse("cpu").value());
  ASSERT_TRUE(built.ok()) << built.error().Text();
  const Tensor x = Tensor::Empty({kRows, kColumns}, "f32").value();
  for (int64_t i = 0; i < kElements; ++i) x.Data<float>()[i] = static_cast<float>(i % 1021);
  const Tensor memory = Tensor::Empty({kElements + 64}, "f32").value();
  for (int64_t floats : {0, 1, 4, 8, 16, 31}) {
    std::memset(memory.data(), 0xff, static_cast<size_t>(memory.num_bytes()));
    float* y = memory.Data<float>() + 16 + floats;
    KernelContext context(2);
    const Tensor args[] = {x, Tensor::View(y, {kRows, kColumns}, x.dtype(), nullptr).value()};
    ASSERT_TRUE(CallKernel(*built->kernel, context, args, {}).ok());
    int64_t wrong = 0;
    for (int64_t i = 0; i < kElements; ++i) wrong += y[i] != x.Data<float>()[i] + 1;
    EXPECT_EQ(wrong, 0) << floats;
    EXPECT_TRUE(std::isnan(y[-1]) && std::isnan(y[kElements])) << floats;
  }
}

// If the length of a row is no multiple of a cache line, streaming stores are as wide as the row's alignment allows.
TEST(Instructions, RowsThatAreNoLinesGoAroundTheCachesInPieces) {
  for (const char* cpu : {"skylake-avx512", "haswell", "nehalem"}) {
    const std::string wide = cpu[0] == 'n' ? "%xmm" : "%ymm";
    EXPECT_NE(Find(Disassembly(cpu, Sum(9000, 1000)), "movnt[a-z]* *" + wide), "") << cpu;
    EXPECT_NE(Find(Disassembly(cpu, Sum(9000, 1004)), "movnt[a-z]* *%xmm"), "") << cpu;
  }
}

// A square of elements is loaded by rows and transposed by shuffles. Columns that form no whole square are loaded
// element by element.
TEST(Instructions, SquaresAreTransposedInRegisters) {
  auto program = [](int columns) {
    const std::string n = std::to_string(columns);
    return "func k(x: f32[64, 64] input, y: f32[64, 64] output) { for i in 4 { for u in " + n +
           " unrolled { for l in 16 vectorized { block t(c: S 64 = u, r: S 64 = i * 16 + l) { y[c, r] = x[r, c] } } } "
           "} }";
  };
  constexpr char kOneByOne[] = "insertps", kShuffle[] = "shufps";
  for (const auto& [cpu, lanes] : {std::pair{"skylake-avx512", 16}, {"haswell", 8}, {"nehalem", 4}}) {
    std::string whole = Disassembly(cpu, program(2 * lanes)), cut = Disassembly(cpu, program(lanes - 1));
    EXPECT_EQ(Find(whole, kOneByOne), "") << cpu;
    EXPECT_NE(Find(whole, kShuffle), "") << cpu;
    EXPECT_NE(Find(cut, std::string(kOneByOne) + "|unpcklps"), "") << cpu;
  }
}

// A look-up converts 16 numbers of 4 bits, if they are the upper ones of words.
TEST(Instructions, NumbersOfFourBitsAreLookedUp) {
  const auto program = [](int bits) {
    return "func f(a: i32[64] input, b: f32[64] output) { for o in 4 { for i in 16 vectorized { block c(v: S 64 = o * "
           "16 + i) { b[v] = f32((a[v] << 8i32) >> " +
           std::to_string(bits) + "i32) } } } }";
  };
  constexpr char kLookUp[] = "vperm(ps|d) .*%";
  const std::string looked_up = Disassembly("skylake-avx512", program(28));
  EXPECT_NE(Find(looked_up, kLookUp), "");
  EXPECT_EQ(Find(looked_up, "vcvtdq2ps"), "");
  EXPECT_EQ(Find(Disassembly("skylake-avx512", program(27)), kLookUp), "") << "5 bits";
  EXPECT_EQ(Find(Disassembly("haswell", program(28)), kLookUp), "") << "registers of 8 floats";
}

// Results are prefetched for writing, unless streaming stores bypass the caches.
TEST(Instructions, PrefetchesOfResults) {
  auto copy = [](const std::string& rows, const char* hint) {
    return "func k(x: f32[" + rows + ", 4096] input, y: f32[" + rows + ", 4096] output) { for i in " + rows +
           " { for j in 256 { evaluate " + hint + "[i + 1, j * 16]) for l in 16 vectorized { block copy(v0: S " + rows +
           " = i, v1: S 4096 = j * 16 + l) { y[v0, v1] = x[v0, v1] } } } } }";
  };
  constexpr char kRead[] = "prefetcht0", kWrite[] = "prefetchw";
  for (const char* cpu : {"skylake-avx512", "haswell", "nehalem"}) {
    std::string text = Disassembly(cpu, copy("64", "prefetch_write(y"));
    EXPECT_NE(Find(text, kWrite), "") << cpu;
    EXPECT_EQ(Find(text, kRead), "") << cpu;
    text = Disassembly(cpu, copy("64", "prefetch(x"));
    EXPECT_EQ(Find(text, kWrite), "") << cpu;
    EXPECT_NE(Find(text, kRead), "") << cpu;
    text = Disassembly(cpu, copy("64", "prefetch_far(x"));
    EXPECT_EQ(Find(text, kRead), "") << cpu;
    EXPECT_NE(Find(text, "prefetcht1"), "") << cpu;
    text = Disassembly(cpu, copy("2048", "prefetch_write(y"));
    EXPECT_EQ(Find(text, kWrite), "") << cpu;
    EXPECT_NE(Find(text, "movnt[a-z]*"), "") << cpu;
  }
}

TEST(Instructions, LargeResultsAreRight) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{2048, 4096}, {9000, 1008}, {9000, 1000}, {9000, 995}}) {
    auto built = Build(Parse(Sum(rows, columns)));
    ASSERT_TRUE(built.ok()) << built.error().Text();
    Tensor x = Tensor::Empty({rows, columns}, "f32").value(), y = Tensor::Empty({rows, columns}, "f32").value();
    for (int64_t i = 0; i < x.num_elements(); ++i) x.Data<float>()[i] = static_cast<float>(i % 1000);
    KernelContext context(2);
    void* args[] = {x.data(), y.data()};
    ASSERT_EQ(built->kernel->raw(context.abi(), args), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) wrong += y.Data<float>()[i] != static_cast<float>(i % 1000 + 1);
    EXPECT_EQ(wrong, 0) << rows << " x " << columns;
  }
}

// A register tile of sums of products of words: rows of two vectors, four pairs of steps at a time. `b`: the type of
// the second factor.
std::string WordsTile(int lanes, const std::string& rows = "4", const std::string& b = "i16") {
  const std::string l = std::to_string(lanes), n = std::to_string(2 * lanes);
  const auto tile = [&](const std::string& t) {
    return "for m" + t + " in " + rows + " unrolled { for u" + t + " in 2 unrolled { for j" + t + " in " + l +
           " vectorized { ";
  };
  const auto bound = [&](const std::string& t) {
    return "(v" + t + ": S " + rows + " = m" + t + ", w" + t + ": S " + n + " = u" + t + " * " + l + " + j" + t;
  };
  return "func k(a: i16[" + rows + ", 256] input, b: " + b + "[128, " + n + ", 2] input, y: i32[" + rows + ", " + n +
         "] output) { alloc acc: i32[" + rows + ", " + n + "] register " + tile("0") + "block zero" + bound("0") +
         ") { acc[v0, w0] = 0i32 } } } } for q in 32 { for t in 4 unrolled { " + tile("1") +
         "for p in 2 @{dot=1} { block add" + bound("1") + ", x: R 128 = q * 4 + t, z: R 2 = p) " +
         "{ acc[v1, w1] = acc[v1, w1] + i32(a[v1, x * 2 + z]) * i32(b[x, w1, z]) } } } } } } } " + tile("2") +
         "block out" + bound("2") + ") { y[v2, w2] = acc[v2, w2] } } } } }";
}

TEST(Instructions, WordsAreMultipliedInPairs) {
  EXPECT_NE(Find(Disassembly("nehalem", WordsTile(4)), "\npmaddwd .*%xmm"), "");
  EXPECT_NE(Find(Disassembly("haswell", WordsTile(8)), "vpmaddwd .*%ymm"), "");
  EXPECT_NE(Find(Disassembly("skylake-avx512", WordsTile(16)), "vpmaddwd .*%zmm"), "");
  EXPECT_EQ(Find(Disassembly("haswell", WordsTile(8, "1", "u16")), "vpmaddwd"), "") << "no words";
}

// LLVM would add the products of the four pairs to each other before it adds them to the sums, and spill some.
TEST(Instructions, ProductsOfWordsAreAddedInOrder) {
  const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1").value();
  const auto object = Compile(Parse(WordsTile(8)), target);
  ASSERT_TRUE(object.ok()) << object.error().Text();
  EXPECT_EQ(object->facts.spills, 0);
}

// The least words: four of them make 2^31, which wraps around, as everywhere.
TEST(Instructions, ProductsOfWordsAreExact) {
  const PrimFunc f = Parse(WordsTile(4));
  for (const bool least : {false, true}) {
    std::vector<InterpArray> want = SmallIntegers(f, 3);
    for (size_t i = 0; least && i < 2; ++i) std::ranges::fill(want[i].data, -32768);
    std::vector<InterpArray> got = want;
    ASSERT_TRUE(Interpret(f, want).ok());
    const auto built = Build(f, Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem").value());
    ASSERT_TRUE(built.ok()) << built.error().Text();
    ASSERT_TRUE(autotune::Run(*built, f, got).ok());
    EXPECT_EQ(got.back().data, want.back().data);
  }
}

}  // namespace
}  // namespace autotune
