// Every pass of the pipeline keeps the meaning of a program: the interpreter gives the same outputs before lowering and
// after each pass.
#include "lower/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "tests/after_pass.h"
#include "tests/ir/parse.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

using test::Parse;

using ::testing::HasSubstr;

Target Avx2() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma").value(); }
Target Sse() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").value(); }

PrimFunc Scheduled(const PrimFunc& f, std::string_view trace) {
  auto steps = ParseTrace(trace);
  EXPECT_TRUE(steps.ok()) << steps.error().Text();
  auto schedule = Replay(f, *steps);
  EXPECT_TRUE(schedule.ok()) << schedule.error().Text();
  return schedule->func();
}

// Returns the arguments in the shapes of g's parameters. Where a parameter pads its rows, the padding is left out.
std::vector<InterpArray> Reshaped(std::vector<InterpArray> args, const PrimFunc& g) {
  for (size_t i = 0; i < args.size(); ++i) {
    const Buffer& buffer = g.params[i].buffer;
    args[i].shape = ConstShape(buffer);
    if (buffer->dim_align.empty() || args[i].data.empty()) continue;
    EXPECT_EQ(static_cast<int64_t>(args[i].data.size()), ElementsOf(buffer));
    std::vector<double> rows;
    std::vector<int64_t> strides = StridesOf(args[i].shape, buffer->dim_align);
    std::function<void(size_t, int64_t)> copy = [&](size_t d, int64_t at) {
      if (d == strides.size()) return rows.push_back(args[i].data[at]);
      for (int64_t k = 0; k < args[i].shape[d]; ++k) copy(d + 1, at + k * strides[d]);
    };
    copy(0, 0);
    args[i].data = rows;
  }
  return args;
}

void ExpectOutputs(const PrimFunc& f, const std::vector<InterpArray>& want, const std::vector<InterpArray>& got) {
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (f.params[i].role != ParamRole::kOutput) continue;
    for (size_t k = 0; k < want[i].data.size(); ++k) {
      double a = want[i].data[k], b = got[i].data[k];
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
          << f.params[i].buffer->name << "[" << k << "]: " << a << " became " << b;
    }
  }
}

// Lowers f, interprets `prepare` to get the prepared constants, and interprets `run` after every pass. Each time the
// outputs must be those of f.
LoweredKernel CheckEveryPass(const PrimFunc& f, uint64_t seed, const Target& target = Avx2()) {
  std::vector<InterpArray> args = test::RandomArgs(f, seed), want = args;
  Status ran = Interpret(f, want);
  EXPECT_TRUE(ran.ok()) << ran.error().Text();
  std::vector<std::pair<std::string, PrimFunc>> stages;
  auto kernel =
      Lower(f, target, test::SeeAfter([&](std::string_view pass, const PrimFunc& g) { stages.emplace_back(pass, g); }));
  EXPECT_TRUE(kernel.ok()) << kernel.error().Text() << "\n" << ToText(f);
  if (!kernel.ok()) return {};

  std::vector<InterpArray> prepared;
  if (kernel->prepare) {
    std::vector<InterpArray> constants;
    for (size_t i = 0; i < f.params.size(); ++i) {
      if (f.params[i].role == ParamRole::kConstant) constants.push_back(args[i]);
    }
    size_t given = constants.size();
    for (size_t i = given; i < kernel->prepare->params.size(); ++i) {
      constants.push_back({kernel->prepare->params[i].buffer->dtype, {}, {}});
    }
    constants = Reshaped(constants, *kernel->prepare);
    Status done = Interpret(*kernel->prepare, constants);
    EXPECT_TRUE(done.ok()) << done.error().Text();
    prepared.assign(constants.begin() + static_cast<int64_t>(given), constants.end());
  }
  for (const auto& [pass, g] : stages) {
    if (!g.name.str().empty() && kernel->prepare && g.name == kernel->prepare->name) continue;
    std::vector<InterpArray> got = args;
    got.insert(got.end(), prepared.begin(), prepared.end());
    got = Reshaped(got, g);
    Status verified = Verify(g);
    EXPECT_TRUE(verified.ok()) << "after " << pass << ": " << verified.error().Text() << "\n" << ToText(g);
    Status run = Interpret(g, got, {.order_seed = seed});
    EXPECT_TRUE(run.ok()) << "after " << pass << ": " << run.error().Text() << "\n" << ToText(g);
    if (!run.ok()) return {};
    SCOPED_TRACE("after " + pass);
    ExpectOutputs(f, want, got);
    if (::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << ToText(f) << ToText(g);
      return {};
    }
  }
  return std::move(*kernel);
}

