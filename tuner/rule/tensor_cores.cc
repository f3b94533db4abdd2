#include <algorithm>
#include <optional>

#include "ir/mma.h"
#include "target/machine.h"
#include "tuner/rule/rule.h"
#include "tuner/rule/sum_parts.h"

namespace autotune {
namespace {

// Number of rows and of columns of a matrix that one lane holds.
constexpr int64_t kHalves = kMmaRows / kMmaGroups, kPairs = kMmaColumns / kMmaQuad;
constexpr int64_t kVectorBytes = 16;  // bytes that a thread copies at once
// Words of 4 bytes. The distance of rows in shared memory is an odd multiple of half of this number, or of this number
// itself (PutNeighboursLast).
constexpr int64_t kBankWords = 8;

// One operand in shared memory.
struct SharedOperand {
  Name buffer;        // also the name of the block that copies it
  int64_t lanes = 1;  // elements that a thread copies at once
};

// Tiles one block for the warps of a block of threads.
class WarpTiler {
 public:
  WarpTiler(SketchBuilder& s, const BlockView& block, const MmaType& type)
      : s_(s), block_(block), type_(type), r_(RolesOf(block)) {}

  Status Run() {
    if (r_.m.var.empty()) return Err("there are no rows");
    if (r_.k.size() != 1) return Err("the sum has ", r_.k.size(), " loops, not one");
    if (r_.k[0].extent % type_.k() != 0)
      return Err("the sum has ", r_.k[0].extent, " steps, which pieces of ", type_.k(), " do not divide");
    const WriteBack out = TRY(s_.MakeWriteBack(block_));
    TRY(CopyOperands());
    TRY(CutLoops());
    TRY(s_.Order({r_.outer, m_.block, n_.block, piece_, n_.warp, m_.warp, n_.lane, step_, m_.matrix, n_.matrix, m_.own,
                  n_.own, inside_}));
    TRY(s_.Do(PadBlock{.block = block_.name}));
    TRY(PlaceCopies());
    TRY(PlaceResult(out));
    TRY(Zero());
    TRY(s_.Unroll({step_, m_.matrix, n_.matrix}));
    threads_.push_back({n_.warp, m_.warp, n_.lane});
    for (const SharedOperand& operand : operands_)
      TRY(s_.Do(SetScope{.buffer = operand.buffer, .scope = Scope::kShared}));
    const Choice stages = TRY(s_.Choose(block_.name.str() + "_stages", {2, 3, 4}));
    TRY(s_.Do(Pipeline{.loop = piece_, .stages = stages}));
    TRY(BindAll());
    // This step is last, since a thread accesses the same elements in all stages only after all loops are bound.
    TRY(s_.Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
    TRY(s_.Do(TensorCore{.loop = m_.own}));
    s_.Place(block_.name);
    StageModel model{.kind = StageModel::kGpuTensor,
                     .block = block_.name,
                     .m_knob = m_.matrices.knob,
                     .n_knob = n_.matrices.knob,
                     .k_knob = steps_.knob,
                     .outer = Iterations(r_.outer),
                     .m = r_.m.extent,
                     .n = r_.n.extent,
                     .k = Iterations(r_.k),
                     .element_bytes = type_.operand.Bytes(),
                     .flops = block_.flops,
                     .rows_knob = m_.warps.knob,
                     .stages_knob = stages.knob,
                     .row_knob = n_.warps.knob,
                     .depth = type_.k()};
    model.passes = {out.block};
    for (const auto& operand : operands_) model.passes.push_back(operand.buffer);
    s_.AddStage(s_.WithWork(std::move(model)));
    s_.Call(block_.name.str() + ":tensor_cores");
    return {};
  }

 private:
  // The levels of a loop of the result: blocks, warps, matrices of a warp, lanes, elements of a lane. For rows, warps
  // and lanes are one loop, so two rows of a thread are as many rows apart as all warps together have lanes along m.
  struct Cut {
    Name block, warp, matrix, lane, own;
    Choice warps, matrices;
  };

  Status CutLoops() {
    auto fitting = [](std::vector<int64_t> counts, int64_t extent, int64_t unit) {
      std::erase_if(counts, [&](int64_t n) { return n > 1 && n / 2 * unit >= extent; });
      return counts;
    };
    const std::string name = block_.name.str();
    std::vector<int64_t> rows = {kMmaGroups, 2 * kMmaGroups, 4 * kMmaGroups};  // lanes of 1, 2 or 4 warps
    std::erase_if(rows, [&](int64_t n) { return n > kMmaGroups && n / 2 * kHalves >= r_.m.extent; });
    m_.warps = TRY(s_.Choose(name + "_m_lanes", rows));
    m_.matrices = TRY(s_.Choose(name + "_m_matrices", fitting({1, 2, 4}, r_.m.extent, kMmaRows)));
    n_.warps = TRY(s_.Choose(name + "_n_warps", fitting({1, 2, 4}, r_.n.extent, kMmaColumns)));
    n_.matrices = TRY(s_.Choose(name + "_n_matrices", fitting({1, 2, 4, 8}, r_.n.extent, kMmaColumns)));
    std::vector<int64_t> steps = Divisors(r_.k[0].extent / type_.k(), 4);
    // Copies to shorter rows than all banks together conflict in the same banks.
    std::erase_if(steps,
                  [&](int64_t n) { return n * type_.k() * type_.operand.Bytes() < kBanksBytes && n != steps.back(); });
    steps_ = TRY(s_.Choose(name + "_steps", steps));
    auto [mb, mm, mo, mw] = TRY(s_.Split(r_.m.var, {kAuto, m_.matrices, kHalves, m_.warps}));
    m_.block = mb, m_.matrix = mm, m_.own = mo, m_.warp = mw;
    auto [nb, nw, nm, nl, no] = TRY(s_.Split(r_.n.var, {kAuto, n_.warps, n_.matrices, int64_t{kMmaQuad}, kPairs}));
    n_.block = nb, n_.warp = nw, n_.matrix = nm, n_.lane = nl, n_.own = no;
    auto [piece, step, inside] = TRY(s_.Split(r_.k[0].var, {kAuto, steps_, int64_t{type_.k()}}));
    piece_ = piece, step_ = step, inside_ = inside;
    return {};
  }

  // Copies both operands into buffers whose dimensions are iterators of the product. The dimension that is contiguous
  // in memory becomes the last one.
  Status CopyOperands() {
    for (const Name& buffer : block_.reads) {
      const Name copy = TRY(s_.Do(Reindex{.block = block_.name, .buffer = buffer})).front();
      operands_.push_back({.buffer = copy});
    }
    for (const BlockView& producer : s_.Blocks()) {
      const bool read = std::any_of(block_.reads.begin(), block_.reads.end(),
                                    [&](const Name& buffer) { return buffer == producer.writes; });
      if (read && !producer.reduction && !s_.IsPlaced(producer.name)) s_.Try(ComputeInline{.block = producer.name});
    }
    for (SharedOperand& operand : operands_) TRY(PutNeighboursLast(operand));
    return {};
  }

  Status PutNeighboursLast(SharedOperand& operand) {
    const std::vector<BlockView> blocks = s_.Blocks();
    const BlockView* view = FindBlock(blocks, operand.buffer);
    if (!view || view->spatial.size() < 2) return Err("the copy of an operand no longer exists");
    std::vector<BlockView::Loop> dims = view->spatial;  // one loop for each dimension of the copy
    auto follows_memory = [&](const BlockView::Loop& loop) {
      bool follows = true;
      ForEachOperand(*view, [&](const Load& load) {
        follows = follows && FlatIndex(*view, load.buffer, load.indices).Coefficient(loop.iter) == 1;
      });
      return follows;
    };
    const size_t rank = dims.size();
    size_t last = rank - 1;
    if (!follows_memory(dims[last]) && follows_memory(dims[rank - 2])) last = rank - 2;
    operand.lanes = LanesOfCopies(*view, dims[last]);
    if (last == rank - 2) {
      IndexMap map;
      for (size_t d = 0; d < rank - 2; ++d) map.dims.push_back({.dim = static_cast<int64_t>(d)});
      map.dims.push_back({.dim = static_cast<int64_t>(rank - 1)});
      map.dims.push_back({.dim = static_cast<int64_t>(rank - 2)});
      TRY(s_.Do(TransformLayout{.buffer = operand.buffer, .map = map}));
    }
    // If the steps of the sum are the operand's last dimension, the lanes of a warp read 8 neighbouring rows of 4
    // words. Otherwise they read 4 rows of 8 words; with 16-bit operands, 8 rows of 4 words. Rows at an odd multiple of
    // 4 or of 8 words spread such a read over all banks.
    const int64_t words = last == rank - 1 || type_.pack == 2 ? kBankWords : 2 * kBankWords;
    TRY(s_.Do(StorageAlign{.buffer = operand.buffer,
                           .axis = static_cast<int64_t>(rank) - 2,
                           .factor = words * type_.pack,
                           .offset = words * type_.pack / 2}));
    return {};
  }

  // Returns how many elements a thread can copy at once: a vector if they are contiguous and aligned in memory, else 1.
  int64_t LanesOfCopies(const BlockView& copy, const BlockView::Loop& last) const {
    const int64_t lanes = kVectorBytes / type_.operand.Bytes();
    bool fits = last.extent % lanes == 0;
    ForEachOperand(copy, [&](const Load& load) {
      LinearForm index = FlatIndex(copy, load.buffer, load.indices);
      fits = fits && index.Coefficient(last.iter) == 1;
      index.Add(IndexVar(last.iter), -1);
      fits = fits && CommonFactor(index.ToExpr()) % lanes == 0;
    });
    return fits ? lanes : 1;
  }

  // Places the copies of the operands at the beginning of each piece of the sum. All threads of the block copy.
  Status PlaceCopies() {
    for (const SharedOperand& operand : operands_) {
      const Name all = TRY(s_.FuseLoops(TRY(s_.Do(ComputeAt{.block = operand.buffer, .loop = piece_}))));
      auto [turns, z, y, x, lane] = TRY(s_.Split(all, {kAuto, n_.warps, m_.warps, int64_t{kMmaQuad}, operand.lanes}));
      TRY(s_.Order({z, y, x, turns, lane}));
      TRY(s_.Straighten({turns, lane}));
      threads_.push_back({z, y, x});
      s_.Place(operand.buffer);
    }
    return {};
  }

  // Places the write-back of the accumulators after the loops of the sum.
  Status PlaceResult(const WriteBack& out) {
    const std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = out.block, .loop = n_.block}));
    if (loops.size() < 2) return Err("the result has too few loops");
    auto [mm, mo, mw] = TRY(s_.Split(loops[loops.size() - 2], {m_.matrices, kHalves, m_.warps}));
    auto [nw, nm, nl, no] = TRY(s_.Split(loops.back(), {n_.warps, n_.matrices, int64_t{kMmaQuad}, kPairs}));
    TRY(s_.Order({nw, mw, nl, mm, mo, nm, no}));
    const Loops own({Loops(mm), Loops(mo), Loops(nm), Loops(no)});
    TRY(r_.n.extent % kPairs == 0 ? s_.Straighten(own) : s_.Unroll(own));
    threads_.push_back({nw, mw, nl});
    s_.Place(out.block);
    return {};
  }

