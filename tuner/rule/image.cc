#include "tuner/rule/image.h"

#include <algorithm>

#include "arith/analyzer.h"
#include "ir/visit.h"

namespace autotune {

ImageModel ImageOf(const BlockView& view, const Name& index) {
  auto is = [&](const Expr& e, BinaryOp op) {
    const Binary* b = e.As<Binary>();
    return b && b->op == op && IsVar(b->a, index) ? AsInt(b->b) : nullptr;
  };
  auto divisor_in = [&](const Expr& e, BinaryOp op) {
    int64_t divisor = 0;
    Walk(e, [&](const Expr& part) {
      if (const int64_t* width = is(part, op)) divisor = *width;
      return true;
    });
    return divisor;
  };
  const Block& block = *view.node.As<Block>();
  // Returns the value of the subscript for one pixel at the first position of a window, or at the last one.
  auto at = [&](const Expr& subscript, int64_t pixel, bool last) {
    VarMap values;
    for (const Iter& iter : block.iters) {
      const int64_t* extent = AsInt(iter.extent);
      values[iter.var] = Expr(iter.kind == IterKind::kReduce && last && extent ? *extent - 1 : 0);
    }
    values[index] = Expr(pixel);
    Expr value = Analyzer().Simplify(Substitute(subscript, values));
    return AsInt(value) ? *AsInt(value) : 0;
  };
  auto taps = [&](const Expr& subscript) {
    int64_t count = 1;
    for (const Iter& iter : block.iters) {
      const int64_t* extent = AsInt(iter.extent);
      if (iter.kind == IterKind::kReduce && extent && UsesVar(subscript, iter.var)) count *= *extent;
    }
    return count;
  };
  ImageModel image;
  ForEachOperand(view, [&](const Load& load) {
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const Expr& subscript = load.indices[d];
      const int64_t* whole = is(subscript, BinaryOp::kFloorMod);
      const int64_t* above = d > 0 ? is(load.indices[d - 1], BinaryOp::kFloorDiv) : nullptr;
      if (whole && above && *whole == *above && IsConst(load.buffer->shape[d], *whole)) continue;
      if (const int64_t width = divisor_in(subscript, BinaryOp::kFloorMod)) {
        image.row = width;
        image.column_step = at(subscript, 1, false) - at(subscript, 0, false);
        image.column_reach = at(subscript, 0, true) - at(subscript, 0, false);
        image.column_taps = taps(subscript);
      }
      if (const int64_t width = divisor_in(subscript, BinaryOp::kFloorDiv)) {
        image.row_step = at(subscript, width, false) - at(subscript, 0, false);
        image.row_reach = at(subscript, 0, true) - at(subscript, 0, false);
        image.row_taps = taps(subscript);
      }
    }
    // The loop runs along one row. The other subscripts reach as many elements as the sum takes, or as there are.
    const auto along = std::ranges::find_if(load.indices, [&](const Expr& i) { return UsesVar(i, index); });
    if (image.row > 0 || along == load.indices.end() || taps(*along) == 1) return;
    image.column_step = at(*along, 1, false) - at(*along, 0, false);
    image.column_reach = at(*along, 0, true) - at(*along, 0, false);
    image.column_taps = taps(*along);
    image.column = 1;
    const auto extent_of = [&](size_t d) { return AsInt(load.buffer->shape[d]) ? *AsInt(load.buffer->shape[d]) : 1; };
    image.length = extent_of(static_cast<size_t>(along - load.indices.begin()));
    image.images = extent_of(0);
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const int64_t* extent = AsInt(load.buffer->shape[d]);
      if (load.indices.begin() + static_cast<std::ptrdiff_t>(d) != along && extent)
        image.column *= std::min(taps(load.indices[d]), *extent);
    }
  });
  return image;
}

}  // namespace autotune
