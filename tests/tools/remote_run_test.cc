// `run`, `bench` and `verify` on a device of a farm: the same answers as here, and one line for each failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/tensor_pb.h"
#include "package/package.h"
#include "support/host_lock.h"
#include "support/json.h"
#include "tests/frontend/model_maker.h"
#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using test::ReadAll;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RemoteRun : public test::FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("m.tar"), "--quiet"}).code, 0);
  }
  std::vector<std::string> OnFarm(std::vector<std::string> command) const {
    for (const std::string& word : {std::string("--tracker"), socket_, std::string("--key"), std::string("pi")})
      command.push_back(word);
    return command;
  }
};

TEST_F(RemoteRun, AnswersAsHereBitByBit) {
  const CliResult here = Run({"run", File("m.tar"), "-o", File("here.npz"), "--quiet"});
  ASSERT_EQ(here.code, 0) << here.err;
  const std::string next = "for the latency: autotune bench " + File("m.tar");
  EXPECT_THAT(Run({"run", File("m.tar")}).out, HasSubstr(next + "\n"));
  EXPECT_THAT(Run(OnFarm({"run", File("m.tar")})).out, HasSubstr(next + " --tracker " + socket_ + " --key pi\n"));
  const CliResult there = Run(OnFarm({"run", File("m.tar"), "-o", File("there.npz"), "--quiet", "--repeat", "2"}));
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(ReadAll(File("here.npz")), ReadAll(File("there.npz")));
  EXPECT_THAT(Run({"devices", "--tracker", socket_}).out, HasSubstr("calls"));
}

TEST_F(RemoteRun, BenchTellsTheLatencyThere) {
  const CliResult bench = Run(OnFarm({"bench", File("m.tar"), "--seconds", "0.2", "--json"}));
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out,
              AllOf(HasSubstr("\"key\":\"pi\""), HasSubstr("\"median_ms\":"), HasSubstr("\"undisturbed\":")));
  const CliResult streams = Run(OnFarm({"bench", File("m.tar"), "--streams", "2"}));
  EXPECT_EQ(streams.code, 2);
  EXPECT_THAT(streams.err, HasSubstr("a device of a farm is measured by one run after another"));
}

TEST_F(RemoteRun, AProfileHasTheKernelsThatItHasHere) {
  const auto kernels = [](const CliResult& bench) {
    EXPECT_EQ(bench.code, 0) << bench.err;
    std::vector<std::string> names;
    const size_t second = bench.out.find('\n') + 1;  // the first line is the one without --profile
    Json line = Json::Parse(bench.out.substr(second)).value();
    for (Json kernel : *line["kernels"].As<Json::Array>()) {
      names.push_back(*kernel["name"].As<std::string>());
      EXPECT_GT(*kernel["min_us"].As<double>(), 0);
      EXPECT_GE(*kernel["median_us"].As<double>(), *kernel["min_us"].As<double>());
    }
    return names;
  };
  const std::vector<std::string> words = {"bench", File("m.tar"), "--profile", "--seconds", "0.2"};
  std::vector<std::string> json = words;
  json.push_back("--json");
  const std::vector<std::string> here = kernels(Run(json)), there = kernels(Run(OnFarm(json)));
  EXPECT_FALSE(here.empty());
  EXPECT_EQ(here, there);
  const CliResult table = Run(OnFarm(words));
  EXPECT_THAT(table.out, AllOf(HasSubstr("all kernels; the network takes"), HasSubstr("share of the speed"),
                               HasSubstr("GB/s in memory")));
}

