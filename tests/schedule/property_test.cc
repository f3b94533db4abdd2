// Random traces over random programs. Legal steps keep the meaning, and refused steps change nothing. The schedules'
// texts parse and replay to equal schedules. A failing case is shrunk and printed as text.
//   AUTOTUNE_SCHEDULES=1000000 build/tests/test_schedule --gtest_filter='RandomSchedules.*'   as many, on all cores
//   AUTOTUNE_SCHEDULE_SEED=7 ...                                                              other schedules
//   AUTOTUNE_SCHEDULE_CASE=FILE ...                                                           repeats a printed case
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/case.h"
#include "tests/schedule/golden.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/zoo.h"
#include "topi/alternatives.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using zoo::Case;
using zoo::Checker;
using zoo::FromEnvironment;
using zoo::Workload;

constexpr int kSteps = 16;       // steps that are attempted in each schedule
constexpr int kPerWorkload = 4;  // schedules for one workload

std::string NameOf(const Step& step) {
  std::string text = ToText(step);
  return text.substr(0, text.find('('));
}

struct Counts {
  int64_t schedules = 0;
  std::map<std::string, int64_t> legal, refused, workloads;
};

// Draws and applies steps. Returns a message if a refused step changed the schedule, otherwise "".
std::string DrawSteps(StepSource& source, int steps, Schedule& schedule, Counts& counts) {
  for (int i = 0; i < steps; ++i) {
    Step step = source.Next(schedule);
    PrimFunc before = schedule.func();
    size_t length = schedule.trace().size();
    auto results = schedule.Apply(step, &source.rng());
    ++(results.ok() ? counts.legal : counts.refused)[NameOf(step)];
    if (results.ok()) continue;
    if (!Equal(before, schedule.func()) || schedule.trace().size() != length)
      return "changed by a refused " + ToText(step);
  }
  return "";
}

zoo::Judge JudgeOf(uint64_t seed) {
  return [seed](const Workload& workload, const Schedule& schedule) {
    Checker checker(workload, seed);
    std::string wrong = checker.CheckIntegers(schedule.func());
    if (wrong.empty()) wrong = checker.CheckFloats(schedule.func());
    return wrong.empty() ? checker.CheckText(schedule) : wrong;
  };
}

// Checks some schedules of one random workload. Returns a report of the first wrong one, or "".
std::string CheckOneWorkload(uint64_t seed, Counts& counts) {
  Rng rng(seed);
  Workload workload = zoo::DrawWorkload(rng);
  Checker checker(workload, seed);
  ++counts.workloads[workload.kind];
  for (int i = 0; i < kPerWorkload; ++i) {
    StepSource source(rng.Next());
    Schedule schedule(checker.func());
    std::string wrong = DrawSteps(source, kSteps, schedule, counts);
    if (wrong.empty()) wrong = checker.CheckIntegers(schedule.func());
    if (wrong.empty() && i == 0) wrong = checker.CheckFloats(schedule.func());
    if (wrong.empty() && i == 1) wrong = checker.CheckText(schedule);
    counts.schedules += !schedule.trace().empty();
    if (wrong.empty()) continue;
    Case found{workload, schedule.trace()};
    if (JudgeOf(seed)(workload, schedule).empty()) return wrong + "\n" + ToText(found);
    return ReportOf(found, wrong, JudgeOf(seed));
  }
  return "";
}

