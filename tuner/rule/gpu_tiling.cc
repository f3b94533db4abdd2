#include <algorithm>
#include <optional>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kMostSteps = 32;  // of the sum, whose operands are in shared memory at a time

// How one loop of the product is cut: blocks, threads of a block, elements of a thread.
struct Cut {
  Name block, thread, element;
  Choice threads, elements;
};

// Tiles one block in shared memory and registers.
class Tiler {
 public:
  Tiler(SketchBuilder& s, const BlockView& block) : s_(s), block_(block), r_(RolesOf(block)) {}

  Status Run() {
    if (r_.k.empty()) return Err("nothing is summed");
    if (r_.m.var.empty()) return Err("there are no rows");
    const WriteBack out = TRY(s_.MakeWriteBack(block_));
    TRY(CopyOperands());
    TRY(CutSum());
    m_ = TRY(CutLoop(r_.m, {4, 8, 16}));
    n_ = TRY(CutLoop(r_.n, {8, 16, 32}));
    TRY(s_.Order({r_.outer, m_.block, n_.block, pieces_, m_.thread, n_.thread, steps_, m_.element, n_.element}));
    TRY(s_.Do(PadBlock{.block = block_.name}));
    TRY(PlaceOperands(pieces_.list.back()));
    TRY(PlaceResult(out));
    TRY(Zero(pieces_.list.front()));
    TRY(s_.Unroll({m_.element, n_.element}));
    threads_.emplace_back(m_.thread, n_.thread);
    for (const Name& copy : copies_) TRY(s_.Do(SetScope{.buffer = copy, .scope = Scope::kShared}));
    TRY(BindLoops());
    // Last, since only now each thread touches the same elements in all stages.
    TRY(s_.Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
    s_.Place(block_.name);
    s_.AddStage({.kind = StageModel::kGpuTiled,
                 .m_knob = m_.elements.knob,
                 .n_knob = n_.elements.knob,
                 .k_knob = step_.knob,
                 .outer = Iterations(r_.outer),
                 .m = r_.m.extent,
                 .n = r_.n.extent,
                 .k = Iterations(r_.k),
                 .element_bytes = block_.element_bytes,
                 .flops = block_.flops,
                 .rows_knob = m_.threads.knob,
                 .row_knob = n_.threads.knob,
                 .depth = steps_inside_});
    s_.Call(block_.name.str() + ":gpu_tiles");
    return {};
  }

 private:
  // A piece of the sum: the innermost loops as far as they are short, and a part of the next one.
  Status CutSum() {
    size_t whole = r_.k.size();
    int64_t inside = 1;
    while (whole > 1 && inside * r_.k[whole - 1].extent <= kMostSteps) inside *= r_.k[--whole].extent;
    const BlockView::Loop& cut = r_.k[whole - 1];
    step_ =
        TRY(s_.Choose(block_.name.str() + "_step", Divisors(cut.extent, std::max<int64_t>(1, kMostSteps / inside))));
    auto [piece, step] = TRY(s_.Split(cut.var, {kAuto, step_}));
    for (size_t i = 0; i + 1 < whole; ++i) pieces_.list.push_back(r_.k[i].var);
    pieces_.list.push_back(piece);
    steps_.list.push_back(step);
    for (size_t i = whole; i < r_.k.size(); ++i) steps_.list.push_back(r_.k[i].var);
    steps_inside_ = inside;
    return {};
  }

  // The loop in tiles. A dimension that fewer threads cover has no choice of more.
  Result<Cut> CutLoop(const BlockView::Loop& loop, std::vector<int64_t> threads) {
    std::vector<int64_t> elements = {1, 2, 4, 8};
    auto too_many = [&](int64_t n) { return n > 1 && n / 2 >= loop.extent; };
    std::erase_if(threads, [&](int64_t n) { return too_many(n) && n != threads.front(); });
    std::erase_if(elements, too_many);
    Cut cut;
    cut.threads = TRY(s_.Choose(loop.var.str() + "_threads", std::move(threads)));
    cut.elements = TRY(s_.Choose(loop.var.str() + "_elements", std::move(elements)));
    auto [block, thread, element] = TRY(s_.Split(loop.var, {kAuto, cut.threads, cut.elements}));
    cut.block = block, cut.thread = thread, cut.element = element;
    return cut;
  }

  // Both operands by the iterators of the product, whatever addresses they come from: windows of an image become
  // columns of a matrix (im2col). What only they read, padding, is computed in the copy.
  Status CopyOperands() {
    for (const Name& buffer : block_.reads) {
      const std::vector<Name> made = TRY(s_.Do(Reindex{.block = block_.name, .buffer = buffer}));
      copies_.push_back(made.front());
      TRY(PutColumnsLast(made.front()));
    }
    for (const BlockView& producer : s_.Blocks()) {
      const bool read = std::any_of(block_.reads.begin(), block_.reads.end(),
                                    [&](const Name& buffer) { return buffer == producer.writes; });
      if (read && !producer.reduction && !s_.IsPlaced(producer.name)) s_.Try(ComputeInline{.block = producer.name});
    }
    return {};
  }

  // Neighbouring threads have neighbouring columns, so they lie side by side: in shared memory no two of them are in
  // one bank, and what they copy is side by side in memory, as it is in weights.
  Status PutColumnsLast(const Name& copy) {
    std::optional<size_t> at, rank;
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, block_.name);
    if (!view) return Err("the block is gone");
    ForEachOperand(*view, [&](const Load& load) {
      if (!(load.buffer->name == copy)) return;
      rank = load.indices.size();
      for (size_t d = 0; d < load.indices.size(); ++d) {
        if (IsVar(load.indices[d], r_.n.iter)) at = d;
      }
    });
    if (!at || *at + 1 == *rank) return {};
    IndexMap map;
    for (size_t d = 0; d < *rank; ++d) {
      if (d != *at) map.dims.push_back({.dim = static_cast<int64_t>(d)});
    }
    map.dims.push_back({.dim = static_cast<int64_t>(*at)});
    TRY(s_.Do(TransformLayout{.buffer = copy, .map = map}));
    return {};
  }

