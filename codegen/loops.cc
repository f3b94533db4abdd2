#include "codegen/loops.h"

#include "ir/visit.h"

namespace autotune {

bool IsRegisterLoopBody(const Stmt& s) {
  bool has_loop = false, has_register = false;
  Walk(s, [&](const Stmt& x) {
    has_loop |= x.As<For>() != nullptr;
    if (const Store* store = x.As<Store>()) has_register |= store->buffer->scope == Scope::kRegister;
    return !has_loop;
  });
  return has_register && !has_loop;
}

bool HasLoop(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    found |= loop && !IsConst(loop->extent, 1);
    return !found;
  });
  return found;
}

bool OnlyForks(const Stmt& s) {
  bool only = true;
  Walk(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    if (loop && loop->kind == LoopKind::kParallel) return false;
    only &= !loop && !x.As<Store>();
    return only;
  });
  return only;
}

}  // namespace autotune
