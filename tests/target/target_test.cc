#include "target/target.h"

#include <gtest/gtest.h>

#include <set>

#include "target/cuda_arch.h"
#include "target/machine.h"

namespace autotune {
namespace {

TEST(Target, HostIsResolvedAndItsTextIsCanonical) {
  auto cpu = Target::Parse("cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ(cpu->Text().find("host"), std::string::npos);
  auto again = Target::Parse(cpu->Text());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->Text(), cpu->Text());
  EXPECT_EQ(again->vector_bits, cpu->vector_bits);
}

TEST(Target, AttributesFollowTheFeatures) {
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2")->vector_bits, 256);
  EXPECT_TRUE(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2")->has_fma);
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")->vector_bits, 128);
  EXPECT_FALSE(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")->has_fma);
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")->vector_registers, 32);
  EXPECT_EQ(Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")->vector_registers, 32);
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")->general_registers, 16);
  EXPECT_EQ(Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")->general_registers, 31);
}

TEST(Target, VectorsOfEveryGeneration) {
  auto of = [](const std::string& cpu) { return *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=" + cpu); };
  for (const char* cpu :
       {"znver4", "znver5", "graniterapids", "emeraldrapids", "cooperlake", "tigerlake", "rocketlake"}) {
    EXPECT_EQ(of(cpu).vector_registers, 32) << cpu;
    EXPECT_TRUE(of(cpu).has_fma) << cpu;
  }
  EXPECT_EQ(of("sierraforest").vector_bits, 256);
  EXPECT_TRUE(of("sierraforest").has_fma);
  EXPECT_EQ(of("ivybridge").vector_bits, 256);
  EXPECT_FALSE(of("ivybridge").has_fma);
  EXPECT_EQ(of("nehalem").vector_bits, 128);
  auto riscv = [](const std::string& more) {
    return Target::Parse("llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64" + more)->vector_bits;
  };
  EXPECT_EQ(riscv(""), 32);
  EXPECT_EQ(riscv(" -mattr=+v"), 128);
  EXPECT_EQ(riscv(" -mattr=+v,+zvl256b"), 256);
  EXPECT_EQ(riscv(" -mattr=+zvl256b"), 32);
  EXPECT_EQ(Target::Parse("llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-x280")->vector_bits, 512);
  for (const char* cpu : {"cascadelake", "icelake-server", "sapphirerapids", "znver4", "alderlake", "sierraforest"})
    EXPECT_TRUE(of(cpu).has_byte_dot) << cpu;
  for (const char* cpu : {"x86-64", "haswell", "skylake-avx512", "knl", "znver3", "x86-64-v4"})
    EXPECT_FALSE(of(cpu).has_byte_dot) << cpu;
  EXPECT_FALSE(of("znver4 -mattr=-avx512vnni").has_byte_dot);
  EXPECT_TRUE(of("x86-64 -mattr=+avx2,+avxvnni").has_byte_dot);
  EXPECT_FALSE(Target::Parse("c -mtriple=x86_64-linux-gnu -mcpu=znver4")->has_byte_dot) << "C has no such operation";
  EXPECT_TRUE(of("znver4").HasDot(/*floats=*/true, 16));
  EXPECT_TRUE(of("x86-64-v4 -mattr=+avx512bf16").HasDot(/*floats=*/true, 16));
  EXPECT_FALSE(of("sapphirerapids").HasDot(/*floats=*/true, 16)) << "its instruction is slow";
  EXPECT_FALSE(of("icelake-server").HasDot(/*floats=*/true, 16));
  for (const char* cpu : {"x86-64", "nehalem", "haswell", "znver3", "skylake-avx512", "x86-64-v4"})
    EXPECT_TRUE(of(cpu).HasDot(/*floats=*/false, 16) && !of(cpu).HasDot(/*floats=*/false, 8)) << cpu;
  EXPECT_FALSE(of("znver4").has_word_dot) << "it adds twice as many bytes";
  EXPECT_FALSE(of("sandybridge").has_word_dot) << "its vectors of 256 bits are of floats only";
  EXPECT_FALSE(of("knl").has_word_dot) << "so are its vectors of 512 bits";
  EXPECT_FALSE(Target::Parse("c -mtriple=x86_64-linux-gnu -mcpu=haswell")->has_word_dot);
  const auto arm = [](const std::string& cpu) {
    return Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=" + cpu).value();
  };
  for (const char* cpu : {"neoverse-n1", "cortex-a76", "apple-m1", "generic -mattr=+dotprod"})
    EXPECT_TRUE(arm(cpu).has_byte_dot && !arm(cpu).has_mixed_dot && !arm(cpu).has_bf16_dot) << cpu;
  for (const char* cpu : {"neoverse-v1", "generic -mattr=+dotprod,+i8mm,+bf16"})
    EXPECT_TRUE(arm(cpu).has_byte_dot && arm(cpu).has_mixed_dot && arm(cpu).has_bf16_dot) << cpu;
  for (const char* cpu : {"cortex-a72", "generic", "neoverse-n1 -mattr=-dotprod"})
    EXPECT_FALSE(arm(cpu).has_byte_dot || arm(cpu).has_word_dot) << cpu;
  for (const char* cpu : {"icelake-server", "sapphirerapids", "znver4", "x86-64-v4 -mattr=+avx512vbmi"})
    EXPECT_TRUE(of(cpu).has_byte_tables) << cpu;
  for (const char* cpu : {"x86-64", "haswell", "cascadelake", "x86-64-v4", "znver4 -mattr=-avx512vbmi"})
    EXPECT_FALSE(of(cpu).has_byte_tables) << cpu;
  EXPECT_FALSE(Target::Parse("c -mtriple=x86_64-linux-gnu -mcpu=znver4")->has_byte_tables);
  EXPECT_TRUE(arm("cortex-a72").has_byte_tables);
  EXPECT_TRUE(of("sapphirerapids").has_tiles);
  EXPECT_TRUE(of("x86-64-v4 -mattr=+amx-tile,+amx-int8,+amx-bf16").has_tiles);
  EXPECT_FALSE(of("x86-64-v4 -mattr=+amx-tile,+amx-int8").has_tiles) << "without bf16";
  EXPECT_FALSE(of("sapphirerapids -mattr=-amx-tile").has_tiles);
  EXPECT_FALSE(of("znver4").has_tiles);
  EXPECT_TRUE(of("icelake-server").HasDot(/*floats=*/false, 8));
}

TEST(Target, CachesArePartOfTheText) {
  Target stated = *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -caches=48K,2M,0 -num-cores=4");
  EXPECT_EQ(stated.l1_bytes, 48 << 10);
  EXPECT_EQ(stated.l2_bytes, 2 << 20);
  EXPECT_EQ(stated.l3_bytes, 0);
  EXPECT_EQ(stated.Text(), "llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -caches=48K,2M,0 -num-cores=4");
  // The caches of another machine are not those of this machine.
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")->l2_bytes, 512 << 10);
  EXPECT_EQ(Target::Parse("llvm -mcpu=host -caches=1K,2K,3K")->l3_bytes, 3 << 10);
  EXPECT_GT(Target::Parse("cpu")->l1_bytes, 1 << 10);
  for (const char* bad : {"32K", "32K,1M", "32K,1M,32M,1G", "32K,1M,x", "-1,1,1", "32G,1M,1M", ",,"}) {
    auto refused = Target::Parse(std::string("llvm -mcpu=znver3 -caches=") + bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.error().message.find("does not have the sizes of three levels"), std::string::npos);
  }
}

TEST(Target, KindsAreApartByTheirTexts) {
  Target c = *Target::Parse("c"), cpu = *Target::Parse("cpu");
  EXPECT_EQ(c.kind, TargetKind::kC);
  EXPECT_EQ(cpu.kind, TargetKind::kLlvm);
  EXPECT_EQ(c.Text(), "c" + cpu.Text().substr(4)) << "the c target must describe the same machine";
  EXPECT_FALSE(c == cpu);
  EXPECT_TRUE(*Target::Parse(c.Text()) == c);
  EXPECT_TRUE(*Target::Parse("c -mcpu=host") == c);
}

// Schedules depend on the lanes of the machine's vectors, so they make the same loops with and without vector types.
TEST(Target, WithoutVectorTypesTheMachineIsTheSame) {
  const std::string machine = "c -mtriple=x86_64-linux-gnu -mcpu=znver4 -caches=32K,1M,32M -num-cores=2";
  Target with = *Target::Parse(machine), without = *Target::Parse(machine + " -vectors=none");
  EXPECT_EQ(with.Text(), machine);
  EXPECT_EQ(without.Text(), machine + " -vectors=none");
  EXPECT_TRUE(*Target::Parse(without.Text()) == without);
  EXPECT_TRUE(with.vector_types);
  EXPECT_FALSE(without.vector_types);
  EXPECT_EQ(without.vector_bits, 512);
  EXPECT_TRUE(without.has_fma);
  EXPECT_TRUE(with.has_ldexp);
  EXPECT_FALSE(without.has_ldexp) << "ldexp is an instruction on vectors";
}

TEST(Target, GpusHaveTheLimitsOfTheirBlocks) {
  const std::string text = "opencl -mtriple=aarch64-linux-gnu -num-cores=4 -max-threads=512 -shared=48K";
  const Target gpu = *Target::Parse(text);
  EXPECT_TRUE(gpu.IsGpu());
  EXPECT_EQ(gpu.Text(), text);
  EXPECT_EQ(gpu.max_threads, 512);
  EXPECT_EQ(gpu.shared_bytes, 48 << 10);
  EXPECT_TRUE(gpu.has_fma);
  EXPECT_EQ(gpu.Host().triple, "aarch64-linux-gnu") << "the host that launches the kernels";
  EXPECT_FALSE(gpu.Host().IsGpu());
  EXPECT_TRUE(*Target::Parse(gpu.Host().Text()) == gpu.Host());
  const Target plain = *Target::Parse("opencl");
  EXPECT_TRUE(*Target::Parse(plain.Text()) == plain);
  EXPECT_FALSE(Target::Parse("cpu")->IsGpu());
}

TEST(Target, CudaTakesFromItsArchitectureWhatTheTextLeavesOut) {
  const Target a100 = *Target::Parse("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu");
  EXPECT_EQ(a100.Text(),
            "cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -num-cores=108 -max-threads=1024 -shared=163K -registers=64K");
  EXPECT_TRUE(a100.IsGpu());
  EXPECT_TRUE(a100.has_fma);
  EXPECT_EQ(a100.Host().Text(), Target::Parse("opencl -mtriple=x86_64-linux-gnu")->Host().Text());
  const std::string own =
      "cuda -arch=sm_90 -mtriple=aarch64-linux-gnu -num-cores=16 -max-threads=256 -shared=48K "
      "-registers=32K";
  EXPECT_EQ(Target::Parse(own)->Text(), own);
  for (const CudaArch& arch : CudaArchs()) {
    const Target target = *Target::Parse("cuda -arch=" + std::string(arch.name));
    EXPECT_EQ(target.shared_bytes, arch.shared_bytes) << arch.name;
    EXPECT_EQ(target.num_cores, arch.units) << arch.name;
    EXPECT_TRUE(*Target::Parse(target.Text()) == target);
  }
}

// An architecture that has no row takes the newest row before it; a suffix names instructions that no code uses.
TEST(Target, AnyNewerArchitectureHasCode) {
  const std::string driver = ", which the GPU's driver translates";
  struct Case {
    std::string named, arch, row, ptx;
  };
  for (const Case& c : {Case{"sm_70", "sm_70", "sm_70", "sm_70"}, Case{"sm_72", "sm_72", "sm_70", "sm_70"},
                        Case{"sm_75", "sm_75", "sm_75", "sm_75"}, Case{"sm_80", "sm_80", "sm_80", "sm_80"},
                        Case{"sm_86", "sm_86", "sm_86", "sm_86"}, Case{"sm_87", "sm_87", "sm_87", "sm_87"},
                        Case{"sm_89", "sm_89", "sm_89", "sm_89"}, Case{"sm_90", "sm_90", "sm_90", "sm_90"},
                        Case{"sm_90a", "sm_90", "sm_90", "sm_90"}, Case{"sm_100", "sm_100", "sm_100", "sm_90"},
                        Case{"sm_100a", "sm_100", "sm_100", "sm_90"}, Case{"sm_103f", "sm_103", "sm_103", "sm_90"},
                        Case{"sm_120", "sm_120", "sm_120", "sm_90"}, Case{"sm_121", "sm_121", "sm_120", "sm_90"},
                        Case{"sm_999", "sm_999", "sm_120", "sm_90"}}) {
    const Result<Target> parsed = Target::Parse("cuda -arch=" + c.named);
    ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
    EXPECT_EQ(parsed->arch, c.arch);
    ASSERT_TRUE(FindCudaArch(c.named));
    EXPECT_EQ(FindCudaArch(c.named)->name, c.row);
    EXPECT_EQ(FindCudaArch(c.named)->ptx_arch, c.ptx);
    EXPECT_EQ(parsed->has_mma, FindCudaArch(c.row)->half_lanes > 0);
    EXPECT_TRUE(*Target::Parse(parsed->Text()) == *parsed);
    const std::string note = c.named == c.ptx ? "" : "the code for " + c.named + " is PTX for " + c.ptx + driver;
    EXPECT_TRUE(parsed->note.starts_with(note)) << parsed->note;
    EXPECT_EQ(parsed->note.size() > note.size(), c.arch != c.row) << parsed->note;
  }
  // What is not known has no more shared memory than all have, unless the text states it.
  EXPECT_EQ(Target::Parse("cuda -arch=sm_110")->shared_bytes, 99 << 10);
  EXPECT_EQ(Target::Parse("cuda -arch=sm_110 -shared=227K -max-threads=1024")->shared_bytes, 227 << 10);
  EXPECT_FALSE(Target::Parse("cuda -arch=sm_120 -shared=227K").ok());
  EXPECT_EQ(Target::Parse("cuda -arch=sm_110")->note,
            "the code for sm_110 is PTX for sm_90, which the GPU's driver translates; sm_110 is newer than sm_103 and "
            "not known: limits that the target does not state are those of sm_103, and at most 99K of shared memory "
            "for a block");
  EXPECT_EQ(Target::Parse("cuda -arch=sm_60").error().message,
            "-arch: 'sm_60' is no architecture since sm_70, the first one whose threads of a warp run independently, "
            "as the code needs it; known: sm_70, sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_120");
  for (const char* bad : {"sm_", "sm_a", "sm_090", "sm_90b", "sm_90aa", "sm_-90", "volta", "90", "sm_99999999999"})
    EXPECT_FALSE(Target::Parse("cuda -arch=" + std::string(bad)).ok()) << bad;
}

// A target that may round to TF32 has its own records.
TEST(Target, Tf32IsPartOfTheText) {
  const Target exact = *Target::Parse("cuda -arch=sm_80"), rounded = *Target::Parse("cuda -arch=sm_80 -tf32=1");
  EXPECT_FALSE(exact.tf32);
  EXPECT_TRUE(rounded.tf32);
  EXPECT_EQ(rounded.Text(), exact.Text() + " -tf32=1");
  EXPECT_TRUE(*Target::Parse(rounded.Text()) == rounded);
  EXPECT_FALSE(exact == rounded);
  EXPECT_EQ(Target::Parse("cuda -arch=sm_80 -tf32=0")->Text(), exact.Text());
  EXPECT_EQ(exact.ProductRounding(), 0);
  EXPECT_EQ(rounded.ProductRounding(), 0x1p-10);
  EXPECT_EQ(Target::Parse("cuda -arch=sm_75 -tf32=1").error().message,
            "-tf32: sm_75 has no tensor cores for TF32; the first one with them is sm_80");
  EXPECT_EQ(Target::Parse("cuda -arch=sm_80 -tf32=yes").error().message, "-tf32: 'yes' is neither 0 nor 1");
  EXPECT_FALSE(Target::Parse("opencl -tf32=1").ok());
  EXPECT_FALSE(Target::Parse("cuda -arch=sm_75")->has_mma);
  EXPECT_TRUE(Target::Parse("cuda -arch=sm_90")->has_mma);
}

TEST(Target, BadTextIsRefusedByName) {
  EXPECT_EQ(Target::Parse("opencl -mcpu=znver4").error().message,
            "unknown target option '-mcpu'; known: -mtriple, -num-cores, -max-threads, -shared");
  EXPECT_EQ(Target::Parse("opencl -shared=big").error().message,
            "-shared: 'big' is not a number above 0, such as 48K (of bytes)");
  EXPECT_EQ(Target::Parse("opencl -mtriple=vax-linux-gnu").error().message,
            "unknown architecture in -mtriple=vax-linux-gnu; known: x86_64, aarch64, riscv64");
  EXPECT_EQ(Target::Parse("vulkan").error().message, "unknown target kind 'vulkan'; known: cpu, llvm, c, opencl, cuda");
  EXPECT_EQ(Target::Parse("cuda").error().message, "target 'cuda' needs -arch=..., one of " + CudaArchNames());
  EXPECT_EQ(Target::Parse("cuda -arch=sm_86 -shared=163K").error().message,
            "-shared: a block of sm_86 has at most 99K");
  EXPECT_EQ(Target::Parse("cuda -arch=sm_80 -max-threads=2K").error().message,
            "-max-threads: a block of sm_80 has at most 1024 threads");
  EXPECT_EQ(Target::Parse("cuda -arch=sm_80 -registers=128K").error().message,
            "-registers: a compute unit of sm_80 has at most 64K registers");
  EXPECT_EQ(
      Target::Parse("cuda -arch=sm_80 -mcpu=x").error().message,
      "unknown target option '-mcpu'; known: -arch, -mtriple, -num-cores, -max-threads, -shared, -registers, -tf32");
  EXPECT_EQ(Target::Parse("opencl -arch=sm_80").error().message,
            "unknown target option '-arch'; known: -mtriple, -num-cores, -max-threads, -shared");
  EXPECT_EQ(Target::Parse("opencl -registers=64K").error().message,
            "unknown target option '-registers'; known: -mtriple, -num-cores, -max-threads, -shared");
  EXPECT_EQ(Target::Parse("llvm -mcup=x").error().message,
            "unknown target option '-mcup'; known: -mtriple, -mcpu, -mattr, -caches, -num-cores");
  EXPECT_EQ(Target::Parse("c -mcup=x").error().message,
            "unknown target option '-mcup'; known: -mtriple, -mcpu, -mattr, -caches, -num-cores, -vectors");
  EXPECT_EQ(Target::Parse("c -vectors=all").error().message, "-vectors: 'all' is unknown; known: none");
  EXPECT_EQ(Target::Parse("llvm -vectors=none").error().message,
            "unknown target option '-vectors'; known: -mtriple, -mcpu, -mattr, -caches, -num-cores");
  EXPECT_EQ(Target::Parse("cpu -vectors=none").error().Text(),
            "target 'cpu' takes no options (hint: write 'llvm -vectors=none' instead)");
  EXPECT_FALSE(Target::Parse("llvm -num-cores=0").ok());
  EXPECT_FALSE(Target::Parse("").ok());
  EXPECT_FALSE(Target::Parse("llvm -mtriple=sparc-linux -mcpu=x").ok());
}

TEST(Machine, FollowsFromTheNameOfTheCpu) {
  auto of = [](const std::string& text) { return &MachineOf(Target::Parse(text).value()); };
  const Machine* first = &MachineRows()[0].machine;
  for (const char* cpu : {"znver3", "sapphirerapids", "x86-64", "haswell"})
    EXPECT_EQ(of("llvm -mtriple=x86_64-linux-gnu -mcpu=" + std::string(cpu)), first) << cpu;
  const std::string arm = "llvm -mtriple=aarch64-linux-gnu -mcpu=";
  EXPECT_EQ(of(arm + "generic"), first);
  EXPECT_EQ(of(arm + "neoverse-n1"), of(arm + "cortex-a76"));
  EXPECT_NE(of(arm + "neoverse-n1"), first);
  EXPECT_EQ(of(arm + "neoverse-n1")->l1_bytes_per_cycle, 32);
  // The number of cores, the caches and the kind of target do not matter for the same CPU.
  EXPECT_EQ(of("c -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -caches=64K,1M,32M -num-cores=4"),
            of(arm + "neoverse-n1"));
}

TEST(Machine, EachRowIsCompleteAndEachCpuInOne) {
  std::set<std::string_view> cpus;
  for (const MachineRow& row : MachineRows()) {
    for (std::string_view cpu : row.cpus) EXPECT_TRUE(cpus.insert(cpu).second) << cpu;
    EXPECT_EQ(row.cpus.empty(), &row == &MachineRows()[0]) << row.family;
    ForEachField(row.machine,
                 [&](std::string_view name, const auto& value) { EXPECT_GT(value, 0) << row.family << name; });
  }
}

// Blocks of the same kernel fill the units of one architecture and not those of another.
TEST(GpuMachine, HasTheResidentThreadsOfItsArchitecture) {
  auto of = [](const std::string& target) { return GpuMachineOf(Target::Parse(target).value()); };
  EXPECT_EQ(of("cuda -arch=sm_75").threads, 1024);
  EXPECT_EQ(of("cuda -arch=sm_75").blocks, 16);
  EXPECT_EQ(of("cuda -arch=sm_80").threads, 2048);
  EXPECT_EQ(of("cuda -arch=sm_89").threads, 1536);
  EXPECT_EQ(of("cuda -arch=sm_89").blocks, 24);
  EXPECT_GT(of("opencl -num-cores=16 -max-threads=256 -shared=32K").threads, 0)
      << "a GPU without a row gets common values";
}

}  // namespace
}  // namespace autotune
