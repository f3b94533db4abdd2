// Checks the PTX for NVIDIA GPUs, without a GPU. Where ptxas is installed, it must accept the PTX without a warning and
// without local memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "codegen/cuda_image.h"
#include "runtime/module_blob.h"
#include "target/cuda_arch.h"
#include "te/create_prim_func.h"
#include "tests/codegen/kernel.h"
#include "tests/codegen/ptxas.h"
#include "topi/elementwise.h"
#include "topi/norm.h"

namespace autotune {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Target Cuda(const std::string& arch, const std::string& more = "") {
  return Target::Parse("cuda -arch=" + arch + " -mtriple=x86_64-linux-gnu" + more).value();
}

// A tiled matrix product: 8x8 threads compute 32x32 elements, 4x4 of them per thread in registers, from tiles in shared
// memory. `step`: number of terms of each sum that are in shared memory at a time.
PrimFunc TiledProduct(int step = 16, const std::string& scope = "register", const std::string& j = "j") {
  std::string text = R"(func product(a: f32[64, 64] input, b: f32[64, 64] input, c: f32[64, 64] output) {
    alloc sa: f32[64, 64] shared
    alloc sb: f32[64, 64] shared
    alloc sum: f32[64, 64] $SCOPE
    for by in 2 blockIdx.y { for bx in 2 blockIdx.x {
      for y0 in 8 threadIdx.y { for x0 in 8 threadIdx.x { for i0 in 4 unrolled { for j0 in 4 unrolled {
        block zero(v0: S 64 = by * 32 + y0 * 4 + i0, w0: S 64 = bx * 32 + x0 * 4 + j0) { sum[v0, w0] = 0.0 }
      } } } }
      for k in $PIECES {
        for y1 in 8 threadIdx.y { for x1 in 8 threadIdx.x { for e in $TURNS {
          block fill_a(v1: S 64 = by * 32 + (e * 64 + y1 * 8 + x1) // $STEP, k1: S 64 = k * $STEP + (e * 64 + y1 * 8 + x1) % $STEP) {
            sa[v1, k1] = a[v1, k1]
          }
          block fill_b(k2: S 64 = k * $STEP + (e * 64 + y1 * 8 + x1) // 32, w2: S 64 = bx * 32 + (e * 64 + y1 * 8 + x1) % 32) {
            sb[k2, w2] = b[k2, w2]
          }
        } } }
        for y3 in 8 threadIdx.y { for x3 in 8 threadIdx.x { for s in $STEP { for i in 4 unrolled { for j in 4 unrolled {
          block product(v3: S 64 = by * 32 + y3 * 4 + i, w3: S 64 = bx * 32 + x3 * 4 + j, k3: R 64 = k * $STEP + s) {
            sum[v3, w3] = fma(sa[v3, k3], sb[k3, w3], sum[v3, w3])
          }
        } } } } }
      }
      for y4 in 8 threadIdx.y { for x4 in 8 threadIdx.x { for i4 in 4 unrolled { for j4 in 4 unrolled {
        block copy(v4: S 64 = by * 32 + y4 * 4 + i4, w4: S 64 = bx * 32 + x4 * 4 + j4) { c[v4, w4] = sum[v4, w4] }
      } } } }
    } }
  })";
  const std::pair<std::string, std::string> values[] = {
      {"$SCOPE", scope},
      {"$STEP", std::to_string(step)},
      {"$PIECES", std::to_string(64 / step)},
      {"$TURNS", std::to_string(32 * step / 64)},
      {"w3: S 64 = bx * 32 + x3 * 4 + j", "w3: S 64 = bx * 32 + x3 * 4 + " + j}};
  for (const auto& [from, to] : values) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return Parse(text);
}