  Status Zero() {
    const std::vector<Name> made = TRY(s_.Do(DecomposeReduction{.block = block_.name, .loop = piece_}));
    s_.Place(made[0]);
    if (made.size() != 8) return Err("the accumulators have ", made.size() - 1, " loops, not seven");
    threads_.push_back({made[1], made[2], made[3]});
    return s_.Straighten(std::vector<Name>(made.begin() + 4, made.end()));
  }

  Status BindAll() {
    const Name outer = TRY(s_.FuseLoops(r_.outer));
    if (!outer.empty()) TRY(s_.Do(Bind{.loop = outer, .axis = LoopKind::kBlockZ}));
    TRY(s_.Do(Bind{.loop = m_.block, .axis = LoopKind::kBlockY}));
    TRY(s_.Do(Bind{.loop = n_.block, .axis = LoopKind::kBlockX}));
    for (const auto& [z, y, x] : threads_) {
      TRY(s_.Do(Bind{.loop = z, .axis = LoopKind::kThreadZ}));
      TRY(s_.Do(Bind{.loop = y, .axis = LoopKind::kThreadY}));
      TRY(s_.Do(Bind{.loop = x, .axis = LoopKind::kThreadX}));
    }
    return {};
  }

  SketchBuilder& s_;
  const BlockView& block_;
  const MmaType& type_;
  const Roles r_;
  Cut m_, n_;
  Choice steps_;
  Name piece_, step_, inside_;  // loops of the sum: over pieces, over the steps of a piece, inside one instruction
  std::vector<SharedOperand> operands_;
  std::vector<std::array<Name, 3>> threads_;  // loops over threads along z, y and x, of each stage
};

}  // namespace

