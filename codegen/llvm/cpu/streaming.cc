#include "codegen/llvm/cpu/streaming.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "arith/analyzer.h"
#include "codegen/walk.h"
#include "target/streaming.h"

namespace autotune {
namespace {

constexpr int64_t kLineBytes = 64;  // size of a cache line
// Largest step of an innermost loop in bytes. With a larger step, the loop leaves gaps between its stores.
constexpr int64_t kMaxStep = 4 * kLineBytes;
constexpr int64_t kMinBytes = 16;  // size of the smallest vector for which there is a streaming store

// Moves the builder to a new block and returns it.
llvm::BasicBlock* BeginBlock(llvm::IRBuilder<>& builder, const char* name) {
  llvm::Function* function = builder.GetInsertBlock()->getParent();
  llvm::BasicBlock* block = llvm::BasicBlock::Create(builder.getContext(), name, function);
  builder.SetInsertPoint(block);
  return block;
}

}  // namespace

std::set<Name> StreamedBuffers(const Stmt& body, const Target& target) {
  std::set<Name> streamed, others;
  WalkOnce(
      body,
      [&](const Stmt& s) {
        if (const Alloc* alloc = s.As<Alloc>()) others.insert(alloc->buffer->name);
        if (const Store* store = s.As<Store>()) {
          const Buffer& buffer = store->buffer;
          if (IsStreamed(ConstShape(buffer)[0] * buffer->dtype.Bytes(), target)) streamed.insert(buffer->name);
        }
        return true;
      },
      [&](const Expr& e) {
        if (const Load* load = e.As<Load>()) others.insert(load->buffer->name);
        const Call* call = e.As<Call>();
        return !call || call->op != Op::kPrefetchWrite;
      });
  for (const Name& name : others) streamed.erase(name);
  return streamed;
}

bool FillsLines(const Buffer& buffer, const Expr& index, int lanes, const std::optional<Name>& innermost) {
  const int64_t bytes = lanes * buffer->dtype.Bytes();
  if (bytes % kLineBytes == 0) return true;
  if (bytes < kMinBytes || kLineBytes % bytes != 0 || !innermost) return false;
  const int64_t step = ToLinear(index).Coefficient(*innermost);
  return step >= lanes && step * buffer->dtype.Bytes() <= kMaxStep;
}

bool StreamingStores::Store(const autotune::Store& store, llvm::Value* value, const Addresses::Address& address,
                            const BufferMemory& memory, const std::optional<Name>& innermost, bool after_vectors) {
  const Ramp* ramp = store.indices[0].As<Ramp>();
  const int lanes = store.value.dtype().lanes;
  if (!ramp || !buffers_.contains(store.buffer->name)) return false;
  const int64_t bytes = store.buffer->dtype.Bytes();
  // A store whose index does not depend on the innermost loop's variable is the tail of a row.
  const bool tail = innermost && after_vectors && ToLinear(ramp->base).Coefficient(*innermost) == 0;
  if (!tail && !FillsLines(store.buffer, ramp->base, lanes, innermost)) return false;
  // A streaming store must be aligned to its size. If the length of rows is not a multiple of the vector's length, a
  // vector has a smaller alignment and is stored by several shorter stores.
  const int64_t piece = std::min<int64_t>(lanes, address.multiple / bytes), smallest = kMinBytes / bytes;
  if (piece < smallest || lanes % piece != 0) return false;
  used_ = true;
  if (static_cast<int64_t>(address.alignment.value()) >= piece * bytes) {
    Stream(value, address.pointer, piece);
    return true;
  }
  // The caller's array decides at run time. The branch is the same for the whole run.
  llvm::BasicBlock* from = builder_.GetInsertBlock();
  llvm::BasicBlock* whole = BeginBlock(builder_, "stream");
  Stream(value, address.pointer, piece);
  llvm::BasicBlock* other = BeginBlock(builder_, "unaligned");
  llvm::BasicBlock* pieces = BeginBlock(builder_, "stream_pieces");
  Stream(value, address.pointer, smallest);
  llvm::BasicBlock* cached = BeginBlock(builder_, "cached");
  builder_.CreateAlignedStore(value, address.pointer, address.alignment);
  llvm::BasicBlock* after = BeginBlock(builder_, "stored");
  for (llvm::BasicBlock* block : {whole, pieces, cached}) llvm::BranchInst::Create(after, block);
  llvm::BranchInst::Create(whole, other, IsAligned(memory.pointer, piece * bytes), from);
  llvm::BranchInst::Create(pieces, cached, IsAligned(memory.pointer, kMinBytes), other);
  return true;
}

llvm::Value* StreamingStores::IsAligned(llvm::Value* pointer, int64_t bytes) {
  llvm::Value*& aligned = aligned_[{pointer, bytes}];
  if (aligned) return aligned;
  llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> b(&entry, entry.begin());
  llvm::Value* address = b.CreatePtrToInt(pointer, b.getInt64Ty());
  return aligned = b.CreateIsNull(b.CreateAnd(address, b.getInt64(static_cast<uint64_t>(bytes - 1))));
}

void StreamingStores::Stream(llvm::Value* value, llvm::Value* start, int64_t piece) {
  const int64_t lanes = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
  const int64_t bytes = value->getType()->getScalarSizeInBits() / 8;
  llvm::Metadata* one = llvm::ConstantAsMetadata::get(builder_.getInt32(1));
  for (int64_t begin = 0; begin < lanes; begin += piece) {
    std::vector<int> order;
    for (int64_t i = begin; i < begin + piece; ++i) order.push_back(static_cast<int>(i));
    llvm::Value* part = piece == lanes ? value : builder_.CreateShuffleVector(value, order);
    llvm::Value* pointer = builder_.CreateConstGEP1_64(part->getType()->getScalarType(), start, begin);
    llvm::StoreInst* instruction = builder_.CreateAlignedStore(part, pointer, llvm::Align(piece * bytes));
    instruction->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(builder_.getContext(), one));
  }
}

void StreamingStores::Fence() {
  if (used_) builder_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

}  // namespace autotune
