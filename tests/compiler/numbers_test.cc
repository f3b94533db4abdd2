// Numbers of compiled models, element by element: 64-bit integers, which the interpreter's arrays of doubles cannot
// hold, special values of powers, and functions whose small results formulas easily lose.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "compiler/compile.h"
#include "package/load.h"
#include "runtime/opencl/device.h"
#include "support/rng.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int kFloat = 1, kInt32 = 6, kInt64 = 7, kDouble = 11;  // ONNX's element types
using Longs = std::vector<int64_t>;

template <class T>
constexpr int kOnnxType = std::is_same_v<T, float>     ? kFloat
                          : std::is_same_v<T, double>  ? kDouble
                          : std::is_same_v<T, int32_t> ? kInt32
                                                       : kInt64;

template <class T>
Tensor Input(const std::vector<T>& values, Longs shape = {}) {
  const uint8_t code = !std::is_integral_v<T> ? kDLFloat : std::is_signed_v<T> ? kDLInt : kDLUInt;
  const DLDataType type{code, 8 * sizeof(T), 1};
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  return Tensor::FromBytes(shape, type, bytes).value();
}

// Compiles a model for `target` and runs it. Returns its first output; nothing if it is refused, as a failure.
template <class T>
std::vector<T> Compute(const ModelMaker& m, const std::vector<Tensor>& inputs, const std::string& target_text = "cpu") {
  std::string folder = ::testing::TempDir() + "numbers-XXXXXX";
  EXPECT_TRUE(mkdtemp(folder.data()));
  struct Cleaner {
    std::string folder;
    ~Cleaner() { std::filesystem::remove_all(folder); }
  } cleaner{folder};
  std::ofstream(folder + "/m.onnx", std::ios::binary) << m.Bytes();
  static Builder* const builder =
      MakeBuildWorkers(
          {.workers = 1, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
          .value()
          .release();
  const Target target = Target::Parse(target_text).value();
  auto network = LoadNetwork(folder + "/m.onnx", {}, target, *builder);
  if (!network.ok()) return ADD_FAILURE() << network.error().Text(), std::vector<T>();
  auto compiled = Compile(*network, target, nullptr, *builder);
  if (!compiled.ok()) return ADD_FAILURE() << compiled.error().Text(), std::vector<T>();
  EXPECT_TRUE(WriteCompiled(compiled->package, folder + "/p.so", *builder).ok());
  auto model = LoadModel(folder + "/p.so", 1);
  if (!model.ok()) return ADD_FAILURE() << model.error().Text(), std::vector<T>();
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(model->executor->SetInput(static_cast<int>(i), inputs[i]).ok());
  EXPECT_TRUE(model->executor->Run().ok());
  const Tensor y = ToHost(model->executor->Output(0)).value();
  return {y.Data<T>(), y.Data<T>() + y.num_elements()};
}

// Returns base^exponent modulo 2^64 for exponent >= 0.
int64_t Power(int64_t base, int64_t exponent) {
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e > 0; e >>= 1, square *= square) result *= e & 1 ? square : 1;
  return static_cast<int64_t>(result);
}

const Longs kBases = {3037000499, 3, -3, kLeast, kMost, 2, 2, 0, 0, 7, -1, -1, 1, 10, 5};
const Longs kExponents = {2, 41, 41, 3, kMost, 63, 64, 0, 5, int64_t{1} << 53, kMost, 2, kMost, 18, 100};

TEST(CompiledNumbers, PowersOfLongIntegersAreExact) {
  const int64_t n = static_cast<int64_t>(kBases.size());
  Longs want, inverses = {0, 1, -1, -1, 2, -2, kLeast};
  for (size_t i = 0; i < kBases.size(); ++i) want.push_back(Power(kBases[i], kExponents[i]));
  for (const char* target : {"cpu", "c"}) {
    ModelMaker both;
    both.Input("x", {n}, kInt64).Input("e", {n}, kInt64).Output("y").Node("Pow", {"x", "e"}, {"y"});
    EXPECT_EQ(Compute<int64_t>(both, {Input(kBases), Input(kExponents)}, target), want) << target;
    ModelMaker constant;
    constant.Input("x", {n}, kInt64).Ints("e", kExponents).Output("y").Node("Pow", {"x", "e"}, {"y"});
    EXPECT_EQ(Compute<int64_t>(constant, {Input(kBases)}, target), want) << target;
  }
  ModelMaker folded;
  folded.Ints("x", kBases).Ints("e", kExponents).Output("y").Node("Pow", {"x", "e"}, {"y"});
  EXPECT_EQ(Compute<int64_t>(folded, {}), want);
  ModelMaker square;
  square.Input("x", {n}, kInt64).Floats("two", {}, {2}).Output("y").Node("Pow", {"x", "two"}, {"y"});
  for (size_t i = 0; i < kBases.size(); ++i) want[i] = Power(kBases[i], 2);
  EXPECT_EQ(Compute<int64_t>(square, {Input(kBases)}), want);
  ModelMaker negative;
  negative.Input("x", {7}, kInt64).Input("e", {7}, kInt64).Output("y").Node("Pow", {"x", "e"}, {"y"});
  EXPECT_EQ(Compute<int64_t>(negative, {Input(inverses), Input(Longs{-1, -5, -4, -5, -1, kLeast, -1})}),
            (Longs{kLeast, 1, 1, -1, 0, 0, 0}));
}

// Products of bytes, with zero points of both sides, equal sums of i32 on every target. The ends of the ranges are
// frequent, so instructions that saturate would show.
TEST(CompiledNumbers, ProductsOfBytesAreExact) {
  constexpr int kU8 = 2, kI8 = 3;
  Rng rng(11);
  const auto draw = [&](int64_t count, bool is_signed) {
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<int32_t>(rng.Below(3) ? 255 * rng.Below(2) : rng.Below(256)) - 128 * is_signed);
    return numbers;
  };
  const auto bytes = [](const std::vector<int32_t>& numbers) {
    return std::vector<uint8_t>(numbers.begin(), numbers.end());
  };
  const auto tensor = [](const std::vector<int32_t>& numbers, Longs shape, bool is_signed) {
    return is_signed ? Input(std::vector<int8_t>(numbers.begin(), numbers.end()), std::move(shape))
                     : Input(std::vector<uint8_t>(numbers.begin(), numbers.end()), std::move(shape));
  };
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{13, 64, 40}, {1, 32, 48}, {70, 20, 17}, {16, 1028, 64}, {5, 9, 7}, {3, 20, 1}}) {
    for (const bool a_signed : {false, true}) {
      for (const bool b_signed : {false, true}) {
        const std::vector<int32_t> a = draw(m * k, a_signed), b = draw(k * n, b_signed);
        const int32_t a_zero = draw(1, a_signed)[0], b_zero = b_signed ? 0 : 128;
        ModelMaker maker;
        maker.Input("a", {m, k}, a_signed ? kI8 : kU8).Input("az", {1}, a_signed ? kI8 : kU8);
        maker.Bytes8("b", {k, n}, bytes(b), b_signed ? kI8 : kU8)
            .Bytes8("bz", {}, bytes({b_zero}), b_signed ? kI8 : kU8);
        maker.Output("y").Node("MatMulInteger", {"a", "b", "az", "bz"}, {"y"});
        std::vector<int32_t> want;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            int32_t sum = 0;
            for (int64_t t = 0; t < k; ++t) sum += (a[i * k + t] - a_zero) * (b[t * n + j] - b_zero);
            want.push_back(sum);
          }
        }
        for (const char* target : {"cpu", "c"}) {
          EXPECT_EQ(Compute<int32_t>(maker, {tensor(a, {m, k}, a_signed), tensor({a_zero}, {1}, a_signed)}, target),
                    want)
              << target << " " << m << " " << k << " " << n << " " << a_signed << b_signed;
        }
      }
    }
  }
}

