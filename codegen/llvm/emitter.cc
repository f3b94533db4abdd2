#include "codegen/llvm/emitter.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "codegen/llvm/streamed.h"
#include "codegen/llvm/walk.h"
#include "runtime/abi.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr int64_t kMaxStackBytes = 16 << 10;  // workspaces up to this size live on the stack
constexpr int kTasksPerThread = 8;            // of a parallel loop: enough to even out, few enough to cost nothing

int64_t AlignUp(int64_t n) { return (n + AT_ALIGNMENT - 1) / AT_ALIGNMENT * AT_ALIGNMENT; }

int64_t BytesOf(const Buffer& buffer) { return ConstShape(buffer)[0] * buffer->dtype.Bytes(); }

// Whether s is an innermost loop body that works on register buffers.
bool IsRegisterLoopBody(const Stmt& s) {
  bool has_loop = false, has_register = false;
  Walk(s, [&](const Stmt& x) {
    has_loop |= x.As<For>() != nullptr;
    if (const Store* store = x.As<Store>()) has_register |= store->buffer->scope == Scope::kRegister;
    return !has_loop;
  });
  return has_register && !has_loop;
}

// Whether a loop of more than one iteration is in s.
bool HasLoop(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    found |= loop && !IsConst(loop->extent, 1);
    return !found;
  });
  return found;
}

// Whether s does nothing but start parallel loops.
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

}  // namespace

Uses UsesOf(const Stmt& s) {
  Uses uses;
  auto use = [&](const Buffer& buffer, bool written) {
    auto at = uses.buffers.find(buffer->name);
    if (at == uses.buffers.end()) at = uses.buffers.emplace(buffer->name, PointerParam{buffer->name, buffer}).first;
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
    // Copies of one statement, in the two versions of a partitioned loop, share their memory.
    for (const Workspace::Slot& slot : workspace.slots) {
      if (slot.buffer->name == alloc->buffer->name) return true;
    }
    workspace.slots.push_back({alloc->buffer, workspace.bytes});
    workspace.bytes += AlignUp(BytesOf(alloc->buffer));
    return true;
  });
  return workspace;
}

llvm::Value* ContextField(llvm::IRBuilder<>& builder, llvm::Value* context, int byte_offset, llvm::Type* type) {
  return builder.CreateLoad(type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), context, byte_offset));
}

FunctionEmitter::FunctionEmitter(Modules modules, const Target& target, std::string prefix)
    : modules_(modules),
      context_(modules.hot.getContext()),
      target_(target),
      prefix_(std::move(prefix)),
      builder_(context_) {}

llvm::Function* MakeHidden(llvm::Module& module, llvm::FunctionType* type, const std::string& name) {
  llvm::Function* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function->setDSOLocal(true);
  return function;
}

llvm::Function* SeenFrom(llvm::Module& module, llvm::Function* function) {
  if (function->getParent() == &module) return function;
  if (llvm::Function* declared = module.getFunction(function->getName())) return declared;
  return MakeHidden(module, function->getFunctionType(), function->getName().str());
}

FunctionEmitter::Allocation FunctionEmitter::Allocate(llvm::IRBuilder<>& builder, llvm::Value* context,
                                                      const Workspace& workspace) {
  Allocation allocation;
  if (workspace.bytes == 0) return allocation;
  llvm::Value* base;
  if (workspace.bytes <= kMaxStackBytes) {
    llvm::AllocaInst* memory = builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), workspace.bytes));
    memory->setAlignment(llvm::Align(AT_ALIGNMENT));
    base = memory;
  } else {
    llvm::Type* pointer = builder.getPtrTy();
    llvm::FunctionType* type = llvm::FunctionType::get(pointer, {pointer, builder.getInt64Ty()}, false);
    llvm::Value* alloc = ContextField(builder, context, offsetof(AtContext, workspace_alloc), pointer);
    base = builder.CreateCall(type, alloc, {context, builder.getInt64(workspace.bytes)});
    llvm::Function* function = builder.GetInsertBlock()->getParent();
    llvm::BasicBlock* failed = llvm::BasicBlock::Create(builder.getContext(), "no_memory", function);
    llvm::BasicBlock* ok = llvm::BasicBlock::Create(builder.getContext(), "memory", function);
    builder.CreateCondBr(builder.CreateIsNull(base), failed, ok);
    builder.SetInsertPoint(failed);
    llvm::FunctionType* error_type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer}, false);
    llvm::Value* set_error = ContextField(builder, context, offsetof(AtContext, set_error), pointer);
    llvm::Value* text = builder.CreateGlobalString("out of memory: " + std::to_string(workspace.bytes) +
                                                   " bytes of workspace in " + function->getName().str());
    builder.CreateCall(error_type, set_error, {context, text});
    builder.CreateRet(builder.getInt32(1));
    builder.SetInsertPoint(ok);
    allocation.to_free = base;
  }
  for (const Workspace::Slot& slot : workspace.slots) {
    allocation.pointers.push_back(builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, slot.offset));
  }
  return allocation;
}

