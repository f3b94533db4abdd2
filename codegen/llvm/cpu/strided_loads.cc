#include "codegen/llvm/cpu/strided_loads.h"

#include <algorithm>
#include <bit>

#include "ir/int_math.h"

namespace autotune {

llvm::Value* CpuStridedLoads::Emit(Addresses& addresses, const Load& load, llvm::Type* type, const Context& context) {
  if (!context.guard) {
    if (llvm::Value* column = transposes_.ColumnOf(addresses, load, type)) return column;
  }
  if (llvm::Value* entries = tables_.EntriesOf(addresses, load, context.guard, context.value_of)) return entries;
  std::optional<Lanes> at = LanesOf(load.indices[0]);
  return at ? LoadNeighbours(addresses, load.buffer, *at, type, context.guard) : nullptr;
}

llvm::Value* CpuStridedLoads::ElementsBefore(int64_t end, int64_t count) {
  std::vector<llvm::Constant*> used;
  for (int64_t i = 0; i < count; ++i) used.push_back(builder_.getInt1(i < end));
  return llvm::ConstantVector::get(used);
}

llvm::Value* CpuStridedLoads::ElementsGuarded(llvm::Value* guard, const Lanes& at, int64_t low) {
  const size_t count = at.offsets.size();
  std::vector<std::vector<int>> readers(count);  // the lanes that read each element
  for (size_t lane = 0; lane < count; ++lane)
    readers[static_cast<size_t>(at.offsets[lane] - low)].push_back(static_cast<int>(lane));
  llvm::Value *none = llvm::Constant::getNullValue(guard->getType()), *mask = nullptr;
  for (size_t turn = 0; turn < count; ++turn) {
    std::vector<int> lanes;
    bool any = false;
    for (const std::vector<int>& of_element : readers) {
      lanes.push_back(turn < of_element.size() ? of_element[turn] : static_cast<int>(count));
      any |= turn < of_element.size();
    }
    if (!any) break;
    llvm::Value* reads = builder_.CreateShuffleVector(guard, none, lanes);
    mask = mask ? builder_.CreateOr(mask, reads) : reads;
  }
  return mask;
}

// Loads one vector that contains all lanes and permutes it. Returns null if the lanes are too far apart for one vector.
llvm::Value* CpuStridedLoads::LoadNeighbours(Addresses& addresses, const Buffer& buffer, const Lanes& at,
                                             llvm::Type* type, llvm::Value* guard) {
  const auto count = static_cast<int64_t>(at.offsets.size());
  auto [low, high] = std::minmax_element(at.offsets.begin(), at.offsets.end());
  const int64_t span = *high - *low;
  const BufferMemory& memory = bindings_.buffers.at(buffer->name);
  if (!std::has_single_bit(static_cast<uint64_t>(count))) return nullptr;
  if (span >= count || memory.elements < count || buffer->scope == Scope::kRegister) return nullptr;
  // Loads a whole vector if it contains all lanes. The offset of the vector and the length of the buffer must then be
  // multiples of the vector's length: such a vector does not cross the end of the buffer. Otherwise loads from the
  // lowest lane on, and a mask leaves out the elements after the highest lane, which may be beyond the end.
  const int64_t bytes = buffer->dtype.Bytes();
  int64_t before = FloorModulo(ToLinear(at.base + Expr(*low)).constant, count);
  Addresses::Address address = addresses.Of(buffer, at.base + Expr(*low - before));
  const bool by_lane = guard && guard->getType()->isVectorTy();
  const bool whole =
      !by_lane && before + span < count && memory.elements % count == 0 && address.multiple >= count * bytes;
  if (!whole) {
    before = 0;
    address = addresses.Of(buffer, at.base + Expr(*low));
  }
  if (guard && !by_lane) address.pointer = builder_.CreateSelect(guard, address.pointer, memory.pointer);
  llvm::Value* read = nullptr;
  if (whole) {
    read = builder_.CreateAlignedLoad(type, address.pointer, address.alignment);
  } else {
    llvm::Value* mask = by_lane ? ElementsGuarded(guard, at, *low) : ElementsBefore(span + 1, count);
    read = builder_.CreateMaskedLoad(type, address.pointer, llvm::Align(static_cast<uint64_t>(bytes)), mask,
                                     llvm::Constant::getNullValue(type));
  }
  std::vector<int> order;
  for (int64_t offset : at.offsets) order.push_back(static_cast<int>(offset - *low + before));
  return builder_.CreateShuffleVector(read, order);
}

}  // namespace autotune