std::string PtxOf(const PrimFunc& f, const Target& target) {
  Result<KernelObject> object = Compile(f, target);
  EXPECT_TRUE(object.ok()) << object.error().Text();
  if (!object.ok()) return "";
  EXPECT_EQ(object->rejected, "");
  EXPECT_TRUE(object->objects.empty());
  return object->source;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

// Returns the modules of two kernels with equal buffers, joined.
Result<std::string> JoinedProducts(const Target& first, const Target& second) {
  const PrimFunc product = TiledProduct();
  std::string text = ToText(product);
  text.replace(text.find("func product"), 12, "func other");
  const std::string a = PtxOf(product, first), b = PtxOf(Parse(text), second);
  return JoinPtx({&a, &b});
}

TEST(Ptx, KernelsOfALibraryAreOneModule) {
  const std::string joined = JoinedProducts(Cuda("sm_80"), Cuda("sm_80")).value();
  EXPECT_THAT(joined, HasSubstr(".visible .entry product_0("));
  EXPECT_THAT(joined, HasSubstr(".visible .entry other_0("));
  for (const char* directive : {".version", ".target", ".address_size"}) EXPECT_EQ(Count(joined, directive), 1u);
  EXPECT_EQ(test::PtxasComplaint(joined, "sm_80"), "");
  EXPECT_EQ(JoinedProducts(Cuda("sm_80"), Cuda("sm_90")).error().Text(),
            "PTX modules of different versions or architectures");
}

TEST(Ptx, MachineCodeIsMadeWhereAnAssemblerIs) {
  const std::string ptx = PtxOf(TiledProduct(), Cuda("sm_90"));
  const std::string cubin = AssemblePtx(ptx, "sm_90");
  EXPECT_EQ(cubin.starts_with("\x7f"
                              "ELF"),
            test::HavePtxas());
  EXPECT_EQ(AssemblePtx(ptx, "sm_1"), "");
  EXPECT_EQ(AssemblePtx("broken", "sm_90"), "");
  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_EQ(AssemblePtx(ptx, "sm_90"), "") << "there is no assembler";
  const PrimFunc product = TiledProduct();
  auto imports = [&] {
    const Built built = Build(product, Cuda("sm_90")).value();
    return LoadModule(built.artifact, std::make_shared<KernelContext>(1)).value()->imports().size();
  };
  EXPECT_EQ(imports(), 1u) << "PTX";
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(imports(), test::HavePtxas() ? 2u : 1u) << "PTX and machine code";
}

TEST(Ptx, TiledProductsStayInRegistersAndSharedMemory) {
  const std::string ptx = PtxOf(TiledProduct(), Cuda("sm_80"));
  EXPECT_THAT(ptx, HasSubstr(".target sm_80"));
  EXPECT_THAT(ptx, HasSubstr(".version 7.0"));
  EXPECT_THAT(ptx, HasSubstr(".visible .entry product_0("));
  EXPECT_THAT(ptx, HasSubstr(".maxntid 8, 8, 1"));
  EXPECT_THAT(ptx, HasSubstr(".minnctapersm 1"));
  EXPECT_THAT(ptx, Not(HasSubstr(".local")));
  EXPECT_THAT(ptx, Not(HasSubstr("call")));
  EXPECT_THAT(ptx, Not(HasSubstr(".ftz")));
  EXPECT_THAT(ptx, Not(HasSubstr("cvta")));  // no generic addresses
  EXPECT_EQ(Count(ptx, "bar.sync"), 2u);
  EXPECT_EQ(Count(ptx, "fma.rn.f32"), 16u);
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.f32"));
  EXPECT_THAT(ptx, HasSubstr("st.shared.f32"));
  // One access of 16 bytes loads a row of b; four accesses load a column of a.
  EXPECT_EQ(Count(ptx, "ld.shared.v4.f32"), 1u) << ptx;
  EXPECT_EQ(Count(ptx, "ld.shared.f32"), 4u) << ptx;
  EXPECT_EQ(Count(ptx, "st.global.v4.f32"), 4u) << ptx;
}

// On architectures with asynchronous copies, two groups of copies are in flight while the third is used, and one
// barrier separates iterations.
TEST(Ptx, PipelinesCopyAsynchronously) {
  std::string text = ToText(TiledProduct());
  const std::string loop = "for k in 4 {";
  ASSERT_NE(text.find(loop), std::string::npos) << text;
  text.replace(text.find(loop), loop.size(), "for k in 4 @{pipeline = 3} {");
  const PrimFunc f = ParsePrimFunc(text).value();
  const std::string ptx = PtxOf(f, Cuda("sm_80")), old = PtxOf(f, Cuda("sm_75"));
  EXPECT_EQ(Count(ptx, "cp.async.ca.shared.global [%"), 4u) << "both operands, before and in the loop: " << ptx;
  EXPECT_THAT(ptx, HasSubstr("cp.async.wait_group 1;")) << ptx;
  EXPECT_EQ(Count(ptx, "bar.sync"), 1u) << ptx;
  EXPECT_EQ(Count(old, "cp.async"), 0u);
  EXPECT_EQ(Count(old, "bar.sync"), 1u) << old;
  for (const CudaArch& arch : CudaArchs()) {
    const std::string name(arch.name), code = PtxOf(f, Cuda(name));
    EXPECT_EQ(test::PtxasComplaint(code, name), "") << code;
  }
}

// The asynchronous copy itself fills padding with zeros.
TEST(Ptx, AsynchronousCopiesLeaveOutWhatIsNotThere) {
  const PrimFunc f = ParsePrimFunc(R"(func pad(x: f32[64] input, out: f32[64] output) {
    alloc s: f32[64] shared
    for b in 1 blockIdx.x { for k in 4 @{pipeline = 2} {
      for t in 4 threadIdx.x { for l in 4 vectorized {
        block fill(v: S 64 = k * 16 + t * 4 + l) { s[v] = select(v < 56, x[v], 0.0) } } }
      for u in 4 threadIdx.x { for m in 4 {
        block use(w: S 64 = k * 16 + u * 4 + m) { out[w] = s[w // 16 * 16 + 15 - w % 16] } } }
    } }
  })")
                         .value();
  const std::string ptx = PtxOf(f, Cuda("sm_80"));
  EXPECT_THAT(ptx, ContainsRegex("cp\\.async\\.cg\\.shared\\.global \\[%r[0-9]+\\], \\[%rd[0-9]+\\], 16, %r[0-9]+;"));
  EXPECT_EQ(test::PtxasComplaint(ptx, "sm_80"), "") << ptx;
}

// An index that fits into 32 bits needs no 64-bit multiplication, shift or comparison.
TEST(Ptx, IndicesHave32BitsWhereTheyFit) {
  const std::string ptx = PtxOf(TiledProduct(), Cuda("sm_80"));
  EXPECT_EQ(Count(ptx, "mul.lo.s64"), 0u) << ptx;
  EXPECT_EQ(Count(ptx, "shl.b64"), 0u) << ptx;
  EXPECT_EQ(Count(ptx, "setp.lt.u64"), 0u) << ptx;
}

TEST(Ptx, EveryArchitectureTakesTheCode) {
  for (const CudaArch& arch : CudaArchs()) {
    const std::string name(arch.name), ptx = PtxOf(TiledProduct(), Cuda(name));
    EXPECT_THAT(ptx, HasSubstr(".target " + std::string(arch.ptx_arch) + "\n"));
    EXPECT_THAT(ptx, HasSubstr(".version " + std::to_string(arch.ptx_version / 10) + "." +
                               std::to_string(arch.ptx_version % 10)));
    EXPECT_EQ(test::PtxasComplaint(ptx, name), "") << ptx;
  }
  if (test::HavePtxas()) {
    EXPECT_NE(test::PtxasComplaint("nonsense", "sm_80"), "");
  }
}

TEST(Ptx, MathIsExpanded) {
  te::Tensor x = te::Placeholder("x", {7, 19});
  for (Op op : {Op::kExp, Op::kLog, Op::kTanh, Op::kErf, Op::kSigmoid, Op::kSin, Op::kSqrt, Op::kFloor, Op::kRound}) {
    te::Tensor y = topi::ApplyOp("y", op, x);
    const PrimFunc f = te::CreatePrimFunc("math", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}}, {.use_fma = true});
    const std::string ptx = PtxOf(f, Cuda("sm_75"));
    EXPECT_THAT(ptx, Not(HasSubstr("call")));
    EXPECT_THAT(ptx, Not(HasSubstr(".approx")));
    EXPECT_THAT(ptx, Not(HasSubstr(".minnctapersm"))) << "there is no register tile";
    EXPECT_EQ(test::PtxasComplaint(ptx, "sm_75"), "") << Row(op).name << ptx;
  }
}

TEST(Ptx, EveryTypeHasCode) {
  for (const char* type : {"f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    std::string text =
        "func types(x: T[40] input, p: bool[40] input, y: T[40] output, q: bool[40] output) {"
        "  for i in 40 { block b(v: S 40 = i) { y[v] = select(p[v], x[v] + x[39 - v], max(x[v], x[0])) } }"
        "  for i2 in 40 { block c(v2: S 40 = i2) { q[v2] = x[v2] < x[0] } } }";
    for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
    const std::string ptx = PtxOf(Parse(text), Cuda("sm_80"));
    EXPECT_EQ(Count(ptx, ".visible .entry"), 2u);
    EXPECT_EQ(test::PtxasComplaint(ptx, "sm_80"), "") << type << ptx;
  }
}

// A kernel whose threads compute 8 elements each: y[v] = EXPR of x[v].
PrimFunc Elementwise(const std::string& from, const std::string& to, const std::string& value) {
  return Parse("func map(x: " + from + "[65536] input, y: " + to +
               "[65536] output) { for b in 256 blockIdx.x { for t in 32 threadIdx.x { for i in 8 vectorized {"
               "  block c(v: S 65536 = b * 256 + t * 8 + i) { y[v] = " +
               value + " } } } } }");
}

// Numbers are converted by instructions where the architecture has them.
TEST(Ptx, ConversionsAreInstructions) {
  struct Case {
    std::string from, to, value, instruction;
    const char* first;  // the oldest architecture with the instruction
  };
  const Case cases[] = {
      {"f32", "f16", "f16(x[v])", "cvt.rn.f16", "sm_70"},
      {"f16", "f32", "f32(x[v])", "cvt.f32.f16", "sm_70"},
      {"f32", "bf16", "bf16(x[v])", "cvt.rn.bf16.f32", "sm_80"},
      {"f32", "f32", "tf32(x[v])", "cvt.rna.tf32.f32", "sm_80"},
      {"bf16", "f32", "f32(x[v])", "", "sm_70"},
  };
  for (const Case& c : cases) {
    for (const CudaArch& arch : CudaArchs()) {
      const std::string name(arch.name), ptx = PtxOf(Elementwise(c.from, c.to, c.value), Cuda(name));
      EXPECT_EQ(test::PtxasComplaint(ptx, name), "") << ptx;
      const bool has = &arch >= FindCudaArch(c.first);
      if (c.instruction.empty()) continue;
      EXPECT_EQ(Count(ptx, c.instruction), has ? 8u : 0u) << name << ptx;
    }
  }
}

// Relu chooses between numbers of 16 bits, so it has nothing to round.
TEST(Ptx, ReluOfHalvesRoundsNothing) {
  // A bf16 is widened by two integer instructions.
  for (const auto& [type, most] : {std::pair{"f16", size_t{3}}, {"bf16", size_t{4}}}) {
    const PrimFunc relu = Elementwise(type, type, std::string(type) + "(max(0.0, f32(x[v])))");
    const PrimFunc scaled = Elementwise(type, type, std::string(type) + "(f32(x[v]) * 0.1)");
    for (const char* arch : {"sm_80", "sm_90"}) {
      const std::string ptx = PtxOf(relu, Cuda(arch));
      EXPECT_EQ(Count(ptx, "cvt.rn"), 0u) << ptx;
      EXPECT_EQ(test::PtxasComplaint(ptx, arch), "") << ptx;
      size_t instructions = 0;
      std::istringstream lines(ptx.substr(ptx.find("{\n")));
      for (std::string line; std::getline(lines, line);)
        instructions +=
            line.starts_with("\t") && line.ends_with(";") && !line.starts_with("\t.") && !line.starts_with("\tmov.");
      EXPECT_LE(instructions, most * 8 + 12) << "12 are for addresses, the load and the store: " << ptx;
      EXPECT_EQ(Count(PtxOf(scaled, Cuda(arch)), "cvt.rn"), 8u) << "a product is rounded";
    }
  }
}

// Threads read elements that other threads wrote before the barrier, so no load may move above it. LLVM would move
// loads of noalias parameters, since it assumes that a barrier does not change their memory.
TEST(Ptx, NoLoadMovesAcrossABarrier) {
  const PrimFunc f = Parse(R"(func turns(x: f32[32] input, y: f32[32] output, z: f32[32] output) {
    for b in 1 blockIdx.x {
      for t in 32 threadIdx.x { block a(v: S 32 = t) { y[v] = x[v] } }
      for t1 in 32 threadIdx.x { block b(v1: S 32 = t1) { z[v1] = y[31 - v1] + y[v1] } }
    }
  })");
  const std::string ptx = PtxOf(f, Cuda("sm_80"));
  ASSERT_EQ(Count(ptx, "bar.sync"), 1u) << ptx;
  const std::string after = ptx.substr(ptx.find("bar.sync"));
  EXPECT_EQ(Count(after, "ld.global.f32"), 2u) << ptx;
  EXPECT_EQ(Count(after, "ld.global.nc"), 0u) << ptx;
}

TEST(Ptx, MoreThanStaticSharedMemoryIsAskedForByTheLaunch) {
  const KernelObject small = Compile(TiledProduct(64), Cuda("sm_80")).value();
  EXPECT_EQ(small.metadata.launches.at(0).shared_bytes, 0);
  PrimFunc large = Parse(R"(func large(x: f32[2, 8192] input, y: f32[2, 8192] output) {
    alloc s: f32[2, 8192] shared
    alloc r: f32[2, 8192] shared
    for b in 2 blockIdx.x {
      for t in 64 threadIdx.x { for e in 128 {
        block a(v: S 2 = b, w: S 8192 = e * 64 + t) { s[v, w] = x[v, w] }
        block a1(v1: S 2 = b, w1: S 8192 = e * 64 + t) { r[v1, w1] = x[v1, 8191 - w1] }
      } }
      for t2 in 64 threadIdx.x { for e2 in 128 {
        block c(v2: S 2 = b, w2: S 8192 = e2 * 64 + t2) { y[v2, w2] = s[v2, 8191 - w2] - r[v2, 8191 - w2] }
      } }
    }
  })");
  const KernelObject object = Compile(large, Cuda("sm_80")).value();
  EXPECT_EQ(object.rejected, "");
  EXPECT_EQ(object.metadata.launches.at(0).shared_bytes, 64 << 10);
  EXPECT_THAT(object.source, ContainsRegex("\\.extern \\.shared \\.align 16 \\.b8 large_0_shared\\[\\]"));
  EXPECT_EQ(test::PtxasComplaint(object.source, "sm_80"), "") << object.source;
  EXPECT_THAT(Compile(large, Cuda("sm_80", " -shared=48K")).value().rejected,
              HasSubstr("a block needs 65536 bytes of shared memory; the target has 49152"));
}

TEST(Ptx, LibrariesCarryThePtx) {
  const Target target = Cuda("sm_86");
  const KernelObject object = Compile(TiledProduct(), target).value();
  EXPECT_EQ(object.metadata.device, "cuda");
  ASSERT_EQ(object.metadata.launches.size(), 1u);
  EXPECT_EQ(object.metadata.launches[0].entry, "product_0");
  EXPECT_EQ(object.metadata.launches[0].grid, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(object.metadata.launches[0].block, (std::vector<int64_t>{8, 8, 1}));
  const LinkedKernels linked = LinkKernels({&object}, target).value();
  EXPECT_THAT(linked.device_blob.data, HasSubstr(".visible .entry product_0("));
  EXPECT_THAT(linked.device_blob.data, HasSubstr("ptx"));
  EXPECT_EQ(Artifact::FromBytes(linked.artifact.data).value()->metadata().target, target.Text());
}

// Compiling a program twice gives the same bytes.
TEST(Ptx, CodeIsReproducible) { EXPECT_EQ(PtxOf(TiledProduct(), Cuda("sm_90")), PtxOf(TiledProduct(), Cuda("sm_90"))); }

}  // namespace
}  // namespace autotune
