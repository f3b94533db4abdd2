// What is compiled for a device of a farm follows from what its server states, never from this machine.
#include "service/device_target.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "runtime/opencl/device.h"
#include "support/shell.h"
#include "tests/target/machines.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::LastOf;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

rpc::DeviceInfo Recorded(const std::string& name) {
  rpc::DeviceInfo device{.key = "pi"};
  device.description = DescribeMachine(MachineFolder(name));
  device.model = device.description.model;
  return device;
}

std::string ErrorOf(const std::string& text, const rpc::DeviceInfo& device) {
  const Result<Target> target = TargetFor(text, device);
  return target.ok() ? "" : target.error().message;
}

TEST(DeviceTarget, ADeviceIsCompiledForWhatItStates) {
  EXPECT_EQ(TargetFor("cpu", Recorded("raspberry-pi-4"))->Text(),
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -caches=32K,1M,0 -num-cores=4");
  EXPECT_EQ(TargetFor("c", Recorded("raspberry-pi-5"))->Text(),
            "c -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -caches=64K,512K,2M -num-cores=4");
  EXPECT_EQ(TargetFor("llvm -num-cores=2", Recorded("raspberry-pi-5"))->num_cores, 2);
}

TEST(DeviceTarget, TargetsThatTheDeviceCannotRunAreRefused) {
  const rpc::DeviceInfo pi = Recorded("raspberry-pi-5");
  const std::string start = " does not fit the device `pi` (Raspberry Pi 5 Model B Rev 1.0): ";
  const std::string zen = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=4";
  EXPECT_EQ(ErrorOf(zen, pi), "--target " + zen + start + "its code is for x86_64, the device is aarch64");
  EXPECT_EQ(ErrorOf("llvm -num-cores=5", pi),
            "--target llvm -num-cores=5" + start + "it has 5 cores, the device offers 4");
  EXPECT_EQ(ErrorOf("llvm -num-cores=4", pi), "");
  EXPECT_EQ(ErrorOf("cuda -arch=sm_80", pi),
            "--target cuda -arch=sm_80" + start + "its code is for a GPU, the device is a CPU");
  EXPECT_EQ(ErrorOf("cpu", Recorded("power-9")),
            "nothing can be compiled for the device `pi` (POWER9, altivec supported): there is no code generation for "
            "the architecture ppc64le; known: x86_64, aarch64, riscv64");
}

TEST(DeviceTarget, CodeNeedsNoFeaturesThatTheDeviceLacks) {
  const auto check = [](const std::string& text, const std::string& machine) {
    const rpc::DeviceInfo device = Recorded(machine);
    const Target target = TargetFor(text, device).value();
    const Status status = CheckFeatures(target, ArtifactMetadataOf({}, target).value().cpu_features, device);
    return status.ok() ? "" : status.error().message;
  };
  for (const std::string& name : RecordedMachines()) {
    if (TargetFor("cpu", Recorded(name)).ok()) {
      EXPECT_EQ(check("cpu", name), "") << name;
    }
  }
  EXPECT_EQ(check("llvm -mcpu=cortex-a53", "raspberry-pi-4"), "");
  EXPECT_THAT(check("llvm -mcpu=cortex-a76", "raspberry-pi-4"),
              HasSubstr("its code may need dotprod, fullfp16, lse, rdm, which the device lacks"));
  EXPECT_THAT(check("llvm -mcpu=znver4", "coffee-lake"), HasSubstr("avx512f"));
  EXPECT_THAT(check("llvm -mattr=+v", "visionfive-2"), HasSubstr("may need v,"));
}

TEST(DeviceTarget, AGpuIsCompiledForItsLimits) {
  rpc::DeviceInfo gpu = Recorded("zen-3");
  gpu.gpu = {.kind = "cuda", .architecture = "sm_80", .units = 40, .threads_per_block = 1024, .shared_bytes = 166912};
  EXPECT_EQ(TargetFor("cpu", gpu)->Text(), TargetFor("cuda", gpu)->Text());
  EXPECT_THAT(TargetFor("cuda", gpu)->Text(), HasSubstr("cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -num-cores=40 "));
  EXPECT_EQ(ErrorOf("cuda -arch=sm_75", gpu), "") << "its driver translates code for older ones";
  EXPECT_THAT(ErrorOf("cuda -arch=sm_90", gpu), HasSubstr("its code is for sm_90, the device is an older sm_80"));
  EXPECT_THAT(ErrorOf("opencl", gpu), HasSubstr("its code is for opencl, the device takes cuda"));
  EXPECT_THAT(ErrorOf("llvm -mcpu=host", gpu), HasSubstr("its code is for llvm, the device takes cuda"));
  gpu.gpu.kind = "opencl", gpu.gpu.architecture = "", gpu.gpu.threads_per_block = 256, gpu.gpu.shared_bytes = 32768;
  EXPECT_THAT(TargetFor("cpu", gpu)->Text(), HasSubstr("-num-cores=40 -max-threads=256 -shared=32K"));
  EXPECT_THAT(ErrorOf("opencl -max-threads=512", gpu), HasSubstr("its blocks have up to 512 threads"));
}

TEST(DeviceTarget, DevicesThatDifferAreTold) {
  const rpc::DeviceInfo pi4 = Recorded("raspberry-pi-4"), pi5 = Recorded("raspberry-pi-5");
  EXPECT_EQ(Difference(pi4, pi4), "");
  EXPECT_THAT(Difference(pi4, pi5),
              AllOf(HasSubstr("model Raspberry Pi 5 Model B Rev 1.0 instead of Raspberry Pi 4 Model B Rev 1.5"),
                    HasSubstr("further features dotprod, fullfp16, lse, rdm")));
  rpc::DeviceInfo fewer = pi4, later = pi4, silent{.key = "pi"};
  fewer.description.usable_cores = 2;
  later.endpoint = "elsewhere", later.description.memory_bytes = 1;
  EXPECT_EQ(Difference(pi4, fewer), "cores 2 instead of 4");
  EXPECT_EQ(Difference(pi4, later), "") << "neither changes what is compiled";
  EXPECT_EQ(Difference(pi4, silent), "its server does not state what it is");
  EXPECT_EQ(Difference(silent, pi4), "") << "nothing can be compared";
}

// Servers that say that they are other machines than this one.
class OtherDevices : public test::FarmTest {
 protected:
  void SetUp() override { test::CliTest::SetUp(); }
  void StartFarm(const std::vector<std::string>& machines, const std::vector<std::string>& more = {}) {
    socket_ = File("tracker");
    StartTracker();
    for (const std::string& machine : machines) {
      std::vector<std::string> options = more;
      if (!machine.empty()) options.insert(options.end(), {"--machine", MachineFolder(machine)});
      StartServer(options);
    }
    ASSERT_TRUE(test::Soon([&] {
      const std::string out = Run({"devices", "--tracker", socket_}).out;
      size_t count = 0;
      for (size_t at = 0; (at = out.find(" free", at)) != std::string::npos; ++at) ++count;
      return count >= machines.size();
    }));
  }
  CliResult Tune(const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"--op", "matmul:24,20,12", "--tracker", socket_, "--key", "pi", "--json"};
    if (std::ranges::find(more, "--trials") == more.end()) command.insert(command.end(), {"--trials", "4"});
    command.insert(command.end(), more.begin(), more.end());
    return Run(command);
  }
};

