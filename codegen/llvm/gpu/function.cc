#include "codegen/llvm/gpu/function.h"

#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/identifiers.h"
#include "codegen/llvm/machine.h"
#include "codegen/llvm/statements.h"
#include "codegen/loops.h"
#include "codegen/share.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/passes.h"
#include "support/check.h"
#include "support/integer.h"
#include "target/cuda_arch.h"

namespace autotune {
namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;  // address spaces of NVPTX
constexpr int64_t kVectorBytes = 16;                    // size and alignment of the widest access of one thread

int64_t AlignedBytes(const Buffer& buffer) { return AlignUp(BytesOf(buffer), kVectorBytes); }

bool HasRegisterTile(const Stmt& body) {
  bool found = false;
  Walk(body, [&](const Stmt& s) {
    const Alloc* alloc = s.As<Alloc>();
    return found |= alloc && alloc->buffer->scope == Scope::kRegister, !found;
  });
  return found;
}

}  // namespace

KernelEmitter::KernelEmitter(llvm::Module& module, const Target& target, int index_bits)
    : module_(module),
      builder_(module.getContext()),
      expressions_(builder_, target, bindings_, nullptr, index_bits),
      control_(builder_, bindings_, expressions_.addresses()) {}

void KernelEmitter::EmitKernel(KernelFunction& kernel) {
  BeginFunction(kernel);
  BindShared(kernel);
  expressions_.addresses().EnterScope();
  Emit(kernel.body);
  expressions_.addresses().LeaveScope();
  builder_.CreateRetVoid();
}

void KernelEmitter::BeginFunction(const KernelFunction& kernel) {
  std::vector<llvm::Type*> types(kernel.pointers.size(), builder_.getPtrTy(kGlobalSpace));
  function_ = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                     llvm::Function::ExternalLinkage, kernel.launch.entry, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(builder_.getContext(), "entry", function_));
  for (unsigned i = 0; i < kernel.pointers.size(); ++i) DescribeParam(i, kernel.pointers[i]);
  std::vector<llvm::Metadata*> limits = {llvm::ValueAsMetadata::get(function_)};
  auto limit = [&](const char* name, int64_t value) {
    limits.push_back(llvm::MDString::get(builder_.getContext(), name));
    limits.push_back(llvm::ConstantAsMetadata::get(builder_.getInt32(static_cast<uint32_t>(value))));
  };
  // The size of a block tells the driver's compiler how many registers a thread may have.
  constexpr const char* kAxes[] = {"maxntidx", "maxntidy", "maxntidz"};
  for (int axis = 0; axis < 3; ++axis) limit(kAxes[axis], kernel.launch.block[axis]);
  // Sets a minimum of 1 resident block, which every tile can meet. Without a minimum, the driver's compiler spills a
  // few registers of some tiles, so that more blocks are resident. A spill in the loop of a register tile costs more
  // than the additional blocks gain.
  if (HasRegisterTile(kernel.body)) limit("minctasm", 1);
  module_.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(builder_.getContext(), limits));
}

// Only parameters that the kernel does not write are noalias. LLVM assumes that a barrier does not change the memory of
// a noalias parameter, but other threads may have written to the memory of a written parameter.
void KernelEmitter::DescribeParam(unsigned index, const PointerParam& p) {
  llvm::LLVMContext& context = builder_.getContext();
  function_->addParamAttr(index, llvm::Attribute::NoUndef);
  function_->addParamAttr(index, llvm::Attribute::getWithAlignment(context, llvm::Align(p.buffer->alignment)));
  function_->addParamAttr(index, llvm::Attribute::getWithDereferenceableBytes(context, BytesOf(p.buffer)));
  if (!p.written) {
    function_->addParamAttr(index, llvm::Attribute::NoAlias);
    function_->addParamAttr(index, llvm::Attribute::ReadOnly);
  }
  function_->getArg(index)->setName(p.name.str());
  bindings_.buffers[p.name] = {function_->getArg(index), ConstShape(p.buffer)[0], p.buffer->alignment};
}

void KernelEmitter::BindShared(KernelFunction& kernel) {
  const std::vector<Buffer> buffers = SharedBuffersOf(kernel.body);
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += AlignedBytes(buffer);
  const bool outside = bytes > kStaticSharedBytes;
  auto declare = [&](llvm::Type* type, const std::string& name) {
    auto* memory = new llvm::GlobalVariable(
        module_, type, false, outside ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
        outside ? nullptr : llvm::PoisonValue::get(type), name, nullptr, llvm::GlobalValue::NotThreadLocal,
        kSharedSpace);
    memory->setAlignment(llvm::Align(kVectorBytes));
    return memory;
  };
  llvm::GlobalVariable* all = nullptr;
  if (outside) {
    all = declare(llvm::ArrayType::get(builder_.getInt8Ty(), 0), kernel.launch.entry + "_shared");
    kernel.launch.shared_bytes = bytes;
  }
  int64_t offset = 0;
  for (const Buffer& buffer : buffers) {
    const int64_t elements = ConstShape(buffer)[0];
    llvm::Value* memory;
    if (outside) {
      memory = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), all, static_cast<uint64_t>(offset));
      offset += AlignedBytes(buffer);
    } else {
      memory = declare(llvm::ArrayType::get(expressions_.operations().MemoryType(buffer->dtype), elements),
                       kernel.launch.entry + "_" + IdentifierOf(buffer->name.str()));
    }
    bindings_.buffers[buffer->name] = {memory, elements, kVectorBytes};
  }
}