void FunctionEmitter::Free(llvm::IRBuilder<>& builder, llvm::Value* context, const Allocation& allocation) {
  if (!allocation.to_free) return;
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer}, false);
  llvm::Value* free = ContextField(builder, context, offsetof(AtContext, workspace_free), pointer);
  builder.CreateCall(type, free, {context, allocation.to_free});
}

namespace {

// What LLVM may believe of a pointer parameter: nobody else reaches that memory, it is aligned, and all of it is there.
void Describe(llvm::Function* function, int index, const PointerParam& p) {
  llvm::LLVMContext& context = function->getContext();
  function->addParamAttr(index, llvm::Attribute::NoAlias);
  function->addParamAttr(index, llvm::Attribute::NoUndef);
  function->addParamAttr(index, llvm::Attribute::getWithAlignment(context, llvm::Align(p.buffer->alignment)));
  function->addParamAttr(index, llvm::Attribute::getWithDereferenceableBytes(context, BytesOf(p.buffer)));
  if (!p.written) function->addParamAttr(index, llvm::Attribute::ReadOnly);
  function->getArg(index)->setName(p.name.str());
}

}  // namespace

llvm::Function* FunctionEmitter::EmitBody(const std::string& name, const std::vector<PointerParam>& pointers,
                                          const Stmt& body) {
  std::vector<llvm::Type*> types(1 + pointers.size(), builder_.getPtrTy());
  llvm::FunctionType* type = llvm::FunctionType::get(builder_.getInt32Ty(), types, false);
  function_ = MakeHidden(OnlyForks(body) ? modules_.cold : modules_.hot, type, name);
  function_->addFnAttr(llvm::Attribute::NoInline);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  at_context_ = function_->getArg(0);
  for (size_t i = 0; i < pointers.size(); ++i) {
    Describe(function_, static_cast<int>(i) + 1, pointers[i]);
    slots_[pointers[i].name] = {function_->getArg(i + 1), ConstShape(pointers[i].buffer)[0],
                                pointers[i].buffer->alignment};
  }
  streamed_ = StreamedBuffers(body, target_);
  EnterScope();
  Emit(body);
  LeaveScope();
  FenceStreams();
  builder_.CreateRet(builder_.getInt32(0));
  return function_;
}

void FunctionEmitter::EnterScope() { addresses_.emplace_back(); }
void FunctionEmitter::LeaveScope() { addresses_.pop_back(); }

void FunctionEmitter::Emit(const Stmt& s) {
  memo_.clear();
  s.Visit(Overloaded{
      [&](const Store& n) { EmitStore(n); },
      [&](const Evaluate& n) { EmitPrefetch(n.value); },
      [&](const Seq& n) {
        FindTiles(n);
        for (const Stmt& child : n.stmts) Emit(child);
        tiles_.clear();  // another sequence may share a load with this one
      },
      [&](const If& n) { EmitIf(n); },
      [&](const For& n) { EmitFor(n); },
      [&](const Block& n) { CHECK(false) << "block " << n.name << " in lowered code"; },
      [&](const Alloc& n) { EmitAlloc(n); },
      [&](const Let& n) {
        vars_[n.var] = Value(n.value);
        Emit(n.body);
      },
  });
}

void FunctionEmitter::EmitAlloc(const Alloc& alloc) {
  const Buffer& buffer = alloc.buffer;
  if (buffer->scope == Scope::kRegister) {
    // In the entry block, so that SROA makes values of its parts.
    llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    int64_t elements = ConstShape(buffer)[0];
    llvm::AllocaInst* memory = entry.CreateAlloca(llvm::ArrayType::get(MemoryType(buffer->dtype), elements), nullptr,
                                                  "register." + buffer->name.str());
    memory->setAlignment(llvm::Align(AT_ALIGNMENT));
    slots_[buffer->name] = {memory, elements, AT_ALIGNMENT};
  } else {
    CHECK(slots_.contains(buffer->name)) << "no memory for " << buffer->name;
  }
  Emit(alloc.body);
}

