#include <algorithm>
#include <optional>

#include "support/integer.h"
#include "target/machine.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

constexpr int64_t kTile = 32;  // rows and columns of a tile: a warp reads, and writes, 128 bytes of 4-byte elements
constexpr int64_t kWordBytes = 4;
const std::vector<int64_t> kThreads = {4, 8, 16};  // threads of a block along a tile's rows

// The transposed operand: its contiguous elements belong to different rows of the result.
struct Turned {
  Name buffer;
  Loop along;           // the loop along which the operand is contiguous
  size_t position = 0;  // index of `along` among the block's loops
};

// Returns the transposed operand of the block, or an error that says why there is not exactly one.
Result<Turned> TurnedOperand(const BlockView& block) {
  const Block* node = block.node.As<Block>();
  const Store* store = node->body.As<Store>();
  if (block.reduction || !store || block.guarded || block.spatial.size() < 2 || HasSelect(block) ||
      node->iters.size() != block.spatial.size())
    return Err("the block is not element-wise");
  const Loop& last = block.spatial.back();
  if (last.iter.empty() || !IsVar(store->indices.back(), last.iter)) return Err("the results are not contiguous");
  std::vector<Turned> turned;
  bool linear = true;
  ForEachOperand(block, [&](const Load& load) {
    const LinearForm index = FlatIndex(block, load.buffer, load.indices);
    linear = linear && !index.Rest();
    if (const int64_t step = index.Coefficient(last.iter); step == 0 || step == 1) return;
    for (size_t i = 0; i + 1 < block.spatial.size(); ++i) {
      const Loop& loop = block.spatial[i];
      if (!loop.iter.empty() && index.Coefficient(loop.iter) == 1) turned.push_back({load.buffer->name, loop, i});
    }
  });
  if (!linear || turned.size() != 1) return Err("not exactly one operand is transposed");
  if (turned[0].along.extent < kTile || last.extent < kTile) return Err("the matrices are smaller than a tile");
  return turned[0];
}

}  // namespace

// Places transposes on a GPU. Tiles pass through shared memory, so that a warp both reads and writes contiguous memory.
// Otherwise its reads or its writes would touch a sector for each element. Each row of a tile is shifted by one bank
// against the row before it, so that accesses to neither rows nor columns conflict. After Ruetsch and Micikevicius,
// "Optimizing Matrix Transpose in CUDA" (2009).
//
//   blocks over (outer loops, m_0, n_0)
//     threads (y, x): columns n_1 = y, y + Y, ...; row x: shared = operand
//     threads (y, x): rows m_1 = y, y + Y, ...; column x: result = f(shared)
Status GpuTransposeRule(SketchBuilder& s, const BlockView& block, int) {
  const Turned turned = TRY(TurnedOperand(block));
  const Loop columns = block.spatial.back();
  StageModel model = s.WithWork(ElementsModel(block, s.target()));
  Loops outer;
  for (size_t i = 0; i + 1 < block.spatial.size(); ++i) {
    if (i != turned.position) outer.list.push_back(block.spatial[i].var);
  }
  const Name tile = TRY(s.Do(Reindex{.block = block.name, .buffer = turned.buffer})).front();
  const Choice threads = TRY(s.Choose(block.name.str() + "_threads", kThreads));
  auto [m, rows] = TRY(s.Split(turned.along.var, {kAuto, kTile}));
  auto [n, x] = TRY(s.Split(columns.var, {kAuto, kTile}));
  auto [row, y] = TRY(s.Split(rows, {kAuto, threads}));
  TRY(s.Order({outer, m, n, y, x, row}));
  const Name all = TRY(s.FuseLoops({outer, m, n}));
  TRY(s.Unroll(row));

  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* copy = FindBlock(blocks, tile);
  if (!copy || copy->spatial.size() < 2) return Err("the copy of the operand has fewer than two dimensions");
  std::optional<int64_t> dim;  // dimension of the tile along which the operand is contiguous
  ForEachOperand(*copy, [&](const Load& load) {
    const LinearForm index = FlatIndex(*copy, load.buffer, load.indices);
    for (size_t i = 0; i + 1 < copy->spatial.size(); ++i) {
      if (index.Coefficient(copy->spatial[i].iter) == 1) dim = static_cast<int64_t>(i);
    }
  });
  if (!dim) return Err("the copy of the operand has another order of dimensions");
  const std::vector<Name> loops = TRY(s.Do(ComputeAt{.block = tile, .loop = all}));
  auto [copied_column, copied_y] = TRY(s.Split(loops.back(), {kAuto, threads}));
  const Name copied_x = loops[static_cast<size_t>(*dim)];  // kTile iterations, since no matrix is smaller than a tile
  Loops rest(std::vector<Name>(loops.begin(), loops.end() - 1));
  std::erase(rest.list, copied_x);
  TRY(s.Order({copied_y, copied_x, rest, copied_column}));
  TRY(s.Unroll(copied_column));

  TRY(s.Do(Bind{.loop = all, .axis = LoopKind::kBlockX}));
  TRY(s.Do(SetScope{.buffer = tile, .scope = Scope::kShared}));
  const int64_t bytes = copy->element_bytes;
  TRY(s.Do(StorageAlign{.buffer = tile,
                        .axis = *dim,
                        .factor = kBanksBytes / bytes,
                        .offset = std::max<int64_t>(1, kWordBytes / bytes)}));
  for (const Name& loop : {y, copied_y}) TRY(s.Do(Bind{.loop = loop, .axis = LoopKind::kThreadY}));
  for (const Name& loop : {x, copied_x}) TRY(s.Do(Bind{.loop = loop, .axis = LoopKind::kThreadX}));
  s.Place(tile);
  s.Place(block.name);
  // Each of the threads along y computes one element of a row of the tile.
  model.kind = StageModel::kGpuElements;
  model.rows_knob = threads.knob, model.lanes = kTile, model.columns = kTile * kTile;
  model.row_bytes = bytes;
  s.AddStage(model);
  s.Call(block.name.str() + ":gpu_transpose");
  return {};
}

}  // namespace autotune
