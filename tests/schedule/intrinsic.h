// For tests: turns an intrinsic's program into a function that runs alone. Since the program may update its outputs,
// each output starts with the values of an additional input. Header-only.
#pragma once
#include "ir/visit.h"
#include "schedule/intrinsic.h"

namespace autotune::zoo {

// Adds an input c_before for each output c, and begins with c = c_before.
inline PrimFunc Standalone(const PrimFunc& program) {
  PrimFunc func = program;
  BufferMap compact;  // a kernel's parameters must be compact, so drop the strides
  for (Param& param : func.params) {
    if (param.buffer->strides.empty()) continue;
    param.buffer = Buffer::Make(param.buffer->name, param.buffer->dtype, param.buffer->shape);
    compact[param.buffer->name] = param.buffer;
  }
  std::vector<Stmt> stmts;
  for (const Param& param : program.params) {
    if (param.role != ParamRole::kOutput) continue;
    const std::string name = param.buffer->name.str();
    Buffer before = Buffer::Make(name + "_before", param.buffer->dtype, param.buffer->shape);
    func.params.push_back({before, ParamRole::kInput});
    Block copy{.name = name + "_copy"};
    std::vector<Expr> at;
    for (size_t d = 0; d < before->shape.size(); ++d) {
      Name loop = name + "_i" + std::to_string(d), iter = "v_" + loop.str();
      copy.iters.push_back({iter, IterKind::kSpatial, before->shape[d], IndexVar(loop)});
      at.push_back(IndexVar(iter));
    }
    copy.body = MakeStmt(Store{param.buffer, at, MakeLoad(before, at)});
    Stmt nest = MakeStmt(copy);
    for (size_t d = copy.iters.size(); d-- > 0;) {
      nest = MakeStmt(For{copy.iters[d].binding.As<Var>()->name, before->shape[d], LoopKind::kSerial, {}, nest});
    }
    stmts.push_back(nest);
  }
  stmts.push_back(ReplaceBuffers(program.body, compact));
  func.body = MakeSeq(std::move(stmts));
  return func;
}

}  // namespace autotune::zoo