std::string RunText(const LoweredKernel& kernel) { return ToText(kernel.run.body); }

TEST(Lower, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    CheckEveryPass(test::MakeRandomProgram(seed), seed);
    if (::testing::Test::HasFailure()) return;
  }
}

constexpr std::string_view kMatmul = R"(func mm(a: f32[13, 8] input, b: f32[8, 20] constant, c: f32[13, 20] output) {
  for i in 13 { for j in 20 { for k in 8 {
    block mm(vi: S 13 = i, vj: S 20 = j, vk: R 8 = k) {
      init { c[vi, vj] = 0.0 }
      c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
    }
  } } }
}
)";

TEST(Lower, UpdatesAreContractedWhereTheTargetCan) {
  EXPECT_THAT(RunText(CheckEveryPass(Parse(kMatmul), 1)), HasSubstr("fma("));
  EXPECT_THAT(RunText(CheckEveryPass(Parse(kMatmul), 1, Sse())), Not(HasSubstr("fma(")));
}

TEST(Lower, InitLeavesTheReduction) {
  std::string text = RunText(CheckEveryPass(Parse(kMatmul), 1));
  EXPECT_THAT(text, Not(HasSubstr("if"))) << text;
}

TEST(Lower, TilesThatDoNotDivideAreVersioned) {
  PrimFunc f = Scheduled(Parse(kMatmul), R"(
split(i, [?, 6]) -> i0, i1
split(j, [?, 8]) -> j0, j1
reorder([i0, j0, k, i1, j1])
unroll(i1)
vectorize(j1)
parallel(i0)
)");
  LoweredKernel kernel = CheckEveryPass(f, 3);
  std::string text = RunText(kernel);
  EXPECT_THAT(text, HasSubstr("ramp("));
  EXPECT_THAT(text, HasSubstr("else"));
  // The guard is outside the reduction loop.
  EXPECT_LT(text.find("else"), text.rfind("for k"));
}

TEST(Lower, ConstantLayoutsAreMadeInPrepare) {
  PrimFunc f = Scheduled(Parse(kMatmul), R"(
cache_read(mm, b, global) -> packed
transform_layout(packed, [d1 // 8, d0, d1 % 8], pad_value=0)
)");
  LoweredKernel kernel = CheckEveryPass(f, 4);
  ASSERT_TRUE(kernel.prepare);
  EXPECT_EQ(kernel.prepared, std::vector<int64_t>{3 * 8 * 8 * 4});
  EXPECT_EQ(kernel.run.params.size(), 4u);
  // In contrast, an input of the same layout is packed in `run`.
  std::string text(kMatmul);
  text.replace(text.find("constant"), 8, "input");
  PrimFunc twin = Scheduled(Parse(text), R"(
cache_read(mm, b, global) -> packed
transform_layout(packed, [d1 // 8, d0, d1 % 8], pad_value=0)
)");
  EXPECT_FALSE(CheckEveryPass(twin, 4).prepare);
}

TEST(Lower, IntermediatesShrinkToWhatAnIterationTouches) {
  constexpr std::string_view kChain = R"(func chain(a: f32[64] input, c: f32[64] output) {
    alloc b: f32[64]
    for i in 8 parallel {
      for j in 8 { block x(v: S 64 = i * 8 + j) { b[v] = a[v] * 2.0 } }
      for j2 in 8 { block y(w: S 64 = i * 8 + j2) { c[w] = b[w] + 1.0 } }
    }
  })";
  EXPECT_THAT(RunText(CheckEveryPass(Parse(kChain), 5)), HasSubstr("local b: f32[8]"));
  // In contrast, if y reads elements that other iterations wrote, b keeps its size and stays outside the loop.
  constexpr std::string_view kCarried = R"(func chain(a: f32[64] input, c: f32[64] output) {
    alloc b: f32[65]
    for z in 1 { block zero(u: S 1 = z) { b[64] = 0.0 } }
    for i in 8 {
      for j in 8 { block x(v: S 64 = i * 8 + j) { b[63 - v] = a[v] * 2.0 } }
      for j2 in 8 { block y(w: S 64 = i * 8 + j2) { c[w] = b[64 - w] + 1.0 } }
    }
  })";
  EXPECT_THAT(RunText(CheckEveryPass(Parse(kCarried), 5)), HasSubstr("local b: f32[65]"));
}

