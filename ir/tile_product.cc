#include "ir/tile_product.h"

#include "ir/added_product.h"
#include "ir/linear_form.h"
#include "ir/visit.h"

namespace autotune {
namespace {

// An access: the load at the first iteration of all loops, and the stride of each loop.
struct Access {
  Expr first;
  std::vector<int64_t> strides;
};

std::optional<Access> AccessOf(const Load& load, const std::vector<const For*>& loops) {
  if (load.indices[0].dtype().lanes != 1) return std::nullopt;
  const LinearForm form = ToLinear(load.indices[0]);
  const Expr rest = form.Rest();
  Access access;
  VarMap first;
  for (const For* loop : loops) {
    if (rest && UsesVar(rest, loop->var)) return std::nullopt;
    access.strides.push_back(form.Coefficient(loop->var));
    first[loop->var] = Expr(0);
  }
  access.first = MakeLoad(load.buffer, {Substitute(load.indices[0], first)});
  return access;
}

// Returns the loops around the update, outermost first; none if they are no nest of serial loops of constant extents.
std::vector<const For*> NestOf(const For& outermost) {
  std::vector<const For*> loops;
  for (const For* loop = &outermost; loop; loop = loop->body.As<For>()) {
    if (loop->kind != LoopKind::kSerial || !AsInt(loop->extent)) return {};
    loops.push_back(loop);
  }
  return loops;
}

}  // namespace

int64_t TileRowsOf(int64_t run) {
  constexpr int64_t kFewest = 4;  // [chosen]
  int64_t rows = std::min<int64_t>(run, kTileRows);
  while (rows >= kFewest && run % rows != 0) --rows;
  return rows >= kFewest ? rows : 0;
}

std::optional<TileProduct> MatchTileProduct(const For& loop) {
  const std::vector<const For*> loops = NestOf(loop);
  const Store* store = loops.empty() ? nullptr : loops.back()->body.As<Store>();
  const std::optional<AddedProduct> added = store ? AddedProductOf(*store) : std::nullopt;
  if (!added) return std::nullopt;
  const Load *sum = added->sum.As<Load>(), *x = SmallFactor(added->a), *y = SmallFactor(added->b);
  if (!x || !y || !AreDotOperands(x->buffer->dtype, y->buffer->dtype)) return std::nullopt;
  if (sum->buffer->dtype != SumType(x->buffer->dtype, y->buffer->dtype) || sum->indices.size() != 1)
    return std::nullopt;
  const int64_t group = DotGroup(x->buffer->dtype);
  const auto c = AccessOf(*sum, loops);
  auto a = AccessOf(*x, loops), b = AccessOf(*y, loops);
  if (!c || !a || !b) return std::nullopt;
  // `a` is the operand that the innermost loop over columns does not move in.
  for (size_t i = 0; i < loops.size(); ++i)
    if (c->strides[i] == 1 && a->strides[i] != 0) std::swap(a, b);
  TileProduct product{.c = c->first, .a = a->first, .b = b->first, .group = group};
  bool has_steps = false, has_columns = false, has_rows = false, has_groups = false, fits = true;
  const auto once = [&](bool& has) { fits &= !std::exchange(has, true); };
  for (size_t i = loops.size(); i-- > 0;) {  // innermost first
    const TileProduct::Loop one{*AsInt(loops[i]->extent), c->strides[i], a->strides[i], b->strides[i]};
    if (one.c == 0 && one.a == 1 && one.b == 1 && one.extent == group) {
      once(has_steps);
    } else if (one.c == 1 && one.a == 0 && one.b == group) {
      once(has_columns), product.columns = one;
    } else if (one.c != 0 && one.a != 0 && one.b == 0) {
      fits &= product.row_tiles.extent == 1;
      (has_rows ? product.row_tiles : product.rows) = one;
      has_rows = true;
    } else if (one.c == 0 && one.a == group && one.b != 0 && !has_groups) {
      has_groups = true, product.groups = one;
    } else if (one.c == 0) {
      product.others.insert(product.others.begin(), one);
    } else {
      return std::nullopt;
    }
  }
  fits &= has_steps && has_columns && has_rows && product.rows.extent <= kTileRows &&
          product.columns.extent % kTileColumns == 0;
  return fits ? std::optional(product) : std::nullopt;
}

}  // namespace autotune
