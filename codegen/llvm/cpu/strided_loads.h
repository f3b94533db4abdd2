// CpuStridedLoads: loads vectors whose lanes are not contiguous (see StridedLoads) on a CPU. If such a vector is a
// column of a square, the square is transposed in registers (transposes.h). If its lanes are look-ups of bytes,
// registers may hold the table (byte_tables.h). If all lanes are close together, one contiguous vector is loaded and
// permuted. Borrows the arguments of its constructor. Not thread-safe. Internal to codegen/llvm/cpu.
#pragma once
#include "codegen/lanes.h"
#include "codegen/llvm/cpu/byte_tables.h"
#include "codegen/llvm/cpu/transposes.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

class CpuStridedLoads final : public StridedLoads {
 public:
  CpuStridedLoads(llvm::IRBuilder<>& builder, const Target& target, const Bindings& bindings)
      : builder_(builder), bindings_(bindings), transposes_(builder), tables_(builder, target) {}

  // Must be called before and after a sequence is emitted.
  void Enter(const Seq& seq) {
    transposes_.Find(seq);
    tables_.Find(seq);
  }
  void Leave() {
    transposes_.Clear();
    tables_.Clear();
  }

  llvm::Value* Emit(Addresses& addresses, const Load& load, llvm::Type* type, const Context& context) override;

 private:
  llvm::Value* LoadNeighbours(Addresses& addresses, const Buffer& buffer, const Lanes& at, llvm::Type* type,
                              llvm::Value* guard);
  // Returns a mask of `count` elements, in which element i is set if i < end.
  llvm::Value* ElementsBefore(int64_t end, int64_t count);
  // Returns a mask for the elements from offset `low` on. Element i is set if some lane whose guard holds reads it.
  llvm::Value* ElementsGuarded(llvm::Value* guard, const Lanes& at, int64_t low);

  llvm::IRBuilder<>& builder_;
  const Bindings& bindings_;
  Transposes transposes_;
  ByteTables tables_;
};

}  // namespace autotune