void KernelEmitter::EmitLet(const Let& let) {
  bindings_.vars[let.var] = expressions_.Value(let.value);
  Emit(let.body);
}

void KernelEmitter::EmitFor(const For& loop) {
  const int64_t* extent = AsInt(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent) bindings_.analyzer.Bind(loop.var, 0, *extent - 1);
  if (IsBound(loop.kind) || (extent && *extent == 1)) {
    CHECK(extent) << "loop " << loop.var << " over threads has no constant extent";
    bindings_.vars[loop.var] = *extent == 1 ? expressions_.operations().Index(0) : SpecialRegister(loop.kind, *extent);
    return Emit(loop.body);
  }
  llvm::Value* end = expressions_.Index(loop.extent);
  control_.Loop({loop.var, expressions_.operations().Index(0), end, extent != nullptr, !HasLoop(loop.body),
                 "loop." + loop.var.str()},
                [&] { Emit(loop.body); });
}

// Returns the number of the block or thread along an axis, as an index.
llvm::Value* KernelEmitter::SpecialRegister(LoopKind axis, int64_t extent) {
  static constexpr llvm::Intrinsic::ID kRegisters[] = {
      llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
      llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x,
      llvm::Intrinsic::nvvm_read_ptx_sreg_tid_y,   llvm::Intrinsic::nvvm_read_ptx_sreg_tid_z};
  const int row = static_cast<int>(axis) - static_cast<int>(LoopKind::kBlockX);
  llvm::CallInst* value = builder_.CreateIntrinsic(kRegisters[row], {}, {});
  value->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(extent))));
  return builder_.CreateZExt(value, expressions_.operations().IndexType(), "", /*IsNonNeg=*/true);
}

void KernelEmitter::EmitIf(const If& branch) {
  llvm::Value* condition = expressions_.Value(branch.condition);
  auto then_body = [&] { Emit(branch.then_body); };
  auto else_body = [&] { Emit(branch.else_body); };
  control_.Branch(branch.condition, condition, then_body, branch.else_body ? ControlFlow::Body(else_body) : nullptr);
}

