#include "codegen/llvm/byte_tables.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "ir/byte_table.h"

namespace autotune {
namespace {

// A vector with fewer lanes takes no longer with a load for each of them.
constexpr int kFewestLanes = 4;
constexpr int kX86Lanes = 64, kArmLanes = 16;  // bytes of a register

int CountOf(llvm::Value* vector) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements());
}

// Returns lanes [begin, begin + count) of a vector. Lanes behind its end are undefined.
llvm::Value* LanesFrom(llvm::IRBuilder<>& builder, llvm::Value* vector, int begin, int count) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), begin);
  for (int& lane : order)
    if (lane >= CountOf(vector)) lane = -1;
  return builder.CreateShuffleVector(vector, order);
}

std::vector<llvm::Value*> LoadTable(llvm::IRBuilder<>& builder, llvm::Value* table, int lanes) {
  std::vector<llvm::Value*> registers;
  llvm::Type* type = llvm::FixedVectorType::get(builder.getInt8Ty(), static_cast<unsigned>(lanes));
  for (int64_t at = 0; at < kByteValues; at += lanes) {
    llvm::Value* place = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), table, static_cast<uint64_t>(at));
    registers.push_back(builder.CreateAlignedLoad(type, place, llvm::Align(1)));
  }
  return registers;
}

// AVX512_VBMI looks 7 bits up in two registers. The upper bit, the sign, chooses the half of the table.
llvm::Value* LookUpOnX86(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& table, llvm::Value* bytes) {
  const auto look_up = [&](size_t half) {
    return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {},
                                   {table[2 * half], bytes, table[2 * half + 1]});
  };
  llvm::Value* is_upper = builder.CreateICmpSLT(bytes, llvm::Constant::getNullValue(bytes->getType()));
  return builder.CreateSelect(is_upper, look_up(1), look_up(0));
}

// Neon looks bytes up in four registers. A byte beyond them gives 0 (tbl), or leaves the lane as it was (tbx).
llvm::Value* LookUpOnArm(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& table, llvm::Value* bytes) {
  constexpr size_t kRegisters = 4;
  llvm::Value* found = nullptr;
  for (size_t first = 0; first < table.size(); first += kRegisters) {
    llvm::Constant* before = llvm::ConstantInt::get(bytes->getType(), first * kArmLanes);
    std::vector<llvm::Value*> arguments(table.begin() + static_cast<std::ptrdiff_t>(first),
                                        table.begin() + static_cast<std::ptrdiff_t>(first + kRegisters));
    arguments.push_back(builder.CreateSub(bytes, before));
    if (found) arguments.insert(arguments.begin(), found);
    found = builder.CreateIntrinsic(found ? llvm::Intrinsic::aarch64_neon_tbx4 : llvm::Intrinsic::aarch64_neon_tbl4,
                                    {bytes->getType()}, arguments);
  }
  return found;
}

}  // namespace

bool LooksUpBytes(const Target& target, int lanes) { return target.has_byte_tables && lanes >= kFewestLanes; }

llvm::Value* EmitByteLookUp(llvm::IRBuilder<>& builder, const Target& target, llvm::Value* table, llvm::Value* bytes) {
  const bool is_x86 = target.triple.starts_with("x86_64");
  const int count = CountOf(bytes), lanes = is_x86 ? kX86Lanes : kArmLanes;
  const std::vector<llvm::Value*> registers = LoadTable(builder, table, lanes);
  std::vector<llvm::Value*> parts;
  for (int begin = 0; begin < count; begin += lanes) {
    llvm::Value* part = count == lanes ? bytes : LanesFrom(builder, bytes, begin, lanes);
    parts.push_back(is_x86 ? LookUpOnX86(builder, registers, part) : LookUpOnArm(builder, registers, part));
  }
  llvm::Value* found = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const int joined = CountOf(found);
    std::vector<int> order(static_cast<size_t>(joined + lanes));
    std::iota(order.begin(), order.end(), 0);
    found =
        builder.CreateShuffleVector(found, joined == lanes ? parts[i] : LanesFrom(builder, parts[i], 0, joined), order);
  }
  return CountOf(found) == count ? found : LanesFrom(builder, found, 0, count);
}

}  // namespace autotune
