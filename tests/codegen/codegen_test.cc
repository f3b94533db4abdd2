#include "codegen/codegen.h"

#include <algorithm>
#include <regex>

#include "schedule/replay.h"
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

constexpr std::string_view kMatmul = R"(func matmul(a: f32[7, 5] input, b: f32[5, 9] constant, c: f32[7, 9] output) {
  for i in 7 {
    for j in 9 {
      for k in 5 {
        block mm(vi: S 7 = i, vj: S 9 = j, vk: R 5 = k) {
          init {
            c[vi, vj] = 0.0
          }
          c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
        }
      }
    }
  }
}
)";

TEST(Codegen, UnscheduledMatmul) { AgreesWithInterpreter(Parse(kMatmul)); }

PrimFunc Scheduled(std::string_view func, std::string_view trace) {
  return Replay(Parse(func), ParseTrace(trace).value()).value().func();
}

// storage_align pads the rows of the packed constant, which `prepare` writes and `run` reads. Its rows of 9 elements
// start 19 elements apart with the step, and 9 elements apart without it.
TEST(Codegen, RowsLieApart) {
  for (int64_t stride : {19, 9}) {
    std::string trace =
        "cache_read(mm, b, global) -> rows\nsplit(j, [?, 4]) -> j_0, j_1\nreorder([j_0, k, j_1])\n"
        "vectorize(j_1)\nparallel(i)\n";
    if (stride == 19) trace += "storage_align(rows, axis=0, 16, 3)\n";
    PrimFunc f = Scheduled(kMatmul, trace);
    AgreesWithInterpreter(f);
    auto built = Build(f);
    ASSERT_TRUE(built.ok()) << built.error().Text();
    Tensor b = Tensor::Empty({5, 9}, "f32").value();
    for (int64_t i = 0; i < 45; ++i) SetElement(b, i, static_cast<double>(i));
    KernelContext context(1);
    std::vector<Tensor> prepared = PrepareConstants(*built->kernel, context, std::vector<Tensor>{b}).value();
    ASSERT_EQ(prepared.size(), 1u);
    const float* rows = static_cast<const float*>(prepared[0].data());
    for (int64_t k = 0; k < 5; ++k) {
      for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(rows[k * stride + j], static_cast<float>(k * 9 + j));
    }
  }
}

// Vector loads whose lanes are near each other: aligned or not, in any order, without a condition, with one condition
// for all lanes, and with one for each lane. Some buffers end with the last lane that is read. Some cases have lanes
// that are far apart.
TEST(Codegen, LanesNearEachOther) {
  struct Case {
    std::string elements, index;
  };
  const Case cases[] = {{"64", "v // 4 * 4 + r"},
                        {"64", "v // 8 * 8 + r"},
                        {"64", "v // 2 * 2 + r % 2"},
                        {"67", "v // 4 * 4 + 3 + r"},
                        {"66", "63 - v + r % 3"},
                        {"64", "v % 16 + 40"},
                        {"64", "v // 16 * 16 + 5"},
                        {"35", "v // 2 + r"},
                        {"256", "v // 4 * 16 + r"},
                        {"64", "v // 3 * 3"},
                        {"64", "v // 16 * 16 + (15 - v % 16)"},
                        {"130", "v // 4 * 8 + r + 3"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.index);
    const std::string element = "x[" + c.index + "]";
    std::string outputs, loops;
    for (const std::string& value :
         {element, "select(r > 1, " + element + ", 7.0)", "select(v < 50 + r * 5, " + element + ", 7.0)",
          "select(v % 3 == r % 3, " + element + ", 7.0)"}) {
      const std::string n = std::to_string(std::count(outputs.begin(), outputs.end(), 'y'));
      outputs += ", y" + n + ": f32[4, 64] output";
      // Each block has names of its own.
      const std::string renamed =
          std::regex_replace(std::regex_replace(value, std::regex("\\br\\b"), "r" + n), std::regex("\\bv\\b"), "v" + n);
      loops += " for j" + n + " in 4 { for i" + n + " in 64 vectorized { block b" + n + "(r" + n + ": S 4 = j" + n +
               ", v" + n + ": S 64 = i" + n + ") { y" + n + "[r" + n + ", v" + n + "] = " + renamed + " } } }";
    }
    AgreesWithInterpreter(Parse("func f(x: f32[" + c.elements + "] input" + outputs + ") {" + loops + " }"));
  }
}

