#include "codegen/llvm/cpu/function.h"

#include <utility>

#include "codegen/llvm/machine.h"
#include "codegen/llvm/statements.h"
#include "codegen/loops.h"
#include "codegen/share.h"
#include "ir/annotations.h"
#include "runtime/abi.h"
#include "support/check.h"

namespace autotune {

FunctionEmitter::FunctionEmitter(Modules modules, const Target& target, std::string prefix, std::set<Name> streamed)
    : modules_(modules),
      target_(target),
      prefix_(std::move(prefix)),
      builder_(modules.hot.getContext()),
      loads_(builder_, target, bindings_),
      interleaves_(builder_),
      expressions_(builder_, target, bindings_, &loads_),
      control_(builder_, bindings_, expressions_.addresses()),
      streaming_(builder_, std::move(streamed)) {}

llvm::Function* FunctionEmitter::EmitBody(const std::vector<PointerParam>& pointers, const Stmt& body) {
  std::vector<llvm::Type*> types(1 + pointers.size(), builder_.getPtrTy());
  llvm::FunctionType* type = llvm::FunctionType::get(builder_.getInt32Ty(), types, false);
  BeginFunction(OnlyForks(body) ? modules_.cold : modules_.hot, type, prefix_ + ".body");
  at_context_ = function_->getArg(0);
  BindPointers(1, pointers);
  expressions_.addresses().EnterScope();
  Emit(body);
  expressions_.addresses().LeaveScope();
  streaming_.Fence();
  tiles_.Release(builder_);
  builder_.CreateRet(builder_.getInt32(0));
  return function_;
}

llvm::Function* FunctionEmitter::EmitParallelBody(const For& loop, const Captures& captures, const Analyzer& outside) {
  const std::vector<PointerParam> pointers = captures.Pointers();
  std::vector<llvm::Type*> types{builder_.getInt64Ty(), builder_.getInt64Ty()};
  types.insert(types.end(), pointers.size(), builder_.getPtrTy());
  types.insert(types.end(), captures.scalars.size(), builder_.getInt64Ty());
  BeginFunction(modules_.hot, llvm::FunctionType::get(builder_.getVoidTy(), types, false), prefix_);
  BindPointers(2, pointers);
  auto index = static_cast<unsigned>(2 + pointers.size());
  for (const Name& var : captures.scalars) bindings_.vars[var] = function_->getArg(index++);
  bindings_.analyzer = outside;
  bindings_.analyzer.Bind(loop.var, 0, *AsInt(loop.extent) - 1);
  expressions_.addresses().EnterScope();
  EmitLoop(loop, function_->getArg(0), function_->getArg(1), /*known_nonempty=*/false);
  expressions_.addresses().LeaveScope();
  streaming_.Fence();
  tiles_.Release(builder_);
  builder_.CreateRetVoid();
  return function_;
}

void FunctionEmitter::BeginFunction(llvm::Module& module, llvm::FunctionType* type, const std::string& name) {
  function_ = MakeHidden(module, type, name);
  function_->addFnAttr(llvm::Attribute::NoInline);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(builder_.getContext(), "entry", function_));
}

void FunctionEmitter::BindPointers(unsigned first, const std::vector<PointerParam>& pointers) {
  for (unsigned i = 0; i < pointers.size(); ++i) {
    const PointerParam& p = pointers[i];
    DescribeParam(function_, first + i, p);
    bindings_.buffers[p.name] = {function_->getArg(first + i), ConstShape(p.buffer)[0], p.alignment};
  }
}

void FunctionEmitter::EmitSeq(const Seq& seq) {
  loads_.Enter(seq);
  interleaves_.Find(seq);
  StatementEmitter::EmitSeq(seq);
  loads_.Leave();
  interleaves_.Clear();
}

void FunctionEmitter::EmitLet(const Let& let) {
  bindings_.vars[let.var] = expressions_.Value(let.value);
  Emit(let.body);
}

void FunctionEmitter::EmitAlloc(const Alloc& alloc) {
  const Buffer& buffer = alloc.buffer;
  if (buffer->scope == Scope::kRegister) {
    bindings_.buffers[buffer->name] = AllocaOf(*function_, expressions_.operations(), buffer,
                                               kRegisterBufferPrefix + buffer->name.str(), AT_ALIGNMENT);
  } else {
    CHECK(bindings_.buffers.contains(buffer->name)) << "no memory for " << buffer->name;
  }
  Emit(alloc.body);
}

