// Programs with threads: their text, their rules, and the errors that the interpreter finds: races between threads and
// between blocks, accesses to other threads' private memory, barriers that not all threads reach.
#include "ir/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/messages.h"
#include "tests/ir/parse.h"
#include "tests/read.h"

namespace autotune {
namespace {

using test::Parse;

using ::testing::HasSubstr;

// Returns the text of a lowered function with these allocs and this body; x: f32[8], out: f32[8].
std::string Func(const std::string& allocs, const std::string& body) {
  return "func f(x: f32[8] input, out: f32[8] output) {\n" + allocs + body + "}";
}

// Verifies a function and interprets it in several orders of threads, which must not affect the results. Returns the
// first error, or "" and in `out` the results for x[i] = i.
std::string OutcomeOfThreads(const std::string& text, std::vector<double>* out = nullptr) {
  PrimFunc f = Parse(text);
  auto again = ParsePrimFunc(ToText(f));
  EXPECT_TRUE(again.ok()) << again.error().Text();
  if (again.ok()) {
    EXPECT_EQ(FirstMismatch(f, *again), "");
  }
  Status verified = Verify(f);
  if (!verified.ok()) return verified.error().Text();
  std::vector<double> first;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<InterpArray> args{{DType::Float(32), {8}, {0, 1, 2, 3, 4, 5, 6, 7}}, {DType::Float(32), {8}, {}}};
    Status ran = Interpret(f, args, {.order_seed = seed});
    if (!ran.ok()) return ran.error().Text();
    if (seed == 0) first = args[1].data;
    EXPECT_EQ(args[1].data, first) << "the order of threads matters: " << text;
  }
  if (out) *out = first;
  return "";
}

// A program of two blocks of four threads. Each block reverses its four elements.
std::string Turn(const std::string& between, const std::string& scope = "shared") {
  return Func("", "for b in 2 blockIdx.x {\n local s: f32[4] " + scope +
                      "\n for t in 4 threadIdx.x {\n s[t] = 0.0\n evaluate barrier()\n s[t] = x[b * 4 + t]\n" +
                      between + "out[b * 4 + t] = s[3 - t]\n }\n }\n");
}

TEST(Threads, MeetAtBarriers) {
  std::vector<double> out;
  EXPECT_EQ(OutcomeOfThreads(Turn("evaluate barrier()\n"), &out), "");
  EXPECT_EQ(out, (std::vector<double>{3, 2, 1, 0, 7, 6, 5, 4}));
  std::string race = OutcomeOfThreads(Turn(""));
  EXPECT_THAT(race, HasSubstr("race: threads (blockIdx.x = 0, threadIdx.x = 3) and (blockIdx.x = 0, threadIdx.x = 0) "
                              "touch s[3], the later one to read it"));
}

// The end of a loop over threads is a barrier for its threads.
TEST(Threads, MeetAtTheEndOfTheirLoop) {
  std::vector<double> out;
  EXPECT_EQ(OutcomeOfThreads(Func("", R"(for b in 2 blockIdx.x {
    local s: f32[4] shared
    for t in 4 threadIdx.x { s[t] = x[b * 4 + t] }
    for u in 4 threadIdx.x { out[b * 4 + u] = s[3 - u] }
  })"),
                             &out),
            "");
  EXPECT_EQ(out, (std::vector<double>{3, 2, 1, 0, 7, 6, 5, 4}));
}

// A barrier holds the threads of one block. Blocks never wait for each other.
TEST(Threads, BarriersDoNotHoldBlocks) {
  auto through_global = [](const std::string& index) {
    return Func("alloc g: f32[8]\n",
                "for b in 2 blockIdx.x { for t in 4 threadIdx.x {\n g[b * 4 + t] = x[b * 4 + t]\n"
                "evaluate barrier()\n out[b * 4 + t] = g[" +
                    index + "]\n } }\n");
  };
  EXPECT_EQ(OutcomeOfThreads(through_global("b * 4 + 3 - t")), "");
  std::string race = OutcomeOfThreads(through_global("7 - (b * 4 + t)"));
  // The first block to read finds unwritten memory, or an element that the other block has just written.
  bool named = race.find("race: threads") != std::string::npos || race.find("never written") != std::string::npos;
  EXPECT_TRUE(named) << race;
  EXPECT_THAT(OutcomeOfThreads(Func("", "for b in 2 blockIdx.x { out[0] = 1.0 }\n")),
              HasSubstr("race: threads (blockIdx.x = 0) and (blockIdx.x = 1) touch out[0], the later one to write it"));
}