// Other products of bytes have results of bytes, whose sums wrap around.
TEST(CompiledNumbers, EinsumOfBytesStaysOfBytes) {
  ModelMaker m;
  m.Input("a", {2, 16}, 3).Input("b", {16, 3}, 3).Output("y");
  m.Node("Einsum", {"a", "b"}, {"y"}).String("equation", "ij,jk->ik");
  std::vector<int8_t> a(32), b(48), want;
  for (size_t i = 0; i < 32; ++i) a[i] = static_cast<int8_t>(i * 37);
  for (size_t i = 0; i < 48; ++i) b[i] = static_cast<int8_t>(i * 91);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      int sum = 0;
      for (size_t j = 0; j < 16; ++j) sum += a[16 * i + j] * b[3 * j + k];
      want.push_back(static_cast<int8_t>(sum));
    }
  }
  EXPECT_EQ(Compute<int8_t>(m, {Input(a, {2, 16}), Input(b, {16, 3})}), want);
}

TEST(CompiledNumbers, PowersOfIntegersWrapAroundInTheirOwnType) {
  ModelMaker m;
  m.Input("x", {4}, kInt32).Input("e", {4}, kInt64).Output("y").Node("Pow", {"x", "e"}, {"y"});
  const std::vector<int32_t> x = {46341, 3, -7, 0};
  std::vector<int32_t> want = {static_cast<int32_t>(Power(46341, 2)), static_cast<int32_t>(Power(3, 41)),
                               static_cast<int32_t>(Power(-7, 33)), std::numeric_limits<int32_t>::min()};
  EXPECT_EQ(Compute<int32_t>(m, {Input(x), Input(Longs{2, 41, 33, -1})}), want);
}

