#include <algorithm>
#include <set>

#include "tuner/rule/passes.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

bool AddsProducts(const BlockView& block) { return block.reduction && DotGroupOf(block) > 0; }

// Returns true if the block follows from a product.
bool FollowsFromProduct(const std::vector<BlockView>& blocks, const BlockView& block) {
  std::set<Name> needed = block.reads;                       // buffers
  for (auto b = blocks.rbegin(); b != blocks.rend(); ++b) {  // readers come behind what they read
    if (b->name == block.name || !needed.contains(b->writes)) continue;
    if (AddsProducts(*b)) return true;
    needed.insert(b->reads.begin(), b->reads.end());
  }
  return false;
}

// Inlines the blocks that make the operand of a sum, such as a transpose and a conversion.
void InlineOperands(SketchBuilder& s, const Name& sum) {
  bool found = true;
  while (found) {
    found = false;
    const std::vector<BlockView> blocks = s.Blocks();
    for (const BlockView& block : blocks) {
      found = FindBlock(blocks, sum)->reads.contains(block.writes) && InlineRule(s, block, 0).ok();
      if (found) break;
    }
  }
}

// Returns the block that alone reads a sum, if it has one element for each of the sum; else null.
const BlockView* ReaderOf(const std::vector<BlockView>& blocks, const BlockView& sum) {
  const std::vector<const BlockView*> readers = ConsumersOf(blocks, sum);
  if (readers.size() != 1 || AddsProducts(*readers[0])) return nullptr;
  const auto same = [](const BlockView::Loop& a, const BlockView::Loop& b) { return a.extent == b.extent; };
  const bool joins = readers[0]->reduction || std::ranges::equal(sum.spatial, readers[0]->spatial, same);
  return joins ? readers[0] : nullptr;
}

}  // namespace

// Places a sum that corrects the results of a product by a zero point, with the arithmetic behind it, in a loop over
// rows of its own. Other rules then place the product, with the correction in its epilogue.
Status OperandSumsRule(SketchBuilder& s, const BlockView& block, int) {
  if (!block.reduction || AddsProducts(block)) return Err("the block is not a sum of single elements");
  std::vector<BlockView> blocks = s.Blocks();
  if (!std::ranges::any_of(blocks, AddsProducts)) return Err("no instructions add products in groups here");
  if (FollowsFromProduct(blocks, block)) return Err("the block adds results of a product");
  InlineOperands(s, block.name);
  std::vector<Name> names = {block.name};
  blocks = s.Blocks();
  while (const BlockView* reader = ReaderOf(blocks, *FindBlock(blocks, names.back()))) {
    const Name name = reader->name, last = names.back();
    if (!reader->reduction && InlineRule(s, *FindBlock(blocks, last), 0).ok()) names.pop_back();
    names.push_back(name);
    blocks = s.Blocks();
  }
  std::vector<BlockView> passes;
  for (const Name& name : names) passes.push_back(*FindBlock(blocks, name));
  return PlacePasses(s, passes, CommonLoops(passes));
}

}  // namespace autotune
