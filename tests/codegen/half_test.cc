// Compiled conversions of 16-bit floats: widening is exact, narrowing rounds to nearest even. Some targets have
// instructions for these conversions, others use integer arithmetic.
#include <gmock/gmock.h>

#include <cstdlib>

#include "codegen/arguments.h"
#include "ir/float_math.h"
#include "runtime/bound_kernel.h"
#include "runtime/device.h"
#include "runtime/module_blob.h"
#include "support/rng.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

// Returns a target for every code generator, and LLVM for a processor without f16 instructions.
std::vector<Target> Converters() {
  std::vector<Target> targets = Generators();
  targets.push_back(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value());
  EXPECT_FALSE(targets.back().has_f16);
  return targets;
}

constexpr int kCount = 65536;  // number of bit patterns of 16 bits

// Returns a program that converts kCount elements, in vectors of 16.
PrimFunc Conversion(DType from, DType to) {
  const std::string n = std::to_string(kCount), a = from.Text(), b = to.Text();
  return Parse("func convert(a: " + a + "[" + n + "] input, b: " + b + "[" + n + "] output) {" +
               "for o in 4096 parallel { for i in 16 vectorized { block c(v: S " + n + " = o * 16 + i) { b[v] = " + b +
               "(a[v]) } } } }");
}

// Compares the conversions by each target with RoundFloat, the language's definition.
void Check(DType from, DType to, const std::vector<double>& numbers) {
  const PrimFunc f = Conversion(from, to);
  for (const Target& target : Converters()) {
    SCOPED_TRACE(from.Text() + " to " + to.Text() + " by " + target.Text());
    auto built = Build(f, target);
    ASSERT_TRUE(built.ok()) << built.error().Text();
    std::vector<InterpArray> args = {{from, {kCount}, numbers}, {to, {kCount}, std::vector<double>(kCount)}};
    ASSERT_TRUE(Run(*built, f, args).ok());
    for (int i = 0; i < kCount; ++i) {
      const double want = RoundFloat(numbers[i], to), got = args[1].data[i];
      ASSERT_TRUE(SameValue(got, want)) << numbers[i] << ": " << got << ", not " << want;
      if (std::isnan(want)) {
        ASSERT_EQ(std::signbit(got), std::signbit(want));
      }
    }
  }
}

// Returns every number of the type.
std::vector<double> AllOf(DType half) {
  std::vector<double> numbers;
  for (int bits = 0; bits < kCount; ++bits) numbers.push_back(FloatFromBits(static_cast<uint64_t>(bits), half));
  return numbers;
}

const DType kHalves[] = {DType::Float(16), DType::BFloat16()};

TEST(Halves, AreWidenedExactly) {
  for (DType half : kHalves) {
    for (DType wide : {DType::Float(32), DType::Float(64)}) Check(half, wide, AllOf(half));
  }
  Check(kHalves[0], kHalves[1], AllOf(kHalves[0]));
  Check(kHalves[1], kHalves[0], AllOf(kHalves[1]));
}

// Tests every number of the type, the midpoints between neighbours, and the closest numbers below and above each
// midpoint.
TEST(Halves, AreRoundedToNearestEven) {
  for (DType half : kHalves) {
    for (DType wide : {DType::Float(32), DType::Float(64)}) {
      const std::vector<double> all = AllOf(half);
      auto next = [&](double x, double to) {
        return wide.bits == 64 ? std::nextafter(x, to) : std::nextafter(static_cast<float>(x), static_cast<float>(to));
      };
      std::vector<double> middles, below, above;
      for (int i = 0; i < kCount; ++i) {
        const double a = all[i], b = all[std::min(i + 1, kCount - 1)];
        const double middle = std::isfinite(a) && std::isfinite(b) ? (a + b) / 2 : a * 1.001;
        middles.push_back(middle);
        below.push_back(next(middle, -INFINITY));
        above.push_back(next(middle, INFINITY));
      }
      for (const auto& numbers : {all, middles, below, above}) Check(wide, half, numbers);
    }
  }
}

TEST(Halves, BeyondTheRange) {
  Rng rng(3);
  const double special[] = {0.0,      -0.0,     INFINITY, -INFINITY, std::nan(""), -std::nan(""),  65504,
                            65519.99, 65520,    1e5,      0x1p-24,   0x1p-25,      0x1.000002p-25, 0x1p-133,
                            0x1p-134, 0x1p-149, 3.4e38,   -3.4e38};
  for (DType half : kHalves) {
    for (DType wide : {DType::Float(32), DType::Float(64)}) {
      std::vector<double> numbers(std::begin(special), std::end(special));
      if (wide.bits == 64) numbers.insert(numbers.end(), {1e300, -1e300, 1e-300, 5e-324});
      while (numbers.size() < kCount) {
        const double exponent = static_cast<double>(rng.Below(300)) - 160;
        numbers.push_back(
            RoundFloat(std::ldexp(1 + static_cast<double>(rng.Below(1 << 30)) / (1 << 30), static_cast<int>(exponent)) *
                           (rng.Below(2) ? 1 : -1),
                       wide));
      }
      Check(wide, half, numbers);
    }
  }
}

