#include <algorithm>

#include "lower/lower.h"
#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr int64_t kMaxRegisterBytes = 16 << 10;  // far beyond any register file; limits the code size

// Returns the variables that index register buffers inside s.
std::set<Name> RegisterIndexVars(const Stmt& s) {
  std::set<Name> vars;
  ForEachAccess(s, [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    if (buffer->scope != Scope::kRegister) return;
    for (const Expr& i : indices) {
      Walk(i, [&](const Expr& e) {
        if (const Var* var = e.As<Var>()) vars.insert(var->name);
        return true;
      });
    }
  });
  return vars;
}

Stmt Settle(const Stmt& s, const std::set<Name>& register_vars, bool in_parallel) {
  const For* loop = s.As<For>();
  LoopKind kind = loop ? loop->kind : LoopKind::kSerial;
  if (loop && kind == LoopKind::kParallel && in_parallel) kind = LoopKind::kSerial;
  if (loop && kind == LoopKind::kSerial && register_vars.contains(loop->var)) kind = LoopKind::kUnrolled;
  bool inside = in_parallel || kind == LoopKind::kParallel;
  Stmt mapped = MapChildren(
      s, [&](const Stmt& child) { return Settle(child, register_vars, inside); }, nullptr);
  if (!loop || kind == loop->kind) return mapped;
  const For* f = mapped.As<For>();
  return MakeStmt(For{f->var, f->extent, kind, f->annotations, f->body});
}

int64_t CountLeaves(const Stmt& s) {
  int64_t count = 0;
  Walk(s, [&](const Stmt& x) {
    count += x.As<Store>() || x.As<Evaluate>();
    return true;
  });
  return count;
}

class Unroller {
 public:
  explicit Unroller(int64_t limit) : limit_(limit) {}
  std::optional<Error> error;

  Stmt Run(const Stmt& s) {
    if (error) return s;
    Stmt mapped = MapChildren(
        s, [&](const Stmt& child) { return Run(child); }, nullptr);
    const For* loop = mapped.As<For>();
    if (error || !loop || loop->kind != LoopKind::kUnrolled) return mapped;
    const int64_t* extent = AsInt(loop->extent);
    if (!extent) {
      error = Err("loop ", loop->var, " is unrolled but its extent is not a constant");
      return mapped;
    }
    if (CountLeaves(loop->body) * *extent > limit_) {
      error = Err("unrolling loop ", loop->var, " (", *extent, " iterations) makes more than ", limit_,
                  " statements: unroll less or use smaller tiles");
      return mapped;
    }
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i) copies.push_back(Substitute(loop->body, {{loop->var, Expr(i)}}));
    return MakeSeq(std::move(copies));
  }

 private:
  int64_t limit_;
};

}  // namespace

Result<PrimFunc> SettleLoopKinds(const PrimFunc& f, PassEnv&) {
  return WithBody(f, Settle(f.body, RegisterIndexVars(f.body), false));
}

Result<PrimFunc> UnrollLoops(const PrimFunc& f, PassEnv& env) {
  Unroller unroller(env.context.Get(kUnrollLimit));
  Stmt body = unroller.Run(f.body);
  if (unroller.error) return std::move(*unroller.error);
  return WithBody(f, WithUniqueNames(body));
}

Result<PrimFunc> VerifyRegisters(const PrimFunc& f, PassEnv&) {
  std::optional<Error> error;
  auto check = [&](const Buffer& buffer, const Expr& index) {
    if (buffer->scope != Scope::kRegister || error) return;
    const Expr* base = &index;
    int64_t lanes = 1;
    if (const Ramp* ramp = index.As<Ramp>()) {
      base = &ramp->base;
      lanes = index.dtype().lanes;
      if (!IsConst(ramp->stride, 1)) error = Err("register buffer ", buffer->name, " is accessed with a stride");
    }
    const int64_t* start = AsInt(*base);
    if (!error && !start) {
      error = Err("an index of register buffer ", buffer->name,
                  " is not a constant after unrolling: unroll or vectorize every loop that indexes it");
    }
    // In memory, a load out of bounds is legal if a select masks it. Registers allow no such load.
    if (!error && (*start < 0 || (*start + lanes) * buffer->dtype.Bytes() > BytesOf(buffer))) {
      error = Err("register buffer ", buffer->name, " is accessed beyond its bounds, under a condition");
    }
  };
  Walk(
      f.body,
      [&](const Stmt& s) {
        if (const Store* store = s.As<Store>()) check(store->buffer, store->indices[0]);
        const Alloc* alloc = s.As<Alloc>();
        if (alloc && alloc->buffer->scope == Scope::kRegister && BytesOf(alloc->buffer) > kMaxRegisterBytes) {
          error = Err("register buffer ", alloc->buffer->name, " needs ", BytesOf(alloc->buffer),
                      " bytes: more than any register file holds");
        }
        return !error;
      },
      [&](const Expr& e) {
        if (const Load* load = e.As<Load>()) check(load->buffer, load->indices[0]);
        return !error;
      });
  if (error) return std::move(*error);
  return f;
}

}  // namespace autotune
