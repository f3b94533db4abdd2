// Compiled elementary functions: special values, signs of zero, rounding to integers. math_accuracy_test.cc checks
// their accuracy.
#include "codegen/walk.h"
#include "lower/passes.h"
#include "support/rng.h"
#include "tests/codegen/math_kernel.h"

namespace autotune {
namespace {

// Where the true value is 0, infinite or NaN, the computed value must be the same, with the same sign.
// Each function is drawn for one in `each` seeds.
template <class T>
void CheckSpecialValues(const std::optional<Target>& target, size_t each = 1) {  // nullopt: the interpreter
  const std::vector<T> special = SpecialValues<T>();
  const size_t n = special.size();
  ASSERT_LE(n * n, static_cast<size_t>(kMathCount));
  size_t number = 0;
  for (const MathFunction<T>& function : MathFunctions<T>()) {
    if (!test::IsDrawn(number++, each)) continue;
    std::unique_ptr<MathEngine<T>> engine = MakeMathEngine<T>(function, target);
    ASSERT_TRUE(engine->ok());
    T *x = engine->x(), *y = engine->y();
    for (size_t i = 0; i < n * n; ++i) x[i] = special[i / n], y[i] = special[i % n];
    const T* out = engine->Run();
    for (size_t i = 0; i < n * n; ++i) {
      T want = static_cast<T>(function.reference(x[i], y[i]));
      SCOPED_TRACE(std::string(function.name) + "(" + std::to_string(x[i]) + ", " + std::to_string(y[i]) + ")");
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(out[i])) << out[i];
      } else if (want == 0 || std::isinf(want)) {
        EXPECT_EQ(out[i], want);
        EXPECT_EQ(std::signbit(out[i]), std::signbit(want));
      } else {
        EXPECT_EQ(std::signbit(out[i]), std::signbit(want));
        EXPECT_TRUE(std::isfinite(out[i])) << out[i];
      }
    }
  }
}

TEST(Math, SpecialValues) {
  for (const Target& target : Generators()) {
    SCOPED_TRACE(target.Text());
    const size_t each = target.kind == TargetKind::kC ? kEachByC : 1;
    CheckSpecialValues<float>(target, each);
    CheckSpecialValues<double>(target, each);
  }
}
TEST(Math, SpecialValuesInterpreted) {
  CheckSpecialValues<float>(std::nullopt);
  CheckSpecialValues<double>(std::nullopt);
}
TEST(Math, SpecialValuesWithoutFma) {
  Target plain = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value();
  CheckSpecialValues<float>(plain);
  CheckSpecialValues<double>(plain);
}

// Checks floor, ceil and round. Results that are zero keep their sign, and round takes ties to even, also on targets
// without an instruction for rounding.
template <class T>
void CheckRounding(const Target& target) {
  for (const char* name : {"floor", "ceil", "round"}) {
    CompiledMath<T> kernel(name, 1, target);
    ASSERT_TRUE(kernel.ok());
    Rng rng(9);
    const int n = kMathCount;
    T* x = kernel.x();
    for (int i = 0; i < n; ++i) x[i] = static_cast<T>(std::ldexp(rng.Uniform() - 0.5, i % 60));
    for (int i = 0; i < 64; ++i) x[i] = static_cast<T>(i - 32) / 2;
    const T* out = kernel.Run();
    for (int i = 0; i < n; ++i) {
      T want = name[0] == 'f' ? std::floor(x[i]) : name[0] == 'c' ? std::ceil(x[i]) : std::nearbyint(x[i]);
      ASSERT_EQ(out[i], want) << name << " of " << x[i];
      ASSERT_EQ(std::signbit(out[i]), std::signbit(want)) << name << " of " << x[i];
    }
  }
}