constexpr std::string_view kRows = R"(func rows(a: f32[24, 16] input, c: f32[24, 16] output) {
  alloc b: f32[24, 16]
  for i in 24 { for j in 16 { block x(v: S 24 = i, u: S 16 = j) { b[v, u] = a[v, u] * 2.0 } } }
  for k in 24 { for l in 16 { block y(w: S 24 = k, z: S 16 = l) { c[w, z] = b[23 - w, z] + 1.0 } } }
}
)";

TEST(Lower, RowsLieApart) {
  auto text = [](const std::string& trace) { return RunText(CheckEveryPass(Scheduled(Parse(kRows), trace), 9)); };
  std::string compact = text("vectorize(l)"), apart = text("storage_align(b, axis=0, 32, 3)\nvectorize(l)");
  EXPECT_THAT(compact, HasSubstr("local b: f32[384]"));
  EXPECT_THAT(compact, HasSubstr("b[i * 16 + j] ="));
  EXPECT_THAT(apart, HasSubstr("local b: f32[840]"));
  EXPECT_THAT(apart, HasSubstr("b[i * 35 + j] ="));
  EXPECT_THAT(apart, HasSubstr("b[ramp(805 - k * 35, 1, 8)]"));
  // The part of the buffer that one tile needs has its own rows: 6 rows of 16 elements, then 6 rows of 4.
  const std::string tile = "split(k, [?, 6]) -> k_0, k_1\ncompute_at(x, k_0)\n";
  EXPECT_THAT(text(tile), HasSubstr("local b: f32[96]"));
  EXPECT_THAT(text(tile + "storage_align(b, axis=0, 16, 1)"), HasSubstr("local b: f32[102]"));
  const std::string smaller =
      "split(k, [?, 6]) -> k_0, k_1\nsplit(l, [?, 4]) -> l_0, l_1\nreorder([k_0, l_0, k_1, l_1])\ncompute_at(x, l_0)\n";
  EXPECT_THAT(text(smaller), HasSubstr("local b: f32[24]"));
  EXPECT_THAT(text(smaller + "storage_align(b, axis=0, 16, 1)"), HasSubstr("local b: f32[102]"));
  EXPECT_THAT(text(smaller + "storage_align(b, axis=0, 4, 1)"), HasSubstr("local b: f32[30]"));
}

TEST(Lower, PreparedRowsLieApart) {
  const std::string layout =
      "cache_read(mm, b, global) -> packed\n"
      "transform_layout(packed, [d1 // 8, d0, d1 % 8], pad_value=0)\n";
  LoweredKernel kernel = CheckEveryPass(Scheduled(Parse(kMatmul), layout + "storage_align(packed, axis=1, 16, 4)"), 4);
  EXPECT_EQ(kernel.prepared, std::vector<int64_t>{3 * 8 * 20 * 4});
  ASSERT_TRUE(kernel.prepare);
  EXPECT_THAT(ToText(kernel.prepare->body), HasSubstr("* 20"));
  EXPECT_THAT(RunText(kernel), HasSubstr("packed[j // 8 * 160 + k * 20 + j % 8]"));
  EXPECT_THAT(RunText(CheckEveryPass(Scheduled(Parse(kMatmul), layout), 4)),
              HasSubstr("packed[j // 8 * 64 + k * 8 + j % 8]"));
}

