// Asynchronous stores may take effect at any time until they are awaited. A reader that does not wait races.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Returns the text of a kernel of one block of eight threads, with s: f32[16] in shared memory and x: f32[16] as input.
std::string Kernel(const std::string& body) {
  return "func f(x: f32[16] input, out: f32[8] output) {\n for b in 1 blockIdx.x {\n local s: f32[16] shared\n"
         " for t in 8 threadIdx.x {\n" +
         body + "} } }";
}

// Runs the kernel on x = 0, 1, 2, ... in several orders of threads. Returns the first error, or "" and the results in
// `out`.
std::string Outcome(const std::string& body, std::vector<double>* out = nullptr, bool detect_races = true) {
  const PrimFunc f = test::Parse(Kernel(body));
  EXPECT_EQ(FirstMismatch(f, ParsePrimFunc(ToText(f)).value()), "");
  if (Status verified = Verify(f); !verified.ok()) return verified.error().Text();
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<InterpArray> args{{DType::Float(32), {16}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                                  {DType::Float(32), {8}, {}}};
    Status ran = Interpret(f, args, {.order_seed = seed, .detect_races = detect_races});
    if (!ran.ok()) return ran.error().Text();
    if (out) *out = args[1].data;
  }
  return "";
}

constexpr const char* kIssue = "s[t] = async(x[t])\n evaluate async_commit()\n";
constexpr const char* kIssueTwo =
    "s[t] = async(x[t])\n evaluate async_commit()\n s[t + 8] = async(x[t + 8])\n evaluate async_commit()\n";

TEST(Async, ArrivesWhenItIsAwaited) {
  std::vector<double> out;
  const std::string issue = kIssue;
  EXPECT_EQ(Outcome(issue + "evaluate async_wait(0)\n evaluate barrier()\n out[t] = s[7 - t]", &out), "");
  EXPECT_EQ(out, (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(Outcome(issue + "evaluate async_wait(0)\n out[t] = s[t]", &out), "")
      << "a thread that reads its own store needs no barrier";
  EXPECT_EQ(out, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Outcome("s[ramp(t * 2, 1, 2)] = async(x[ramp(t * 2, 1, 2)])\n evaluate async_commit()\n"
                    "evaluate async_wait(0)\n evaluate barrier()\n out[t] = s[15 - t]",
                    &out),
            "");
  EXPECT_EQ(out[7], 8);
}

TEST(Async, WithoutTheWaitReadersRace) {
  const std::string issue = kIssue;
  EXPECT_THAT(Outcome(issue + "evaluate barrier()\n out[t] = s[7 - t]\n evaluate async_wait(0)"),
              HasSubstr("is touched while an asynchronous store to it is under way"));
  EXPECT_THAT(Outcome(issue + "out[t] = s[t]\n evaluate async_wait(0)"), HasSubstr("is under way"));
  EXPECT_THAT(Outcome(issue + "s[t] = 1.0\n evaluate async_wait(0)\n out[t] = 1.0"), HasSubstr("is under way"));
}

TEST(Async, WithoutTheBarrierOthersRace) {
  EXPECT_THAT(Outcome(std::string(kIssue) + "evaluate async_wait(0)\n out[t] = s[7 - t]"),
              testing::AnyOf(HasSubstr("race: "), HasSubstr("never written")));
  EXPECT_THAT(Outcome("s[t] = x[t]\n evaluate barrier()\n out[t] = s[7 - t]\n" + std::string(kIssue) +
                      "evaluate async_wait(0)"),
              HasSubstr("race: "))
      << "a store overwrites an element that other threads read";
}

// A group is the asynchronous stores before one async_commit. After async_wait(1) only the newest group may still be
// under way.
TEST(Async, WaitsLeaveTheNewestGroups) {
  const std::string issue = kIssueTwo, rest = "evaluate barrier()\n out[t] = s[7 - t]\n evaluate async_wait(0)";
  EXPECT_EQ(Outcome(issue + "evaluate async_wait(1)\n" + rest), "");
  EXPECT_THAT(Outcome(issue + "evaluate async_wait(2)\n" + rest), HasSubstr("is under way"));
  EXPECT_THAT(
      Outcome(issue + "evaluate async_wait(1)\n evaluate barrier()\n out[t] = s[15 - t]\n evaluate async_wait(0)"),
      HasSubstr("is under way"));
}

TEST(Async, ItsSourceStaysUntilThen) {
  EXPECT_THAT(Outcome("out[t] = x[t]\n s[t] = async(out[t])\n evaluate async_commit()\n out[t] = 1.0\n"
                      "evaluate async_wait(0)"),
              HasSubstr("is written while an asynchronous store reads it"));
  EXPECT_EQ(
      Outcome("out[t] = x[t]\n s[t] = async(out[t])\n evaluate async_commit()\n evaluate async_wait(0)\n out[t] = 1.0"),
      "");
}

TEST(Async, NoThreadEndsBeforeItsStores) {
  EXPECT_THAT(Outcome(std::string(kIssue) + "out[t] = 1.0"), HasSubstr("ends before its asynchronous stores"));
  EXPECT_THAT(Outcome("evaluate barrier()\n s[t] = async(x[t])\n out[t] = 1.0"),
              HasSubstr("ends before its asynchronous stores"));
  EXPECT_EQ(Outcome("evaluate async_commit()\n out[t] = 1.0"), "") << "an empty group needs no wait";
}

// Without race detection, a thread may read before the store takes effect. It then finds unwritten memory.
TEST(Async, LandsAtAnyMoment) {
  int early = 0, late = 0;
  const PrimFunc g = test::Parse(Kernel(std::string(kIssue) + "out[t] = s[t]\n evaluate async_wait(0)"));
  for (uint64_t seed = 1; seed < 20; ++seed) {
    std::vector<InterpArray> args{{DType::Float(32), {16}, std::vector<double>(16, 3)}, {DType::Float(32), {8}, {}}};
    (Interpret(g, args, {.order_seed = seed, .detect_races = false}).ok() ? early : late) += 1;
  }
  EXPECT_GT(late, 0) << "some orders must read before the store takes effect";
}

TEST(Async, StandsAroundWholeValuesOfSharedStoresOnly) {
  EXPECT_THAT(Outcome("out[t] = async(x[t])"),
              HasSubstr("only the whole value of a store to shared memory is asynchronous"));
  EXPECT_THAT(Outcome("s[t] = 1.0 + async(x[t])"), HasSubstr("only the whole value"));
  EXPECT_THAT(Outcome("evaluate async_wait(t)"), HasSubstr("async_wait takes a constant number of groups, at least 0"));
}

}  // namespace
}  // namespace autotune