void FunctionEmitter::EmitFor(const For& loop) {
  if (loop.kind == LoopKind::kParallel) return EmitParallel(loop);
  const int64_t* extent = AsInt(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent && *extent == 1) {
    vars_[loop.var] = builder_.getInt64(0);
    analyzer_.Bind(loop.var, 0, 0);
    return Emit(loop.body);
  }
  llvm::Value* end = Index(loop.extent);
  if (extent) analyzer_.Bind(loop.var, 0, *extent - 1);
  std::string label = (IsRegisterLoopBody(loop.body) ? kRegisterLoopPrefix : "loop.") + loop.var.str();
  EmitLoop(loop.var, builder_.getInt64(0), end, extent != nullptr, label, loop.body);
}

void FunctionEmitter::EmitLoop(const Name& var, llvm::Value* begin, llvm::Value* end, bool known_nonempty,
                               const std::string& label, const Stmt& body) {
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, label, function_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "after." + var.str(), function_);
  if (known_nonempty) {
    builder_.CreateBr(inside);
  } else {
    builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), inside, after);
  }
  builder_.SetInsertPoint(inside);
  llvm::PHINode* value = builder_.CreatePHI(builder_.getInt64Ty(), 2, var.str());
  value->addIncoming(begin, before);
  vars_[var] = value;
  depth_[var] = ++current_depth_;
  if (!HasLoop(body)) inner_loop_ = InnerLoop{var, before, inside, begin, {}};
  EnterScope();
  Emit(body);
  LeaveScope();
  --current_depth_;
  if (inner_loop_) {
    for (auto [coefficient, multiple] : inner_loop_->multiples) {
      llvm::Value* following = builder_.CreateNSWAdd(multiple, builder_.getInt64(coefficient));
      multiple->addIncoming(following, builder_.GetInsertBlock());
    }
    inner_loop_.reset();
  }
  llvm::Value* next = builder_.CreateNUWAdd(value, builder_.getInt64(1));
  llvm::cast<llvm::Instruction>(next)->setHasNoSignedWrap();
  value->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), inside, after);
  builder_.SetInsertPoint(after);
}

llvm::Value* FunctionEmitter::MultipleOf(InnerLoop& loop, int64_t coefficient) {
  if (coefficient == 1) return vars_.at(loop.var);
  llvm::PHINode*& multiple = loop.multiples[coefficient];
  if (!multiple) {
    llvm::IRBuilder<> before(loop.before->getTerminator()), header(loop.header, loop.header->begin());
    llvm::Value* start = before.CreateNSWMul(loop.begin, before.getInt64(coefficient));
    multiple = header.CreatePHI(header.getInt64Ty(), 2, loop.var.str() + "." + std::to_string(coefficient));
    multiple->addIncoming(start, loop.before);
  }
  return multiple;
}

void FunctionEmitter::EmitIf(const If& branch) {
  llvm::Value* condition = Value(branch.condition);
  llvm::BasicBlock* then_block = llvm::BasicBlock::Create(context_, "then", function_);
  llvm::BasicBlock* else_block = branch.else_body ? llvm::BasicBlock::Create(context_, "else", function_) : nullptr;
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "endif", function_);
  builder_.CreateCondBr(condition, then_block, else_block ? else_block : after);
  for (auto [block, body] : {std::pair{then_block, branch.then_body}, std::pair{else_block, branch.else_body}}) {
    if (!block) continue;
    builder_.SetInsertPoint(block);
    EnterScope();
    Analyzer outside = analyzer_;
    if (block == then_block) analyzer_.Assume(branch.condition);
    const bool was_in_else = std::exchange(in_else_, in_else_ || block == else_block);
    Emit(body);
    in_else_ = was_in_else;
    analyzer_ = outside;
    LeaveScope();
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
}