// Emits a store of async(value) as one cp.async instruction. It copies from global to shared memory without a register
// and without waiting. The value must be a load of 4, 8 or 16 bytes, or such a load where a condition holds and 0
// elsewhere. Emits nothing and returns false for any other value.
bool KernelEmitter::EmitAsyncCopy(const Store& store) {
  const Expr& value = AsyncValue(store);
  const Select* select = value.As<Select>();
  const Load* load = CopiedLoad(value);
  const int64_t bytes = value.dtype().Bytes();
  if (!load || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  if (select && select->condition.dtype().lanes != 1) return false;
  const Ramp* ramp = load->indices[0].As<Ramp>();
  const bool vector = value.dtype().lanes > 1;
  const std::optional<Expr> to = FirstOfContiguous(store);
  if (!to || (vector && (!ramp || !IsConst(ramp->stride, 1)))) return false;
  const Expr& from = vector ? ramp->base : load->indices[0];
  // A subscript that loads a value may be valid only where the condition holds.
  if (HasNode<Load>(from)) return false;
  Addresses& addresses = expressions_.addresses();
  Addresses::Address source = addresses.Of(load->buffer, from), target = addresses.Of(store.buffer, *to);
  const auto aligned = static_cast<uint64_t>(bytes);
  if (source.alignment.value() < aligned || target.alignment.value() < aligned) return false;
  // Emits inline PTX, since LLVM's intrinsics have no form with 32-bit shared and 64-bit global addresses. Copies of 16
  // bytes bypass the L1 cache (cg).
  const std::string head =
      std::string("cp.async.") + (bytes == 16 ? "cg" : "ca") + ".shared.global [$0], [$1], " + std::to_string(bytes);
  auto emit = [&](const std::string& text, const std::string& operands, const std::vector<llvm::Value*>& values) {
    std::vector<llvm::Type*> types;
    for (llvm::Value* operand : values) types.push_back(operand->getType());
    llvm::FunctionType* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
    builder_.CreateCall(type, llvm::InlineAsm::get(type, text, operands + ",~{memory}", /*hasSideEffects=*/true),
                        values);
  };
  if (!select) return emit(head + ";", "r,l", {target.pointer, source.pointer}), true;
  // The instruction reads `size` bytes and fills the rest with 0. If `size` is 0, it reads nothing, but the address
  // should still be valid.
  llvm::Value* condition = expressions_.Value(select->condition);
  llvm::Value* size =
      builder_.CreateSelect(condition, builder_.getInt32(static_cast<uint32_t>(bytes)), builder_.getInt32(0));
  llvm::Value* safe =
      builder_.CreateSelect(condition, source.pointer, bindings_.buffers.at(load->buffer->name).pointer);
  emit(head + ", $2;", "r,l,r", {target.pointer, safe, size});
  return true;
}

// Returns the addresses of the 32-bit words of a vector in registers.
std::vector<Addresses::Address> KernelEmitter::WordsOf(const Buffer& buffer, const Expr& index) {
  const Ramp* ramp = index.As<Ramp>();
  CHECK(ramp && buffer->scope == Scope::kRegister) << "matrices of tensor cores are in registers";
  std::vector<Addresses::Address> words;
  const int pack = 32 / buffer->dtype.bits;
  for (int i = 0; i < index.dtype().lanes; i += pack)
    words.push_back(expressions_.addresses().Of(buffer, ramp->base + Expr(i)));
  return words;
}

void KernelEmitter::EmitMma(const Store& store) {
  const std::vector<Expr>& args = store.value.As<Call>()->args;  // c, a, b
  const DType operand = args[1].dtype().Element();
  llvm::Type *f32 = builder_.getFloatTy(), *word = builder_.getInt32Ty();
  llvm::Intrinsic::ID id = llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
  if (operand == DType::Float(32)) id = llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
  if (operand == DType::Float(16)) {
    id = llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
    word = llvm::FixedVectorType::get(builder_.getHalfTy(), 2);
  }
  std::vector<llvm::Value*> values;
  for (const auto& [matrix, type] : {std::pair{args[1], word}, {args[2], word}, {args[0], f32}}) {
    const Load* load = matrix.As<Load>();
    CHECK(load) << "matrices of tensor cores are in registers";
    for (const Addresses::Address& at : WordsOf(load->buffer, load->indices[0]))
      values.push_back(builder_.CreateAlignedLoad(type, at.pointer, at.alignment));
  }
  llvm::Value* sums = builder_.CreateIntrinsic(id, {}, values);
  unsigned i = 0;
  for (const Addresses::Address& at : WordsOf(store.buffer, store.indices[0]))
    builder_.CreateAlignedStore(builder_.CreateExtractValue(sums, i++), at.pointer, at.alignment);
}

void KernelEmitter::EmitStore(const Store& given) {
  const Call* call = given.value.As<Call>();
  if (call && call->op == Op::kAsync && EmitAsyncCopy(given)) return;
  if (call && call->op == Op::kMma) return EmitMma(given);
  // A store of async(value) that is not one cp.async becomes an ordinary store. That is correct, since a later wait for
  // asynchronous stores then finds it complete.
  const Store store{given.buffer, given.indices, WithSharedTerms(AsyncValue(given))};
  llvm::Value* value = expressions_.operations().ToMemory(expressions_.Value(store.value), store.value.dtype());
  if (const std::optional<Expr> first = FirstOfContiguous(store)) {
    Addresses::Address address = expressions_.addresses().Of(store.buffer, *first);
    builder_.CreateAlignedStore(value, address.pointer, address.alignment);
  } else {
    StoreLanes(builder_, expressions_, store, value);
  }
}

void KernelEmitter::EmitAlloc(const Alloc& alloc) {
  const Buffer& buffer = alloc.buffer;
  if (buffer->scope == Scope::kRegister || buffer->scope == Scope::kLocal) {
    const std::string prefix = buffer->scope == Scope::kRegister ? kRegisterBufferPrefix : "local.";
    bindings_.buffers[buffer->name] =
        AllocaOf(*function_, expressions_.operations(), buffer, prefix + buffer->name.str(), kVectorBytes);
  } else {
    CHECK(bindings_.buffers.contains(buffer->name)) << "no memory for " << buffer->name;
  }
  Emit(alloc.body);
}

void KernelEmitter::EmitEvaluate(const Expr& value) {
  const Call* call = value.As<Call>();
  CHECK(call) << "only calls are evaluated";
  if (call->op == Op::kBarrier) {
    builder_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
    return;
  }
  if (call->op == Op::kAsyncCommit) {
    builder_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
    return;
  }
  if (call->op == Op::kAsyncWait) {
    llvm::Value* groups = builder_.getInt32(static_cast<uint32_t>(*AsInt(call->args[0])));
    builder_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {groups});
    return;
  }
  // Prefetches are left out on GPUs, since other threads run while one thread waits for memory.
  CHECK(IsPrefetch(call->op)) << "only hints, barriers and groups of asynchronous stores may be evaluated";
}

}  // namespace autotune
