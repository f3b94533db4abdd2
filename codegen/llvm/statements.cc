#include "codegen/llvm/statements.h"

namespace autotune {

std::optional<Expr> FirstOfContiguous(const Store& store) {
  const Expr& index = store.indices[0];
  if (store.value.dtype().lanes == 1) return index;
  const Ramp* ramp = index.As<Ramp>();
  return ramp && IsConst(ramp->stride, 1) ? std::optional(ramp->base) : std::nullopt;
}

void StoreLanes(llvm::IRBuilder<>& builder, Expressions& expressions, const Store& store, llvm::Value* value) {
  Addresses& addresses = expressions.addresses();
  const Expr& index = store.indices[0];
  const Ramp* ramp = index.As<Ramp>();
  llvm::Value* indices = ramp ? nullptr : expressions.Value(index);
  for (int lane = 0; lane < store.value.dtype().lanes; ++lane) {
    Addresses::Address address = ramp ? addresses.Of(store.buffer, ramp->base + ramp->stride * Expr(lane))
                                      : addresses.Element(store.buffer, builder.CreateExtractElement(indices, lane));
    builder.CreateAlignedStore(builder.CreateExtractElement(value, lane), address.pointer,
                               llvm::Align(store.buffer->dtype.Bytes()));
  }
}

BufferMemory AllocaOf(llvm::Function& function, Operations& operations, const Buffer& buffer, const std::string& name,
                      int64_t alignment) {
  llvm::IRBuilder<> entry(&function.getEntryBlock(), function.getEntryBlock().begin());
  const int64_t elements = ConstShape(buffer)[0];
  llvm::Type* type = llvm::ArrayType::get(operations.MemoryType(buffer->dtype), elements);
  llvm::AllocaInst* memory = entry.CreateAlloca(type, nullptr, name);
  memory->setAlignment(llvm::Align(alignment));
  return {memory, elements, alignment};
}

}  // namespace autotune
