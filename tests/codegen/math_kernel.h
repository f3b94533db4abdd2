// For tests: elementary functions as compiled or interpreted kernels, and their reference values.
#pragma once
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "tests/codegen/kernel.h"
#include "tests/draws.h"

namespace autotune {

constexpr int kMathCount = 1 << 14;  // number of elements of each array that a function is applied to at once
constexpr size_t kEachByC = 4;       // one in so many functions is drawn for a C compiler, which takes 0.1 s for each

template <class T>
PrimFunc MathProgram(const std::string& function, int arguments) {
  const std::string n = std::to_string(kMathCount), array = (sizeof(T) == 4 ? "f32[" : "f64[") + n + "]";
  // "1 + erf" stands for 1 + erf(x).
  const std::string one = sizeof(T) == 4 ? "1.0f32" : "1.0f64";
  const std::string term = function.starts_with("1 ") ? one + function.substr(1) : function;
  return Parse("func f(x: " + array + " input, y: " + array + " input, out: " + array + " output) { for i in " + n +
               " vectorized { block b(v: S " + n + " = i) { out[v] = " + term +
               (arguments == 2 ? "(x[v], y[v])" : "(x[v])") + " } } }");
}

// Applies one function to the arrays x and y. A function of one argument ignores y.
template <class T>
class MathEngine {
 public:
  virtual ~MathEngine() = default;
  virtual bool ok() const = 0;
  virtual T* x() = 0;
  virtual T* y() = 0;
  virtual const T* Run() = 0;  // valid until the next call
};

template <class T>
class CompiledMath : public MathEngine<T> {
 public:
  CompiledMath(const std::string& function, int arguments, const Target& target = Cpu()) : context_(1) {
    auto built = Build(MathProgram<T>(function, arguments), target);
    EXPECT_TRUE(built.ok()) << built.error().Text();
    if (!built.ok()) return;
    built_ = std::move(*built);
    args_ = AllocateArgs(built_.kernel->metadata).value();
  }
  bool ok() const override { return built_.kernel; }
  T* x() override { return args_[0].template Data<T>(); }
  T* y() override { return args_[1].template Data<T>(); }
  const T* Run() override {
    EXPECT_TRUE(CallKernel(*built_.kernel, context_, args_, {}).ok());
    return args_[2].template Data<T>();
  }

 private:
  KernelContext context_;
  Built built_;
  std::vector<Tensor> args_;
};

template <class T>
class InterpretedMath : public MathEngine<T> {
 public:
  InterpretedMath(const std::string& function, int arguments)
      : program_(MathProgram<T>(function, arguments)), arrays_(3, std::vector<T>(kMathCount)) {}
  bool ok() const override { return true; }
  T* x() override { return arrays_[0].data(); }
  T* y() override { return arrays_[1].data(); }
  const T* Run() override {
    std::vector<InterpArray> args;
    for (size_t i = 0; i < 3; ++i) {
      args.push_back({program_.params[i].buffer->dtype, {kMathCount}, {arrays_[i].begin(), arrays_[i].end()}});
    }
    Status status = Interpret(program_, args);
    EXPECT_TRUE(status.ok()) << status.error().Text();
    arrays_[2].assign(args[2].data.begin(), args[2].data.end());
    return arrays_[2].data();
  }

