// Checks that no elementary function has a larger error than the table in docs/ir.md states. These commands measure the
// table again, from more values:
//   AUTOTUNE_MATH_VALUES=1000000000 build/tests/test_codegen --gtest_filter='MathAccuracy.*'   10^9 random values each
//   AUTOTUNE_MATH_VALUES=all ...                                   every f32, 2^32 values of f64 (hours on one core)
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "support/rng.h"
#include "tests/codegen/math_kernel.h"
#include "tests/read.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Largest errors in ulp, by function and column.
using Table = std::map<std::pair<std::string, std::string>, double>;

constexpr const char* kColumns[] = {"f32", "f32 without fma", "f32 interpreted",
                                    "f64", "f64 without fma", "f64 interpreted"};

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  std::string cell;
  std::getline(in, cell, '|');
  while (std::getline(in, cell, '|')) {
    size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

// Reads the rows below the heading line that names the columns.
Table ReadTable(const std::string& text) {
  Table table;
  std::istringstream in(text);
  std::string line;
  std::vector<std::string> columns;
  while (std::getline(in, line)) {
    std::vector<std::string> cells = Cells(line);
    if (line.empty() || line[0] != '|') columns.clear();
    if (!cells.empty() && cells[0] == "function") columns = cells;
    if (columns.empty() || cells.size() != columns.size() || cells[0] == "function" || cells[0][0] == '-') continue;
    for (size_t i = 1; i < cells.size(); ++i) table[{cells[0], columns[i]}] = std::atof(cells[i].c_str());
  }
  return table;
}
Table Documented() { return ReadTable(test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/ir.md")); }

// Returns the measured errors that are larger than documented, or that are not documented, one per line.
std::string Beyond(const Table& measured, const Table& documented) {
  std::string found;
  for (const auto& [key, ulp] : measured) {
    auto it = documented.find(key);
    if (it != documented.end() && ulp <= it->second) continue;
    found += key.first + " in " + key.second + ": " + std::to_string(ulp) + " ulp, documented are " +
             (it == documented.end() ? "none" : std::to_string(it->second)) + "\n";
  }
  return found;
}

struct Effort {
  uint64_t values = 1 << 16;
  bool all = false;  // test every f32, for functions of one argument
};
Effort FromEnvironment() {
  Effort effort;
  if (const char* text = getenv("AUTOTUNE_MATH_VALUES")) {
    effort.all = std::string(text) == "all";
    effort.values = effort.all ? uint64_t{1} << 32 : strtoull(text, nullptr, 10);
  }
  return effort;
}

template <class T>
T FromBits(uint64_t bits) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Bits b = static_cast<Bits>(bits);
  T value;
  std::memcpy(&value, &b, sizeof(T));
  return value;
}

struct Worst {
  double ulp = 0, x = 0, y = 0;
};

// Returns the largest error of a function, compiled for `target`, or interpreted if there is no target.
template <class T>
Worst Measure(const MathFunction<T>& function, const std::optional<Target>& target, const Effort& effort) {
  std::unique_ptr<MathEngine<T>> engine = MakeMathEngine<T>(function, target);
  Worst worst;
  if (!engine->ok()) return {INFINITY};
  Rng rng(1);
  const bool all = target && effort.all && sizeof(T) == 4 && function.arguments == 1;
  const uint64_t values = target ? effort.values : std::max<uint64_t>(effort.values / 64, 1);  // interpreting is slow
  for (uint64_t start = 0; start < values; start += kMathCount) {
    T *x = engine->x(), *y = engine->y();
    for (int i = 0; i < kMathCount; ++i) {
      // Half of the values have random bits: all exponents, denormals, NaN. The other half lies where the function is
      // not constant.
      bool any = all || i % 2;
      x[i] = any ? FromBits<T>(all ? start + i : rng.Next())
                 : static_cast<T>(function.low + (function.high - function.low) * rng.Uniform());
      y[i] = static_cast<T>(i % 8 == 1 ? FromBits<T>(rng.Next()) : rng.Uniform() * 12 - 6);
      if (i % 8 == 3) y[i] = static_cast<T>(rng.Below(13) - 6);
      // Powers whose results cover the whole range. For bases near 1 the exponents are large, which magnifies errors of
      // the logarithm.
      if (function.arguments == 2 && i % 8 == 4) x[i] = static_cast<T>(0.5 + rng.Uniform() * 1.5);
      if (function.arguments == 2 && i % 4 == 0 && x[i] > 0 && x[i] != 1) {
        const double low = sizeof(T) == 4 ? -104 : -746, high = sizeof(T) == 4 ? 89 : 710;
        y[i] = static_cast<T>((low + (high - low) * rng.Uniform()) / std::log(static_cast<double>(x[i])));
      }
    }
    const std::vector<T> special = SpecialValues<T>();
    for (size_t i = 0; start == 0 && !all && i < special.size() * special.size(); ++i) {
      x[i] = special[i / special.size()], y[i] = special[i % special.size()];
    }
    const T* out = engine->Run();
    for (int i = 0; i < kMathCount; ++i) {
      double ulp = Ulps<T>(out[i], function.reference(x[i], y[i]));
      if (ulp > worst.ulp) worst = {ulp, static_cast<double>(x[i]), static_cast<double>(y[i])};
    }
  }
  return worst;
}

template <class T>
void MeasureAll(const std::optional<Target>& target, const Effort& effort, Table& table) {
  std::string column = sizeof(T) == 4 ? "f32" : "f64";
  column += !target ? " interpreted" : target->has_fma ? "" : " without fma";
  const size_t each = target && target->kind == TargetKind::kC ? kEachByC : 1;
  size_t number = 0;
  for (const MathFunction<T>& function : MathFunctions<T>()) {
    if (!test::IsDrawn(number++, each)) continue;
    if (!target && std::string_view(function.name).starts_with("1 ")) continue;  // the interpreter rounds both terms
    Worst worst = Measure(function, target, effort);
    double& greatest = table[{function.name, column}];
    greatest = std::max(greatest, worst.ulp);
    printf("%s, %s: %.3g ulp, at %.17g, %.17g\n", function.name, column.c_str(), worst.ulp, worst.x, worst.y);
  }
}

TEST(MathAccuracy, IsAsDocumented) {
  const Effort effort = FromEnvironment();
  Table measured;
  std::vector<std::optional<Target>> targets = {
      Cpu(), Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value(), std::nullopt};
  // AVX-512 has an instruction for ldexp. The code that replaces it is tested as well.
  if (Cpu().vector_bits == 512) {
    targets.push_back(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3").value());
  }
  // C compilers must give the same accuracy.
  for (const char* as_c : {"c", "c -vectors=none", "c -mtriple=x86_64-linux-gnu -mcpu=x86-64"})
    targets.push_back(Target::Parse(as_c).value());
  for (const std::optional<Target>& target : targets) {
    MeasureAll<float>(target, effort, measured);
    MeasureAll<double>(target, effort, measured);
  }
  EXPECT_EQ(Beyond(measured, Documented()), "");
  // Prints the table in the format of docs/ir.md, with errors rounded up.
  printf("| function |");
  for (const char* column : kColumns) printf(" %s |", column);
  printf("\n|---|---|---|---|---|---|---|\n");
  for (const auto& function : MathFunctions<float>()) {
    printf("| %s |", function.name);
    for (const char* column : kColumns) printf(" %g |", std::ceil(100 * measured[{function.name, column}]) / 100);
    printf("\n");
  }
}

TEST(MathAccuracy, EveryExpandedFunctionIsDocumented) {
  Table documented = Documented();
  for (const OpRow& row : kOps) {
    if (!row.expanded) continue;
    for (const char* column : kColumns) {
      EXPECT_TRUE(documented.contains({std::string(row.name), column})) << row.name << ", " << column;
    }
  }
}

TEST(MathAccuracy, EveryFunctionOfNumbersIsTested) {
  // These are exact. Other tests of this folder compare their bits.
  std::set<std::string_view> tested = {"abs", "fma", "ldexp", "tf32", "mma", "dot"};
  for (const auto& function : MathFunctions<float>()) tested.insert(function.name);
  for (size_t i = 0; i < std::size(kOps); ++i) {
    const Op op = static_cast<Op>(i);
    if (Row(op).type != OpType::kSameAsFirst || IsPrefetch(op) || op == Op::kAsync) continue;
    EXPECT_TRUE(tested.contains(Row(op).name)) << Row(op).name << " has no row in tests/codegen/math_kernel.h";
  }
}

// The check fails for a smaller number in the table, for a missing row, and for a kernel that computes something else.
TEST(MathAccuracy, MoreThanDocumentedIsNoticed) {
  Table measured = {{{"exp", "f32"}, 1.25}};
  auto beyond = [&](const std::string& rows) {
    return Beyond(measured, ReadTable("Text.\n\n| function | f32 |\n|---|---|\n" + rows + "\n| exp | 99 |\n"));
  };
  EXPECT_EQ(beyond("| log | 1 |\n| exp | 1.3 |\n"), "");
  EXPECT_THAT(beyond("| exp | 1.2 |\n"), HasSubstr("exp in f32: 1.25"));
  EXPECT_THAT(beyond("| log | 1.3 |\n"), HasSubstr("none"));
  MathFunction<float> wrong = {"exp", 1, [](double x, double) { return std::exp(x) * (1 + 1e-6); }, -10, 10};
  EXPECT_GT(Measure<float>(wrong, Cpu(), Effort{}).ulp, 8);
  EXPECT_GT(Measure<float>(wrong, std::nullopt, Effort{}).ulp, 8);  // a relative error of 1e-6 is 8.4 to 16.8 ulp
}

TEST(MathAccuracy, UlpsAreCountedRight) {
  EXPECT_EQ(Ulps<float>(1, 1), 0);
  EXPECT_EQ(Ulps<float>(std::nextafter(1.0f, 2.0f), 1), 1);
  EXPECT_EQ(Ulps<float>(1, 1 + 0x1p-24), 0.5);
  EXPECT_EQ(Ulps<float>(std::nextafter(1.0f, 0.0f), 1), 0.5);  // the unit is that of `want`
  const float tiny = std::numeric_limits<float>::denorm_min(), max = std::numeric_limits<float>::max();
  EXPECT_EQ(Ulps<float>(3 * tiny, tiny), 2);
  EXPECT_EQ(Ulps<float>(0, tiny), 1);
  EXPECT_EQ(Ulps<float>(tiny, 0), 1);
  EXPECT_EQ(Ulps<float>(INFINITY, max), 1);
  EXPECT_EQ(Ulps<float>(max, 1e300), 1);
  EXPECT_EQ(Ulps<float>(INFINITY, 1e300), 0);
  EXPECT_GT(Ulps<float>(-INFINITY, 1e300), 1e6);
  EXPECT_EQ(Ulps<float>(NAN, 1), INFINITY);
  EXPECT_EQ(Ulps<float>(1, NAN), INFINITY);
  EXPECT_EQ(Ulps<float>(NAN, NAN), 0);
  EXPECT_EQ(Ulps<double>(1, 1 + 0x1p-53L), 0.5);
}

}  // namespace
}  // namespace autotune
