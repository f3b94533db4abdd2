// Networks and kernels for OpenCL devices, compiled, run, verified and tuned by the real commands. This needs a machine
// with OpenCL, such as Debian's PoCL, which runs kernels on the CPU.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <filesystem>
#include <optional>

#include "runtime/compare.h"
#include "runtime/npy.h"
#include "runtime/opencl/device.h"
#include "support/host_lock.h"
#include "support/json.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::FollowsRecords;
using test::Lines;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class OpenClCommands : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    setenv("POCL_CACHE_DIR", folder_.c_str(), 1);
    if (auto devices = OpenClDevices(); !devices.ok()) GTEST_SKIP() << devices.error().Text();
  }
};

TEST_F(OpenClCommands, ANetworkIsRightInBothForms) {
  const std::string data = SmallData();
  for (const char* form : {"m.tar", "m.so"}) {
    const std::string package = File(form);
    const CliResult compiled = Run({"compile", "--model", SmallModel(), "--target", "opencl", "-o", package});
    ASSERT_EQ(compiled.code, 0) << compiled.Text();
    const CliResult verified = Run({"verify", "--package", package, "--data", data});
    EXPECT_EQ(verified.code, 0) << verified.Text();
    EXPECT_THAT(verified.out, HasSubstr("ok: "));
  }
  const CliResult other = Run({"compile", "--model", SmallModel(), "-o", File("cpu.tar")});
  ASSERT_EQ(other.code, 0) << other.Text();
  for (const char* name : {"m", "cpu"})
    ASSERT_EQ(Run({"run", File(name) + ".tar", "--output-dir", File(name)}).code, 0) << name;
  const auto file = [&](const char* name) { return ReadNpy(File(name) + "/probabilities.npy").value(); };
  const Comparison same = CompareTensors(file("m"), file("cpu"), {.rtol = 1e-4, .atol = 1e-4}).value();
  EXPECT_TRUE(same.ok) << same.Text();
}

TEST_F(OpenClCommands, AProductIsTuned) {
  const CliResult tuned = Run(
      {"tune", "--op", "matmul:24,20,12", "--target", "opencl", "--trials", "2", "-o", File("mm.tar"), "--verbose"});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.err, AllOf(HasSubstr("2/2 trials"), HasSubstr("of an OpenCL device")));
  EXPECT_EQ(Run({"run", File("mm.tar")}).code, 0);
  // A later compile finds the tuned schedule.
  const CliResult compiled = Run({"compile", "--op", "matmul:24,20,12", "--target", "opencl", "-o", File("again.tar")});
  EXPECT_TRUE(FollowsRecords(compiled)) << compiled.Text();
}

// bench locks the device, not the host, and tells the time of the kernels without the copies from and to the host.
TEST_F(OpenClCommands, BenchMeasuresTheDevice) {
  const std::string package = File("mm.tar"), lock = File("lock");
  ASSERT_EQ(Run({"compile", "--op", "matmul:48,40,24", "--target", "opencl", "--db", ":memory:", "-o", package}).code,
            0);
  const std::vector<std::string> bench = {"bench", package, "--seconds", "0.05", "--wait", "0"};
  {
    std::optional<HostLock> build = std::move(HostLock::TryAcquire(HostLock::Mode::kShared)).value();
    const CliResult beside = Run(bench);
    EXPECT_EQ(beside.code, 0);
    EXPECT_EQ(beside.err, "") << "a build does not disturb it";
    EXPECT_THAT(beside.out, HasSubstr("\ndevice      min "));
    std::vector<std::string> json = bench;
    json.push_back("--json");
    const Json line = Json::Parse(Run(json).out).value();
    EXPECT_GT(line["device_min_ms"].Number().value(), 0);
    EXPECT_GE(line["device_median_ms"].Number().value(), line["device_min_ms"].Number().value());
    ASSERT_EQ(Run({"compile", "--op", "matmul:48,40,24", "--db", ":memory:", "-o", File("cpu.tar")}).code, 0);
    const CliResult cpu = Run({"bench", File("cpu.tar"), "--seconds", "0.05", "--wait", "0"});
    EXPECT_THAT(cpu.out, Not(HasSubstr("device ")));
    EXPECT_THAT(cpu.err, HasSubstr("these times may be disturbed"));
  }
  std::string own;  // the lock of the device, which the first run has made
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().string().starts_with(lock + ".")) own = entry.path();
  }
  ASSERT_NE(own, "");
  std::optional<HostLock> other = std::move(HostLock::TryAcquire(HostLock::Mode::kExclusive, own)).value();
  EXPECT_THAT(Run(bench).err, HasSubstr("these times may be disturbed: " + own + " is held by "));
}

TEST_F(OpenClCommands, ATargetForAGpuIsRefusedOnACpuOfAFarm) {
  UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const std::string socket = File("tracker");
  auto tracker =
      Subprocess::Spawn({.argv = {test::kTools + "/rpc_tracker", "--listen", socket, "--state", File("state")},
                         .fds = {{1, null.get()}}});
  auto server = Subprocess::Spawn({.argv = {test::kTools + "/rpc_server", "--tracker", socket, "--key", "pi"}});
  ASSERT_TRUE(tracker.ok() && server.ok());
  const CliResult refused = Run(
      {"tune", "--op", "matmul:48,40,24", "--target", "opencl", "--trials", "20", "--tracker", socket, "--key", "pi"});
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_THAT(refused.err, HasSubstr("--target opencl does not fit the device `pi` ("));
  EXPECT_THAT(refused.err, HasSubstr("its code is for a GPU, the device is a CPU"));
}

TEST_F(OpenClCommands, WrongDevicesAreNamed) {
  const CliResult none = Run({"run", Write("x.tar", "x")});
  EXPECT_EQ(none.code, 1);
  setenv("OCL_ICD_VENDORS", folder_.c_str(), 1);  // this folder lists no OpenCL drivers
  const CliResult bare = Run({"compile", "--model", SmallModel(), "--target", "opencl", "-o", File("m.tar")});
  EXPECT_EQ(bare.code, 1);
  EXPECT_THAT(bare.err, HasSubstr("cannot open a device of kind opencl to read the limits of --target opencl"));
  EXPECT_THAT(Lines(bare.err),
              ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))));
  // A target with stated limits needs no device to compile, but one to run.
  const std::string stated = "opencl -num-cores=2 -max-threads=128 -shared=32K";
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--target", stated, "-o", File("m.tar")}).code, 0);
  const CliResult run = Run({"run", File("m.tar")});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("it needs a device of kind opencl"));
  EXPECT_THAT(Lines(run.err),
              ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))));
  unsetenv("OCL_ICD_VENDORS");
}

}  // namespace
}  // namespace autotune