// The roofline is that of the threads that run there, and a GPU has none.
TEST_F(RemoteRun, AProfileHasTheRooflineOfTheDevice) {
  const std::vector<std::string> words = {"bench", File("m.tar"), "--profile", "--seconds", "0.2"};
  std::vector<std::string> one = words;
  one.insert(one.end(), {"--threads", "1"});
  EXPECT_THAT(Run(OnFarm(one)).out, HasSubstr("on 1 thread: "));
  std::vector<std::string> json = words;
  json.push_back("--json");
  const CliResult cpu = Run(OnFarm(json));
  EXPECT_THAT(cpu.out, AllOf(HasSubstr("\"peak_gflops\":"), HasSubstr("\"copy_gbytes\":{\"L1\":")));
  if (Run({"compile", "--model", SmallModel(), "--target", "opencl", "-o", File("m.tar"), "--quiet"}).code != 0)
    GTEST_SKIP() << "this machine has no OpenCL device";
  servers_[0].Kill();
  ASSERT_TRUE(servers_[0].Wait(5000));
  StartServer({"--device", "opencl"});
  const CliResult gpu = Run(OnFarm(json));
  EXPECT_EQ(gpu.code, 0) << gpu.Text();
  EXPECT_THAT(gpu.out, AllOf(HasSubstr("\"kernels\":"), Not(HasSubstr("peak_gflops"))));
}

TEST_F(RemoteRun, VerifyComparesTheOutputsOfTheDevice) {
  ModelMaker m;
  m.Input("x", {64}, 1).Output("y").Node("Add", {"x", "x"}, {"y"});
  ASSERT_EQ(Run({"compile", "--model", Write("sum.onnx", m.Bytes()), "-o", File("sum.tar"), "--quiet"}).code, 0);
  std::filesystem::create_directory(File("data"));
  const auto write = [&](const std::string& name, std::vector<double> numbers) {
    const auto value = graph::TensorValue::FromNumbers(DType::Float(32), {64}, numbers);
    ASSERT_TRUE(WriteTensorPb(File("data/" + name), {"", value}).ok());
  };
  const auto verify = [&](const std::string& package) {
    return Run(OnFarm({"verify", "--package", File(package), "--data", File("data")}));
  };
  write("input_0.pb", std::vector<double>(64, 1));
  std::vector<double> expected(64, 2);
  write("output_0.pb", expected);
  const CliResult right = verify("sum.tar");
  EXPECT_EQ(right.code, 0) << right.Text();
  EXPECT_THAT(right.out, HasSubstr("y: all 64 elements match"));
  expected[7] = 3;
  write("output_0.pb", expected);
  const CliResult wrong = verify("sum.tar");
  EXPECT_EQ(wrong.code, 3) << wrong.Text();
  EXPECT_THAT(wrong.out, HasSubstr("y: 1 of 64 elements differ; worst at 7"));
  const CliResult unfit = verify("m.tar");
  EXPECT_EQ(unfit.code, 1) << unfit.Text();
}

