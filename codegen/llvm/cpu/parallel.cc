#include "codegen/llvm/cpu/parallel.h"

#include <algorithm>
#include <cstddef>

#include "codegen/llvm/cpu/scratch.h"
#include "runtime/abi.h"

namespace autotune {
namespace {

// The argument that the pool passes to the thunk: { i64 tasks, ptr buffers..., scalars... }.
struct Closure {
  std::vector<llvm::Type*> fields;
  llvm::StructType* type;

  Closure(llvm::IRBuilder<>& builder, const Bindings& bindings, const Captures& captures) {
    fields.push_back(builder.getInt64Ty());
    fields.insert(fields.end(), captures.buffers.size(), builder.getPtrTy());
    for (const Name& var : captures.scalars) fields.push_back(bindings.vars.at(var)->getType());
    type = llvm::StructType::get(builder.getContext(), fields);
  }
  llvm::Value* Pointer(llvm::IRBuilder<>& builder, llvm::Value* closure, size_t field) const {
    return builder.CreateStructGEP(type, closure, static_cast<unsigned>(field));
  }
};

// Emits i32 NAME.thunk(ptr context, ptr closure, i32 task). Task t of n runs iterations [t * extent / n,
// (t + 1) * extent / n).
llvm::Function* EmitThunk(llvm::IRBuilder<>& builder, Modules modules, const Closure& closure, const ParallelRun& run) {
  const Captures& captures = run.captures;
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* type =
      llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, builder.getInt32Ty()}, false);
  llvm::Function* thunk = MakeHidden(modules.cold, type, run.name + ".thunk");
  llvm::Function* body = SeenFrom(modules.cold, run.body);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(builder.getContext(), "entry", thunk));
  auto field = [&](size_t i) { return b.CreateLoad(closure.fields[i], closure.Pointer(b, thunk->getArg(1), i)); };
  llvm::Value *tasks = field(0), *task = b.CreateZExt(thunk->getArg(2), b.getInt64Ty());
  llvm::Value* total = b.getInt64(run.extent);
  auto share = [&](llvm::Value* t) { return b.CreateUDiv(b.CreateMul(t, total), tasks); };
  llvm::Value *begin = share(task), *end = share(b.CreateAdd(task, b.getInt64(1)));
  std::vector<llvm::Value*> args{begin, end};
  const size_t buffers = captures.buffers.size();
  for (size_t i = 0; i < buffers; ++i) args.push_back(field(1 + i));
  ScratchMemory scratch = AllocateScratch(b, thunk->getArg(0), captures.workspace);
  args.insert(args.end(), scratch.pointers.begin(), scratch.pointers.end());
  for (size_t i = 0; i < captures.scalars.size(); ++i) args.push_back(field(1 + buffers + i));
  b.CreateCall(body, args);
  FreeScratch(b, thunk->getArg(0), scratch);
  b.CreateRet(b.getInt32(0));
  return thunk;
}

// Returns the number of tasks: 1 on one thread, else kTasksPerThread per thread, but at most one per iteration.
llvm::Value* TaskCount(llvm::IRBuilder<>& builder, llvm::Value* context, int64_t extent) {
  llvm::Value* threads = ContextField(builder, context, offsetof(AtContext, num_threads), builder.getInt32Ty());
  llvm::Value* many = builder.CreateMul(threads, builder.getInt32(kTasksPerThread));
  llvm::Value* limit = builder.getInt32(static_cast<uint32_t>(std::min(extent, kMaxTasks)));
  llvm::Value* fewer = builder.CreateSelect(builder.CreateICmpULT(many, limit), many, limit);
  llvm::Value* alone = builder.CreateICmpULE(threads, builder.getInt32(1));
  return builder.CreateSelect(alone, builder.getInt32(1), fewer);
}

// Emits the call of the thunk: a direct call if there is one task, else a call of parallel_for. If a task fails, the
// emitted function returns.
void CallTasks(llvm::IRBuilder<>& builder, llvm::Value* context, llvm::Function* thunk, llvm::Value* closure,
               llvm::Value* tasks, const Name& var) {
  llvm::Function* function = builder.GetInsertBlock()->getParent();
  auto block = [&](const std::string& label) {
    return llvm::BasicBlock::Create(builder.getContext(), label, function);
  };
  llvm::BasicBlock *alone = block("alone"), *pool = block("pool"), *joined = block("joined"), *failed = block("failed"),
                   *after = block("after." + var.str());
  builder.CreateCondBr(builder.CreateICmpEQ(tasks, builder.getInt32(1)), alone, pool);
  builder.SetInsertPoint(alone);
  llvm::Value* code_alone = builder.CreateCall(thunk, {context, closure, builder.getInt32(0)});
  builder.CreateBr(joined);
  builder.SetInsertPoint(pool);
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* pool_type =
      llvm::FunctionType::get(builder.getInt32Ty(), {pointer, builder.getInt32Ty(), pointer, pointer}, false);
  llvm::Value* parallel_for = ContextField(builder, context, offsetof(AtContext, parallel_for), pointer);
  llvm::Value* code_pool = builder.CreateCall(pool_type, parallel_for, {context, tasks, thunk, closure});
  builder.CreateBr(joined);
  builder.SetInsertPoint(joined);
  llvm::PHINode* code = builder.CreatePHI(builder.getInt32Ty(), 2);
  code->addIncoming(code_alone, alone);
  code->addIncoming(code_pool, pool);
  builder.CreateCondBr(builder.CreateIsNull(code), after, failed);
  builder.SetInsertPoint(failed);
  builder.CreateRet(code);
  builder.SetInsertPoint(after);
}

}  // namespace

void EmitParallelRun(llvm::IRBuilder<>& builder, Modules modules, llvm::Value* context, const Bindings& bindings,
                     const ParallelRun& run) {
  Closure layout(builder, bindings, run.captures);
  llvm::Function* function = builder.GetInsertBlock()->getParent();
  llvm::Function* thunk = SeenFrom(*function->getParent(), EmitThunk(builder, modules, layout, run));
  llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
  llvm::Value* closure = entry.CreateAlloca(layout.type, nullptr, "closure");
  llvm::Value* tasks = TaskCount(builder, context, run.extent);
  std::vector<llvm::Value*> values{builder.CreateZExt(tasks, builder.getInt64Ty())};
  for (const PointerParam& p : run.captures.buffers) values.push_back(bindings.buffers.at(p.name).pointer);
  for (const Name& var : run.captures.scalars) values.push_back(bindings.vars.at(var));
  for (size_t i = 0; i < values.size(); ++i) builder.CreateStore(values[i], layout.Pointer(builder, closure, i));
  CallTasks(builder, context, thunk, closure, tasks, run.var);
}

}  // namespace autotune