 private:
  PrimFunc program_;
  std::vector<std::vector<T>> arrays_;
};

// The type of reference values: double for f32, long double for f64. Their own error is below 0.001 ulp of T.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
template <class T>
using MathReference = Wide<T> (*)(Wide<T>, Wide<T>);

template <class T>
struct MathFunction {
  const char* name;
  int arguments;
  MathReference<T> reference;
  double low, high;  // range that is tested densely, in which the function is neither constant nor infinite
};

// Returns 0 in place of a result that is denormal in T.
template <class T>
Wide<T> Normal(Wide<T> value) {
  return value < std::numeric_limits<T>::min() ? 0 : value;
}

// Returns whether sin, cos and tan of x are defined: for every finite f32, and for f64 up to kMostAngle.
template <class T>
bool IsReducible(Wide<T> x) {
  return sizeof(T) == 4 || std::fabs(x) <= kMostAngle;
}

template <class T>
const std::vector<MathFunction<T>>& MathFunctions() {
  using W = Wide<T>;
  constexpr bool single = sizeof(T) == 4;
  constexpr double least = LeastExponent(8 * sizeof(T));
  static const std::vector<MathFunction<T>> functions = {
      {"exp", 1, [](W x, W) { return std::exp(x); }, single ? -104 : -746, single ? 89 : 710},
      {"exp_neg", 1, [](W x, W) { return x < least ? 0
                                         : x > 0   ? 1
                                                   : std::exp(x); }, single ? -104 : -746, 1},
      {"log", 1, [](W x, W) { return std::log(x); }, 0, 4},
      {"tanh", 1, [](W x, W) { return std::tanh(x); }, single ? -10 : -20, single ? 10 : 20},
      {"sigmoid", 1, [](W x, W) { return x < least ? 0 : 1 / (1 + std::exp(-x)); }, single ? -104 : -746,
       single ? 18 : 38},
      {"erf", 1, [](W x, W) { return std::erf(x); }, single ? -4.2 : -6.5, single ? 4.2 : 6.5},
      {"1 + erf", 1, [](W x, W) { return Normal<T>(std::erfc(-x)); }, single ? -9.3 : -26.6, single ? 4 : 6},
      {"1 - erf", 1, [](W x, W) { return Normal<T>(std::erfc(x)); }, single ? -4 : -6, single ? 9.3 : 26.6},
      {"1 + tanh", 1, [](W x, W) { return 2 * x < least ? 0 : 2 / (1 + std::exp(-2 * x)); }, single ? -44 : -355,
       single ? 9 : 19},
      {"1 - tanh", 1, [](W x, W) { return -2 * x < least ? 0 : 2 / (1 + std::exp(2 * x)); }, single ? -9 : -19,
       single ? 44 : 355},
      {"pow", 2, [](W x, W y) { return std::pow(x, y); }, 0, 40},
      {"sin", 1, [](W x, W) { return IsReducible<T>(x) ? std::sin(x) : W(NAN); }, -100, 100},
      {"cos", 1, [](W x, W) { return IsReducible<T>(x) ? std::cos(x) : W(NAN); }, -100, 100},
      {"tan", 1, [](W x, W) { return IsReducible<T>(x) ? std::tan(x) : W(NAN); }, -100, 100},
      {"asin", 1, [](W x, W) { return std::asin(x); }, -1, 1},
      {"acos", 1, [](W x, W) { return std::acos(x); }, -1, 1},
      {"atan", 1, [](W x, W) { return std::atan(x); }, -4, 4},
      {"sinh", 1, [](W x, W) { return std::sinh(x); }, single ? -90 : -711, single ? 90 : 711},
      {"cosh", 1, [](W x, W) { return std::cosh(x); }, single ? -90 : -711, single ? 90 : 711},
      {"asinh", 1, [](W x, W) { return std::asinh(x); }, -4, 4},
      {"acosh", 1, [](W x, W) { return std::acosh(x); }, 1, 4},
      {"atanh", 1, [](W x, W) { return std::atanh(x); }, -1, 1},
      {"sqrt", 1, [](W x, W) { return std::sqrt(x); }, 0, 4},
      {"floor", 1, [](W x, W) { return std::floor(x); }, -10, 10},
      {"ceil", 1, [](W x, W) { return std::ceil(x); }, -10, 10},
      {"round", 1, [](W x, W) { return std::nearbyint(x); }, -10, 10},
  };
  return functions;
}

// Makes an engine that is compiled for a target or, without one, interpreted.
template <class T>
std::unique_ptr<MathEngine<T>> MakeMathEngine(const MathFunction<T>& function, const std::optional<Target>& target) {
  if (!target) return std::make_unique<InterpretedMath<T>>(function.name, function.arguments);
  return std::make_unique<CompiledMath<T>>(function.name, function.arguments, *target);
}

// Returns zeros, infinities, NaN, the limits of the normal and of the denormal range, and special arguments of powers.
template <class T>
std::vector<T> SpecialValues() {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity(), tiny = Limits::denorm_min(), least = Limits::min(), max = Limits::max();
  std::vector<T> values = {0,
                           1,
                           inf,
                           tiny,
                           3 * tiny,
                           least - tiny,
                           least,
                           least + tiny,
                           max,
                           std::nextafter(max, T(0)),
                           2,
                           3,
                           T(0.5),
                           T(1.5),
                           T(2.5),
                           Limits::epsilon(),
                           std::nextafter(T(1), T(0)),
                           std::nextafter(T(1), T(2)),
                           std::ldexp(T(1), Limits::digits),
                           T(1e4)};
  for (size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  values.push_back(Limits::quiet_NaN());
  return values;
}

// Returns the distance of `got` from `want` in units in the last place of `want`; all denormals share one unit.
// Infinity counts as the first power of two beyond T. The distance between NaN and a number is infinite.
template <class T>
double Ulps(T got, Wide<T> want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  const Wide<T> beyond = std::ldexp(Wide<T>(1), Limits::max_exponent);
  auto bounded = [&](Wide<T> value) { return value > beyond ? beyond : value < -beyond ? -beyond : value; };
  Wide<T> a = bounded(got), b = bounded(want);
  if (a == b) return 0;
  int exponent = std::min(std::ilogb(b) + 1, Limits::max_exponent);
  if (b == 0) exponent = Limits::min_exponent;
  int unit = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::ldexp(std::fabs(a - b), -unit));
}

}  // namespace autotune