TEST(Lower, ParametersAreCompact) {
  auto f = [](const std::string& rows) {
    return Parse("func f(a: f32[4, 4] " + rows +
                 " input, c: f32[4] output) { for i in 4 { block s(v: S 4 = i) {"
                 " c[v] = a[v, 1] } } }");
  };
  CheckEveryPass(f(""), 1);
  auto refused = Lower(f("align [0, 8, 0]"), Avx2());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().Text(), "parameter a has aligned strides: only compact ones are supported");
}

constexpr std::string_view kWindow = R"(func window(a: f32[14, 8] input, w: f32[3, 8] input, c: f32[14, 8] output) {
  alloc s: f32[14, 8] register
  for i_0 in 5 @{peel=1} {
    for i_1 in 3 unrolled { for j_1 in 8 vectorized {
      block zero(u: S 14 = i_0 * 3 + i_1, v: S 8 = j_1) where i_0 * 3 + i_1 < 14 { s[u, v] = 0.0 }
    } }
    for k in 3 unrolled { for i_2 in 3 unrolled { for j_2 in 8 vectorized {
      block sum(x: S 14 = i_0 * 3 + i_2, y: S 8 = j_2, r: R 3 = k) where i_0 * 3 + i_2 < 14 {
        if x + r >= 1 && x + r < 15 { s[x, y] = fma(a[x + r - 1, y], w[r, y], s[x, y]) }
      }
    } } }
    for i_3 in 3 unrolled { for j_3 in 8 vectorized {
      block out(p: S 14 = i_0 * 3 + i_3, q: S 8 = j_3) where i_0 * 3 + i_3 < 14 { c[p, q] = max(s[p, q], 0.0) }
    } }
  }
}
)";

TEST(Lower, PeeledLoopsHaveNoGuards) {
  std::string text = RunText(CheckEveryPass(Parse(kWindow), 8));
  EXPECT_THAT(text, HasSubstr("for i_0 in 3"));
  EXPECT_THAT(text, Not(HasSubstr("if"))) << text;
  // In contrast, every tile tests the guards if the loop has no annotation. A loop whose iterations all need the guards
  // is not split.
  std::string plain(kWindow);
  plain.erase(plain.find("@{peel=1}"), 9);
  EXPECT_THAT(RunText(CheckEveryPass(Parse(plain), 8)), HasSubstr("else"));
  std::string always(kWindow);
  always.replace(always.find("x + r < 15"), 10, "x + r < 13 - x");
  text = RunText(CheckEveryPass(Parse(always), 8));
  EXPECT_THAT(text, HasSubstr("if"));
}