void FunctionEmitter::EmitFor(const For& loop) {
  if (loop.kind == LoopKind::kParallel) return EmitParallel(loop);
  if (loop.annotations.contains(kTiles) && target_.has_tiles && EmitTiles(loop)) return;
  const int64_t* extent = AsInt(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent && *extent == 1) {
    bindings_.vars[loop.var] = builder_.getInt64(0);
    bindings_.analyzer.Bind(loop.var, 0, 0);
    return Emit(loop.body);
  }
  llvm::Value* end = expressions_.Index(loop.extent);
  if (extent) bindings_.analyzer.Bind(loop.var, 0, *extent - 1);
  EmitLoop(loop, builder_.getInt64(0), end, extent != nullptr);
}

void FunctionEmitter::EmitLoop(const For& loop, llvm::Value* begin, llvm::Value* end, bool known_nonempty) {
  std::string label = (IsRegisterLoopBody(loop.body) ? kRegisterLoopPrefix : "loop.") + loop.var.str();
  control_.Loop({loop.var, begin, end, known_nonempty, !HasLoop(loop.body), label}, [&] { Emit(loop.body); });
}

bool FunctionEmitter::EmitTiles(const For& loop) {
  const std::optional<TileProduct> product = MatchTileProduct(loop);
  if (!product) return false;
  const auto address = [&](const Expr& first) {
    const Load& load = *first.As<Load>();
    return expressions_.addresses().Of(load.buffer, load.indices[0]).pointer;
  };
  llvm::Value *c = address(product->c), *a = address(product->a), *b = address(product->b);
  tiles_.Emit(builder_, *product, c, a, b);
  return true;
}

void FunctionEmitter::EmitParallel(const For& loop) {
  const int64_t* extent = AsInt(loop.extent);
  CHECK(extent && *extent > 0) << "parallel loop " << loop.var << " has no constant extent";
  Captures captures = CapturesOf(
      loop, [&](const Name& name) { return bindings_.buffers.contains(name); },
      [&](const Name& name) { return bindings_.vars.contains(name); });
  for (PointerParam& p : captures.buffers) p.alignment = bindings_.buffers.at(p.name).alignment;
  const std::string name = prefix_ + ".parallel" + std::to_string(next_parallel_++);
  FunctionEmitter inner(modules_, target_, name, streaming_.buffers());
  llvm::Function* body = inner.EmitParallelBody(loop, captures, bindings_.analyzer);
  EmitParallelRun(builder_, modules_, at_context_, bindings_, {name, body, captures, *extent, loop.var});
  if (inner.tiles_.used()) tiles_.Restore(builder_);
}

void FunctionEmitter::EmitIf(const If& branch) {
  llvm::Value* condition = expressions_.Value(branch.condition);
  auto then_body = [&] { Emit(branch.then_body); };
  auto else_body = [&] {
    const bool outside = std::exchange(in_else_, true);
    Emit(branch.else_body);
    in_else_ = outside;
  };
  control_.Branch(branch.condition, condition, then_body, branch.else_body ? ControlFlow::Body(else_body) : nullptr);
}

void FunctionEmitter::EmitStore(const Store& store) {
  Addresses& addresses = expressions_.addresses();
  llvm::Value* value =
      expressions_.operations().ToMemory(expressions_.Value(WithSharedTerms(store.value)), store.value.dtype());
  const std::optional<Expr> first = FirstOfContiguous(store);
  if (!first) {
    if (!interleaves_.Take(addresses, store, value)) StoreLanes(builder_, expressions_, store, value);
    return;
  }
  Addresses::Address address = addresses.Of(store.buffer, *first);
  const BufferMemory& memory = bindings_.buffers.at(store.buffer->name);
  if (streaming_.Store(store, value, address, memory, addresses.InnermostVar(), in_else_)) return;
  builder_.CreateAlignedStore(value, address.pointer, address.alignment);
}

void FunctionEmitter::EmitEvaluate(const Expr& value) {
  const Call* call = value.As<Call>();
  const Load* load = call && IsPrefetch(call->op) ? call->args[0].As<Load>() : nullptr;
  CHECK(load) << "only prefetch(load) may be evaluated";
  if (streaming_.buffers().contains(load->buffer->name)) return;  // streaming stores bypass the caches
  const Ramp* ramp = load->indices[0].As<Ramp>();
  Addresses::Address address = expressions_.addresses().Of(load->buffer, ramp ? ramp->base : load->indices[0]);
  constexpr uint32_t kKeepInAll = 3, kKeepInOuter = 2, kData = 1;  // operands of llvm.prefetch
  builder_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
      {address.pointer, builder_.getInt32(call->op == Op::kPrefetchWrite ? 1 : 0),
       builder_.getInt32(call->op == Op::kPrefetchFar ? kKeepInOuter : kKeepInAll), builder_.getInt32(kData)});
}

}  // namespace autotune