TEST(RandomSchedules, KeepTheMeaning) {
  bool many = getenv("AUTOTUNE_SCHEDULES") != nullptr;
  int64_t wanted = static_cast<int64_t>(FromEnvironment("AUTOTUNE_SCHEDULES", 10000));
  uint64_t first = FromEnvironment("AUTOTUNE_SCHEDULE_SEED", 0) << 32;
  std::atomic<uint64_t> next = 0;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  Counts all;
  std::string report;
  auto work = [&] {
    Counts counts;
    while (done < wanted && !failed) {
      int64_t before = counts.schedules;
      uint64_t seed = first + next++;
      std::string wrong;
      try {
        wrong = CheckOneWorkload(seed, counts);
      } catch (const std::exception& e) {
        wrong = "seed " + std::to_string(seed) + ": " + e.what();
      }
      done += counts.schedules - before;
      if (wrong.empty() || failed.exchange(true)) continue;
      std::lock_guard lock(mutex);
      report = wrong;
    }
    std::lock_guard lock(mutex);
    all.schedules += counts.schedules;
    for (auto [mine, total] : {std::pair{&counts.legal, &all.legal}, std::pair{&counts.refused, &all.refused},
                               std::pair{&counts.workloads, &all.workloads}}) {
      for (auto& [name, count] : *mine) (*total)[name] += count;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; many && i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(report, "");
  printf("%lld schedules\n", static_cast<long long>(all.schedules));
  for (auto& [name, count] : all.legal) {
    printf("  %-24s %7lld legal %7lld refused\n", name.c_str(), static_cast<long long>(count),
           static_cast<long long>(all.refused[name]));
  }
  if (failed || wanted < 10000) return;
  EXPECT_GE(all.schedules, 10000);
  for (const std::string& kind : zoo::WorkloadKinds()) EXPECT_GT(all.workloads[kind], 10) << kind;
  for (const std::string& step : zoo::StepNames()) EXPECT_GT(all.legal[step], 20) << step;
}

// The workloads cover every alternative of an operator, by kinds conv, conv_across_groups, conv_skip_padding, dense,
// dense_in_blocks, dense_narrow and winograd (whose tilings are drawn). This test knows the alternatives by name. Who
// adds one also adds a kind of workload that computes it.
TEST(Workloads, EveryComputeAlternativeIsAmongThem) {
  const std::set<std::string_view> known = {"direct",          "across_groups", "skip_padding",   "winograd2",
                                            "winograd2_whole", "winograd4",     "winograd4_whole"};
  for (const auto& alternative : topi::ConvAlternatives())
    EXPECT_TRUE(known.count(alternative.name)) << alternative.name;
  for (const auto& alternative : topi::MatMulAlternatives())
    EXPECT_TRUE(alternative.name == "direct" || alternative.name == "blocks" || alternative.name == "tf32")
        << alternative.name;
}

TEST(RandomSchedules, ACaseAgain) {
  std::optional<Case> c = zoo::CaseFromEnvironment();
  if (!c) GTEST_SKIP() << "no case: set AUTOTUNE_SCHEDULE_CASE to a file that holds one";
  Schedule schedule = zoo::Scheduled(MakeProgram(c->workload), ToText(c->trace));
  std::cout << ToText(MakeProgram(c->workload)) << ToText(schedule.func());
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(JudgeOf(seed)(c->workload, schedule), "");
}

// ---- Tests of the check: steps with deliberate faults ---------------------------------------------------------------

// A fault changes the function as a wrong step would.
struct Fault {
  const char* name;
  const char* step;  // the faulty step; every shrunk case must contain it
  PrimFunc (*apply)(const Trace& trace, PrimFunc func);
};

template <class F>
PrimFunc MapBlocks(PrimFunc func, F change) {
  func.body = RewriteStmt(
      func.body,
      [&](const Stmt& s) {
        if (!s.As<Block>()) return s;
        Block block = *s.As<Block>();
        return change(block) ? MakeStmt(block) : s;
      },
      nullptr);
  return func;
}

// Returns the names of the results of all steps of a type, from position `first` up to, but without, `last`.
template <class T>
std::set<std::string> ResultsOf(const Trace& trace, size_t first, size_t last) {
  std::set<std::string> names;
  for (const Step& step : trace) {
    const T* s = std::get_if<T>(&step);
    for (size_t i = first; s && i < std::min(last, s->results.names.size()); ++i)
      names.insert(s->results.names[i].str());
  }
  return names;
}

// Returns the names in a field of all steps of a type.
template <class T>
std::set<std::string> NamedBy(const Trace& trace, Name T::*field) {
  std::set<std::string> names;
  for (const Step& step : trace) {
    if (const T* s = std::get_if<T>(&step)) names.insert((s->*field).str());
  }
  return names;
}

template <class F>
PrimFunc WithExtents(PrimFunc func, F extent_of) {
  func.body = RewriteStmt(
      func.body,
      [&](const Stmt& s) {
        const For* loop = s.As<For>();
        if (!loop || !AsInt(loop->extent)) return s;
        return MakeStmt(For{loop->var, extent_of(*loop), loop->kind, loop->annotations, loop->body});
      },
      nullptr);
  return func;
}

PrimFunc WithoutLastIterations(const std::set<std::string>& loops, const PrimFunc& func) {
  return WithExtents(
      func, [&](const For& loop) { return loops.contains(loop.var.str()) ? loop.extent - Expr(1) : loop.extent; });
}

// Returns the next index; after the last one, 0.
Expr OffByOne(const Expr& index, const Expr& extent) { return FloorMod(index + Expr(1), extent); }

// Returns the function with faulty copies: the given blocks store each element at the next index.
PrimFunc WithShiftedCopies(const std::set<std::string>& copies, const PrimFunc& func) {
  return MapBlocks(func, [&](Block& block) {
    const Store* store = block.body.As<Store>();
    if (!store || !copies.contains(block.name.str()) || store->indices.empty()) return false;
    std::vector<Expr> indices = store->indices;
    if (!AsInt(store->buffer->shape[0]) || *AsInt(store->buffer->shape[0]) < 2) return false;
    indices[0] = OffByOne(indices[0], store->buffer->shape[0]);
    block.body = MakeStmt(Store{store->buffer, indices, store->value});
    return true;
  });
}

const Fault kFaults[] = {
    {"split without its guard", "split",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> loops = ResultsOf<Split>(trace, 0, 9);
       return MapBlocks(f, [&](Block& block) {
         if (!block.predicate) return false;
         bool guarded = false;
         Walk(block.predicate, [&](const Expr& e) {
           guarded |= e.As<Var>() && loops.contains(e.As<Var>()->name.str());
           return true;
         });
         if (guarded) block.predicate = Expr();
         return guarded;
       });
     }},
    {"fuse by a wrong digit", "fuse",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> loops = ResultsOf<Fuse>(trace, 0, 1);
       f.body = RewriteStmt(f.body, nullptr, [&](const Expr& e) {
         const Binary* b = e.As<Binary>();
         const Var* var = b && b->op == BinaryOp::kFloorDiv ? b->a.As<Var>() : nullptr;
         return var && loops.contains(var->name.str()) && *AsInt(b->b) > 1 ? FloorDiv(b->a, b->b + Expr(1)) : e;
       });
       return f;
     }},
    {"parallel whatever the loop feeds", "parallel",
     [](const Trace& trace, PrimFunc f) {
       if (ToText(trace).find("parallel(") == std::string::npos) return f;
       f.body = RewriteStmt(
           f.body,
           [](const Stmt& s) {
             const For* loop = s.As<For>();
             if (!loop || loop->kind != LoopKind::kSerial) return s;
             return MakeStmt(For{loop->var, loop->extent, LoopKind::kParallel, loop->annotations, loop->body});
           },
           nullptr);
       return f;
     }},
    {"decompose_reduction that forgets the last element", "decompose_reduction",
     [](const Trace& trace, PrimFunc f) {
       return WithoutLastIterations(ResultsOf<DecomposeReduction>(trace, 1, 99), f);
     }},
    {"rfactor that forgets the last partial result", "rfactor",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> parts = ResultsOf<Rfactor>(trace, 0, 1);
       return MapBlocks(f, [&](Block& block) {
         const Store* store = block.body.As<Store>();
         const Iter* last = block.iters.empty() ? nullptr : &block.iters.back();
         if (!store || !last || last->kind != IterKind::kReduce || *AsInt(last->extent) < 2) return false;
         bool combines = false;
         Walk(store->value, [&](const Expr& e) {
           combines |= e.As<Load>() && parts.contains(e.As<Load>()->buffer->name.str());
           return true;
         });
         if (!combines || parts.contains(store->buffer->name.str())) return false;
         Expr all = IndexVar(last->var) < last->extent - Expr(1);
         block.body = MakeStmt(If{all, block.body, Stmt()});
         return true;
       });
     }},
    {"cache_read that is off by one", "cache_read",
     [](const Trace& trace, PrimFunc f) { return WithShiftedCopies(ResultsOf<CacheRead>(trace, 0, 1), f); }},
    {"storage_align whose rows overlap", "storage_align",
     [](const Trace&, PrimFunc f) {
       for (Buffer& buffer : f.allocs) {
         if (buffer->dim_align.empty()) continue;
         auto* cell = new BufferCell;
         cell->name = buffer->name;
         cell->dtype = buffer->dtype;
         cell->shape = buffer->shape;
         cell->scope = buffer->scope;
         for (int64_t stride : StridesOf(ConstShape(buffer), {})) {
           cell->strides.push_back(Expr(std::max<int64_t>(stride - 1, 1)));
         }
         buffer = Buffer(cell);
       }
       return f;
     }},
    {"cache_write that loses precision", "cache_write",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> copies = ResultsOf<CacheWrite>(trace, 1, 2);
       return MapBlocks(f, [&](Block& block) {
         const Store* store = block.body.As<Store>();
         if (!store || !copies.contains(block.name.str()) || !store->value.dtype().IsFloat()) return false;
         Expr coarse = MakeCall(Op::kFloor, {store->value / ConstOf(2, store->value.dtype())});
         block.body = MakeStmt(Store{store->buffer, store->indices, coarse * ConstOf(2, store->value.dtype())});
         return true;
       });
     }},
    {"reindex that is off by one", "reindex",
     [](const Trace& trace, PrimFunc f) { return WithShiftedCopies(ResultsOf<Reindex>(trace, 0, 1), f); }},
    {"compute_at that makes less than is read", "compute_at",
     [](const Trace& trace, PrimFunc f) { return WithoutLastIterations(ResultsOf<ComputeAt>(trace, 0, 9), f); }},
    {"pad_block that clamps no reads", "pad_block",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> padded = NamedBy(trace, &PadBlock::block);
       return MapBlocks(f, [&](Block& block) {
         if (!padded.contains(block.name.str())) return false;
         block.body = RewriteStmt(block.body, nullptr, [](const Expr& e) {
           const Binary* b = e.As<Binary>();
           return b && b->op == BinaryOp::kMin && b->a.As<Var>() && AsInt(b->b) ? b->a : e;
         });
         return true;
       });
     }},
    {"transform_layout whose readers look elsewhere", "transform_layout",
     [](const Trace& trace, PrimFunc f) {
       std::set<std::string> changed = NamedBy(trace, &TransformLayout::buffer);
       f.body = RewriteStmt(f.body, nullptr, [&](const Expr& e) {
         const Load* load = e.As<Load>();
         if (!load || !changed.contains(load->buffer->name.str()) || load->indices.empty()) return e;
         std::vector<Expr> indices = load->indices;
         indices.back() = OffByOne(indices.back(), load->buffer->shape.back());
         return MakeLoad(load->buffer, indices);
       });
       return f;
     }},
    {"reorder that leaves the extents where they were", "reorder",
     [](const Trace& trace, PrimFunc f) {
       std::map<std::string, Expr> extents;
       Walk(f.body, [&](const Stmt& s) {
         if (const For* loop = s.As<For>()) extents[loop->var.str()] = loop->extent;
         return true;
       });
       for (const Step& step : trace) {
         const Reorder* reorder = std::get_if<Reorder>(&step);
         if (!reorder || reorder->loops.size() != 2) continue;
         auto first = extents.find(reorder->loops[0].str()), second = extents.find(reorder->loops[1].str());
         if (first != extents.end() && second != extents.end()) std::swap(first->second, second->second);
       }
       return WithExtents(f, [&](const For& loop) { return extents.at(loop.var.str()); });
     }},
};