TEST(Halves, MovesAndArithmeticInSingles) {
  for (const char* type : {"f16", "bf16"}) {
    const std::string t = type;
    AgreesWithInterpreter(Parse("func f(a: " + t + "[37] input, c: i32[37] input, b: " + t + "[37] output) {" +
                                "for i in 37 vectorized { block s(v: S 37 = i) { b[v] = select(c[v] < 0i32, a[v], " +
                                t + "(f32(a[v]) * 3.0 + f32(c[v]))) } } }"));
  }
  EXPECT_EQ(PackedDlType(DType::Float(16)), 2u | 16u << 8 | 1u << 16);
  EXPECT_EQ(PackedDlType(DType::BFloat16()), 4u | 16u << 8 | 1u << 16);
}

// Returns Conversion without a schedule.
PrimFunc PlainConversion(DType from, DType to) {
  const std::string n = std::to_string(kCount), a = from.Text(), b = to.Text();
  return Parse("func convert(a: " + a + "[" + n + "] input, b: " + b + "[" + n + "] output) {" + "for i in " + n +
               " { block c(v: S " + n + " = i) { b[v] = " + b + "(a[v]) } } }");
}

// The same on an OpenCL device, by the language's own conversions.
class OpenClHalves : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("POCL_KERNEL_CACHE", "0", 1);
    Result<DevicePtr> opened = OpenDevice({kDLOpenCL, 0});
    if (!opened.ok()) GTEST_SKIP() << opened.error().Text();
    device_ = *opened;
  }
  // Runs a kernel of one input and one output on the device.
  Result<Tensor> RunHere(const PrimFunc& f, const Tensor& input, DType to) {
    const Target target = Target::Parse("opencl -num-cores=2 -max-threads=64 -shared=32768").value();
    Built built = TRY(Build(f, target));
    source_ = built.object.source;
    Module module = TRY(LoadModule(built.artifact, std::make_shared<KernelContext>(1)));
    auto kernel = TRY(module->BindKernel(built.kernel->metadata.name, device_));
    const Tensor x = TRY(ToDevice(input, device_));
    const Tensor y = TRY(ToDevice(TRY(Tensor::Zeros({kCount}, to.Text())), device_));
    void* args[] = {x.data(), y.data()};
    TRY(kernel->Run(args));
    return ToHost(y);
  }
  DevicePtr device_;
  std::string source_;
};

TEST_F(OpenClHalves, AreConvertedByTheLanguagesFunctions) {
  const DType half = DType::Float(16), single = DType::Float(32);
  Tensor halves = Tensor::Empty({kCount}, "f16").value();
  for (int bits = 0; bits < kCount; ++bits) halves.Data<uint16_t>()[bits] = static_cast<uint16_t>(bits);
  auto widened = RunHere(PlainConversion(half, single), halves, single);
  ASSERT_TRUE(widened.ok()) << widened.error().Text();
  EXPECT_THAT(source_, testing::HasSubstr("vload_half("));
  for (int bits = 0; bits < kCount; ++bits) {
    const double want = FloatFromBits(static_cast<uint64_t>(bits), half), got = widened->Data<float>()[bits];
    ASSERT_TRUE(SameValue(got, want)) << bits << ": " << got << ", not " << want;
  }
  // The numbers at and next to the middle between two neighbouring halves, and beyond the range.
  Tensor singles = Tensor::Empty({kCount}, "f32").value();
  Rng rng(7);
  for (int i = 0; i < kCount; ++i) {
    const double a = FloatFromBits(static_cast<uint64_t>(i), half);
    const double b = FloatFromBits(static_cast<uint64_t>((i & 0x7fff) < 0x7bff ? i + 1 : i), half);
    auto middle = static_cast<float>((a + b) / 2);
    singles.Data<float>()[i] = std::nextafterf(middle, i % 3 == 0 ? middle : i % 3 == 1 ? -1e30f : 1e30f);
  }
  auto narrowed = RunHere(PlainConversion(single, half), singles, half);
  ASSERT_TRUE(narrowed.ok()) << narrowed.error().Text();
  EXPECT_THAT(source_, testing::HasSubstr("vstore_half_rte("));
  for (int i = 0; i < kCount; ++i) {
    const double number = singles.Data<float>()[i], want = RoundFloat(number, half);
    const double got = FloatFromBits(narrowed->Data<uint16_t>()[i], half);
    ASSERT_TRUE(SameValue(got, want)) << number << ": " << got << ", not " << want;
  }
}

}  // namespace
}  // namespace autotune
