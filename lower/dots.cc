// form_dots: turns vectorized loops over groups of products into dot products (ir/dot.h). It stands after `vectorize`.
// With bytes:
//
//   for k in 4 @{dot=1} {                                     c[ramp(p, 1, n)] = dot(c[ramp(p, 1, n)],
//     c[ramp(p, 1, n)] = c[ramp(p, 1, n)]                ->                          a[ramp(q, 1, 4)],
//       + broadcast(i32(a[q + k]), n)                                               b[ramp(r, 1, 4 * n)])
//       * i32(b[ramp(r + k, 4, n)]) }
#include "ir/added_product.h"
#include "ir/annotations.h"
#include "ir/dot.h"
#include "ir/linear_form.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// Returns the index at k = 0 if the index grows by 1 with each k; otherwise nothing.
std::optional<Expr> BaseOf(const Expr& index, const Name& k) {
  const LinearForm form = ToLinear(index);
  const Expr rest = form.Rest();
  if (form.Coefficient(k) != 1 || (rest && UsesVar(rest, k))) return std::nullopt;
  return Substitute(index, {{k, Expr(0)}});
}

Expr Neighbours(const Buffer& buffer, const Expr& base, int lanes) {
  return MakeLoad(buffer, {MakeRamp(base, Expr(1), lanes)});
}

// Returns the operand whose group belongs to all lanes; absent if `e` is no such operand.
Expr SharedOperand(const Expr& e, const Name& k) {
  const Broadcast* broadcast = e.As<Broadcast>();
  const Load* load = broadcast ? SmallFactor(broadcast->a) : nullptr;
  const std::optional<Expr> base = load ? BaseOf(load->indices[0], k) : std::nullopt;
  return base ? Neighbours(load->buffer, *base, DotGroup(load->buffer->dtype)) : Expr();
}

// Returns the operand of all lanes' groups, of which `part` takes a part of each byte (PartOfBytes) for step k; absent
// if it is no such operand.
Expr PartsOfGroups(const Expr& part, const Name& k) {
  if (const Load* load = part.As<Load>()) {
    const Ramp* ramp = load->indices.size() == 1 ? load->indices[0].As<Ramp>() : nullptr;
    if (!ramp || !IsConst(ramp->stride, kByteGroup)) return {};
    const std::optional<Expr> base = BaseOf(ramp->base, k);
    return base ? Neighbours(load->buffer, *base, kByteGroup * part.dtype().lanes) : Expr();
  }
  const Binary& binary = *part.As<Binary>();
  const Broadcast* number = binary.b.As<Broadcast>();
  const Expr a = number && !UsesVar(number->a, k) ? PartsOfGroups(binary.a, k) : Expr();
  return a ? MakeBinary(binary.op, a, MakeBroadcast(number->a, a.dtype().lanes)) : Expr();
}

// Returns the operand with a group for each lane; absent if `e` is no such operand.
Expr OwnOperand(const Expr& e, const Name& k) {
  if (const Cast* cast = e.As<Cast>(); cast && PartOfBytes(cast->a) && e.dtype().Element() == DType::Int(32))
    return PartsOfGroups(cast->a, k);
  const Load* load = SmallFactor(e);
  const Ramp* ramp = load ? load->indices[0].As<Ramp>() : nullptr;
  const int group = load ? DotGroup(load->buffer->dtype) : 0;
  if (!ramp || !IsConst(ramp->stride, group)) return {};
  const std::optional<Expr> base = BaseOf(ramp->base, k);
  return base ? Neighbours(load->buffer, *base, group * e.dtype().lanes) : Expr();
}

// Returns whether the target has an instruction for these operands, with this number of sums.
bool HasInstruction(const Target& target, DType a, DType b, int lanes) {
  return AreDotOperands(a, b) && target.HasDot(a.IsFloat(), a.bits) && (lanes == 4 || lanes == 8 || lanes == 16) &&
         32 * lanes <= target.vector_bits;
}

// Returns the store of the dot product that the loop computes; absent if it computes something else, or if the target
// has no instruction for it.
Stmt DotOf(const For& loop, const Target& target) {
  const Store* store = loop.body.As<Store>();
  const std::optional<AddedProduct> added = store ? AddedProductOf(*store) : std::nullopt;
  if (!added || store->indices.size() != 1 || UsesVar(store->indices[0], loop.var)) return {};
  // The operand of all lanes comes first; if there is none, both have a group for each lane.
  for (const bool swapped : {false, true}) {
    const Expr &x = swapped ? added->b : added->a, &y = swapped ? added->a : added->b;
    Expr a = SharedOperand(x, loop.var);
    if (!a) a = OwnOperand(x, loop.var);
    const Expr b = OwnOperand(y, loop.var);
    if (!a || !b) continue;
    const DType a_type = a.dtype().Element(), b_type = b.dtype().Element();
    if (HasInstruction(target, a_type, b_type, store->value.dtype().lanes) && IsConst(loop.extent, DotGroup(a_type)))
      return MakeStmt(Store{store->buffer, store->indices, MakeCall(Op::kDot, {added->sum, a, b})});
  }
  return {};
}

}  // namespace

Result<PrimFunc> FormDots(const PrimFunc& f, PassEnv& env) {
  return WithBody(f, RewriteStmt(
                         f.body,
                         [&](const Stmt& s) {
                           const For* loop = s.As<For>();
                           if (!loop || !loop->annotations.contains(kDot)) return s;
                           if (Stmt dot = DotOf(*loop, env.target)) return dot;
                           return MakeStmt(For{loop->var, loop->extent, LoopKind::kUnrolled, {}, loop->body});
                         },
                         nullptr));
}

}  // namespace autotune
