#include "codegen/emitter.h"

#include "ir/visit.h"
#include "support/check.h"

namespace autotune {

void StatementEmitter::Emit(const Stmt& s) {
  Begin();
  s.Visit(Overloaded{
      [&](const Store& n) { EmitStore(n); },
      [&](const Evaluate& n) { EmitEvaluate(n.value); },
      [&](const Seq& n) { EmitSeq(n); },
      [&](const If& n) { EmitIf(n); },
      [&](const For& n) { EmitFor(n); },
      [&](const Block& n) { CHECK(false) << "block " << n.name << " in lowered code"; },
      [&](const Alloc& n) { EmitAlloc(n); },
      [&](const Let& n) { EmitLet(n); },
  });
}

void StatementEmitter::EmitSeq(const Seq& seq) {
  for (const Stmt& child : seq.stmts) Emit(child);
}

}  // namespace autotune
