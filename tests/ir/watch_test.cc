#include "ir/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "support/check.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Watch, RandomProgramsPass) {
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_NO_THROW(CheckProgram("here", test::MakeRandomProgram(seed)));
}

PrimFunc Storing(const Expr& value) {
  PrimFunc f = ParsePrimFunc("func f(x: index[4] output) { x[0] = 1 }").value();
  Store store = *f.body.As<Store>();
  store.value = value;
  f.body = MakeStmt(store);
  return f;
}

TEST(Watch, WhatIsMalformedOrDoesNotParseAgainIsFound) {
  EXPECT_NO_THROW(CheckProgram("here", Storing(Expr(2))));
  EXPECT_THAT([] { CheckProgram("here", Storing(IndexVar("nowhere"))); },
              ThrowsMessage<InternalError>(HasSubstr("here: malformed IR in f: variable nowhere is not in scope")));
  // The parser refuses an expression of this depth, but the printer prints it.
  Expr deep = Expr(1);
  for (int i = 0; i < 1100; ++i) deep = MakeExpr(DType::Index(), Binary{BinaryOp::kAdd, deep, Expr(i)});
  EXPECT_THAT([&] { CheckProgram("here", Storing(deep)); },
              ThrowsMessage<InternalError>(HasSubstr("here: the printed program does not parse: IR text: line 4")));
}

// In this test binary the watcher of tests/watch.cc is active.
TEST(Watch, WatchesInTests) {
  EXPECT_THROW(ShowProgram(Storing(IndexVar("nowhere")), [] { return "here"; }), InternalError);
  ProgramWatcher watcher = program_watcher.exchange(nullptr);
  EXPECT_NO_THROW(ShowProgram(Storing(IndexVar("nowhere")), [] { return "here"; }));
  program_watcher = watcher;
}

// Each expression has the one before as both operands: the graph has 30 nodes, the text a billion.
TEST(Watch, ATextThatIsFarLongerThanItsProgramIsNotPrinted) {
  Expr shared = IndexVar("nowhere");
  for (int i = 0; i < 4; ++i) shared = MakeExpr(DType::Index(), Binary{BinaryOp::kAdd, shared, shared});
  EXPECT_THROW(CheckSomePrograms("here", Storing(shared)), InternalError);
  for (int i = 0; i < 26; ++i) shared = MakeExpr(DType::Index(), Binary{BinaryOp::kAdd, shared, shared});
  EXPECT_NO_THROW(CheckSomePrograms("here", Storing(shared)));
}

TEST(Watch, TheEnvironmentSaysHowMuchIsChecked) {
  EXPECT_EQ(WatcherFor("all"), &CheckProgram);
#ifndef AUTOTUNE_VERIFY
  EXPECT_EQ(WatcherFor("some"), &CheckSomePrograms);
  EXPECT_EQ(WatcherFor(nullptr), nullptr);
#endif
}

}  // namespace
}  // namespace autotune