// In a loop, accesses of the same iteration may conflict, and so may accesses of successive iterations. Only barriers
// separate them.
TEST(Threads, RacesAreFoundInLoopsToo) {
  auto shift = [](const std::string& first, const std::string& second) {
    return Func("",
                "for b in 1 blockIdx.x {\n local s: f32[8] shared\n for t in 8 threadIdx.x {\n s[t] = x[t]\n evaluate "
                "barrier()\n for i in "
                "3 {\n" +
                    first + "let v = s[(t + 1) % 8]\n" + second + "s[t] = v\n }\n out[t] = s[t]\n }\n }\n");
  };
  std::vector<double> out;
  EXPECT_EQ(OutcomeOfThreads(shift("evaluate barrier()\n", "evaluate barrier()\n"), &out), "");
  EXPECT_EQ(out, (std::vector<double>{3, 4, 5, 6, 7, 0, 1, 2}));
  for (const auto& [first, second] : {std::pair{"", "evaluate barrier()\n"}, {"evaluate barrier()\n", ""}, {"", ""}}) {
    EXPECT_THAT(OutcomeOfThreads(shift(first, second)), HasSubstr("race: threads (blockIdx.x = 0, threadIdx.x = "));
  }
}

TEST(Threads, TwoAxesMeetTogether) {
  auto transpose = [](const std::string& between) {
    return Func("",
                "for b in 1 blockIdx.x {\n local s: f32[2, 4] shared\n for ty in 2 threadIdx.y {\n for tx in 4 "
                "threadIdx.x {\n s[ty, tx] = 0.0\n evaluate barrier()\n s[ty, tx] = x[ty * 4 + tx]\n" +
                    between + "out[ty * 4 + tx] = s[1 - ty, 3 - tx]\n } }\n }\n");
  };
  std::vector<double> out;
  EXPECT_EQ(OutcomeOfThreads(transpose("evaluate barrier()\n"), &out), "");
  EXPECT_EQ(out, (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0}));
  std::string race = OutcomeOfThreads(transpose(""));
  EXPECT_THAT(race, HasSubstr("race: threads (blockIdx.x = 0, threadIdx.x = "));
  EXPECT_THAT(race, HasSubstr("touch s[1, 3]"));
}

TEST(Threads, ThatDoNotAllReachABarrierAreAnError) {
  EXPECT_EQ(OutcomeOfThreads(Turn("if b < 1 { evaluate barrier() } else { evaluate barrier() }\n")), "");
  EXPECT_THAT(OutcomeOfThreads(Turn("if t < 3 { evaluate barrier() }\n")),
              HasSubstr("barrier divergence: the condition t < 3 is 1 in thread (blockIdx.x = "));
  EXPECT_THAT(OutcomeOfThreads(Turn("if t < 3 { evaluate barrier() }\n")), HasSubstr("threadIdx.x = 3)"));
  EXPECT_EQ(OutcomeOfThreads(Turn("for i in b + 1 { evaluate barrier() }\n")), "");
  EXPECT_THAT(OutcomeOfThreads(Turn("for i in t + 1 { evaluate barrier() }\n")),
              HasSubstr("barrier divergence: the extent of loop i is 1 in thread"));
  // A condition may depend on memory. All threads of a block must agree on it.
  EXPECT_EQ(OutcomeOfThreads(Turn("if x[0] < 1.0 { evaluate barrier() }\n")), "");
  EXPECT_THAT(OutcomeOfThreads(Turn("if x[t] < 2.0 { evaluate barrier() }\nevaluate barrier()\n")),
              HasSubstr("barrier divergence"));
}

