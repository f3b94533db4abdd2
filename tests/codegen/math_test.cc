// Elementary functions as compiled: accuracy over all exponents, special values, and no calls of a math library.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

constexpr int kCount = 4096;

template <class T>
std::vector<T> Apply(const std::string& function, const std::vector<T>& x, const std::vector<T>& y,
                     const Target& target = Cpu()) {
  std::string type = sizeof(T) == 4 ? "f32" : "f64";
  std::string array = type + "[" + std::to_string(kCount) + "]";
  bool two = function == "pow";
  std::string call = function + (two ? "(x[v], y[v])" : "(x[v])");
  PrimFunc f = Parse("func f(x: " + array + " input, y: " + array + " input, out: " + array +
                     " output) { for i in 4096 vectorized { block b(v: S 4096 = i) { out[v] = " + call + " } } }");
  auto built = Build(f, target);
  EXPECT_TRUE(built.ok()) << built.error().Text();
  if (!built.ok()) return {};
  KernelContext context(1);
  std::vector<Tensor> args = AllocateArgs(built->kernel->metadata).value();
  std::copy(x.begin(), x.end(), args[0].Data<T>());
  std::copy(y.begin(), y.end(), args[1].Data<T>());
  EXPECT_TRUE(CallKernel(*built->kernel, context, args, {}).ok());
  return {args[2].Data<T>(), args[2].Data<T>() + kCount};
}

using Reference = long double (*)(long double, long double);
struct Function {
  const char* name;
  Reference reference;
  double low, high;   // where it is tested densely
  double ulp_single;  // bound in units in the last place
  double relative_double;
};

long double Sigmoid(long double x, long double) { return 1 / (1 + std::exp(-x)); }
const Function kFunctions[] = {
    {"exp", [](long double x, long double) { return std::exp(x); }, -104, 89, 2, 1e-15},
    {"log", [](long double x, long double) { return std::log(x); }, 0, 100, 2, 1e-15},
    {"tanh", [](long double x, long double) { return std::tanh(x); }, -12, 12, 4, 1e-14},
    {"sigmoid", Sigmoid, -100, 100, 4, 1e-14},
    {"erf", [](long double x, long double) { return std::erf(x); }, -6, 6, 4, 1e-13},
    {"pow", [](long double x, long double y) { return std::pow(x, y); }, 0, 40, 2, 1e-12},
};

// Distance in units in the last place of the reference, rounded to T; denormals count in their own units.
template <class T>
double Ulps(T got, long double want) {
  T rounded = static_cast<T>(want);
  if (std::isnan(got) && std::isnan(rounded)) return 0;
  if (got == rounded) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return INFINITY;
  int exponent;
  std::frexp(want, &exponent);
  int digits = std::numeric_limits<T>::digits;
  long double unit = std::ldexp(1.0L, std::max(exponent - digits, std::numeric_limits<T>::min_exponent - digits));
  return static_cast<double>(std::fabs(got - want) / unit);
}

template <class T>
std::vector<T> Samples(double low, double high, uint64_t seed) {
  Rng rng(seed);
  std::vector<T> x;
  // Every exponent, both signs, then the interesting range.
  for (int e = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
       e <= std::numeric_limits<T>::max_exponent && x.size() + 2 < kCount / 2; ++e) {
    T value = std::ldexp(static_cast<T>(1 + rng.Uniform()), e - 1);
    x.push_back(value);
    x.push_back(-value);
  }
  while (x.size() < kCount) x.push_back(static_cast<T>(low + (high - low) * rng.Uniform()));
  return x;
}