TEST(Math, RoundingWithAndWithoutTheInstruction) {
  for (const char* cpu : {"x86-64", "x86-64-v3"}) {
    SCOPED_TRACE(cpu);
    Target target = Target::Parse(std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=") + cpu).value();
    CheckRounding<float>(target);
    CheckRounding<double>(target);
  }
}

// Returns targets whose code runs on this machine. Some use the machine's instructions for ldexp and fma, if it has
// them; the others have no such instructions.
std::vector<Target> MathTargets() {
  std::vector<Target> targets = Generators();
  if (!Cpu().triple.starts_with("x86_64")) return targets;
  for (const char* text : {"llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", "c -mtriple=x86_64-linux-gnu -mcpu=x86-64"})
    targets.push_back(Target::Parse(text).value());
  return targets;
}

// Vectors with fewer lanes than a register are padded, those with more are split. Some results overflow or underflow.
TEST(Math, LdexpOfAnyLanes) {
  for (const char* type : {"f32", "f64"}) {
    for (int lanes : {1, 2, 3, 8, 12, 16, 24, 40}) {
      SCOPED_TRACE(std::string(type) + " " + std::to_string(lanes));
      const std::string n = std::to_string(lanes), all = std::to_string(lanes * 64);
      PrimFunc f = Parse("func f(x: " + std::string(type) + "[" + all + "] input, y: " + type + "[" + all +
                         "] input, out: " + type + "[" + all + "] output) { for i in 64 { for j in " + n +
                         (lanes > 1 ? " vectorized" : "") + " { block b(v: S " + all + " = i * " + n +
                         " + j) { out[v] = ldexp(x[v] * 0.3" + (type[1] == '6' ? "f64" : "") + ", y[v] * " +
                         (type[1] == '6' ? "270.25f64" : "36.75") + ") } } } }");
      AgreesWithInterpreter(f, static_cast<uint64_t>(lanes), MathTargets());
    }
  }
}

// Compares ldexp with std::ldexp. The arguments have every exponent of the type, the results also larger and smaller
// ones. Results must be rounded once, also to denormals, and infinities, NaN and the sign of zero must be kept.
template <class T>
void CheckLdexp(const Target& target) {
  using Limits = std::numeric_limits<T>;
  CompiledMath<T> kernel("ldexp", 2, target);
  ASSERT_TRUE(kernel.ok());
  const std::vector<T> special = SpecialValues<T>();
  const int widest = 3 * Limits::max_exponent;  // larger than any exponent that still changes a result
  Rng rng(4);
  int denormal = 0;
  for (int turn = 0; turn < 8; ++turn) {
    T *x = kernel.x(), *n = kernel.y();
    for (int i = 0; i < kMathCount; ++i) {
      const int exponent = Limits::min_exponent + static_cast<int>(rng.Below(2 * Limits::max_exponent));
      const T any = static_cast<T>(std::ldexp(rng.Uniform() + 0.5, exponent)) * (i % 2 ? 1 : -1);
      const int whole = static_cast<int>(rng.Below(2 * widest)) - widest;
      x[i] = i % 8 ? any : special[rng.Below(special.size())];
      // Half of the exponents give results around the smallest normal number.
      n[i] = static_cast<T>(i % 4 < 2 ? whole : Limits::min_exponent - exponent - whole % Limits::digits);
      if (i % 3 == 0) n[i] += T(0.75);
    }
    const T* out = kernel.Run();
    for (int i = 0; i < kMathCount; ++i) {
      const T want = std::ldexp(x[i], static_cast<int>(std::floor(n[i])));
      ASSERT_EQ(std::isnan(out[i]), std::isnan(want)) << x[i] << ", " << n[i];
      if (std::isnan(want)) continue;
      ASSERT_EQ(out[i], want) << x[i] << ", " << n[i];
      ASSERT_EQ(std::signbit(out[i]), std::signbit(want)) << x[i] << ", " << n[i];
      denormal += want != 0 && std::fabs(want) < Limits::min();
    }
  }
  EXPECT_GT(denormal, 8 * kMathCount / 10);
}

TEST(Math, LdexpRoundsOnce) {
  for (const Target& target : MathTargets()) {
    SCOPED_TRACE(target.Text());
    CheckLdexp<float>(target);
    CheckLdexp<double>(target);
  }
}

// Without the instruction, fma becomes a product and a sum, inside and outside of blocks, and no call of a library.
TEST(Math, FmaWithoutTheInstruction) {
  for (const char* type : {"f32", "f64"}) {
    const std::string t = type, array = t + "[64]", one = t == "f64" ? "1.0f64" : "1.0";
    const std::string head =
        "func f(x: " + array + " input, y: " + array + " input, out: " + array + " output) { for i in 64 ";
    for (const std::string& body :
         {"{ out[i] = fma(x[i], y[i], " + one + ") } }",
          "vectorized { block b(v: S 64 = i) { out[v] = fma(x[v], y[v], " + one + ") } } }"}) {
      for (const Target& target : MathTargets()) AgreesWithInterpreter(Parse(head + body), 3, target, 1e-6);
    }
  }
}

// The nodes of an expanded function are shared so often that a walk over them as a tree would take exponential time.
TEST(Math, ExpandedExpressionsAreWalkedAsGraphs) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value();
  Buffer buffer = Buffer::Make(Name("x"), DType::Float(64), {Expr(4)});
  Expr e = MakeLoad(buffer, {Expr(0)});
  for (int i = 0; i < 4; ++i) e = ExpandMathCall(MakeCall(Op::kPow, {e, FloatConst(1.5, DType::Float(64))}), target);
  int visits = 0, loads = 0;
  WalkOnce(e, [&](const Expr& x) {
    ++visits;
    loads += x.As<Load>() != nullptr;
    return true;
  });
  EXPECT_EQ(loads, 1);
  EXPECT_LT(visits, 10000);
  // If the callback returns false, WalkOnce does not visit the node's operands.
  visits = 0;
  WalkOnce(e, [&](const Expr&) { return ++visits < 1; });
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace autotune