int Count(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Accumulators stay in registers only without branches, so a tile is computed either without any guard or with all of
// them. The guarded version must start from the initial value, not from the tile before.
TEST(Lower, TilesOfWindowsAreVersionedAsAWhole) {
  std::string plain(kWindow);
  plain.erase(plain.find("@{peel=1}"), 9);
  const std::string text = RunText(CheckEveryPass(Parse(plain), 8));
  const size_t tile = text.find("local s"), other = text.find("else");
  ASSERT_NE(tile, std::string::npos) << text;
  ASSERT_NE(other, std::string::npos) << text;
  const std::string fast = text.substr(tile, other - tile), slow = text.substr(other);
  EXPECT_EQ(Count(text, "else"), 1) << text;
  EXPECT_EQ(Count(text.substr(0, other), "if "), 1) << text;
  EXPECT_EQ(Count(fast, "if "), 0) << text;
  EXPECT_GT(Count(slow, "if "), 2) << text;
  const std::string init = slow.substr(slow.find("local s"), slow.find("if ") - slow.find("local s"));
  EXPECT_EQ(Count(init, "= broadcast(0.0, 8)"), 3) << text;
  // In contrast, an initial value that is a load and may be out of bounds keeps its guard.
  std::string loaded = plain;
  loaded.replace(loaded.find("s[u, v] = 0.0"), 13, "s[u, v] = a[u, v]");
  const std::string guarded = RunText(CheckEveryPass(Parse(loaded), 8));
  EXPECT_THAT(guarded, HasSubstr("if i_0 < 4 {\n      s_1[ramp(16, 1, 8)] = a[")) << guarded;
}

constexpr std::string_view kPasses = R"(func rows(x: f32[5, 32] input, y: f32[5, 32] output) {
  alloc e: f32[5, 32]
  alloc m: f32[5]
  alloc acc: f32[32]
  for q in 32 { block start(t: S 32 = q) { acc[t] = 1.0 } }
  for r in 5 @{overlap=1} {
    for j in 4 { for l in 8 vectorized { block a(v: S 5 = r, c: S 32 = j * 8 + l) { e[v, c] = x[v, c] * acc[c] } } }
    for k in 32 { block s(w: S 5 = r, d: R 32 = k) { init { m[w] = 0.0 } m[w] = m[w] + e[w, d] } }
    for j2 in 4 { for l2 in 8 vectorized { block o(u: S 5 = r, f: S 32 = j2 * 8 + l2) { y[u, f] = e[u, f] - m[u] } } }
  }
}
)";

// The last pass over a row moves into a loop of the next row that has the same length. For the last row, this pass runs
// after the loop over rows.
TEST(Lower, LastPassesOverlapTheNextRow) {
  const std::string text = RunText(CheckEveryPass(Parse(kPasses), 8));
  EXPECT_THAT(text, HasSubstr("for r in 4"));
  EXPECT_EQ(Count(text, "  y["), 2) << text;
  EXPECT_EQ(Count(text, "  e_turns["), 2) << text;
  const size_t rows = text.find("for r in 4"), end = text.find("\n  }", rows);
  const std::string loop = text.substr(rows, end - rows);
  EXPECT_EQ(Count(loop, "  y["), 1) << text;
  EXPECT_THAT(loop.substr(0, loop.find("  y[")), HasSubstr("e_turns[")) << text;
  // A loop of one iteration is removed. A fresh name avoids names that are in use.
  std::string odd(kPasses);
  odd.replace(odd.find("for j2 in 4 {"), 13, "for one in 1 { for j2 in 4 {");
  odd.replace(odd.find("j2 * 8 + l2"), 11, "one * 32 + j2 * 8 + l2");
  odd.replace(odd.rfind("} }\n  }"), 7, "} } }\n  }");
  for (size_t at = 0; (at = odd.find("y", at)) != std::string::npos; at += 7) odd.replace(at, 1, "e_turns");
  EXPECT_THAT(RunText(CheckEveryPass(Parse(odd), 8)), HasSubstr("for r in 4"));
  // Nothing moves in these cases: the loop has no annotation, the next row needs the pass's result, the pass has a loop
  // of another length, the pass reads a register buffer, or a further pass comes before it.
  auto with = [](std::string_view what, std::string_view other) {
    std::string changed(kPasses);
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return RunText(CheckEveryPass(Parse(changed.replace(at, what.size(), other)), 8));
  };
  for (const std::string& stays :
       {with(" @{overlap=1}", ""), with("y[u, f] = e[u, f] - m[u]", "y[u, f] = e[u, f] - m[u] acc[f] = 2.0"),
        with("for j2 in 4 { for l2 in 8 vectorized { block o(u: S 5 = r, f: S 32 = j2 * 8 + l2)",
             "for j2 in 8 { for l2 in 4 vectorized { block o(u: S 5 = r, f: S 32 = j2 * 4 + l2)"),
        with("alloc m: f32[5]", "alloc m: f32[5] register"),
        with("for j2 in 4", "block g(h: S 5 = r) where r == 2 { m[h] = m[h] + 1.0 } for j2 in 4")}) {
    EXPECT_THAT(stays, HasSubstr("for r in 5"));
    EXPECT_EQ(Count(stays, "  y["), 1) << stays;
  }
}

