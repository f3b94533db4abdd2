// BlockView: the facts about a block and the loops around it that sketch rules use. Plain values; thread-safe.
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
    Name iter;  // the iterator of the block whose binding is just this loop; empty: there is none
  };
  Name name;
  Name writes;  // buffer
  bool writes_output = false;
  std::set<Name> reads;  // buffers that the block reads, except the buffer that it writes
  // Loops around the block that feed spatial iterators, and those that feed reduction iterators; outermost first.
  std::vector<Loop> spatial, reduce;
  bool reduction = false, guarded = false, transcendental = false;
  double flops = 0;           // operations of one instance
  int64_t element_bytes = 4;  // element size of the buffer that the block writes
  int64_t lane_bytes = 4;     // size of the widest elements that the block writes or computes with
  double reduce_length = 1;
  std::optional<topi::WinogradStage> winograd;  // the stage, if the block belongs to a Winograd convolution
  Stmt node;
};

std::vector<BlockView> ViewBlocks(const PrimFunc& func);
std::vector<const BlockView*> ConsumersOf(const std::vector<BlockView>& blocks, const BlockView& block);
const BlockView* FindBlock(const std::vector<BlockView>& blocks, const Name& name);

// The loops of a reduction, by their roles in a matrix product C[outer, m, n] += A[m, k] * B[k, n]. If no loop has a
// role, the role's Loop has an empty name and one iteration.
struct Roles {
  BlockView::Loop n;  // columns: the last spatial loop, along which the result is contiguous
  // Rows of a register tile: the longest other spatial loop among those that an operand with columns does not depend
  // on, since all rows then share its elements; without such a loop, the longest one.
  BlockView::Loop m;
  std::vector<BlockView::Loop> outer;  // the other spatial loops
  std::vector<BlockView::Loop> k;      // reduction loops; the last one is unrolled
};
Roles RolesOf(const BlockView& block);

// Returns N loops as an array, for auto [n, h, w, c] = TRY(Exactly<4>(block.spatial)). Returns an error if there are
// more or fewer loops.
template <size_t N>
Result<std::array<BlockView::Loop, N>> Exactly(const std::vector<BlockView::Loop>& loops) {
  if (loops.size() != N) return Err("there are ", loops.size(), " loops, not ", N);
  std::array<BlockView::Loop, N> named;
  std::copy(loops.begin(), loops.end(), named.begin());
  return named;
}

// Iterations returns the product of the loops' extents. Instances returns the product for all loops around the block.
int64_t Iterations(const std::vector<BlockView::Loop>& loops);
int64_t Instances(const BlockView& block);

// Returns true if an expression is this variable and nothing else.
bool IsVar(const Expr& e, const Name& var);
// Returns the row-major index of the element that a load or store of the block accesses, as a sum over the block's
// iterators. A part of the index that is not linear in the iterators is a separate term.
LinearForm FlatIndex(const BlockView& block, const Buffer& buffer, const std::vector<Expr>& indices);
// Returns true if it can prove that no two instances of the block read the same element through a load with this index.
// Instances that differ only in the iterators `repeated` may read the same element.
bool ReadsOnce(const BlockView& block, const LinearForm& index, const std::set<Name>& repeated = {});
// Visits the loads of the block, except loads of the buffer that the block writes.
void ForEachOperand(const BlockView& block, const std::function<void(const Load&)>& visit);
// Returns the group of neighbouring steps of the block's sum whose products some targets add by one instruction
// (ir/dot.h); 0: there are none for what the block adds.
int64_t DotGroupOf(const BlockView& block);
// Returns how many steps of the block's sum one instruction of the target takes, which are neighbours (ir/dot.h); 1:
// the target has no such instruction for what the block adds.
int64_t StepsOfDot(const BlockView& block, const Target& target);
// Returns whether the block adds products of words (ir/dot.h).
bool AddsWords(const BlockView& block);
// Returns true if the block contains a select. Its condition may keep a load in bounds.
bool HasSelect(const BlockView& block);

}  // namespace autotune
