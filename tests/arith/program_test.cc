// SimplifyStmt keeps the results of random programs, whose loops the test first splits and fuses.
#include <gtest/gtest.h>

#include "arith/analyzer.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/rng.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

// Substitutes loop variables in bindings, and adds a guard to the predicate.
Stmt Rebind(const Stmt& body, const VarMap& map, const Expr& guard) {
  return RewriteStmt(
      body,
      [&](const Stmt& s) {
        const Block* n = s.As<Block>();
        if (!n || !guard) return s;
        Block block = *n;
        block.predicate = block.predicate ? And(block.predicate, guard) : guard;
        return MakeStmt(block);
      },
      [&](const Expr& e) {
        const Var* var = e.As<Var>();
        auto it = var ? map.find(var->name) : map.end();
        return it == map.end() ? e : it->second;
      });
}

// Splits loops by factors that need not divide, and fuses pairs of nested loops.
Stmt Scramble(const Stmt& program, Rng& rng) {
  return RewriteStmt(program, [&](const Stmt& s) -> Stmt {
    const For* n = s.As<For>();
    if (!n) return s;
    int64_t extent = *AsInt(n->extent);
    Expr var = IndexVar(n->var);
    const For* inner = n->body.As<For>();
    if (inner && rng.Below(3) == 0) {
      int64_t inner_extent = *AsInt(inner->extent);
      Name fused = n->var.str() + "_" + inner->var.str() + "_f";
      Expr f = IndexVar(fused);
      Stmt body =
          Rebind(inner->body, {{n->var, FloorDiv(f, inner_extent)}, {inner->var, FloorMod(f, inner_extent)}}, Expr());
      return MakeStmt(For{fused, Expr(extent * inner_extent), LoopKind::kSerial, {}, body});
    }
    if (rng.Below(2) == 0) return s;
    int64_t factor = 1 + rng.Below(std::min<int64_t>(7, extent)), outer = (extent + factor - 1) / factor;
    Name o = n->var.str() + "_o", i = n->var.str() + "_i";
    Expr value = MakeExpr(DType::Index(), Binary{BinaryOp::kAdd, IndexVar(o) * Expr(factor), IndexVar(i)});
    Stmt body = Rebind(n->body, {{n->var, value}}, value < Expr(extent));
    return MakeStmt(
        For{o, Expr(outer), LoopKind::kSerial, {}, MakeStmt(For{i, Expr(factor), LoopKind::kSerial, {}, body})});
  });
}

TEST(Programs, SimplifyStmtKeepsWhatIsComputed) {
  int dropped = 0, kept = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    PrimFunc f = test::MakeRandomProgram(seed), g = f;
    for (int round = 0; round < 2; ++round) g.body = Scramble(g.body, rng);
    PrimFunc simple = g;
    simple.body = SimplifyStmt(g.body);
    ASSERT_TRUE(Verify(simple).ok()) << Verify(simple).error().Text() << ToText(simple);
    EXPECT_TRUE(SimplifyStmt(simple.body).Same(simple.body))
        << ToText(simple.body) << ToText(SimplifyStmt(simple.body));
    Walk(simple.body, [&](const Stmt& s) {
      if (const Block* block = s.As<Block>()) ++(block->predicate ? kept : dropped);
      return true;
    });
    auto want = test::RandomArgs(f, seed), got = want;
    ASSERT_TRUE(Interpret(f, want).ok());
    Status ran = Interpret(simple, got);
    ASSERT_TRUE(ran.ok()) << ran.error().Text() << ToText(simple);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i].data, want[i].data) << ToText(simple);
  }
  EXPECT_GT(dropped, 100);
  EXPECT_GT(kept, 100);
}

}  // namespace
}  // namespace autotune