// Any x86-64 machine runs code for the old Atom.
TEST_F(OtherDevices, ATargetFollowsTheReport) {
#if defined(__x86_64__)
  StartFarm({"atom-d525"});
  const CliResult tuned = Tune({"-o", File("net.tar")});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  const std::string target = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -caches=24K,512K,0 -num-cores=4";
  EXPECT_EQ(*LastOf(EventsOf(tuned.out), "begin")["target"].As<std::string>(), target);
  EXPECT_THAT(Run({"inspect", File("net.tar"), "--verbose"}).out, HasSubstr(target));

  const CliResult refused = Tune({"--target", "llvm -mcpu=haswell"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("does not fit the device `pi` (Intel(R) Atom(TM) CPU D525"),
                                 HasSubstr("may need avx, avx2,")));
  const CliResult many = Tune({"--target", "llvm -num-cores=5"});
  EXPECT_EQ(many.code, 1);
  EXPECT_THAT(many.err, HasSubstr("it has 5 cores, the device offers 4"));
  EXPECT_THAT(many.out, Not(HasSubstr("\"begin\""))) << "refused before anything is built";
#endif
}

TEST_F(OtherDevices, AnotherInstructionSetIsRefused) {
  StartFarm({"power-9"});
  const CliResult refused = Tune();
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("nothing can be compiled for the device `pi` (POWER9, altivec supported): there "
                                     "is no code generation for the architecture ppc64le"));
  EXPECT_THAT(refused.out, Not(HasSubstr("\"begin\"")));
}

TEST_F(OtherDevices, FewerCoresOfThisMachineAreUsed) {
  StartFarm({""}, {"--cores", "0"});
  const CliResult tuned = Tune();
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(*LastOf(EventsOf(tuned.out), "begin")["target"].As<std::string>(), HasSubstr(" -num-cores=1"));
}

// PoCL runs kernels on the CPU, as a GPU would.
TEST_F(OtherDevices, AGpuStatesItsLimits) {
  setenv("POCL_CACHE_DIR", folder_.c_str(), 1);
  if (auto devices = OpenClDevices(); !devices.ok()) GTEST_SKIP() << devices.error().Text();
  StartFarm({""}, {"--device", "opencl"});
  const CliResult tuned = Tune({"--trials", "2"});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(*LastOf(EventsOf(tuned.out), "begin")["target"].As<std::string>(),
              testing::StartsWith("opencl -mtriple="));
  const CliResult refused = Tune({"--target", "llvm -mcpu=host"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("its code is for llvm, the device takes opencl"));
}

TEST_F(OtherDevices, DevicesUnlikeTheFirstOneAreNamedOnce) {
#if defined(__x86_64__)
  StartFarm({"atom-d525", ""});  // either may be granted first
  const CliResult tuned = Tune();
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  const std::string note = " is not used, since it differs from the device `pi` (";
  const size_t first = tuned.err.find(note);
  ASSERT_NE(first, std::string::npos) << tuned.Text();
  EXPECT_EQ(tuned.err.find(note, first + 1), std::string::npos);
  EXPECT_THAT(tuned.err, HasSubstr("another model"));
#endif
}

TEST_F(OtherDevices, AFolderWithoutAMachineIsRefused) {
  const std::string command = test::kTools + "/rpc_server --key pi --tracker " + ShellWord(File("t")) + " --machine " +
                              ShellWord(folder_) + " 2>" + ShellWord(File("err"));
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_THAT(test::ReadAll(File("err")), HasSubstr("/proc/cpuinfo describes no machine"));
}

}  // namespace
}  // namespace autotune