TEST(CompiledNumbers, MeansOfLongIntegersAreTruncatedSums) {
  auto mean = [](int64_t n, bool constant, const Longs& x) {
    ModelMaker m;
    constant ? m.Ints("x", x) : m.Input("x", {n}, kInt64);
    m.Output("y").Node("ReduceMean", {"x"}, {"y"}).Ints("axes", {0});
    return Compute<int64_t>(m, constant ? std::vector<Tensor>() : std::vector<Tensor>{Input(x)});
  };
  constexpr int64_t kLarge = int64_t{1} << 60;
  for (bool constant : {false, true}) {
    EXPECT_EQ(mean(2, constant, {kLarge + 4, kLarge + 6}), Longs{kLarge + 5});
    EXPECT_EQ(mean(3, constant, {-kLarge - 1, 0, -1}), Longs{(-kLarge - 2) / 3});
    EXPECT_EQ(mean(2, constant, {kMost, 3}), Longs{(kLeast + 2) / 2}) << "the sum wraps around";
    EXPECT_EQ(mean(3, constant, {-1, -1, 0}), Longs{0}) << "truncated";
  }
  ModelMaker narrow;
  narrow.Input("x", {3}, kInt32).Output("y").Node("ReduceMean", {"x"}, {"y"}).Ints("axes", {0});
  constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(Compute<int32_t>(narrow, {Input(std::vector<int32_t>{kLast, kLast, kLast - 3})}),
            std::vector<int32_t>{kLast - 1});
}

// Returns true if both are NaN, or equal up to `ulps` units in the last place; zeros of different sign differ.
template <class T>
bool Close(T got, double want, double ulps) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded);
  if (got == rounded) return got != 0 || std::signbit(got) == std::signbit(rounded);
  return std::abs(got - rounded) <= ulps * (std::nextafter(std::abs(rounded), T(kInfinity)) - std::abs(rounded));
}