TEST(RandomSchedules, WrongStepsAreCaughtAndShrunk) {
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    zoo::Judge judge = [&](const Workload& workload, const Schedule& schedule) {
      return Checker(workload, 5).CheckIntegers(fault.apply(schedule.trace(), schedule.func()));
    };
    bool caught = false;
    for (uint64_t seed = 0; seed < 2000 && !caught; ++seed) {
      Rng rng(seed);
      Case c{zoo::DrawWorkload(rng), {}};
      StepSource source(seed, /*threads=*/false);
      Schedule schedule(MakeProgram(c.workload));
      Counts counts;
      ASSERT_EQ(DrawSteps(source, kSteps, schedule, counts), "");
      if (judge(c.workload, schedule).empty()) continue;
      caught = true;
      c.trace = schedule.trace();
      Case least = Shrink(c, judge);
      SCOPED_TRACE(ToText(least));
      // The printed case must parse, be wrong with the fault and right without it, and contain the fault's step.
      auto again = zoo::ParseCase(ToText(least));
      ASSERT_TRUE(again.ok()) << again.error().Text();
      Schedule replayed = zoo::Scheduled(MakeProgram(again->workload), ToText(again->trace));
      EXPECT_NE(judge(again->workload, replayed), "");
      EXPECT_EQ(JudgeOf(5)(again->workload, replayed), "");
      EXPECT_LE(least.trace.size(), 4u);  // of 16 steps: the faulty step, and steps that make what it refers to
      EXPECT_THAT(ToText(least.trace), HasSubstr(fault.step));
    }
    EXPECT_TRUE(caught);
  }
}