// A condition stays inside the loop that binds its variables.
TEST(Lower, TilesAreNotVersionedByWhatIsBoundInside) {
  const std::string text = RunText(CheckEveryPass(Parse(R"(func f(x: f32[6, 16] input, y: f32[4, 16] output) {
    alloc s: f32[2, 16] register
    for i in 4 {
      for u in 2 unrolled { for l in 16 vectorized { block z(a: S 2 = u, b: S 16 = l) { s[a, b] = 0.0 } } }
      for k in i + 1 { for u2 in 2 unrolled { for l2 in 16 vectorized {
        block m(vi: S 4 = i, vk: S 4 = k, c: S 2 = u2, d: S 16 = l2) where k + u2 < 3 { s[c, d] = s[c, d] + x[vk + c, d] }
      } } }
      for l3 in 16 vectorized { block o(vj: S 4 = i, e: S 16 = l3) { y[vj, e] = s[0, e] + s[1, e] } }
    }
  })"),
                                                  5));
  EXPECT_LT(text.find("for k in"), text.find("if ")) << text;
}

Error LowerError(const PrimFunc& f, const Target& target = Avx2()) {
  auto kernel = Lower(f, target);
  EXPECT_FALSE(kernel.ok()) << ToText(f);
  return kernel.ok() ? Error() : kernel.error();
}

TEST(Lower, RegisterContract) {
  constexpr std::string_view kText = R"(func f(a: f32[64] input, c: f32[64] output) {
    alloc r: f32[64] register
    for i in 8 {
      for j in 8 { block x(v: S 64 = i * 8 + j) { r[v] = a[v] * 2.0 } }
      for j2 in 8 { block y(w: S 64 = i * 8 + j2) { c[w] = r[w] + 1.0 } }
    }
  })";
  EXPECT_TRUE(CheckEveryPass(Parse(kText), 6).has_register_tile);
  // In contrast, an index that is data never becomes a constant.
  constexpr std::string_view kData = R"(func f(a: f32[8] input, s: i32[8] input, c: f32[8] output) {
    alloc r: f32[8] register
    for j in 8 { block x(v: S 8 = j) { r[v] = a[v] } }
    for j2 in 8 { block y(w: S 8 = j2) { c[w] = r[index(s[w]) % 8] } }
  })";
  EXPECT_THAT(LowerError(Parse(kData)).Text(), HasSubstr("register buffer r"));
}

// A select may guard a scalar read that is out of bounds, but no lane of a vector of registers may be out of bounds.
TEST(Lower, RegistersAreNotReadBeyondTheirBounds) {
  auto text = [](std::string_view loop) {
    return "func f(a: i32[5] input, c: i32[7] output) {\n  alloc r: i32[5] register\n"
           "  for j in 5 { block x(v: S 5 = j) { r[v] = a[v] } }\n  for i in 7 " +
           std::string(loop) + " { block y(w: S 7 = i) { c[w] = select(w >= 1 && w < 6, r[w - 1], 0i32) } }\n}";
  };
  EXPECT_TRUE(CheckEveryPass(Parse(text("unrolled")), 3).has_register_tile);
  EXPECT_THAT(LowerError(Parse(text("vectorized"))).Text(), HasSubstr("beyond its bounds"));
}

