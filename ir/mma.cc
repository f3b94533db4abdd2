#include "ir/mma.h"

#include <algorithm>
#include <iterator>

#include "ir/linear_form.h"
#include "ir/visit.h"

namespace autotune {
namespace {

constexpr MmaType kTypes[] = {{DType::Float(32), 1}, {DType::Float(16), 2}, {DType::BFloat16(), 2}};

// Returns the operand x of a factor tf32(x), or f32(x) with x of 16 bits; null for any other factor.
const Expr* OperandOf(const Expr& factor) {
  const Call* call = factor.As<Call>();
  const Cast* cast = factor.As<Cast>();
  if (call && call->op == Op::kTf32) return &call->args[0];
  return cast && cast->a.dtype().IsHalf() ? &cast->a : nullptr;
}

bool Uses(const Expr& e, const Name& v, const Name& w) {
  return UsesVar(e, [&](const Name& used) { return used == v || used == w; });
}

// Returns true and sets `a` and `b` if the value is `fma(a, b, sum)`, `sum + a * b` or `a * b + sum`.
bool IsUpdate(const Store& store, Expr& a, Expr& b) {
  auto is_sum = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    return load && load->buffer->name == store.buffer->name && load->indices.size() == store.indices.size() &&
           std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(),
                      [](const Expr& p, const Expr& q) { return Equal(p, q); });
  };
  if (const Call* call = store.value.As<Call>(); call && call->op == Op::kFma && is_sum(call->args[2])) {
    a = call->args[0], b = call->args[1];
    return true;
  }
  const Binary* add = store.value.As<Binary>();
  if (!add || add->op != BinaryOp::kAdd) return false;
  const bool sum_first = is_sum(add->a);
  const Binary* product = (sum_first ? add->b : add->a).As<Binary>();
  if (!product || product->op != BinaryOp::kMul || !is_sum(sum_first ? add->a : add->b)) return false;
  a = product->a, b = product->b;
  return true;
}

// Checks that all lanes can read the operand, and that it does not depend on the sums.
Status CheckOperand(const Expr& operand, const Name& sums) {
  Status status;
  Walk(operand, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || !status.ok()) return status.ok();
    const Scope scope = load->buffer->scope;
    if (load->buffer->name == sums) status = Err("its operands depend on its sums");
    if (scope == Scope::kLocal || scope == Scope::kRegister)
      status = Err("it reads '", load->buffer->name, "', which is private to each thread");
    return status.ok();
  });
  return status;
}

// Checks that the four sums of a thread are different elements, and the same ones for each k.
Status CheckSums(const MmaLoops& loops) {
  bool half = false, pair = false, sum = false, difference = false;  // true if some index distinguishes them
  for (const Expr& index : loops.update.indices) {
    if (UsesVar(index, loops.k)) return Err("its sums depend on loop '", loops.k, "'");
    const LinearForm form = ToLinear(index);
    const int64_t h = form.Coefficient(loops.half), p = form.Coefficient(loops.pair);
    half |= h != 0, pair |= p != 0, sum |= h + p != 0, difference |= h - p != 0;
  }
  if (half && pair && sum && difference) return {};
  return Err("its four sums per thread are not four different elements");
}

}  // namespace

const MmaType* MmaTypeOf(DType operand) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const MmaType& t) { return t.operand == operand; });
  return found == std::end(kTypes) ? nullptr : found;
}

const MmaType* MmaTypeOf(const Store& update) {
  Expr a, b;
  if (update.buffer->dtype != DType::Float(32) || !IsUpdate(update, a, b)) return nullptr;
  const Expr *left = OperandOf(a), *right = OperandOf(b);
  return left && right && left->dtype() == right->dtype() ? MmaTypeOf(left->dtype()) : nullptr;
}

MmaPlace PlaceInA(const MmaType& type, int e) {
  const int word = e / type.pack;
  return {.half = word % 2, .k = word / 2 * kMmaQuad * type.pack + e % type.pack};
}
MmaPlace PlaceInB(const MmaType& type, int e) { return {.k = e / type.pack * kMmaQuad * type.pack + e % type.pack}; }
MmaPlace PlaceInC(int e) { return {.half = e / 2, .pair = e % 2}; }

Result<MmaLoops> MatchMma(const Stmt& loop, const Name& x, const Name& y) {
  const For* half = loop.As<For>();
  const For* pair = half ? half->body.As<For>() : nullptr;
  const For* k = pair ? pair->body.As<For>() : nullptr;
  const Store* update = k ? k->body.As<Store>() : nullptr;
  if (!update) return Err("it is not three nested loops around one store");
  MmaLoops loops{.half = half->var, .pair = pair->var, .k = k->var, .update = *update};
  Expr a, b;
  if (!IsUpdate(*update, a, b)) return Err("it does not add a product to a sum");
  loops.type = MmaTypeOf(*update);
  if (!loops.type) return Err("its factors are not tf32(...) twice, nor f32(...) of f16 or of bf16 twice");
  if (UsesVar(a, x) || UsesVar(a, pair->var)) std::swap(a, b);
  loops.a = *OperandOf(a), loops.b = *OperandOf(b);
  if (!IsConst(half->extent, 2) || !IsConst(pair->extent, 2) || !IsConst(k->extent, loops.type->k()))
    return Err("its loops do not have 2, 2 and ", loops.type->k(), " iterations");
  if (Uses(loops.a, x, loops.pair) || Uses(loops.b, y, loops.half))
    return Err("its operands are not one by rows ('", y, "', '", loops.half, "') and one by columns ('", x, "', '",
               loops.pair, "')");
  TRY(CheckOperand(loops.a, update->buffer->name));
  TRY(CheckOperand(loops.b, update->buffer->name));
  TRY(CheckSums(loops));
  return loops;
}

Result<MmaThreads> FindMmaThreads(const std::vector<const For*>& around) {
  MmaThreads threads;
  for (const For* loop : around) {
    const int64_t* extent = AsInt(loop->extent);
    if (!extent) continue;
    if (loop->kind == LoopKind::kThreadX && *extent == kMmaQuad) threads.x = loop->var;
    if (loop->kind == LoopKind::kThreadY && *extent % kMmaGroups == 0) threads.y = loop->var;
  }
  if (!threads.x.empty() && !threads.y.empty()) return threads;
  return Err("it is not in loops over threadIdx.x of ", kMmaQuad, " and threadIdx.y of a multiple of ", kMmaGroups);
}

}  // namespace autotune
