#include "codegen/memory.h"

#include "codegen/walk.h"
#include "lower/passes.h"
#include "runtime/abi.h"
#include "support/integer.h"

namespace autotune {

PointerParam PointerOf(const Buffer& buffer, bool written) {
  return {buffer->name, buffer, written, buffer->alignment};
}

Uses UsesOf(const Stmt& s) {
  Uses uses;
  auto use = [&](const Buffer& buffer, bool written) {
    auto at = uses.buffers.find(buffer->name);
    if (at == uses.buffers.end()) at = uses.buffers.emplace(buffer->name, PointerOf(buffer, false)).first;
    at->second.written |= written;
  };
  WalkOnce(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.As<Store>()) use(store->buffer, true);
        return true;
      },
      [&](const Expr& x) {
        if (const Load* load = x.As<Load>()) use(load->buffer, false);
        if (const Var* var = x.As<Var>()) uses.vars.insert(var->name);
        return true;
      });
  return uses;
}

Workspace LayOut(const Stmt& s) {
  Workspace workspace;
  Walk(s, [&](const Stmt& x) {
    if (const For* loop = x.As<For>(); loop && loop->kind == LoopKind::kParallel) return false;
    const Alloc* alloc = x.As<Alloc>();
    if (!alloc || alloc->buffer->scope != Scope::kGlobal) return true;
    // Loop partitioning makes two versions of a statement with the same buffers. Only one of them runs at a time, so
    // they share one slot.
    for (const Workspace::Slot& slot : workspace.slots) {
      if (slot.buffer->name == alloc->buffer->name) return true;
    }
    workspace.slots.push_back({alloc->buffer, workspace.bytes});
    workspace.bytes += AlignUp(BytesOf(alloc->buffer), AT_ALIGNMENT);
    return true;
  });
  return workspace;
}

}  // namespace autotune