// Lanes whose condition is false must not be read. Here these lanes lie beyond the end of the buffer.
TEST(Codegen, LanesBeyondABufferAreMasked) {
  for (const char* index : {"v", "v // 2", "v // 4 * 2", "v // 8 * 8 + 3 - v // 8 * 8"}) {
    for (int64_t elements : {3, 21, 40}) {
      SCOPED_TRACE(index);
      const std::string n = std::to_string(elements);
      AgreesWithInterpreter(Parse("func f(x: f32[" + n +
                                  "] input, y: f32[64] output) { for i in 64 vectorized {"
                                  " block b(v: S 64 = i) { y[v] = select(" +
                                  std::string(index) + " < " + n + ", x[" + index + "], 7.0) } } }"));
    }
  }
}

// Masked loads of elements of all widths. The true lanes are not contiguous.
TEST(Codegen, LanesOfAllTypesAreMasked) {
  for (std::string type : {"f32", "f64", "i8", "u64"}) {
    SCOPED_TRACE(type);
    for (int lanes : {4, 8, 33}) {
      const std::string n = std::to_string(lanes), other = type == "f32"    ? "1.0"
                                                           : type[0] == 'f' ? "1.0f64"
                                                                            : "1" + type;
      AgreesWithInterpreter(Parse("func f(b: bool[" + n + "] input, x: " + type + "[" + n + "] input, y: " + type +
                                  "[" + n + "] output) { for i in " + n + " vectorized { block k(v: S " + n +
                                  " = i) { y[v] = select(b[v], x[v], " + other + ") } } }"));
    }
  }
}

// false < true, although a vector's mask represents true as -1.
TEST(Codegen, BoolsHaveAnOrder) {
  for (const char* kind : {"serial", "vectorized"}) {
    AgreesWithInterpreter(Parse(std::string(R"(func f(a: bool[33] input, b: bool[33] input, lt: bool[33] output,
      le: bool[33] output, gt: bool[33] output, ge: bool[33] output, eq: bool[33] output, ne: bool[33] output,
      least: bool[33] output, most: bool[33] output, mixed: f32[33] output) { for i in 33 )") +
                                kind + R"( { block k(v: S 33 = i) {
        lt[v] = a[v] < b[v] le[v] = a[v] <= b[v] gt[v] = a[v] > b[v] ge[v] = a[v] >= b[v]
        eq[v] = a[v] == b[v] ne[v] = a[v] != b[v] least[v] = min(a[v], b[v]) most[v] = max(a[v], b[v])
        mixed[v] = select(a[v] < b[v] ^ b[v], 1.0, f32(a[v]))
      } } })"));
  }
}

// A register buffer that is read under a condition stays in registers. The read needs no branch, since it cannot touch
// memory out of bounds.
TEST(Codegen, RegistersUnderAConditionStayRegisters) {
  PrimFunc f = Parse(R"(func f(a: f32[13] input, c: f32[13] output) {
    alloc r: f32[13] register
    for i in 13 vectorized { block x(v: S 13 = i) { r[v] = a[v] * 2.0 } }
    for j in 8 vectorized { block y(w: S 8 = j) { c[w] = select(a[w] > 0.0, r[w], a[w] + 1.0) } }
    for k in 5 unrolled { block z(u: S 5 = k) { c[u + 8] = select(a[u] > 0.0, r[12 - u], 3.0) } }
  })");
  AgreesWithInterpreter(f);
  // Vectors that overlap in part still break the contract of scope `register`.
  auto overlap = Build(Parse(R"(func g(a: f32[12] input, c: f32[12] output) {
    alloc r: f32[12] register
    for i in 12 vectorized { block x(v: S 12 = i) { r[v] = a[v] } }
    for j in 8 vectorized { block y(w: S 8 = j) { c[w] = r[w + 4] } }
    for k in 4 { block z(u: S 4 = k) { c[u + 8] = 1.0 } }
  })"));
  ASSERT_FALSE(overlap.ok());
  EXPECT_NE(overlap.error().Text().find("rejected: register buffer r cannot be kept"), std::string::npos)
      << overlap.error().Text();
}

}  // namespace
}  // namespace autotune
