// Random programs are well-formed, parse from their text to equal programs, and run in the interpreter.
#include <gtest/gtest.h>
#include <set>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

TEST(RandomPrograms, AreWellFormedPrintParseAndRun) {
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PrimFunc f = test::MakeRandomProgram(seed);
    std::string text = ToText(f);
    texts.insert(text);
    Status verified = Verify(f);
    ASSERT_TRUE(verified.ok()) << verified.error().Text() << "\n" << text;
    auto parsed = ParsePrimFunc(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().Text() << "\n" << text;
    ASSERT_EQ(FirstMismatch(f, *parsed), "") << text;
    auto args = test::RandomArgs(f, seed);
    Status ran = Interpret(f, args);
    ASSERT_TRUE(ran.ok()) << ran.error().Text() << "\n" << text;
    for (size_t i = 0; i < args.size(); ++i) {
      for (double v : args[i].data) ASSERT_TRUE(v == std::floor(v) && std::abs(v) <= 1 << 20) << v << "\n" << text;
    }
  }
  EXPECT_GT(texts.size(), 380u);
}

// A spatial loop may run its iterations in any order. A parallel reduction loop is a race.
TEST(RandomPrograms, ParallelSpatialLoopsAgreeAndParallelReductionsRace) {
  int races = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    PrimFunc f = test::MakeRandomProgram(seed);
    std::set<std::string> reductions;
    Walk(f.body, [&](const Stmt& s) {
      if (const Block* block = s.As<Block>()) {
        for (const Iter& iter : block->iters) {
          const int64_t extent = *AsInt(iter.extent);
          if (iter.kind == IterKind::kReduce && extent > 1) reductions.insert(iter.binding.As<Var>()->name.str());
        }
      }
      return true;
    });
    auto parallel = [&](bool reduce) {
      PrimFunc g = f;
      g.body = RewriteStmt(f.body, [&](const Stmt& s) {
        const For* loop = s.As<For>();
        bool is_reduce = loop && (loop->var.str().find("_r") != std::string::npos);
        if (!loop || is_reduce != reduce) return s;
        return MakeStmt(For{loop->var, loop->extent, LoopKind::kParallel, {}, loop->body});
      });
      return g;
    };
    auto serial_args = test::RandomArgs(f, seed), args = serial_args;
    ASSERT_TRUE(Interpret(f, serial_args).ok());
    Status ran = Interpret(parallel(false), args, {.order_seed = seed + 1});
    ASSERT_TRUE(ran.ok()) << ran.error().Text();
    for (size_t i = 0; i < args.size(); ++i) ASSERT_EQ(args[i].data, serial_args[i].data);
    if (reductions.empty()) continue;
    Status raced = Interpret(parallel(true), args);
    ASSERT_FALSE(raced.ok()) << ToText(parallel(true));
    // An accumulator that is used only inside the loop is private to each iteration, which then reads unwritten memory.
    const std::string& message = raced.error().message;
    bool named = message.find("race") != std::string::npos || message.find("never written") != std::string::npos;
    EXPECT_TRUE(named) << message;
    ++races;
  }
  EXPECT_GT(races, 30);
}

}  // namespace
}  // namespace autotune
