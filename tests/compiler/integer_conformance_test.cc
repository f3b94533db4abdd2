// Random products and convolutions of 8-bit numbers in all forms of ONNX, compiled for several targets. Sums of
// integers must be exact. Numbers that are rounded to 8 bits may differ by one only where the exact number lies so near
// to a tie that a rounding error of f32 decides.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "compiler/compile.h"
#include "package/load.h"
#include "runtime/npy.h"
#include "runtime/opencl/device.h"
#include "tests/compiler/integer_case.h"
#include "tests/draws.h"

namespace autotune {
namespace {

constexpr uint64_t kAll = 1000, kParts = 16;  // cases of a target, and tests that share them

// A target, and how many cases CI has time for: C compilers and OpenCL's are slow.
struct Processor {
  std::string name, target;
  uint64_t drawn = 0;
};

void PrintTo(const Processor& machine, std::ostream* out) { *out << machine.name; }  // in GoogleTest's messages

const Processor kMachines[] = {{"ThisCpu", "cpu", 40},
                               {"Haswell", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", 8},
                               {"AnyX86", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", 8},
                               {"C", "c", 4},
                               {"OpenCl", "opencl -num-cores=2 -max-threads=128 -shared=32K", 2},
                               {"AnotherMachine", "", 48}};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class IntegerConformance : public ::testing::TestWithParam<std::tuple<Processor, uint64_t>> {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "integers-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    builder_ = MakeBuildWorkers(
                   {.workers = 1, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                   .value();
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(running_, "") << "did not end";
  }

  Result<Tensor> Run(const IntegerCase& c, const Target& target) {
    std::ofstream(folder_ + "/m.onnx", std::ios::binary) << c.model.Bytes();
    const Network network = TRY(LoadNetwork(folder_ + "/m.onnx", {.winograd = !c.of_floats}, target, *builder_));
    const CompileResult compiled = TRY(Compile(network, target, nullptr, *builder_));
    const std::string path = folder_ + "/p" + std::to_string(packages_++);
    if (!loader_.empty()) return RunElsewhere(c, compiled.package, path);
    TRY(WriteCompiled(compiled.package, path + ".so", *builder_));
    const LoadedModel model = TRY(LoadModel(path + ".so", 1));
    for (size_t i = 0; i < c.inputs.size(); ++i) TRY(model.executor->SetInput(static_cast<int64_t>(i), c.inputs[i]));
    TRY(model.executor->Run());
    return TRY(TRY(ToHost(model.executor->Output(0))).Copy());
  }

  // Runs the package by the loader of another machine.
  Result<Tensor> RunElsewhere(const IntegerCase& c, const Package& package, const std::string& folder) {
    std::filesystem::create_directory(folder);
    TRY(WriteCompiled(package, folder + "/p.tar", *builder_));
    for (size_t i = 0; i < c.inputs.size(); ++i)
      TRY(WriteNpy(folder + "/input" + std::to_string(i) + ".npy", c.inputs[i]));
    const std::string command =
        "cd '" + folder + "' && tar -xf p.tar && " + loader_ + " run '" + folder + "' '" + folder + "/y'";
    if (std::system(command.c_str()) != 0) return Err(command, " failed");
    return ReadNpy(folder + "/y0.npy");
  }

  void RunCase(uint64_t number, const Target& target) {
    const IntegerCase c = MakeIntegerCase(number);
    const std::string what = running_ = "case " + std::to_string(number) + " for " + target.Text() + ": " + c.text;
    const Result<Tensor> y = Run(c, target);
    running_.clear();
    if (!y.ok()) {
      ADD_FAILURE() << what << ": " << y.error().Text();
      return;
    }
    const Judgement judgement = Judge(c, *y);
    EXPECT_EQ(judgement.wrong, "") << what;
    elements_ += judgement.elements, ties_ += judgement.ties;
  }

  std::string loader_;  // command that runs packages of another machine; empty: they run here
  int64_t elements_ = 0, ties_ = 0;

 private:
  std::string running_;  // the case that is running
  std::string folder_;
  std::unique_ptr<Builder> builder_;
  int packages_ = 0;
};

// AUTOTUNE_INTEGER_CASE names one case to run instead of the draw.
TEST_P(IntegerConformance, SumsAreExact) {
  auto [machine, part] = GetParam();
  setenv("POCL_CACHE_DIR", ::testing::TempDir().c_str(), 1);
  if (machine.name == "OpenCl" && !OpenClDevices().ok()) GTEST_SKIP() << "no OpenCL device";
  if (machine.name == "AnotherMachine") {
    machine.target = Environment("AUTOTUNE_CROSS_TARGET"), loader_ = Environment("AUTOTUNE_CROSS_LOADER");
    if (machine.target.empty() || loader_.empty()) GTEST_SKIP() << "scripts/cross.sh runs it";
  }
  const Target target = Target::Parse(machine.target).value();
  if (const std::string one = Environment("AUTOTUNE_INTEGER_CASE"); !one.empty()) {
    if (part == 0) RunCase(std::stoull(one), target);
    return;
  }
  const uint64_t first = test::DrawSeed() % 1'000'000 * kAll;
  const uint64_t count = test::DrawsAll() ? kAll : machine.drawn;
  for (uint64_t i = part; i < count; i += kParts) RunCase(first + i, target);
  EXPECT_LE(ties_, std::max<int64_t>(1, elements_ / 1000)) << "of " << elements_ << " elements";
  std::printf("%lld of %lld elements differ, at ties\n", static_cast<long long>(ties_),
              static_cast<long long>(elements_));
}

INSTANTIATE_TEST_SUITE_P(Machines, IntegerConformance,
                         ::testing::Combine(::testing::ValuesIn(kMachines), ::testing::Range<uint64_t>(0, kParts)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
                         });

// The judge tells wrong results from right ones.
TEST(IntegerJudge, AcceptsOneQuantumAtTiesOnly) {
  IntegerCase c;
  c.exact = {1, 2.5, 2.5, 2.500001, 300};
  c.error = {0, 0, 1e-5, 1e-5, 1e-5};
  c.low = 0, c.high = 255;
  const auto judged = [&](std::vector<uint8_t> numbers) {
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size());
    return Judge(c, Tensor::FromBytes({static_cast<int64_t>(numbers.size())}, {kDLUInt, 8, 1}, bytes).value());
  };
  EXPECT_EQ(judged({1, 2, 2, 3, 255}).wrong, "");
  EXPECT_EQ(judged({1, 2, 2, 3, 255}).ties, 0);
  EXPECT_EQ(judged({1, 2, 3, 2, 255}).wrong, "");
  EXPECT_EQ(judged({1, 2, 3, 2, 255}).ties, 2);
  for (const std::vector<uint8_t>& wrong : std::vector<std::vector<uint8_t>>{
           {2, 2, 2, 3, 255}, {1, 3, 2, 3, 255}, {1, 2, 4, 3, 255}, {1, 2, 2, 3, 254}, {1, 2, 2, 3}})
    EXPECT_NE(judged(wrong).wrong, "");
}

}  // namespace
}  // namespace autotune
