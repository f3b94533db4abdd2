// Compares the numbers from which the draft score is computed without a replay, those of StageShape
// (tuner/stage_shape.h) and StageModel, with the numbers of the replayed program's Nest. The candidates are random
// decisions of all kinds of tasks.
#include "tuner/stage_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "costmodel/footprint.h"
#include "costmodel/work.h"
#include "te/create_prim_func.h"
#include "tests/draws.h"
#include "tests/tuner/programs.h"
#include "topi/pool.h"
#include "topi/winograd.h"
#include "tuner/rule/rule.h"
#include "tuner/successive_replays.h"

namespace autotune {
namespace {

using test::ConvBiasRelu;
using test::Dense;
using test::TestTarget;

// The numbers of StageShape, as far as FactsOf derives them from a Nest.
struct Facts {
  double tasks = 1, points = 1, sum = 1, tile = 0, unrolled = 1;
  double panel_bytes = 0, rows_bytes = 0;  // bytes of each operand that a register tile reads; 0: no such operand
};

const Nest::Block* FindBlock(const Nest& nest, const Name& name) {
  auto found = std::ranges::find(nest.blocks, name, &Nest::Block::name);
  return found == nest.blocks.end() ? nullptr : &*found;
}

bool IsExpanded(const Nest::Loop& loop) {
  return loop.kind == LoopKind::kUnrolled || loop.kind == LoopKind::kVectorized;
}

bool Drives(const Nest& nest, const Nest::Sum& sum, Nest::Index loop) {
  return std::ranges::any_of(nest.TermsOf(sum), [&](const Nest::Term& term) {
    return term.of == Nest::Of::kLoop ? term.index == loop : Drives(nest, nest.sums[term.index], loop);
  });
}

// Returns the position, in the block's list, of the outermost loop of a reduction.
size_t OutermostSum(const Nest& nest, const Nest::Block& block) {
  std::span<const Nest::Index> loops = nest.LoopsOf(block);
  for (size_t l = 0; l < loops.size(); ++l) {
    for (const Nest::Iterator& iterator : nest.IteratorsOf(block)) {
      if (iterator.kind == IterKind::kReduce && Drives(nest, iterator.binding, loops[l])) return l;
    }
  }
  return loops.size();
}

Facts FactsOf(const Nest& nest, const Nest::Block& block, const Target& target) {
  Facts facts;
  std::span<const Nest::Index> loops = nest.LoopsOf(block);
  size_t expanded = loops.size();  // position of the outermost loop of the unrolled or vectorized innermost loops
  for (size_t l = loops.size(); l-- > 0;) {
    const Nest::Loop& loop = nest.loops[loops[l]];
    const double extent = static_cast<double>(loop.extent);
    facts.points *= extent;
    if (loop.kind == LoopKind::kParallel) facts.tasks *= extent;
    if (IsExpanded(loop)) facts.unrolled *= extent;
    if (IsExpanded(loop) && expanded == l + 1) expanded = l;
  }
  for (const Nest::Iterator& iterator : nest.IteratorsOf(block)) {
    if (iterator.kind == IterKind::kReduce) facts.sum *= static_cast<double>(iterator.extent);
  }
  Footprints footprints;
  footprints.Compute(nest, block, target.cache_line);
  std::span<const Nest::Access> accesses = nest.AccessesOf(block);
  const size_t sums = OutermostSum(nest, block);
  for (size_t a = 0; a < accesses.size(); ++a) {
    const Nest::Buffer& buffer = nest.buffers[accesses[a].buffer];
    if (buffer.scope == Scope::kRegister) {
      if (accesses[a].writes) facts.tile = footprints.At(a, expanded).bytes / static_cast<double>(buffer.element_bytes);
      continue;
    }
    const Contiguity lanes = footprints.ContiguityOf(a);
    if (lanes == Contiguity::kNoVector || accesses[a].writes) continue;
    double& bytes = lanes == Contiguity::kSame ? facts.rows_bytes : facts.panel_bytes;
    bytes = std::max(bytes, footprints.At(a, sums).bytes);
  }
  return facts;
}

std::string LoopsText(const Nest& nest, const Nest::Block& block) {
  std::string text;
  for (Nest::Index index : nest.LoopsOf(block)) {
    const Nest::Loop& loop = nest.loops[index];
    text += " " + loop.name.str() + "=" + std::to_string(loop.extent);
    if (loop.kind != LoopKind::kSerial) text += " (" + std::string(ToText(loop.kind)) + ")";
  }
  return text;
}

// Compares the numbers of one candidate. A mismatch names the sketch, the block, the number, and the block's loops.
class ShapeComparison {
 public:
  ShapeComparison(const Sketch& sketch, const Decisions& decisions, const Nest& nest, const Target& target)
      : sketch_(sketch), decisions_(decisions), nest_(nest), target_(target) {
    for (const StageModel& stage : sketch.stages) Compare(stage);
  }

