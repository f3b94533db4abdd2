// BlockView: what sketch rules ask of a block and of the loops around it. Plain values; thread-safe.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "arith/analyzer.h"
#include "ir/stmt.h"
#include "support/result.h"
#include "topi/winograd.h"

namespace autotune {

struct BlockView {
  struct Loop {
    Name var;
    int64_t extent = 1;
    Name iter;  // the block's iterator that this loop alone feeds; empty: there is none
  };
  Name name;
  Name writes;  // buffer
  bool writes_output = false;
  std::set<Name> reads;               // buffers, without the one it writes
  std::vector<Loop> spatial, reduce;  // loops that feed spatial and reduction iterators, outermost first
  bool reduction = false, guarded = false, transcendental = false;
  double flops = 0;           // of one instance
  int64_t element_bytes = 4;  // of the buffer that it writes
  int64_t lane_bytes = 4;     // of the widest elements that it writes or computes with
  double reduce_length = 1;
  std::optional<topi::WinogradStage> winograd;  // of a Winograd convolution
  Stmt node;
};

std::vector<BlockView> ViewBlocks(const PrimFunc& func);
std::vector<const BlockView*> ConsumersOf(const std::vector<BlockView>& blocks, const BlockView& block);
const BlockView* FindBlock(const std::vector<BlockView>& blocks, const Name& name);

// The loops of a reduction, by their roles in a matrix product C[outer, m, n] += A[m, k] * B[k, n]. A role without a
// loop has no name and one iteration.
struct Roles {
  BlockView::Loop n;                   // the last spatial loop, along which the result is contiguous: vectors
  BlockView::Loop m;                   // the longest other one, of those that share columns: rows of a register tile
  std::vector<BlockView::Loop> outer;  // the other spatial loops
  std::vector<BlockView::Loop> k;      // reduction loops; the last one is unrolled
};
Roles RolesOf(const BlockView& block);

// The loops by name, of which there must be N: auto [n, h, w, c] = TRY(Exactly<4>(block.spatial)).
template <size_t N>
Result<std::array<BlockView::Loop, N>> Exactly(const std::vector<BlockView::Loop>& loops) {
  if (loops.size() != N) return Err("there are ", loops.size(), " loops, not ", N);
  std::array<BlockView::Loop, N> named;
  std::copy(loops.begin(), loops.end(), named.begin());
  return named;
}

// The product of the extents; of the extents of all loops around the block.
int64_t Iterations(const std::vector<BlockView::Loop>& loops);
int64_t Instances(const BlockView& block);

// Returns true if an expression is this variable and nothing else.
bool IsVar(const Expr& e, const Name& var);
// The row-major index of the element that a load or store of the block accesses, as a sum over the block's iterators.
// A part of the index that is not linear in them stays a term of its own.
LinearForm FlatIndex(const BlockView& block, const Buffer& buffer, const std::vector<Expr>& indices);
// Returns true only if this load reads each of its elements once: no two instances read the same element, unless they
// differ in `repeated` only. May return false although that is so.
bool ReadsOnce(const BlockView& block, const LinearForm& index, const std::set<Name>& repeated = {});
// Visits the loads of the block, without those of the buffer that it writes.
void ForEachOperand(const BlockView& block, const std::function<void(const Load&)>& visit);
// Returns true if values of the block or their subscripts depend on a condition, which may be what keeps a load in
// bounds.
bool HasSelect(const BlockView& block);

}  // namespace autotune
