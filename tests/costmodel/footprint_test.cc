// Compares footprints with a count of every element that small random programs touch.
#include "costmodel/footprint.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/int_math.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/schedule.h"
#include "support/rng.h"
#include "tests/ir/parse.h"
#include "tests/ir/random_program.h"

namespace autotune {
namespace {

constexpr int64_t kMostIterations = 3000;  // most iterations of a block, so that counting stays fast
constexpr int kLine = 64;                  // bytes of a cache line

using Values = std::map<Name, int64_t>;

int64_t Evaluate(const Expr& e, const Values& values) {
  if (const int64_t* value = AsInt(e)) return *value;
  return e.Visit(Overloaded{
      [&](const Var& v) { return values.at(v.name); },
      [&](const Unary& u) {
        int64_t x = Evaluate(u.a, values);
        return u.op == UnaryOp::kNot ? static_cast<int64_t>(x == 0) : -x;
      },
      [&](const Binary& b) { return FoldInt(b.op, Evaluate(b.a, values), Evaluate(b.b, values), b.a.dtype()).value(); },
      [&](const Select& s) { return Evaluate(Evaluate(s.condition, values) ? s.a : s.b, values); },
      [&](const Cast& c) { return Evaluate(c.a, values); },
      [&](const auto&) -> int64_t {
        ADD_FAILURE() << "no index expression: " << ToText(e);
        return 0;
      },
  });
}

// A block of the program with the loops around it and its accesses, in the order of the Nest.
struct Place {
  Block block;
  std::vector<For> loops;
  std::vector<std::pair<Buffer, std::vector<Expr>>> accesses;
};

void Collect(const Stmt& s, std::vector<For>& loops, std::vector<Place>& out) {
  if (const For* loop = s.As<For>()) {
    loops.push_back(*loop);
    Collect(loop->body, loops, out);
    loops.pop_back();
  } else if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) Collect(child, loops, out);
  } else if (const Block* block = s.As<Block>()) {
    Place place{*block, loops, {}};
    auto add = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
      for (const auto& [known, at] : place.accesses) {
        if (known->name == buffer->name && Equal(MakeLoad(known, at), MakeLoad(buffer, indices))) return;
      }
      place.accesses.push_back({buffer, indices});
    };
    ForEachAccess(block->body, add);
    out.push_back(std::move(place));
  }
}

// The number of elements that an access touches inside the loops from `level` on, and for each subscript the span and
// the number of its values. Each is the maximum over all iterations of the loops outside.
struct Counted {
  size_t elements = 0;
  std::vector<int64_t> spans, counts;
};
Counted Count(const Place& place, size_t access, size_t level) {
  const std::vector<Expr>& indices = place.accesses[access].second;
  Counted most{0, std::vector<int64_t>(indices.size(), 0), std::vector<int64_t>(indices.size(), 0)};
  Values values;
  std::set<std::vector<int64_t>> touched;
  std::vector<int64_t> shape = ConstShape(place.accesses[access].first);
  auto close = [&] {
    most.elements = std::max(most.elements, touched.size());
    for (size_t d = 0; d < indices.size(); ++d) {
      std::set<int64_t> of_dim;
      for (const std::vector<int64_t>& element : touched) of_dim.insert(element[d]);
      if (of_dim.empty()) continue;
      most.counts[d] = std::max<int64_t>(most.counts[d], static_cast<int64_t>(of_dim.size()));
      most.spans[d] = std::max(most.spans[d], *of_dim.rbegin() - *of_dim.begin() + 1);
    }
    touched.clear();
  };
  std::function<void(size_t)> run = [&](size_t depth) {
    if (depth < place.loops.size()) {
      for (int64_t i = 0; i < *AsInt(place.loops[depth].extent); ++i) {
        values[place.loops[depth].var] = i;
        run(depth + 1);
        if (depth + 1 == level) close();
      }
      return;
    }
    for (const Iter& iter : place.block.iters) values[iter.var] = Evaluate(iter.binding, values);
    if (place.block.predicate && !Evaluate(place.block.predicate, values)) return;
    std::vector<int64_t> element;
    bool inside = true;  // a read that a condition suppresses may lie outside the buffer
    for (size_t d = 0; d < indices.size(); ++d) {
      element.push_back(Evaluate(indices[d], values));
      inside &= element[d] >= 0 && element[d] < shape[d];
    }
    if (inside) touched.insert(element);
  };
  run(0);
  close();
  return most;
}

struct Verdict {
  int compared = 0;
  int plain = 0, exact = 0;  // accesses of blocks without conditions, and those of them whose footprint is exact
  std::vector<std::string> wrong;
};

// Compares every access of every block at every level. `nest` is the Nest of `func`, or one with a deliberate fault.
void Compare(const PrimFunc& func, const Nest& nest, Verdict& verdict) {
  std::vector<Place> places;
  std::vector<For> loops;
  Collect(func.body, loops, places);
  ASSERT_EQ(places.size(), nest.blocks.size());
  Footprints footprints;
  for (size_t b = 0; b < places.size(); ++b) {
    const Place& place = places[b];
    int64_t iterations = 1;
    for (const For& loop : place.loops) iterations *= *AsInt(loop.extent);
    if (iterations > kMostIterations) continue;
    bool plain = !place.block.predicate;
    Walk(
        place.block.body, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          plain &= !e.As<Select>();
          return true;
        });
    footprints.Compute(nest, nest.blocks[b], kLine);
    ASSERT_EQ(footprints.levels(), place.loops.size() + 1);
    for (size_t a = 0; a < place.accesses.size(); ++a) {
      const double bytes = static_cast<double>(place.accesses[a].first->dtype.Bytes());
      for (size_t level = 0; level < footprints.levels(); ++level) {
        const Counted counted = Count(place, a, level);
        const double elements = footprints.At(a, level).bytes / bytes;
        bool exact = elements == static_cast<double>(counted.elements), low = elements < counted.elements;
        for (size_t d = 0; d < counted.spans.size(); ++d) {
          const Spread s = Footprints::SubscriptSpread(nest, nest.blocks[b], a, d, level);
          low |= s.span < counted.spans[d] || s.count < counted.counts[d];
        }
        ++verdict.compared;
        verdict.plain += plain;
        verdict.exact += plain && exact;
        if (low) {
          verdict.wrong.push_back(place.block.name.str() + " access " + std::to_string(a) + " level " +
                                  std::to_string(level) + ": " + std::to_string(elements) + " for " +
                                  std::to_string(counted.elements));
        }
      }
    }
  }
}