void FunctionEmitter::EmitStore(const Store& store) {
  const Expr& index = store.indices[0];
  DType element = store.buffer->dtype;
  llvm::Value* value = ToMemory(Value(store.value), store.value.dtype());
  int lanes = store.value.dtype().lanes;
  const Ramp* ramp = index.As<Ramp>();
  if (lanes == 1 || (ramp && IsConst(ramp->stride, 1))) {
    Address address = AddressOf(store.buffer, ramp ? ramp->base : index);
    if (!StoreAround(store, value, address)) builder_.CreateAlignedStore(value, address.pointer, address.alignment);
    return;
  }
  llvm::Value* indices = ramp ? nullptr : Value(index);
  for (int lane = 0; lane < lanes; ++lane) {
    Address address = ramp ? AddressOf(store.buffer, ramp->base + ramp->stride * Expr(lane))
                           : ElementAt(store.buffer, builder_.CreateExtractElement(indices, lane));
    builder_.CreateAlignedStore(builder_.CreateExtractElement(value, lane), address.pointer,
                                llvm::Align(element.Bytes()));
  }
}

void FunctionEmitter::EmitPrefetch(const Expr& value) {
  const Call* call = value.As<Call>();
  const Load* load = call && IsPrefetch(call->op) ? call->args[0].As<Load>() : nullptr;
  CHECK(load) << "only prefetch(load) may be evaluated";
  if (streamed_.contains(load->buffer->name)) return;  // its stores go around the caches
  const Ramp* ramp = load->indices[0].As<Ramp>();
  Address address = AddressOf(load->buffer, ramp ? ramp->base : load->indices[0]);
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                           {address.pointer, builder_.getInt32(call->op == Op::kPrefetchWrite ? 1 : 0),
                            builder_.getInt32(call->op == Op::kPrefetchFar ? 2 : 3), builder_.getInt32(1)});
}

// The loop's body as a function of an interval of iterations, called by a thunk that the pool calls for every task.
void FunctionEmitter::EmitParallel(const For& loop) {
  const int64_t* extent = AsInt(loop.extent);
  CHECK(extent && *extent > 0) << "parallel loop " << loop.var << " has no constant extent";
  Uses uses = UsesOf(loop.body);
  std::vector<PointerParam> outside;
  std::vector<Name> scalars;
  for (const auto& [name, p] : uses.buffers) {
    if (slots_.contains(name)) outside.push_back(p);
  }
  for (const Name& var : uses.vars) {
    if (vars_.contains(var) && !(var == loop.var)) scalars.push_back(var);
  }
  Workspace workspace = LayOut(loop.body);
  std::vector<PointerParam> pointers = outside;
  for (const Workspace::Slot& slot : workspace.slots) pointers.push_back({slot.buffer->name, slot.buffer, true});

  std::string name = prefix_ + ".parallel" + std::to_string(next_parallel_++);
  FunctionEmitter inner(modules_, target_, name);
  inner.analyzer_ = analyzer_;
  inner.streamed_ = streamed_;
  llvm::Function* body = inner.EmitParallelBody(loop, pointers, scalars);

  // closure: { i64 tasks, ptr..., i64... }
  std::vector<llvm::Type*> fields{builder_.getInt64Ty()};
  fields.insert(fields.end(), outside.size(), builder_.getPtrTy());
  for (const Name& var : scalars) fields.push_back(vars_[var]->getType());
  llvm::StructType* closure_type = llvm::StructType::get(context_, fields);
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::FunctionType* thunk_type =
      llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, pointer, builder_.getInt32Ty()}, false);
  llvm::Function* thunk = MakeHidden(modules_.cold, thunk_type, name + ".thunk");
  body = SeenFrom(modules_.cold, body);
  {
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "entry", thunk));
    llvm::Value* closure = thunk->getArg(1);
    auto field = [&](size_t i) {
      return b.CreateLoad(fields[i], b.CreateStructGEP(closure_type, closure, static_cast<unsigned>(i)));
    };
    llvm::Value *tasks = field(0), *task = b.CreateZExt(thunk->getArg(2), b.getInt64Ty());
    llvm::Value* total = b.getInt64(*extent);
    auto share = [&](llvm::Value* t) { return b.CreateUDiv(b.CreateMul(t, total), tasks); };
    std::vector<llvm::Value*> args{share(task), share(b.CreateAdd(task, b.getInt64(1)))};
    for (size_t i = 0; i < outside.size(); ++i) args.push_back(field(1 + i));
    Allocation allocation = Allocate(b, thunk->getArg(0), workspace);
    args.insert(args.end(), allocation.pointers.begin(), allocation.pointers.end());
    for (size_t i = 0; i < scalars.size(); ++i) args.push_back(field(1 + outside.size() + i));
    b.CreateCall(body, args);
    Free(b, thunk->getArg(0), allocation);
    b.CreateRet(b.getInt32(0));
  }

  thunk = SeenFrom(*function_->getParent(), thunk);
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  llvm::Value* closure = entry.CreateAlloca(closure_type, nullptr, "closure");
  auto store = [&](size_t i, llvm::Value* value) {
    builder_.CreateStore(value, builder_.CreateStructGEP(closure_type, closure, static_cast<unsigned>(i)));
  };
  llvm::Value* threads = ContextField(builder_, at_context_, offsetof(AtContext, num_threads), builder_.getInt32Ty());
  llvm::Value* many = builder_.CreateMul(threads, builder_.getInt32(kTasksPerThread));
  llvm::Value* limit = builder_.getInt32(static_cast<uint32_t>(std::min<int64_t>(*extent, 1 << 30)));
  llvm::Value* fewer = builder_.CreateSelect(builder_.CreateICmpULT(many, limit), many, limit);
  llvm::Value* alone = builder_.CreateICmpULE(threads, builder_.getInt32(1));
  llvm::Value* tasks = builder_.CreateSelect(alone, builder_.getInt32(1), fewer);
  store(0, builder_.CreateZExt(tasks, builder_.getInt64Ty()));
  for (size_t i = 0; i < outside.size(); ++i) store(1 + i, slots_[outside[i].name].pointer);
  for (size_t i = 0; i < scalars.size(); ++i) store(1 + outside.size() + i, vars_[scalars[i]]);

  llvm::BasicBlock* here = llvm::BasicBlock::Create(context_, "alone", function_);
  llvm::BasicBlock* pool = llvm::BasicBlock::Create(context_, "pool", function_);
  llvm::BasicBlock* joined = llvm::BasicBlock::Create(context_, "joined", function_);
  llvm::BasicBlock* failed = llvm::BasicBlock::Create(context_, "failed", function_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "after." + loop.var.str(), function_);
  builder_.CreateCondBr(builder_.CreateICmpEQ(tasks, builder_.getInt32(1)), here, pool);
  builder_.SetInsertPoint(here);
  llvm::Value* code_here = builder_.CreateCall(thunk, {at_context_, closure, builder_.getInt32(0)});
  builder_.CreateBr(joined);
  builder_.SetInsertPoint(pool);
  llvm::FunctionType* pool_type =
      llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, builder_.getInt32Ty(), pointer, pointer}, false);
  llvm::Value* parallel_for = ContextField(builder_, at_context_, offsetof(AtContext, parallel_for), pointer);
  llvm::Value* code_pool = builder_.CreateCall(pool_type, parallel_for, {at_context_, tasks, thunk, closure});
  builder_.CreateBr(joined);
  builder_.SetInsertPoint(joined);
  llvm::PHINode* code = builder_.CreatePHI(builder_.getInt32Ty(), 2);
  code->addIncoming(code_here, here);
  code->addIncoming(code_pool, pool);
  builder_.CreateCondBr(builder_.CreateIsNull(code), after, failed);
  builder_.SetInsertPoint(failed);
  builder_.CreateRet(code);
  builder_.SetInsertPoint(after);
}