// A loop ends where its guard becomes false. The remaining iterations need no guard and become vectors of fewer lanes.
TEST(Lower, ALoopEndsWhereItsGuardDoes) {
  auto text = [](std::string_view guard) {
    return "func f(a: f32[5] input, c: f32[5] output) {\n  for i in 1 { for j in 8 vectorized {\n"
           "    block y(w: S 5 = i * 8 + j) where i * 8 + j < 5" +
           std::string(guard) + " { c[w] = a[w] * 2.0 }\n  } }\n}";
  };
  std::string plain = RunText(CheckEveryPass(Parse(text("")), 3));
  EXPECT_THAT(plain, HasSubstr("c[ramp(0, 1, 4)]"));
  EXPECT_THAT(plain, HasSubstr("c[4]"));
  EXPECT_THAT(plain, Not(HasSubstr("if ")));
  // A condition that is not an upper bound is still tested.
  EXPECT_THAT(RunText(CheckEveryPass(Parse(text(" && j != 2")), 3)), Not(HasSubstr("c[2]")));
}

TEST(Lower, WhatCannotBeVectorizedIsRefused) {
  constexpr std::string_view kSum = R"(func sum(a: f32[8] input, c: f32[1] output) {
    for i in 8 vectorized { block s(v: R 8 = i) { init { c[0] = 0.0 } c[0] = c[0] + a[v] } }
  })";
  EXPECT_THAT(LowerError(Parse(kSum)).Text(), HasSubstr("vectorized"));
}

TEST(Lower, TooLargeAnUnrolledBodyIsRefused) {
  constexpr std::string_view kCopy = R"(func copy(a: f32[100, 100] input, c: f32[100, 100] output) {
    for i in 100 unrolled { for j in 100 unrolled { block s(v: S 100 = i, w: S 100 = j) { c[v, w] = a[v, w] } } }
  })";
  EXPECT_THAT(LowerError(Parse(kCopy)).Text(), HasSubstr("unrolling"));
}

TEST(Lower, HalfFloatsAreOnlyStored) {
  auto program = [](const std::string& value) {
    return Parse("func f(a: f16[4] input, b: f16[4] output) { for i in 4 { block s(v: S 4 = i) { b[v] = " + value +
                 " } } }");
  };
  for (const char* value : {"0.0f16", "a[v]", "f16(f32(a[v]) + 1.0)", "select(f32(a[v]) < 0.0, a[v], 1.0f16)"})
    EXPECT_TRUE(Lower(program(value), Target::Parse("cpu").value()).ok()) << value;
  for (const char* value : {"a[v] + a[v]", "-a[v]", "sqrt(a[v])", "select(a[v] < 0.0f16, a[v], 0.0f16)"})
    EXPECT_THAT(LowerError(program(value)).Text(), HasSubstr("computes with f16, which code can only store")) << value;
  const PrimFunc hinted = Parse(
      "func f(a: f16[4] input, b: f16[4] output) { for i in 4 { evaluate prefetch(a[i]) block s(v: S 4 = i) { b[v] = "
      "a[v] } } }");
  EXPECT_TRUE(Lower(hinted, Target::Parse("cpu").value()).ok());
}

TEST(Lower, OddVectorsArePowersOfTwo) {
  constexpr std::string_view kScale = R"(func scale(a: f32[23] input, c: f32[23] output) {
    for i in 23 vectorized { block s(v: S 23 = i) { c[v] = a[v] * 3.0 } }
  })";
  std::string text = RunText(CheckEveryPass(Parse(kScale), 1));
  for (const char* ramp : {"ramp(0, 1, 8)", "ramp(8, 1, 8)", "ramp(16, 1, 4)", "ramp(20, 1, 2)"}) {
    EXPECT_THAT(text, HasSubstr(ramp));
  }
}

TEST(Lower, LanesUnderAMaskAndStridedLanes) {
  constexpr std::string_view kText = R"(func f(a: f32[40] input, c: f32[16] output, d: f32[16] output) {
    for i in 16 vectorized { block s(v: S 16 = i) { c[v] = select(v < 11, a[v + 25], 7.0) } }
    for j in 16 vectorized { block t(w: S 16 = j) { d[15 - w] = a[w * 2 + 3] + a[w // 3] } }
  })";
  CheckEveryPass(Parse(kText), 2);
}

}  // namespace
}  // namespace autotune