// Places a product on tensor cores (ir/mma.h). Each block of threads computes a tile of the result. Each warp computes
// a part of the tile in matrices of 16 x 8 elements, which stay in registers. The operands of a piece of the sum are
// copied asynchronously to shared memory. The distance of their rows there spreads the reads of a warp over all banks.
//
//   blocks over (outer loops, m_0, n_0)
//     registers = 0
//     pieces of the sum, pipelined: operands of later pieces are loaded at the same time
//       shared = both operands, in vectors
//       warps: steps of the piece, matrices: registers += a * b, by one instruction
//     write the registers back through the element-wise epilogue
//
// In the ways after the first, the sum is cut into parts (split-K, tuner/rule/sum_parts.h).
Status TensorCoresRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!block.reduction) return Err("the block is not a reduction");
  if (block.reads.size() != 2) return Err("the block is not a product of two operands");
  if (!s.target().has_mma) return Err("the target has no tensor cores");
  const Store* update = block.node.As<Block>()->body.As<Store>();
  const MmaType* type = update ? MmaTypeOf(*update) : nullptr;
  if (!type) return Err("tensor cores do not multiply operands of this type");
  if (type->operand == DType::Float(32) && !s.target().tf32) return Err("the target does not allow TF32");
  return InParts(s, block, way, type->k(),
                 [&](const BlockView& product) { return WarpTiler(s, product, *type).Run(); });
}

}  // namespace autotune