TEST(Workloads, AreMadeAgainFromTheirText) {
  for (const std::string& kind : zoo::WorkloadKinds()) {
    Rng rng(3);
    for (int i = 0; i < 60; ++i) {
      Workload workload = zoo::DrawWorkload(kind, rng);
      SCOPED_TRACE(ToText(workload));
      auto parsed = zoo::ParseWorkload(ToText(workload));
      ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
      EXPECT_EQ(*parsed, workload);
      PrimFunc f = MakeProgram(workload);
      EXPECT_TRUE(Verify(f, Dialect::kSchedulable).ok());
      EXPECT_TRUE(Equal(f, MakeProgram(*parsed)));
      EXPECT_EQ(Checker(workload, 1).CheckIntegers(f), "");
      for (const Workload& smaller : SmallerThan(workload)) EXPECT_TRUE(zoo::ParseWorkload(ToText(smaller)).ok());
    }
  }
  for (const char* wrong : {"", "dense", "dense(", "dense(m=1)", "dense(m=0, n=1, k=1, bias=0, fma=0)", "net(m=1)",
                            "dense(m=1, k=1, n=1, bias=0, fma=0)", "dense(m=x, n=1, k=1, bias=0, fma=0)",
                            "dense(m=1, n=1, k=1, bias=0, fma=0) x", "dense(m=1, n=1, k=1, bias=0, fma=0, x=1)",
                            "dense(m=1, n=1, k=1, bias=0, fma=0,", "dense(m=1) n=1, k=1, bias=0, fma=0)"}) {
    EXPECT_FALSE(zoo::ParseWorkload(wrong).ok()) << wrong;
  }
  EXPECT_TRUE(zoo::ParseWorkload("dense(m=1, n=1, k=1, bias=0, fma=0)").ok());
}

}  // namespace
}  // namespace autotune