template <class T>
void ExpectSpecialPowers(const std::string& target) {
  const std::vector<T> x = {-INFINITY, -8, -1, -0.5, -0.0, 0, 0.25, 1, 9, INFINITY, NAN};
  const std::vector<T> powers = {0.5, 2, 3, 1, -1, 0, -0.5, 1.5, -2, INFINITY, -INFINITY, NAN};
  const auto columns = static_cast<int64_t>(x.size()), rows = static_cast<int64_t>(powers.size());
  ModelMaker constants;
  constants.Input("x", {columns}, kOnnxType<T>).Output("y");
  std::vector<std::string> parts;
  for (T power : powers) {
    const std::string name = parts.emplace_back("y" + std::to_string(parts.size()));
    constants.Floats("e" + name, {}, {static_cast<float>(power)}).Node("Pow", {"x", "e" + name}, {name});
  }
  constants.Node("Concat", parts, {"y"}).Int("axis", 0);
  ModelMaker inputs;
  inputs.Input("x", {columns}, kOnnxType<T>).Input("e", {rows}, kOnnxType<T>).Ints("shape", {rows, 1}).Output("y");
  inputs.Node("Reshape", {"e", "shape"}, {"column"});
  inputs.Node("Expand", {"x", "shape"}, {"wide"});
  inputs.Node("Pow", {"wide", "column"}, {"y"});
  const std::vector<T> known = Compute<T>(constants, {Input(x)}, target);
  const std::vector<T> computed = Compute<T>(inputs, {Input(x), Input(powers)}, target);
  ASSERT_EQ(known.size(), x.size() * powers.size());
  ASSERT_EQ(computed.size(), known.size());
  for (size_t i = 0; i < known.size(); ++i) {
    const double base = x[i % x.size()], power = powers[i / x.size()], want = std::pow(base, power);
    EXPECT_TRUE(Close(known[i], want, 1)) << base << "^" << power << ", constant: " << known[i] << ", not " << want;
    EXPECT_TRUE(Close(computed[i], want, 1)) << base << "^" << power << ": " << computed[i] << ", not " << want;
  }
}

TEST(CompiledNumbers, SpecialPowers) {
  ExpectSpecialPowers<float>("cpu");
  ExpectSpecialPowers<double>("cpu");
  ExpectSpecialPowers<float>("c");
}

TEST(CompiledNumbers, LargeIntegerExponentsOfFloatsKeepTheirParity) {
  ModelMaker m;
  m.Input("x", {2}).Input("e", {2}, kInt64).Output("y").Node("Pow", {"x", "e"}, {"y"});
  EXPECT_EQ(Compute<float>(m, {Input(std::vector<float>{-1, -1}), Input(Longs{16777217, 16777218})}),
            (std::vector<float>{-1, 1}));
}

// The activations whose results approach 0 or a line: a formula that adds 1 on the way loses their digits.
template <class T>
void ExpectDigits(const std::string& target) {
  std::vector<T> x = {0, -INFINITY, INFINITY, NAN, -12.34f, -15, -17, -20, -50, -80, 20, 50, 1e30f, -1e30f};
  for (int e = -30; e <= 4; ++e) {
    for (double m : {1.0, 1.37, -1.0, -1.83}) x.push_back(static_cast<T>(std::ldexp(m, e)));
  }
  struct Row {
    const char* op;
    double (*want)(double);
  };
  const Row rows[] = {
      {"Softplus", [](double v) { return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v)); }},
      {"Elu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"Celu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"Selu", [](double v) { return double{1.05070098f} * (v < 0 ? double{1.67326319f} * std::expm1(v) : v); }},
  };
  for (const Row& row : rows) {
    if (sizeof(T) == 8 && std::string_view(row.op) == "Celu") continue;  // ONNX has it for f32 only
    ModelMaker m;
    m.Input("x", {static_cast<int64_t>(x.size())}, kOnnxType<T>).Output("y").Node(row.op, {"x"}, {"y"});
    std::vector<T> got = Compute<T>(m, {Input(x)}, target);
    ASSERT_EQ(got.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      // log1p(exp(x)) in doubles has an error, too, which counts in f64.
      EXPECT_TRUE(Close(got[i], row.want(x[i]), 6)) << row.op << " of " << x[i] << " for " << target << ": " << got[i];
    }
  }
}

TEST(CompiledNumbers, SmallResultsOfActivationsKeepTheirDigits) {
  ExpectDigits<float>("cpu");
  ExpectDigits<double>("cpu");
  ExpectDigits<float>("c");
  ExpectDigits<float>("c -vectors=none");
}

