// The pass close_gaps, which compacts the private memory of a thread, and the pass widen_loads, which joins a thread's
// loads from shared memory into vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Pass = Result<PrimFunc> (*)(const PrimFunc&, PassEnv&);

std::string After(Pass pass, const std::string& statements) {
  const Target target = Target::Parse("cuda -arch=sm_80").value();
  const PassContext context;
  PassEnv env{target, context, nullptr, {}};
  const PrimFunc f = ParsePrimFunc("func f(x: f32[4096] input, out: f32[4096] output) { for b in 2 blockIdx.x {\n" +
                                   statements + "} }")
                         .value();
  return ToText(pass(f, env).value());
}

std::string Threads(const std::string& body) { return "for t in 8 threadIdx.x {\n" + body + "}"; }

TEST(CloseGaps, PiecesMoveTogether) {
  const std::string text = After(CloseGaps, Threads("local c: f32[3, 100] register\n"
                                                    "for m in 3 { for g in 3 { for l in 4 {\n"
                                                    "c[m, g * 32 + l] = x[t]\n out[t] = c[m, g * 32 + l] } } }"));
  EXPECT_THAT(text, HasSubstr("c: f32[3, 12] register"));
  EXPECT_THAT(text, HasSubstr("c[m, g * 4 + l] = x[t]"));
}

TEST(CloseGaps, GapsWithinPiecesCloseToo) {
  const std::string text =
      After(CloseGaps, Threads("local c: f32[120] local\n"
                               "for g in 2 { for h in 3 { for l in 2 {\n"
                               "c[g * 64 + h * 8 + l] = x[t]\n out[t] = c[g * 64 + h * 8 + l] } } }"));
  EXPECT_THAT(text, HasSubstr("c: f32[12] local"));
  EXPECT_THAT(text, HasSubstr("c[g * 6 + h * 2 + l]"));
}

TEST(CloseGaps, AllAccessesMustLeaveTheGap) {
  const std::string other = Threads("local c: f32[100] local\n for g in 3 { c[g * 32] = x[t] }\n out[t] = c[5]");
  EXPECT_THAT(After(CloseGaps, other), HasSubstr("c: f32[13] local"))
      << "indices 0, 5, 32 and 64 leave gaps that close to pieces of six";
  const std::string all =
      Threads("local c: f32[96] local\n for g in 96 { c[g] = x[t] }\n for g2 in 3 { out[t] = c[g2 * 32] }");
  EXPECT_THAT(After(CloseGaps, all), HasSubstr("c: f32[96] local"));
  const std::string by_data =
      Threads("local c: f32[96] local\n for g in 3 { c[g * 32] = x[t] }\n out[t] = c[index(x[0])]");
  EXPECT_THAT(After(CloseGaps, by_data), HasSubstr("c: f32[96] local"));
}

TEST(CloseGaps, WhatThreadsShareStays) {
  const std::string text =
      After(CloseGaps, "local c: f32[96] shared\n" + Threads("for g in 3 { c[g * 32] = x[t]\n out[t] = c[g * 32] }"));
  EXPECT_THAT(text, HasSubstr("c: f32[96] shared"));
}

// Returns a kernel with four products of adjacent elements in shared memory. `between` comes after the second product.
std::string Sums(const std::string& first_index, const std::string& between = "") {
  std::string body = "local c: f32[1] register\n";
  for (int k = 0; k < 4; ++k) {
    body += "c[0] = fma(s[" + first_index + " + " + std::to_string(k) + "], x[t], c[0])\n";
    if (k == 1) body += between;
  }
  return "local s: f32[512] shared\n" + Threads(body + "out[t] = c[0]");
}

TEST(WidenLoads, NeighboursAreOneVector) {
  const std::string text = After(WidenLoads, Sums("t * 4"));
  EXPECT_THAT(text, HasSubstr("local s_lanes: f32[4] register"));
  EXPECT_THAT(text, HasSubstr("s_lanes[ramp(0, 1, 4)] = s[ramp(t * 4, 1, 4)]"));
  EXPECT_THAT(text, HasSubstr("c[0] = fma(s_lanes[3], x[t], c[0])"));
}

TEST(WidenLoads, VectorsBeginWhereMemoryHasThem) {
  EXPECT_THAT(After(WidenLoads, Sums("t * 6")), Not(HasSubstr("ramp")));
  EXPECT_THAT(After(WidenLoads, Sums("t * 4 + 2")), Not(HasSubstr("ramp")));
}

TEST(WidenLoads, NothingMovesAcrossABarrierOrAStore) {
  EXPECT_THAT(After(WidenLoads, Sums("t * 4", "evaluate barrier()\n")), Not(HasSubstr("ramp")));
  EXPECT_THAT(After(WidenLoads, Sums("t * 4", "s[t] = 0.0\n")), Not(HasSubstr("ramp")));
}

TEST(WidenLoads, LoadsUnderAConditionStay) {
  std::string body = "local c: f32[1] register\n";
  for (int k = 0; k < 4; ++k) body += "c[0] = select(t < 4, s[t * 4 + " + std::to_string(k) + "], 0.0)\n";
  EXPECT_THAT(After(WidenLoads, "local s: f32[16] shared\n" + Threads(body)), Not(HasSubstr("ramp")));
}

}  // namespace
}  // namespace autotune
