// Random programs, their loops split and fused by hand: SimplifyStmt keeps what they compute, AccessedRegions covers
// what they touch.
#include <gtest/gtest.h>

#include <map>

#include "arith/analyzer.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/arith/random_index.h"
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

using Env = std::map<Name, int64_t>;

int64_t Eval(const Expr& e, const Env& env) {
  return test::EvalIndex(e, [&](const Name& var) { return env.at(var); });
}

// Calls f(buffer, write, subscripts) for every access of a statement.
template <class F>
void EachAccess(const Stmt& s, Env& env, F&& f) {
  auto subscripts = [&](const std::vector<Expr>& indices) {
    std::vector<int64_t> at;
    for (const Expr& i : indices) at.push_back(Eval(i, env));
    return at;
  };
  std::function<void(const Expr&)> reads = [&](const Expr& e) {
    Walk(e, [&](const Expr& x) {
      if (const Load* n = x.As<Load>()) f(n->buffer, false, subscripts(n->indices));
      const Select* n = x.As<Select>();
      if (!n || !n->condition.As<Binary>() || !n->condition.As<Binary>()->a.dtype().IsBool()) return true;
      reads(Eval(n->condition, env) ? n->a : n->b);
      return false;
    });
  };
  s.Visit(Overloaded{
      [&](const Store& n) {
        reads(n.value);
        f(n.buffer, true, subscripts(n.indices));
      },
      [&](const Seq& n) {
        for (const Stmt& child : n.stmts) EachAccess(child, env, f);
      },
      [&](const For& n) {
        for (int64_t i = 0; i < *AsInt(n.extent); ++i) env[n.var] = i, EachAccess(n.body, env, f);
      },
      [&](const Block& n) {
        for (const Iter& iter : n.iters) env[iter.var] = Eval(iter.binding, env);
        if (n.predicate && !Eval(n.predicate, env)) return;
        if (n.init) EachAccess(n.init, env, f);
        EachAccess(n.body, env, f);
      },
      [&](const auto&) {},
  });
}

TEST(Programs, RegionsCoverEveryAccess) {
  int accesses = 0, exact = 0, failures = 0;
  for (uint64_t seed = 0; seed < 300 && failures < 3; ++seed) {
    Rng rng(seed);
    Stmt body = test::MakeRandomProgram(seed, {.max_stages = 2}).body;
    for (int round = 0; round < 2; ++round) body = Scramble(body, rng);
    // Down some loops, whose variables become symbols; then from the statement there.
    Env symbols;
    int64_t depth = rng.Below(4);
    Stmt s =
        body.As<Seq>() ? body.As<Seq>()->stmts[rng.Below(static_cast<int64_t>(body.As<Seq>()->stmts.size()))] : body;
    for (; depth > 0 && s.As<For>(); --depth) {
      symbols[s.As<For>()->var] = rng.Below(*AsInt(s.As<For>()->extent));
      s = s.As<For>()->body;
    }
    std::vector<BufferRegion> regions = AccessedRegions(s, {});
    std::vector<std::vector<std::pair<int64_t, int64_t>>> boxes, seen(regions.size());
    for (const BufferRegion& r : regions) {
      boxes.emplace_back();
      for (size_t d = 0; d < r.min.size(); ++d) {
        int64_t min = Eval(r.min[d], symbols);
        boxes.back().push_back({min, min + Eval(r.extent[d], symbols) - 1});
      }
    }
    Env env = symbols;
    EachAccess(s, env, [&](const Buffer& buffer, bool write, const std::vector<int64_t>& at) {
      ++accesses;
      for (size_t k = 0; k < regions.size(); ++k) {
        if (!(regions[k].buffer->name == buffer->name) || regions[k].write != write) continue;
        seen[k].resize(at.size(), {INT64_MAX, INT64_MIN});
        for (size_t d = 0; d < at.size(); ++d) {
          seen[k][d] = {std::min(seen[k][d].first, at[d]), std::max(seen[k][d].second, at[d])};
          if (at[d] >= boxes[k][d].first && at[d] <= boxes[k][d].second) continue;
          if (++failures < 3) {
            ADD_FAILURE() << "seed " << seed << ": " << buffer->name << " dimension " << d << " at " << at[d]
                          << " not in [" << boxes[k][d].first << ", " << boxes[k][d].second << "]\n"
                          << ToText(s);
          }
        }
        return;
      }
      ++failures;
      ADD_FAILURE() << "no region of " << buffer->name << "\n" << ToText(s);
    });
    for (size_t k = 0; k < regions.size(); ++k) exact += seen[k] == boxes[k];
  }
  EXPECT_GT(accesses, 10000);
  EXPECT_GT(exact, 500);
}

}  // namespace
}  // namespace autotune
