#include "target/described_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/cpu_features.h"
#include "target/target.h"
#include "tests/target/machines.h"

namespace autotune {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

MachineDescription Recorded(const std::string& name, std::vector<int> cores = {}) {
  return DescribeMachine(MachineFolder(name), std::move(cores));
}

// Returns the text of the target of a recorded machine, or the error.
std::string TargetOf(const std::string& name, std::vector<int> cores = {}) {
  const MachineDescription machine = Recorded(name, std::move(cores));
  const Result<Target> target = Target::Parse("cpu", &machine);
  return target.ok() ? target->Text() : target.error().Text();
}

constexpr char kAvx512[] =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+fma,+popcnt,+sse4.2";
constexpr char kVnni[] =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi,+bmi2,+fma,+popcnt,+sse4.2";

constexpr char kBf16[] =
    "+avx,+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi,+bmi2,+fma,+popcnt,"
    "+sse4.2";

TEST(RecordedMachines, EachIsCompiledForWhatItIs) {
  const std::map<std::string, std::string> targets = {
      {"raspberry-pi-4", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -caches=32K,1M,0 -num-cores=4"},
      {"raspberry-pi-4-of-32-bits",
       "there is no code generation for the architecture armv7l; known: x86_64, aarch64, riscv64"},
      {"raspberry-pi-5", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -caches=64K,512K,2M -num-cores=4"},
      {"graviton-2", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -caches=64K,1M,32M -num-cores=4"},
      {"graviton-3", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -caches=64K,1M,32M -num-cores=2"},
      {"apple-m1", "llvm -mtriple=aarch64-linux-gnu -mcpu=apple-m1 -caches=128K,12M,0 -num-cores=8"},
      {"rk3588", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -caches=64K,512K,3M -num-cores=8"},
      {"zen-3",
       "llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx,+avx2,+bmi,+bmi2,+fma,+popcnt,+sse4.2 "
       "-caches=32K,512K,32M -num-cores=2"},
      {"zen-4",
       std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=") + kBf16 + " -caches=32K,1M,16M -num-cores=6"},
      {"coffee-lake",
       "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake -mattr=+avx,+avx2,+bmi,+bmi2,+fma,+popcnt,+sse4.2 "
       "-caches=32K,256K,12M -num-cores=12"},
      {"cascade-lake", std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -mattr=") + kVnni +
                           " -caches=32K,1M,14080K -num-cores=2"},
      {"skylake-in-a-guest", std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -mattr=") + kAvx512 +
                                 " -caches=32K,4M,16M -num-cores=1"},
      {"atom-d525", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -caches=24K,512K,0 -num-cores=4"},
      {"visionfive-2",
       "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+a,+c,+d,+f,+m -caches=32K,2M,0 -num-cores=4"},
      // Without caches in the files, the target has the sizes that a target without -caches has.
      {"lichee-pi-4a",
       "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+a,+c,+d,+f,+m -caches=32K,512K,16M -num-cores=4"},
      {"power-9", "there is no code generation for the architecture ppc64le; known: x86_64, aarch64, riscv64"}};
  for (const auto& [name, target] : targets) EXPECT_EQ(TargetOf(name), target) << name;
  for (const std::string& name : RecordedMachines()) EXPECT_TRUE(targets.contains(name)) << name << " has no test";
}

TEST(RecordedMachines, FactsForPeopleAreStated) {
  const MachineDescription pi = Recorded("raspberry-pi-4"), intel = Recorded("coffee-lake");
  EXPECT_EQ(pi.model, "Raspberry Pi 4 Model B Rev 1.5");
  EXPECT_EQ(pi.core, "0x41 0xd08");
  EXPECT_EQ(pi.memory_bytes, int64_t{8000000} * 1024);
  EXPECT_EQ(pi.clock_mhz, 1800);
  EXPECT_EQ(pi.physical_cores, 4);
  EXPECT_THAT(pi.features, IsEmpty());
  EXPECT_EQ(intel.model, "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz");
  EXPECT_EQ(intel.core, "GenuineIntel 6 158");
  EXPECT_EQ(intel.online_cores, 12);
  EXPECT_EQ(intel.physical_cores, 6);
  EXPECT_EQ(Recorded("graviton-2").model, "c6g.xlarge");
  EXPECT_EQ(Recorded("graviton-2").clock_mhz, 0) << "a guest does not know the clock";
  EXPECT_EQ(Recorded("visionfive-2").model, "StarFive VisionFive V2");
  EXPECT_THAT(Recorded("graviton-3").features, Contains("sve"));
  EXPECT_THAT(Recorded("raspberry-pi-5").features, ElementsAre("dotprod", "fullfp16", "lse", "rdm"));
  EXPECT_THAT(Recorded("lichee-pi-4a").features, Not(Contains("v"))) << "vectors of a draft have other instructions";
  const MachineDescription none = DescribeMachine("/nonexistent");
  EXPECT_FALSE(none.IsKnown());
  EXPECT_EQ(none.usable_cores, 0);
}

// A server may offer the small cores of a machine with several kinds only.
TEST(RecordedMachines, TheLargestUsableCoreCounts) {
  EXPECT_THAT(TargetOf("rk3588", {0, 1, 2, 3}), HasSubstr("-mcpu=cortex-a55 -caches=32K,128K,3M -num-cores=4"));
  EXPECT_THAT(TargetOf("rk3588", {0, 4}), HasSubstr("-mcpu=cortex-a76 -caches=64K,512K,3M -num-cores=2"));
  EXPECT_THAT(TargetOf("apple-m1", {3}), HasSubstr("-caches=64K,4M,0 -num-cores=1"));
}

TEST(RecordedMachines, AContainersLimitsCount) {
  const std::string root = MachineFolder("zen-4");
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + "/" + path).parent_path());
    std::ofstream(root + "/" + path) << text;
  };
  write("proc/self/cgroup", "0::/docker\n");
  write("proc/meminfo", "MemTotal: 64000000 kB\n");
  write("sys/fs/cgroup/docker/cpu.max", "250000 100000\n");
  EXPECT_EQ(DescribeMachine(root).usable_cores, 3);
  EXPECT_EQ(DescribeMachine(root).online_cores, 6);
  EXPECT_EQ(DescribeMachine(root).memory_bytes, int64_t{64000000} * 1024);
  write("sys/fs/cgroup/docker/memory.max", "1073741824\n");
  EXPECT_EQ(DescribeMachine(root).memory_bytes, 1 << 30);
  EXPECT_EQ(DescribeMachine(root, {0, 1}).usable_cores, 2) << "affinity may allow less than the quota";
}

// A virtual machine may hide features that compilers assume for the model.
TEST(RecordedMachines, AModelWithoutItsFeaturesIsNotNamed) {
  MachineDescription machine = Recorded("cascade-lake");
  std::erase(machine.features, "avx512f");
  EXPECT_EQ(NamesOf(machine)->cpu, "x86-64");
  EXPECT_THAT(NamesOf(machine)->features, Not(Contains(HasSubstr("avx512"))));
  machine = Recorded("zen-4");
  std::erase_if(machine.features, [](const std::string& name) { return name.starts_with("avx512"); });
  EXPECT_EQ(NamesOf(machine)->cpu, "znver3");
  machine = Recorded("graviton-2");
  std::erase(machine.features, "dotprod");
  EXPECT_EQ(NamesOf(machine)->cpu, "generic");
  EXPECT_THAT(NamesOf(machine)->features, ElementsAre("+fullfp16", "+lse", "+rdm"));
  machine.core = "0x41 0xfff";  // a model of later
  EXPECT_EQ(NamesOf(machine)->cpu, "generic");
  machine.core = "0x42 0xd0c";  // a CPU of another manufacturer
  EXPECT_EQ(NamesOf(machine)->cpu, "generic");
}

// Cores with AMX are slow at it, also where Linux refuses AMX.
TEST(RecordedMachines, DotProductsOfBf16AreForCoresThatAreFastAtThem) {
  MachineDescription machine = Recorded("zen-4");
  EXPECT_THAT(NamesOf(machine)->features, Contains("+avx512bf16"));
  machine.features.emplace_back("avx512fp16");
  EXPECT_THAT(NamesOf(machine)->features, Not(Contains("+avx512bf16")));
  machine.features.back() = "amx-bf16";
  EXPECT_THAT(NamesOf(machine)->features, Not(Contains("+avx512bf16")));
}

TEST(RecordedMachines, RiscvVectorsOfTheStandardAreStated) {
  const std::string root = MachineFolder("visionfive-2");
  std::ofstream(root + "/proc/cpuinfo") << "processor : 0\nhart : 0\nisa : rv64gcv_zicsr_zvl256b\n\n";
  EXPECT_THAT(DescribeMachine(root).features, ElementsAre("m", "a", "f", "d", "c", "v", "zvl256b"));
  std::ofstream(root + "/proc/cpuinfo") << "processor : 0\nisa : rv64imafdc_zve32x_zvl32b\n\n";
  EXPECT_THAT(DescribeMachine(root).features, ElementsAre("m", "a", "f", "d", "c"));
}

// Under qemu-user, proc/cpuinfo is that of the machine that emulates, while the auxiliary vector is the emulated one's.
TEST(RecordedMachines, AnEmulatedProcessHasTheFeaturesOfItsAuxiliaryVector) {
  const std::string root = MachineFolder("zen-4");
  const uint64_t lse_and_dotprod = (1 << 8) | (1 << 20), i8mm = 1 << 13;
  const uint64_t entries[] = {16, lse_and_dotprod, 26, i8mm, 0, 0};
  std::filesystem::create_directories(root + "/proc/self");
  std::ofstream(root + "/proc/self/auxv", std::ios::binary)
      .write(reinterpret_cast<const char*>(entries), sizeof entries);
  const MachineDescription emulated = DescribeMachine(root, {}, "aarch64");
  EXPECT_EQ(emulated.architecture, "aarch64");
  EXPECT_EQ(emulated.core, "");
  EXPECT_THAT(emulated.features, ElementsAre("dotprod", "i8mm", "lse"));
  EXPECT_EQ(NamesOf(emulated)->cpu, "generic");
}

// A kernel may withhold features that the processor has: virtual machines do so.
TEST(RecordedMachines, TheFilesOfThisHostSayNoMoreThanItsProcessor) {
  const std::vector<std::string> files = DescribeHost().features, processor = HostCpuFeatures();
  EXPECT_TRUE(std::ranges::includes(processor, files)) << testing::PrintToString(files);
  EXPECT_EQ(files.empty(), processor.empty());
  EXPECT_GT(DescribeHost().usable_cores, 0);
  EXPECT_EQ(DescribeHost({0}).usable_cores, 1);
  EXPECT_EQ(Target::Parse("cpu")->Text(), [] {
    const MachineDescription host = DescribeHost();
    return Target::Parse("cpu", &host)->Text();
  }());
}

// What a text leaves out is that of the machine on which the code will run.
TEST(RecordedMachines, OptionsThatAreLeftOutAreTheMachines) {
  const MachineDescription pi = Recorded("raspberry-pi-5");
  EXPECT_EQ(Target::Parse("c -vectors=none", &pi)->Text(),
            "c -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -caches=64K,512K,2M -num-cores=4 -vectors=none");
  EXPECT_EQ(Target::Parse("llvm -mcpu=cortex-a53 -caches=32K,512K,0", &pi)->Text(),
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -caches=32K,512K,0 -num-cores=4");
  EXPECT_EQ(Target::Parse("opencl", &pi)->triple, "aarch64-linux-gnu");
  EXPECT_THAT(Target::Parse("llvm -mtriple=x86_64-linux-gnu", &pi).error().Text(), HasSubstr("needs -mcpu=<name>"));
}

}  // namespace
}  // namespace autotune