// Returns a random program after random legal splits (some overshoot), fusions, reorders, paddings and moves of
// producers to consumers.
PrimFunc RandomlyScheduled(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule(test::MakeRandomProgram(seed, {.max_stages = 3, .max_extent = 8}));
  for (int i = 0; i < 8; ++i) {
    Nest nest = NestOf(schedule.func());
    const Nest::Block& block = nest.blocks[rng.Below(static_cast<int64_t>(nest.blocks.size()))];
    std::span<const Nest::Index> around = nest.LoopsOf(block);
    auto loop = [&](int64_t at) { return nest.loops[around[at]].name; };
    const int64_t depth = static_cast<int64_t>(around.size()), at = rng.Below(depth);
    Step step = Split{loop(at), {Factors::kAuto, 1 + rng.Below(5)}};
    switch (rng.Below(6)) {
      case 0:
        if (at + 1 < depth) step = Fuse{{loop(at), loop(at + 1)}};
        break;
      case 1:
        if (at + 1 < depth) step = Reorder{{loop(at + 1), loop(at)}};
        break;
      case 2:
        step = ComputeAt{nest.blocks[0].name, loop(at)};
        break;
      case 3:
        step = PadBlock{block.name};
        break;
      default:
        break;
    }
    (void)schedule.Apply(step);
  }
  return schedule.func();
}

constexpr uint64_t kPrograms = 150;

TEST(Footprint, IsNeverLessThanWhatIsTouchedAndMostlyEqual) {
  Verdict verdict;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    PrimFunc func = RandomlyScheduled(seed);
    Compare(func, NestOf(func), verdict);
    ASSERT_TRUE(verdict.wrong.empty()) << "seed " << seed << ": " << verdict.wrong[0] << "\n"
                                       << ToText(func) << ToText(NestOf(func));
  }
  EXPECT_GT(verdict.compared, 2000);
  EXPECT_GT(verdict.exact, verdict.plain * 97 / 100) << "of " << verdict.plain;
}

// The comparison finds a Nest that describes less than the program does.
TEST(Footprint, OfAWrongNestIsFound) {
  struct Fault {
    const char* what;
    std::function<bool(Nest&)> make;  // changes a Nest; returns false if the fault does not apply
  };
  const Fault faults[] = {
      {"a shorter loop",
       [](Nest& nest) {
         bool any = false;
         for (Nest::Loop& loop : nest.loops) any |= loop.extent > 1 && loop.extent--;
         return any;
       }},
      {"a lost subscript term",
       [](Nest& nest) {
         bool any = false;
         for (const Nest::Access& access : nest.accesses) {
           for (Nest::Index i = 0; i < access.subscripts.size; ++i) {
             Nest::Sum& sum = nest.sums[access.subscripts.begin + i];
             if (sum.terms.size > 0) --sum.terms.size, any = true;
           }
         }
         return any;
       }},
      {"another divisor",
       [](Nest& nest) {
         bool any = false;
         for (Nest::Term& term : nest.terms) any |= term.div > 1 && (term.div *= 2) > 0;
         return any;
       }},
      {"another period",
       [](Nest& nest) {
         bool any = false;
         for (Nest::Term& term : nest.terms) any |= term.mod > 1 && term.mod-- > 0;
         return any;
       }},
  };
  for (const Fault& fault : faults) {
    int made = 0, found = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      PrimFunc func = RandomlyScheduled(seed);
      Nest nest = NestOf(func);
      if (!fault.make(nest)) continue;
      ++made;
      Verdict verdict;
      Compare(func, nest, verdict);
      found += !verdict.wrong.empty();
    }
    EXPECT_GT(made, 5) << fault.what;
    EXPECT_GT(found, made / 3) << fault.what << ": in " << made << " programs";
  }
}

// The image's rows have 28 pixels. A tile whose size does not divide a row touches several rows.
TEST(Footprint, KnowsTilesThatCrossRows) {
  auto rows = [](int64_t tile) {
    const std::string outer = std::to_string(84 / tile), inner = std::to_string(tile);
    PrimFunc func =
        test::Parse("func f(x: f32[3, 28] input, y: f32[84] output) { for i in " + outer + " { for j in " + inner +
                    " { block b(v: S 84 = i * " + inner + " + j) { y[v] = x[v // 28, v % 28] } } } }");
    Nest nest = NestOf(func);
    return Footprints::SubscriptSpread(nest, nest.blocks[0], 1, 0, 1).count;
  };
  EXPECT_EQ(rows(7), 1);
  EXPECT_EQ(rows(14), 1);
  EXPECT_EQ(rows(6), 2);
  EXPECT_EQ(rows(42), 2);
  EXPECT_EQ(rows(84), 3);
}

}  // namespace
}  // namespace autotune