// A GELU as exporters write it: x / 2 * (1 + erf(x / sqrt(2))), or with tanh.
ModelMaker SpeltOutGelu(int64_t count, bool by_tanh) {
  ModelMaker m(13);
  m.Input("x", {count}).Output("y").Floats("one", {1}, {1}).Floats("half", {}, {0.5F});
  if (by_tanh) {
    m.Floats("cubic", {}, {0.044715F}).Floats("factor", {}, {static_cast<float>(std::sqrt(2 / std::acos(-1.0)))});
    m.Node("Mul", {"x", "x"}, {"square"});
    m.Node("Mul", {"square", "x"}, {"cube"});
    m.Node("Mul", {"cube", "cubic"}, {"part"});
    m.Node("Add", {"x", "part"}, {"inner"});
    m.Node("Mul", {"inner", "factor"}, {"z"});
    m.Node("Tanh", {"z"}, {"share"});
  } else {
    m.Floats("root", {}, {static_cast<float>(std::sqrt(2.0))});
    m.Node("Div", {"x", "root"}, {"z"});
    m.Node("Erf", {"z"}, {"share"});
  }
  m.Node("Add", {"share", "one"}, {"sum"});
  m.Node("Mul", {"x", "sum"}, {"product"});
  m.Node("Mul", {"product", "half"}, {"y"});
  return m;
}

// The argument of the GELU's exponential at x: its rounding error is the result's relative error.
long double GeluExponent(long double x, bool by_tanh) {
  const long double factor = std::sqrt(2 / std::acos(-1.0L));
  return by_tanh ? 2 * factor * (x + 0.044715L * x * x * x) : -x * x / 2;
}

long double Gelu(long double x, bool by_tanh) {
  if (!by_tanh) return x / 2 * std::erfc(-x * std::sqrt(0.5L));
  return x / (1 + std::exp(-GeluExponent(x, true)));
}

// `least` is an argument whose result is still a normal number.
template <class T>
void ExpectTailsOfGelu(ModelMaker (*model)(int64_t count, bool by_tanh), bool by_tanh, double least,
                       const std::string& target) {
  std::vector<T> x = {0, INFINITY, NAN, 1e30F};
  for (double v = least; v < 12; v += 0.0137) x.push_back(static_cast<T>(v));
  const std::vector<T> got = Compute<T>(model(static_cast<int64_t>(x.size()), by_tanh), {Input(x)}, target);
  ASSERT_EQ(got.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exponent = std::abs(GeluExponent(x[i], by_tanh));
    const double ulps = x[i] > 0 ? 8 : 8 + 4 * static_cast<double>(exponent);
    EXPECT_TRUE(Close(got[i], static_cast<double>(Gelu(x[i], by_tanh)), ulps))
        << x[i] << " for " << target << ": " << got[i] << ", by tanh: " << by_tanh;
  }
}

template <class T>
ModelMaker GeluOperator(int64_t count, bool by_tanh) {
  ModelMaker m(20);
  m.Input("x", {count}, kOnnxType<T>).Output("y");
  m.Node("Gelu", {"x"}, {"y"}).String("approximate", by_tanh ? "tanh" : "none");
  return m;
}

// Far below 0, erf and tanh are -1 but for digits that 1 + erf(z) and 1 + tanh(z) lose.
TEST(CompiledNumbers, GelusKeepTheDigitsOfTheirTails) {
  std::vector<std::string> targets = {"cpu", "c", "c -vectors=none"};
  setenv("POCL_CACHE_DIR", ::testing::TempDir().c_str(), 1);
  if (OpenClDevices().ok()) targets.push_back("opencl -num-cores=2 -max-threads=128 -shared=32K");
  for (const std::string& target : targets) {
    for (bool by_tanh : {false, true}) {
      ExpectTailsOfGelu<float>(GeluOperator<float>, by_tanh, by_tanh ? -9.9 : -12.9, target);
      ExpectTailsOfGelu<double>(GeluOperator<double>, by_tanh, by_tanh ? -20.9 : -37.4, target);
      ExpectTailsOfGelu<float>(SpeltOutGelu, by_tanh, by_tanh ? -9.9 : -12.9, target);
    }
  }
}