  int compared() const { return compared_; }  // number of compared numbers
  const std::vector<std::string>& mismatches() const { return mismatches_; }

 private:
  void Compare(const StageModel& stage) {
    switch (stage.kind) {
      case StageModel::kTiled:
      case StageModel::kBatched:
      case StageModel::kWindow:
      case StageModel::kStreams:
        return CompareShape(stage.block, ShapeOf(stage, decisions_));
      case StageModel::kAttention: {
        const AttentionShapes shapes = AttentionShapesOf(stage, decisions_);
        Expect(stage.block, "operations", stage.operations, WorkOf(nest_, stage.passes).operations);
        CompareShape(stage.scores, shapes.scores);
        return CompareShape(stage.block, shapes.weighted);
      }
      default:
        if (!stage.block.empty()) ComparePasses(stage);
    }
  }

  void CompareShape(const Name& name, const StageShape& shape) {
    const Nest::Block* block = FindBlock(nest_, name);
    if (!block) return Lack(name);
    const Facts facts = FactsOf(nest_, *block, target_);
    Expect(name, "tasks", shape.tasks, facts.tasks);
    Expect(name, "points", shape.Points(), facts.points);
    Expect(name, "sum", shape.sum, facts.sum);
    Expect(name, "tile", shape.Tile(), facts.tile);
    Expect(name, "unrolled", shape.Unrolled(), facts.unrolled);
    if (shape.panel_bytes > 0 && facts.panel_bytes > 0)
      Expect(name, "panel_bytes", shape.panel_bytes, facts.panel_bytes);
    if (shape.rows_bytes == 0 || facts.rows_bytes == 0) return;
    // If tiles overshoot, rows are clamped, and the footprint is only an upper bound.
    const bool exact = block->guards.size == 0 && !HasClampedRows(*block);
    if (exact || shape.rows_bytes > facts.rows_bytes) Expect(name, "rows_bytes", shape.rows_bytes, facts.rows_bytes);
  }

  bool HasClampedRows(const Nest::Block& block) const {
    for (const Nest::Access& access : nest_.AccessesOf(block)) {
      for (const Nest::Sum& subscript : nest_.SubscriptsOf(access)) {
        if (IsClamped(subscript)) return true;
      }
    }
    return false;
  }
  bool IsClamped(const Nest::Sum& sum) const {
    return sum.low > -Nest::kUnbounded || sum.high < Nest::kUnbounded ||
           std::ranges::any_of(nest_.TermsOf(sum), [&](const Nest::Term& term) {
             return term.of == Nest::Of::kOpaque || (term.of == Nest::Of::kSum && IsClamped(nest_.sums[term.index]));
           });
  }

  // Compares the work and tasks of a stage of passes over whole buffers.
  void ComparePasses(const StageModel& stage) {
    std::vector<Name> names = stage.passes;
    names.push_back(stage.block);
    double tasks = 1;
    for (const Name& name : names) {
      const Nest::Block* block = FindBlock(nest_, name);
      if (!block) return Lack(name);
      tasks = std::max(tasks, FactsOf(nest_, *block, target_).tasks);
    }
    const Work work = WorkOf(nest_, names);
    const bool transform = stage.kind == StageModel::kTransform;
    const bool moved =
        !transform && stage.location_knob >= 0 && decisions_[static_cast<size_t>(stage.location_knob)].values[0] >= 0;
    const StageShape shape = ShapeOf(stage, decisions_);
    if (!moved) Expect(stage.block, "tasks", shape.tasks * shape.column_tiles, tasks);
    if (transform)
      return Expect(stage.block, "write_bytes", stage.write_bytes, std::max(work.read_bytes, work.write_bytes));
    Expect(stage.block, "operations", stage.operations, work.operations);
    Expect(stage.block, "read_bytes", stage.read_bytes, work.read_bytes);
    Expect(stage.block, "write_bytes", stage.write_bytes, work.write_bytes);
  }