TEST(Threads, OwnWhatIsLocal) {
  // Each thread has its own copy, which keeps its value across barriers.
  auto local = [](const std::string& scope) {
    return Func("",
                "for b in 2 blockIdx.x { for t in 4 threadIdx.x {\n local v: f32[2] " + scope +
                    "\n v[0] = x[b * 4 + t]\n v[1] = 2.0\n evaluate barrier()\n for i in 2 {\n evaluate barrier()\n "
                    "v[0] = v[0] * v[1]\n }\n out[b * 4 + t] = v[0]\n } }\n");
  };
  std::vector<double> out;
  for (const char* scope : {"local", "register", ""}) {
    EXPECT_EQ(OutcomeOfThreads(local(scope), &out), "");
    EXPECT_EQ(out, (std::vector<double>{0, 4, 8, 12, 16, 20, 24, 28}));
  }
  // A local buffer that is declared outside the loops over threads is private to each thread, too.
  auto two_loops = [](const std::string& index) {
    return Func("alloc v: f32[8] local\n",
                "for b in 2 blockIdx.x {\n for t in 4 threadIdx.x { v[b * 4 + t] = x[b * 4 + t] "
                "}\n for u in 4 threadIdx.x { out[b * 4 + u] = v[" +
                    index + "] }\n }\n");
  };
  EXPECT_EQ(OutcomeOfThreads(two_loops("b * 4 + u")), "");
  EXPECT_THAT(OutcomeOfThreads(two_loops("b * 4 + 3 - u")), HasSubstr("touch v[3], which is one thread's own"));
  auto in_all = [](const std::string& index) {
    return Func("alloc v: f32[8] local\n",
                "for t in 8 threadIdx.x {\n v[0] = x[t]\n evaluate barrier()\n out[t] = v[" + index + "]\n }\n");
  };
  EXPECT_EQ(OutcomeOfThreads(in_all("0"), &out), "");
  EXPECT_EQ(out, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THAT(OutcomeOfThreads(in_all("1")), HasSubstr("never written"));
  // Threads of two axes have a copy each.
  EXPECT_EQ(
      OutcomeOfThreads(Func("alloc v: f32[1] local\n",
                            "for ty in 2 threadIdx.y { for tx in 4 threadIdx.x {\n v[0] = x[ty * 4 + tx]\n evaluate "
                            "barrier()\n out[ty * 4 + tx] = v[0]\n } }\n"),
                       &out),
      "");
  EXPECT_EQ(out, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Threads, OfOneBlockShare) {
  auto shared = [](const std::string& index) {
    return Func("alloc s: f32[8] shared\n",
                "for b in 2 blockIdx.x {\n for t in 4 threadIdx.x { s[b * 4 + t] = x[b * 4 + "
                "t] }\n for u in 4 threadIdx.x { out[b * 4 + u] = s[" +
                    index + "] }\n }\n");
  };
  EXPECT_EQ(OutcomeOfThreads(shared("b * 4 + 3 - u")), "");
  EXPECT_THAT(OutcomeOfThreads(shared("4 - b * 4 + u")), HasSubstr("never written"));  // each block has its own copy
}

// A program that breaks a rule, a similar program that keeps the rule, and the message for the first.
struct Rule {
  const char* broken;
  const char* kept;
  const char* message;
  const char* allocs = "";
};

const Rule kRules[] = {
    {"for b in 2 blockIdx.x { for t in 4 threadIdx.x { for i in 1 parallel { out[b * 4 + t] = 1.0 } } }",
     "for b in 2 blockIdx.x { for t in 4 threadIdx.x { for i in 1 { out[b * 4 + t] = 1.0 } } }",
     "loop 'i' is parallel inside loop 'b', which is blockIdx.x"},
    {"for b in 2 parallel { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "for b in 2 { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "loop 't' is threadIdx.x inside loop 'b', which is parallel"},
    {"for b in 2 vectorized { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "for b in 2 unrolled { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "loop 't' is threadIdx.x inside loop 'b', which is vectorized"},
    {"for b in 2 { for t in b threadIdx.x { out[t] = 1.0 } }",
     "for b in 2 { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "loop 't' is threadIdx.x, but its extent is not a positive constant"},
    {"for b in 2 { for t in 0 threadIdx.x { out[t] = 1.0 } }",
     "for b in 2 { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } }",
     "loop 't' is threadIdx.x, but its extent is not a positive constant"},
    {"for t in 2 threadIdx.x { for u in 4 threadIdx.x { out[t * 4 + u] = 1.0 } }",
     "for t in 2 threadIdx.x { for u in 4 threadIdx.y { out[t * 4 + u] = 1.0 } }",
     "loop 'u' is threadIdx.x inside loop 't', which is threadIdx.x too"},
    {"for t in 2 threadIdx.x { for b in 4 blockIdx.x { out[t * 4 + b] = 1.0 } }",
     "for b in 4 blockIdx.x { for t in 2 threadIdx.x { out[t * 4 + b] = 1.0 } }",
     "loop 'b' is blockIdx.x, but not directly inside loops over blocks in the kernel of 't'"},
    {"for b in 2 blockIdx.y { for i in 1 { for c in 4 blockIdx.x { out[b * 4 + c] = 1.0 } } }",
     "for i in 1 { for b in 2 blockIdx.y { for c in 4 blockIdx.x { out[b * 4 + c] = 1.0 } } }",
     "loop 'c' is blockIdx.x, but not directly inside loops over blocks in the kernel of 'b'"},
    {"for b in 2 blockIdx.x { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } for u in 2 threadIdx.x { out[b] = 1.0 "
     "} }",
     "for b in 2 blockIdx.x { for t in 4 threadIdx.x { out[b * 4 + t] = 1.0 } } for u in 2 threadIdx.x { out[u] = "
     "1.0 }",
     "loop 'u' is threadIdx.x of extent 2, but loop 't' of its kernel has 4"},
    {"for i in 8 { evaluate barrier() out[i] = 1.0 }", "for i in 8 threadIdx.x { evaluate barrier() out[i] = 1.0 }",
     "a barrier outside of loops over threads"},
    {"for i in 8 blockIdx.x { evaluate barrier() out[i] = 1.0 }",
     "for i in 8 threadIdx.z { evaluate barrier() out[i] = 1.0 }", "a barrier outside of loops over threads"},
    {"for t in 2 threadIdx.x { evaluate barrier() for u in 4 threadIdx.y { out[t * 4 + u] = 1.0 } }",
     "for t in 2 threadIdx.x { for u in 4 threadIdx.y { evaluate barrier() out[t * 4 + u] = 1.0 } }",
     "a barrier outside of the loops over threadIdx.y, which only some threads reach"},
    {"for t in 8 threadIdx.x { for i in 2 vectorized { evaluate barrier() } out[t] = 1.0 }",
     "for t in 8 threadIdx.x { for i in 2 unrolled { evaluate barrier() } out[t] = 1.0 }",
     "a barrier in a vectorized loop"},
    {"for t in 16 threadIdx.x { local a: f32[4] register local b: f32[2] register local c: f32[4] register "
     "a[ramp(0, 1, 4)] = broadcast(1.0, 4) b[ramp(0, 1, 2)] = broadcast(1.0, 2) c[ramp(0, 1, 4)] = broadcast(1.0, 4) "
     "c[ramp(0, 1, 4)] = mma(c[ramp(0, 1, 4)], a[ramp(0, 1, 4)], b[ramp(0, 1, 2)]) if t < 8 { out[t] = 1.0 } }",
     "for t in 32 threadIdx.x { local a: f32[4] register local b: f32[2] register local c: f32[4] register "
     "a[ramp(0, 1, 4)] = broadcast(1.0, 4) b[ramp(0, 1, 2)] = broadcast(1.0, 2) c[ramp(0, 1, 4)] = broadcast(1.0, 4) "
     "c[ramp(0, 1, 4)] = mma(c[ramp(0, 1, 4)], a[ramp(0, 1, 4)], b[ramp(0, 1, 2)]) if t < 8 { out[t] = 1.0 } }",
     "a product of tensor cores by 16 threads, which are not whole warps"},
    {"for b in 8 blockIdx.x { for t in 1 threadIdx.x { local s: f32[1] shared s[0] = 1.0 out[b] = s[0] } }",
     "for b in 8 blockIdx.x { local s: f32[1] shared for t in 1 threadIdx.x { s[0] = 1.0 out[b] = s[0] } }",
     "the shared buffer 's' is not declared between loops over blocks and loops over threads"},
    {"for b in 8 blockIdx.x { local s: f32[1] local for t in 1 threadIdx.x { s[0] = 1.0 out[b] = s[0] } }",
     "for b in 8 blockIdx.x { for t in 1 threadIdx.x { local s: f32[1] local s[0] = 1.0 out[b] = s[0] } }",
     "the local buffer 's' is declared outside of loops over threads"},
    {"for i in 8 { s[i] = x[i] } for b in 8 blockIdx.x { out[b] = s[b] }",
     "for b in 8 blockIdx.x { s[b] = x[b] out[b] = s[b] }", "buffer 's' is shared and used outside of kernels",
     "alloc s: f32[8] shared\n"},
    {"for t in 8 threadIdx.x { s[t] = x[t] out[t] = s[t] }",
     "for b in 8 blockIdx.x { for t in 1 threadIdx.x { s[t] = x[b] out[b] = s[t] } }",
     "buffer 's' is shared in a kernel without a loop over blocks around 't'", "alloc s: f32[8] shared\n"},
    {"for b in 8 blockIdx.x { s[b] = x[b] } for c in 8 blockIdx.x { out[c] = s[c] }",
     "for b in 8 { s[b] = x[b] } for c in 8 { out[c] = s[c] }", "buffer 's' is shared and used in two kernels",
     "alloc s: f32[8] shared\n"},
    {"for b in 8 blockIdx.x { s[b] = x[b] } for c in 8 { out[c] = s[c] }",
     "for b in 8 blockIdx.x { s[b] = x[b] out[b] = s[b] }", "buffer 's' is register and used in a kernel and outside",
     "alloc s: f32[8] register\n"},
    {"for b in 8 threadIdx.x { s[b] = x[b] } for c in 8 threadIdx.x { out[c] = s[c] }",
     "for b in 8 { s[b] = x[b] } for c in 8 { out[c] = s[c] } for d in 8 blockIdx.x { out[d] = x[d] }",
     "buffer 's' is register and used in two kernels", "alloc s: f32[8] register\n"},
};

TEST(Threads, KeepTheRules) {
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.broken);
    EXPECT_EQ(OutcomeOfThreads(Func(rule.allocs, rule.kept)), "");
    EXPECT_EQ(OutcomeOfThreads(Func(rule.allocs, rule.broken)), std::string("malformed IR in f: ") + rule.message);
  }
  EXPECT_EQ(Verify(Parse("func f(x: f32[8] shared input, out: f32[8] output) { out[0] = x[0] }")).error().Text(),
            "malformed IR in f: parameter 'x' has scope shared");
  // The schedulable dialect has no barriers; lowering adds them.
  EXPECT_THAT(Verify(Parse("func f(out: f32[8] output) { for i in 8 threadIdx.x { block b(v: S 8 = i) { out[v] = 1.0 } "
                           "evaluate barrier() } }"))
                  .error()
                  .Text(),
              HasSubstr("a barrier before lowering: barrier()"));
  EXPECT_THAT(Verify(Parse(Func("", "for i in 8 threadIdx.x { if barrier() { out[i] = 1.0 } }"))).error().Text(),
              HasSubstr("a barrier has no value"));
}

// Verify refuses a barrier in a block earlier, as a barrier before lowering. So no rule of kRules can provoke this
// message.
constexpr char kInBlock[] = "a barrier in a block";

TEST(Threads, NoBlockHoldsABarrier) {
  PrimFunc f = Parse(
      "func f(out: f32[8] output) { for i in 8 threadIdx.x { block b(v: S 8 = i) { evaluate barrier() out[v] = 1.0 } } "
      "}");
  EXPECT_EQ(CheckThreads(f).error().Text(), kInBlock);
}

// Every message in ir/threads.cc, except kInBlock, must be provoked by a rule of kRules; otherwise it has no test.
TEST(Threads, EveryRuleIsBrokenAbove) {
  std::string source = test::ReadAll(AUTOTUNE_SOURCE_DIR "/ir/threads.cc"), missing;
  std::vector<Message> messages = MessagesIn("ir/threads.cc", "Fail(", source);
  EXPECT_GT(messages.size(), 15u);
  for (const Message& message : messages) {
    std::regex pattern(message.pattern);
    if (message.text == "..." || std::regex_match(kInBlock, pattern)) continue;  // "..." is the definition of Fail
    bool broken = std::any_of(std::begin(kRules), std::end(kRules),
                              [&](const Rule& rule) { return std::regex_match(rule.message, pattern); });
    if (!broken) missing += message.file + ":" + std::to_string(message.line) + ": " + message.text + "\n";
  }
  EXPECT_EQ(missing, "") << "nothing provokes these messages; add rules to kRules";
}

TEST(Threads, WordsOfScopesMayBeNames) {
  EXPECT_EQ(OutcomeOfThreads(Func("alloc shared: f32[8]\n alloc t: f32[8]\n",
                                  "shared[0] = 1.0 t[0] = shared[0] for i in 8 { out[i] = t[0] }")),
            "");
  EXPECT_EQ(OutcomeOfThreads(Func("",
                                  "for i in 8 { local t: f32[8] local \"local\": f32[2] t[0] = 1.0 \"local\"[1] = t[0] "
                                  "out[i] = \"local\"[1] }")),
            "");
  auto error = [](const std::string& text) { return ParsePrimFunc(text).error().Text(); };
  EXPECT_THAT(error(Func("", "for i in 8 blockIdx { }")), HasSubstr("expected '.'"));
  EXPECT_THAT(error(Func("", "for i in 8 blockIdx.w { }")),
              HasSubstr("expected the kind of a loop, found 'blockIdx.w'"));
  EXPECT_THAT(error(Func("", "for i in 8 sideways { }")), HasSubstr("expected the kind of a loop, found 'sideways'"));
  EXPECT_THAT(error("func f(out: f32[8] local \"x"), HasSubstr("does not end"));
}

}  // namespace
}  // namespace autotune