llvm::Function* FunctionEmitter::EmitParallelBody(const For& loop, const std::vector<PointerParam>& pointers,
                                                  const std::vector<Name>& scalars) {
  std::vector<llvm::Type*> types{builder_.getInt64Ty(), builder_.getInt64Ty()};
  types.insert(types.end(), pointers.size(), builder_.getPtrTy());
  types.insert(types.end(), scalars.size(), builder_.getInt64Ty());
  llvm::FunctionType* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
  function_ = MakeHidden(modules_.hot, type, prefix_);
  function_->addFnAttr(llvm::Attribute::NoInline);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  unsigned index = 2;
  for (const PointerParam& p : pointers) {
    Describe(function_, static_cast<int>(index), p);
    slots_[p.name] = {function_->getArg(index++), ConstShape(p.buffer)[0], p.buffer->alignment};
  }
  for (const Name& var : scalars) vars_[var] = function_->getArg(index++);
  analyzer_.Bind(loop.var, 0, *AsInt(loop.extent) - 1);
  EnterScope();
  std::string label = (IsRegisterLoopBody(loop.body) ? kRegisterLoopPrefix : "loop.") + loop.var.str();
  EmitLoop(loop.var, function_->getArg(0), function_->getArg(1), false, label, loop.body);
  LeaveScope();
  FenceStreams();
  builder_.CreateRetVoid();
  return function_;
}

}  // namespace autotune