// A model is compiled for the device first.
TEST_F(RemoteRun, VerifyTakesModelsToo) {
  std::filesystem::create_directory(File("cases"));
  for (const double term : {1.0, 2.0}) {
    const std::string folder = term == 1 ? "cases/right" : "cases/wrong";
    ModelMaker m;
    m.Input("x", {64}, 1).Output("y").Node("Add", {"x", "x"}, {"y"});
    std::filesystem::create_directories(File(folder + "/test_data_set_0"));
    Write(folder + "/model.onnx", m.Bytes());
    const auto write = [&](const std::string& name, double number) {
      const auto value = graph::TensorValue::FromNumbers(DType::Float(32), {64}, std::vector<double>(64, number));
      ASSERT_TRUE(WriteTensorPb(File(folder + "/test_data_set_0/" + name), {"", value}).ok());
    };
    write("input_0.pb", 1);
    write("output_0.pb", 1 + term);
  }
  const auto verify = [&](const std::string& folder, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"verify", "--model", File(folder + "/model.onnx"), "--data", File(folder)};
    words.insert(words.end(), more.begin(), more.end());
    return Run(OnFarm(words));
  };
  const CliResult right = verify("cases/right"), wrong = verify("cases/wrong");
  EXPECT_EQ(right.code, 0) << right.Text();
  EXPECT_THAT(right.out, HasSubstr("y: all 64 elements match"));
  EXPECT_EQ(wrong.code, 3) << wrong.Text();
  EXPECT_THAT(wrong.out, HasSubstr("y: 64 of 64 elements differ"));
  EXPECT_THAT(Run({"devices", "--tracker", socket_}).out, HasSubstr("calls")) << "the device has run it";
  const CliResult all = Run(OnFarm({"verify", "--data", File("cases")}));
  EXPECT_EQ(all.code, 3) << all.Text();
  EXPECT_THAT(all.out, HasSubstr("1 passed, 1 failed, 0 unsupported"));
  const CliResult other =
      verify("cases/right", {"--target", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=1"});
  EXPECT_EQ(other.code, 1) << other.Text();
  EXPECT_THAT(other.err, HasSubstr("does not fit the device `pi`"));
  const CliResult device = verify("cases/right", {"--device", "0"});
  EXPECT_EQ(device.code, 2) << device.Text();
}

TEST_F(RemoteRun, ALongWaitForTheHostIsTold) {
  std::optional<HostLock> lock = HostLock::AcquireWithin(HostLock::Mode::kExclusive, 1000).value();
  ASSERT_TRUE(lock);
  Subprocess run = Start(OnFarm({"run", File("m.tar")}), "run");
  const auto told = [&] { return ReadAll(File("run.err")).find("waiting to measure: ") != std::string::npos; };
  EXPECT_TRUE(test::Soon(told, 20)) << ReadAll(File("run.err"));
  lock.reset();
  EXPECT_EQ(Finish(run, "run").code, 0);
  EXPECT_THAT(Run(OnFarm({"run", File("m.tar")})).err, Not(HasSubstr("waiting to measure")));
}

TEST_F(RemoteRun, ASignalGivesTheDeviceBack) {
  const auto free = [&] { return Run({"devices", "--tracker", socket_}).out.find("free") != std::string::npos; };
  for (const int signal : {SIGINT, SIGTERM}) {
    Subprocess bench = Start(OnFarm({"bench", File("m.tar"), "--seconds", "100"}), "bench");
    ASSERT_TRUE(test::Soon([&] { return !free(); }, 10));
    bench.Kill(signal);
    const auto ended = bench.Wait(5000);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code, 130) << ReadAll(File("bench.err"));
    EXPECT_THAT(ReadAll(File("bench.err")), HasSubstr("cancelled"));
    EXPECT_TRUE(test::Soon(free, 3)) << "not only when the lease expires, after 10 s";
  }
}

// A shared object, and packages without a linked library: one with objects, and one with C sources.
TEST_F(RemoteRun, OtherFormsOfPackagesRunThereToo) {
  const auto expect_same = [&](const std::string& package) {
    const CliResult here = Run({"run", File(package), "-o", File("here.npz"), "--quiet"});
    ASSERT_EQ(here.code, 0) << here.err;
    const CliResult there = Run(OnFarm({"run", File(package), "-o", File("there.npz"), "--quiet"}));
    ASSERT_EQ(there.code, 0) << package << ": " << there.err;
    EXPECT_EQ(ReadAll(File("here.npz")), ReadAll(File("there.npz"))) << package;
  };
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("m.so"), "--quiet"}).code, 0);
  expect_same("m.so");
  const auto unlink = [&](const std::string& package) {
    Package read = ReadPackage(File(package)).value();
    read.library.clear();
    ASSERT_TRUE(WritePackage(read, File(package)).ok());
  };
  unlink("m.tar");
  expect_same("m.tar");
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--target", "c", "-o", File("c.tar"), "--quiet"}).code, 0);
  unlink("c.tar");
  expect_same("c.tar");
}

TEST_F(RemoteRun, WhatCannotRunThereIsOneLine) {
  EXPECT_THAT(Run(OnFarm({"run", File("m.tar"), "--device", "cuda:0"})).err,
              HasSubstr("--device chooses a device of this"));
  EXPECT_THAT(Run(OnFarm({"run", File("missing.tar")})).err, HasSubstr("missing.tar"));
  const CliResult threads = Run(OnFarm({"run", File("m.tar"), "--threads", "16"}));
  EXPECT_EQ(threads.code, 0) << threads.err;  // slow, but as here
  const CliResult unknown = Run({"run", File("m.tar"), "--tracker", socket_, "--key", "nothing"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("nothing"));
}

}  // namespace
}  // namespace autotune