template <class T>
void CheckAccuracy(const Target& target, double scale) {
  for (const Function& function : kFunctions) {
    double worst = 0;
    T at = 0, at_y = 0;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      std::vector<T> x = Samples<T>(function.low, function.high, seed), y(kCount);
      Rng rng(seed + 100);
      for (T& value : y) value = static_cast<T>(rng.Uniform() * 12 - 6);
      std::vector<T> out = Apply<T>(function.name, x, y, target);
      ASSERT_EQ(out.size(), x.size());
      for (int i = 0; i < kCount; ++i) {
        long double want = function.reference(x[i], y[i]);
        double bound = sizeof(T) == 4
                           ? function.ulp_single
                           : std::max(2.0, function.relative_double / std::numeric_limits<double>::epsilon());
        double ulps = Ulps(out[i], want) / (bound * scale);
        if (!(ulps <= worst)) worst = ulps, at = x[i], at_y = y[i];
      }
    }
    EXPECT_LE(worst, 1) << function.name << " of " << at << ", " << at_y << " (times the bound)";
  }
}

TEST(Math, SinglePrecisionOverAllExponents) { CheckAccuracy<float>(Cpu(), 1); }
TEST(Math, DoublePrecisionOverAllExponents) { CheckAccuracy<double>(Cpu(), 1); }
TEST(Math, WithoutFusedMultiplyAdd) {
  Target plain = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value();
  CheckAccuracy<float>(plain, 1.5);
  CheckAccuracy<double>(plain, 1.5);
}

template <class T>
void CheckSpecialValues() {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T tiny = std::numeric_limits<T>::denorm_min(), big = std::numeric_limits<T>::max();
  std::vector<T> special{0,   -T(0), 1, -1, inf, -inf, nan,    tiny,    -tiny,
                         big, -big,  2, -2, 3,   -3,   T(0.5), T(-0.5), T(-2.5)};
  std::vector<T> x(kCount, 1), y(kCount, 1);
  size_t n = special.size();
  for (size_t i = 0; i < n * n; ++i) x[i] = special[i / n], y[i] = special[i % n];
  for (const Function& function : kFunctions) {
    std::vector<T> out = Apply<T>(function.name, x, y);
    ASSERT_EQ(out.size(), x.size());
    for (size_t i = 0; i < n * n; ++i) {
      T want = static_cast<T>(function.reference(x[i], y[i]));
      bool exact = want == 0 || !std::isfinite(want);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(out[i])) << function.name << "(" << x[i] << ", " << y[i] << ") = " << out[i];
      } else if (exact) {
        EXPECT_EQ(out[i], want) << function.name << "(" << x[i] << ", " << y[i] << ")";
        EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << function.name << "(" << x[i] << ", " << y[i] << ")";
      } else {
        EXPECT_LE(Ulps(out[i], want), 500) << function.name << "(" << x[i] << ", " << y[i] << ") = " << out[i];
      }
    }
  }
}

TEST(Math, SpecialValuesSingle) { CheckSpecialValues<float>(); }
TEST(Math, SpecialValuesDouble) { CheckSpecialValues<double>(); }

TEST(Math, RoundingWithAndWithoutTheInstruction) {
  std::vector<float> x(kCount), y(kCount, 0);
  Rng rng(9);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>((rng.Uniform() - 0.5) * std::ldexp(1.0, i % 60));
  const float few[] = {0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 8388607.5f, -0.0f, 0.0f, INFINITY, -INFINITY, NAN, 16777216.0f};
  std::copy(std::begin(few), std::end(few), x.begin());
  for (const char* cpu : {"x86-64", "x86-64-v3"}) {
    Target target = Target::Parse(std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=") + cpu).value();
    for (auto [name, reference] : {std::pair{"floor", +[](float v) { return std::floor(v); }},
                                   std::pair{"ceil", +[](float v) { return std::ceil(v); }},
                                   std::pair{"round", +[](float v) { return std::nearbyint(v); }}}) {
      std::vector<float> out = Apply<float>(name, x, y, target);
      ASSERT_EQ(out.size(), x.size());
      for (int i = 0; i < kCount; ++i) {
        float want = reference(x[i]);
        ASSERT_TRUE(out[i] == want ? std::signbit(out[i]) == std::signbit(want)
                                   : std::isnan(want) && std::isnan(out[i]))
            << name << "(" << x[i] << ") = " << out[i] << " on " << cpu;
      }
    }
  }
}

}  // namespace
}  // namespace autotune