  // Each piece of the sum begins with copies of its operands, by all threads of the block.
  Status PlaceOperands(const Name& piece) {
    for (const Name& copy : copies_) {
      const std::vector<Name> loops = TRY(s_.Do(ComputeAt{.block = copy, .loop = piece}));
      const Name all = TRY(s_.FuseLoops(loops));
      auto [turns, y, x] = TRY(s_.Split(all, {kAuto, m_.threads, n_.threads}));
      TRY(s_.Order({y, x, turns}));
      threads_.emplace_back(y, x);
      s_.Place(copy);
    }
    return {};
  }

  // The tile of accumulators is written back where it is complete.
  Status PlaceResult(const WriteBack& out) {
    const std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = out.block, .loop = n_.block}));
    if (loops.size() < 2) return Err("the result has too few loops");
    auto [y, row] = TRY(s_.Split(loops[loops.size() - 2], {m_.threads, m_.elements}));
    auto [x, column] = TRY(s_.Split(loops.back(), {n_.threads, n_.elements}));
    TRY(s_.Order({y, x, row, column}));
    TRY(s_.Unroll({row, column}));
    threads_.emplace_back(y, x);
    s_.Place(out.block);
    return {};
  }

  Status Zero(const Name& piece) {
    std::vector<Name> made = TRY(s_.Do(DecomposeReduction{.block = block_.name, .loop = piece}));
    s_.Place(made[0]);
    if (made.size() != 5) return Err("the accumulators have ", made.size() - 1, " loops, not four");
    threads_.emplace_back(made[1], made[2]);
    return s_.Unroll({made[3], made[4]});
  }

  Status BindLoops() {
    const Name outer = TRY(s_.FuseLoops(r_.outer));
    if (!outer.empty()) TRY(s_.Do(Bind{.loop = outer, .axis = LoopKind::kBlockZ}));
    TRY(s_.Do(Bind{.loop = m_.block, .axis = LoopKind::kBlockY}));
    TRY(s_.Do(Bind{.loop = n_.block, .axis = LoopKind::kBlockX}));
    for (const auto& [y, x] : threads_) {
      TRY(s_.Do(Bind{.loop = y, .axis = LoopKind::kThreadY}));
      TRY(s_.Do(Bind{.loop = x, .axis = LoopKind::kThreadX}));
    }
    return {};
  }

  SketchBuilder& s_;
  const BlockView& block_;
  const Roles r_;
  Cut m_, n_;
  Choice step_;
  Loops pieces_, steps_;      // of the sum
  int64_t steps_inside_ = 1;  // steps of a piece for each of step_
  std::vector<Name> copies_;
  std::vector<std::pair<Name, Name>> threads_;  // loops over threads along y and x, of each stage
};

}  // namespace

// A product in tiles: each block of threads computes a tile of the result, each thread a part of it in registers; the
// operands of a piece of the sum are copied to shared memory, which all threads read. After Volkov and Demmel,
// "Benchmarking GPUs to tune dense linear algebra" (2008).
//
//   blocks over (outer loops, m_0, n_0)
//     registers = 0
//     pieces of the sum
//       shared = both operands
//       threads over (m_1, n_1): steps of the piece: m_2, n_2 unrolled: registers += a * b
//     write the registers back through the element-wise epilogue
Status GpuTilingRule(SketchBuilder& s, const BlockView& block, int) {
  if (!block.reduction) return Err("it is no reduction");
  if (block.reads.size() != 2) return Err("it is no product of two operands");
  return Tiler(s, block).Run();
}

}  // namespace autotune