TEST(CompiledNumbers, GelusOfConstantsKeepTheirDigits) {
  const std::vector<float> x = {-5, -7, -9.5F};
  for (bool by_tanh : {false, true}) {
    ModelMaker m(20);
    m.Input("zero", {3}).Floats("x", {3}, x).Output("y");
    m.Node("Gelu", {"x"}, {"g"}).String("approximate", by_tanh ? "tanh" : "none");
    m.Node("Add", {"g", "zero"}, {"y"});
    const std::vector<float> got = Compute<float>(m, {Input(std::vector<float>(3))});
    ASSERT_EQ(got.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(Close(got[i], static_cast<double>(Gelu(x[i], by_tanh)), 400)) << x[i];
  }
}

// Squares of these numbers under- or overflow in f32. The results are those of ONNX Runtime.
TEST(CompiledNumbers, NormsOfTinyAndHugeNumbers) {
  auto norms = [](const std::vector<float>& x) {
    ModelMaker m(13);
    m.Input("x", {static_cast<int64_t>(x.size())}).Output("y");
    m.Node("ReduceL2", {"x"}, {"norm"});
    m.Node("LpNormalization", {"x"}, {"scaled"}).Int("axis", 0);
    m.Node("Concat", {"norm", "scaled"}, {"y"}).Int("axis", 0);
    return Compute<float>(m, {Input(x)});
  };
  EXPECT_EQ(norms({3e-25F, -4e-25F}), (std::vector<float>{0, 3e-25F, -4e-25F}));
  EXPECT_EQ(norms({3e25F, -4e25F}), (std::vector<float>{INFINITY, 0, 0}));
  EXPECT_EQ(norms({0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(norms({3, -4}), (std::vector<float>{5, 0.6F, -0.8F}));
  EXPECT_TRUE(std::isnan(norms({INFINITY, 1})[1])) << "as in the plain formula";
}

// Returns numbers of the whole range of 8 bits, as bytes.
std::vector<uint8_t> FullRange(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(rng.Below(256)));
  return bytes;
}

// A 3x3 convolution with padding of 64 channels and more, the form that Winograd's algorithm would take if it were
// offered to integers. `filters` is also the number of channels.
struct IntegerConvolution {
  static constexpr int64_t kSize = 8, kUint8 = 2, kInt8 = 3;
  int64_t channels;
  uint8_t zero;
  std::vector<uint8_t> image = FullRange(static_cast<size_t>(channels * kSize * kSize), 1),
                       weight = FullRange(static_cast<size_t>(channels * channels * 9), 2);

  ModelMaker Model() const {
    ModelMaker m;
    m.Input("x", {1, channels, kSize, kSize}, kUint8).Bytes8("w", {channels, channels, 3, 3}, weight, kInt8);
    m.Bytes8("zero", {}, {zero}, kUint8).Output("y");
    m.Node("ConvInteger", {"x", "w", "zero"}, {"y"}).Ints("pads", {1, 1, 1, 1});
    return m;
  }

  std::vector<int32_t> Expected() const {
    std::vector<int32_t> want;
    for (int64_t o = 0; o < channels; ++o) {
      for (int64_t pixel = 0; pixel < kSize * kSize; ++pixel) want.push_back(At(o, pixel / kSize, pixel % kSize));
    }
    return want;
  }

 private:
  int32_t At(int64_t o, int64_t row, int64_t column) const {
    int32_t sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t h = row + tap / 3 - 1, w = column + tap % 3 - 1;
        if (h < 0 || w < 0 || h >= kSize || w >= kSize) continue;  // padding stands for the zero point
        sum += (image[static_cast<size_t>((c * kSize + h) * kSize + w)] - zero) *
               static_cast<int8_t>(weight[static_cast<size_t>((o * channels + c) * 9 + tap)]);
      }
    }
    return sum;
  }
};

TEST(CompiledNumbers, ConvolutionsOfManyIntegersAreExact) {
  std::vector<std::string> targets = {"cpu", "c"};
  setenv("POCL_CACHE_DIR", ::testing::TempDir().c_str(), 1);
  if (OpenClDevices().ok()) targets.push_back("opencl -num-cores=2 -max-threads=128 -shared=32K");
  for (const auto& [channels, zero] : {std::pair<int64_t, uint8_t>{64, 131}, {96, 0}}) {
    const IntegerConvolution conv{channels, zero};
    const Longs shape = {1, channels, IntegerConvolution::kSize, IntegerConvolution::kSize};
    const std::vector<int32_t> want = conv.Expected();
    for (const std::string& target : targets)
      EXPECT_EQ(Compute<int32_t>(conv.Model(), {Input(conv.image, shape)}, target), want) << target << channels;
  }
}

}  // namespace
}  // namespace autotune