  void Lack(const Name& block) { mismatches_.push_back(sketch_.name + ": the program has no block " + block.str()); }

  void Expect(const Name& block, const char* number, double model, double program) {
    constexpr double kRounding = 1e-9;
    ++compared_;
    if (std::abs(model - program) <= kRounding * program) return;
    std::ostringstream text;
    text << sketch_.name << ", block " << block.str() << ": " << number << " is " << program
         << " in the program, but the draft score has " << model
         << "; loops:" << LoopsText(nest_, *FindBlock(nest_, block));
    mismatches_.push_back(text.str());
  }

  const Sketch& sketch_;
  const Decisions& decisions_;
  const Nest& nest_;
  const Target& target_;
  int compared_ = 0;
  std::vector<std::string> mismatches_;
};

PrimFunc Winograd(int64_t size, int64_t channels, int64_t groups) {
  te::Tensor data = te::Placeholder("data", {1, size, size, channels});
  te::Tensor weight = te::Placeholder("weight", {3, 3, channels, channels});
  te::Tensor out = topi::Conv2dWinograd("conv", data, weight, {.pad = {1, 1, 1, 1}}, {4, groups, groups});
  return te::CreatePrimFunc("winograd",
                            {{data, ParamRole::kInput}, {weight, ParamRole::kConstant}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

PrimFunc MaxPool(int64_t images, int64_t size, int64_t channels) {
  te::Tensor data = te::Placeholder("data", {images, size, size, channels});
  te::Tensor out = topi::MaxPool("pool", data, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
  return te::CreatePrimFunc("pool", {{data, ParamRole::kInput}, {out, ParamRole::kOutput}});
}

std::vector<std::pair<const char*, PrimFunc>> Kinds() {
  return {
      {"dense", Dense(96, 80, 64)},
      {"dense few rows", Dense(2, 1024, 512)},
      {"dense odd", Dense(37, 45, 51)},
      {"dense one column", Dense(64, 1, 256)},
      {"matmul", test::Product(96, 160, 64)},
      {"batch matmul", test::Products(4, 48, 64, 32)},
      {"conv 1x1", ConvBiasRelu(14, 14, 32, 48, 1)},
      {"conv 3x3", ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}})},
      {"winograd", Winograd(14, 32, 0)},
      {"winograd groups", Winograd(56, 32, 0)},
      {"conv 3x3 stride 2", ConvBiasRelu(15, 15, 16, 32, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}})},
      {"conv depthwise", ConvBiasRelu(28, 28, 64, 64, 3, {.pad = {1, 1, 1, 1}, .groups = 64})},
      {"conv grouped", ConvBiasRelu(14, 14, 32, 64, 3, {.pad = {1, 1, 1, 1}, .groups = 4})},
      {"conv across groups", ConvBiasRelu(14, 14, 32, 32, 3, {.pad = {1, 1, 1, 1}, .groups = 8}, "across_groups")},
      {"conv of a batch", ConvBiasRelu(6, 7, 16, 32, 3, {.pad = {1, 1, 1, 1}}, "direct", 6)},
      {"conv that skips padding", ConvBiasRelu(3, 14, 16, 32, 5, {.pad = {2, 2, 2, 2}}, "skip_padding", 4)},
      {"max pool", MaxPool(1, 28, 64)},
      {"max pool of many images", MaxPool(20, 28, 16)},
      {"attention", test::MakeAttention({.batch = {4}, .queries = 48, .keys = 48, .width = 32, .depth = 32})},
      {"softmax", test::Softmax({64, 160})},
      {"layer norm", test::CenteredSquares(64, 160)},
      {"row sums", test::RowSums(64, 160)},
      {"row sums long", test::RowSums(64, 4096)},
      {"column sums", test::ColumnSums({64, 160}, {0})},
      {"transpose", test::Transposed({512, 384}, {1, 0})},
      {"scatter", test::AddedRows(64, 64, 16, false)},
      {"best of rows", test::BestOfRows(64, 100, 5)},
      {"unary", test::Transposed({100, 700}, {0, 1})},
      {"vector copy", test::Transposed({70000}, {0})},
      {"gathered", test::GatheredSums(64, 32, 100, 4)},
  };
}

// The caches of the last target are so small that windows come from memory.
std::vector<Target> Targets() {
  return {TestTarget(), Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=4").value(),
          Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -caches=32K,64K,64K -num-cores=2").value()};
}

// Calls compare(sketch, decisions, nest, target) for random candidates of all kinds of tasks.
void ForEachCandidate(int draws, const auto& compare) {
  for (const Target& target : Targets()) {
    for (const auto& [kind, func] : Kinds()) {
      SCOPED_TRACE(std::string(kind) + " for " + target.cpu);
      auto sketches = GenerateSketches(func, target);
      ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
      for (const Sketch& sketch : *sketches) {
        SuccessiveReplays replays(func, sketch);
        Rng rng(7 + test::DrawSeed());
        for (int i = 0; i < (sketch.knobs.empty() ? 1 : draws); ++i) {
          const Decisions decisions = DrawDecisions(sketch, rng);
          Result<Schedule> schedule = replays.Replay(decisions, Decide(sketch, decisions));
          if (schedule.ok()) compare(sketch, decisions, NestOf(schedule->func()), target);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(StageShape, IsThatOfTheReplayedProgram) {
  const int draws = test::DrawsAll() ? 75 : 20;
  int candidates = 0, numbers = 0, in_order = 0;
  ForEachCandidate(draws,
                   [&](const Sketch& sketch, const Decisions& decisions, const Nest& nest, const Target& target) {
                     const ShapeComparison comparison(sketch, decisions, nest, target);
                     for (const std::string& mismatch : comparison.mismatches()) ADD_FAILURE() << mismatch;
                     ++candidates;
                     numbers += comparison.compared();
                     in_order += std::ranges::any_of(sketch.stages, &StageModel::rows_in_order);
                   });
  EXPECT_GE(candidates, 130 * draws);
  EXPECT_GE(numbers, 6 * candidates);
  EXPECT_GT(in_order, 0);
}

// Each wrong number of a rule is reported with its name and the loops.
TEST(StageShape, NamesWhatARuleStatesWrong) {
  const PrimFunc func = ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}});
  auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  const auto padded = std::ranges::find_if(
      *sketches, [](const Sketch& sketch) { return sketch.stages.size() > 1 && sketch.stages[0].rows_knob < 0; });
  ASSERT_NE(padded, sketches->end());
  const Sketch& right = *padded;
  Rng rng(7);
  Decisions decisions = DrawDecisions(right, rng);
  decisions[static_cast<size_t>(right.stages[0].m_knob)] = {{14, 2, 7}};
  const Nest nest = NestOf(Replay(func, Decide(right, decisions)).value().func());
  auto mismatches = [&](const auto& spoil) {
    Sketch wrong = right;
    spoil(wrong.stages);
    const Target target = TestTarget();
    const ShapeComparison comparison(wrong, decisions, nest, target);
    std::string text;
    for (const std::string& mismatch : comparison.mismatches()) text += mismatch + "\n";
    return text;
  };
  using Stages = std::vector<StageModel>;
  ASSERT_EQ(mismatches([](Stages&) {}), "");
  using ::testing::HasSubstr;
  const std::string tasks = mismatches([](Stages& s) { s[0].outer = 2; });
  EXPECT_THAT(tasks, HasSubstr(right.name + ", block conv: tasks is"));
  EXPECT_THAT(tasks, HasSubstr("(parallel)"));
  EXPECT_THAT(mismatches([](Stages& s) { s[0].k *= 2; }), HasSubstr("sum is 144"));
  EXPECT_THAT(mismatches([](Stages& s) { std::swap(s[0].m_knob, s[0].n_knob); }), HasSubstr("panel_bytes is"));
  EXPECT_THAT(mismatches([](Stages& s) { s[0].k_knob = -1; }), HasSubstr("unrolled is"));
  EXPECT_THAT(mismatches([](Stages& s) { s[0].m_image.column_reach = 0; }), HasSubstr("rows_bytes is"));
  EXPECT_THAT(mismatches([](Stages& s) { s[0].block = Name("nothing"); }), HasSubstr("no block nothing"));
  EXPECT_THAT(mismatches([](Stages& s) { s[1].read_bytes *= 2; }), HasSubstr("read_bytes is"));
  EXPECT_THAT(mismatches([](Stages& s) { s[1].operations = 1; }), HasSubstr("operations is"));
}

}  // namespace
}  // namespace autotune
