#include "codegen/llvm/cpu/byte_tables.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "codegen/walk.h"
#include "ir/byte_table.h"

namespace autotune {
namespace {

// For a vector with fewer lanes, a load for each of them takes no longer.
constexpr int kFewestLanes = 4;
constexpr int kX86Lanes = 64, kArmLanes = 16;  // bytes of a register

int CountOf(llvm::Value* vector) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements());
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

// Returns the register of i32 from whose lowest bytes `bytes` was cut; null: there is none.
llvm::Value* WordsOf(llvm::Value* bytes) {
  constexpr unsigned kRegisterBits = 8 * kX86Lanes;
  auto* cut = llvm::dyn_cast<llvm::TruncInst>(bytes);
  llvm::Value* words = cut ? cut->getOperand(0) : nullptr;
  const bool fits = words && words->getType()->getScalarSizeInBits() == 32 &&
                    words->getType()->getPrimitiveSizeInBits() == kRegisterBits;
  return fits ? words : nullptr;
}

// The buffers that an expression reads.
std::set<Name> ReadsOf(const Expr& e) {
  std::set<Name> reads;
  WalkOnce(e, [&](const Expr& x) {
    if (const Load* load = x.As<Load>()) reads.insert(load->buffer->name);
    return true;
  });
  return reads;
}

// Adds the look-ups in a store's value that no select guards and that gain from others beside them.
void AddLookUps(const Store& store, std::vector<const Load*>& look_ups) {
  // A joined vector must be cut again. For more lanes, that takes as long as a look-up, unless they are stored.
  // [measured with 16 lanes on Zen 4]
  constexpr int kCutForFree = 8;
  WalkOnce(store.value, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    const int lanes = e.dtype().lanes;
    const bool gains = lanes <= kCutForFree || store.value.As<Load>() == load;
    if (load && lanes >= kFewestLanes && gains && LookedUpByte(*load)) look_ups.push_back(load);
    return !load && !e.As<Select>();
  });
}

}  // namespace

int ByteTables::RegisterLanes() const { return target_.triple.starts_with("x86_64") ? kX86Lanes : kArmLanes; }

void ByteTables::Find(const Seq& seq) {
  if (!target_.has_byte_tables) return;
  std::vector<const Load*> look_ups;
  std::set<Name> written;
  for (const Stmt& s : seq.stmts) {
    if (s.As<Evaluate>()) continue;
    const Store* store = s.As<Store>();
    if (!store) return;
    written.insert(store->buffer->name);
    AddLookUps(*store, look_ups);
  }
  std::map<std::pair<Name, int>, std::shared_ptr<Group>> open;  // by table and lanes
  for (const Load* load : look_ups) {
    const Expr bytes = *LookedUpByte(*load);
    const int lanes = bytes.dtype().lanes;
    std::set<Name> reads = ReadsOf(bytes);
    reads.insert(load->buffer->name);
    const auto is_written = [&](const Name& buffer) { return written.contains(buffer); };
    if (2 * lanes > RegisterLanes() || RegisterLanes() % lanes != 0 || std::ranges::any_of(reads, is_written)) continue;
    if (joined_.contains(load)) continue;
    std::shared_ptr<Group>& group = open[{load->buffer->name, lanes}];
    if (!group || group->loads.size() * static_cast<size_t>(lanes) == static_cast<size_t>(RegisterLanes()))
      group = std::make_shared<Group>();
    joined_[load] = {group, group->loads.size()};
    group->loads.push_back(load);
  }
}

llvm::Value* ByteTables::EntriesOf(Addresses& addresses, const Load& load, bool is_guarded,
                                   const std::function<llvm::Value*(const Expr&)>& value_of) {
  const std::optional<Expr> bytes = LookedUpByte(load);
  if (!target_.has_byte_tables || !bytes || bytes->dtype().lanes < kFewestLanes) return nullptr;
  llvm::Value* table = addresses.Of(load.buffer, Expr(0)).pointer;
  const auto found = joined_.find(&load);
  if (is_guarded || found == joined_.end() || found->second.group->loads.size() == 1)
    return LookUp(table, value_of(*bytes));
  Group& group = *found->second.group;
  if (group.entries.empty()) {
    const int lanes = bytes->dtype().lanes;
    std::vector<llvm::Value*> parts;
    for (const Load* one : group.loads) parts.push_back(value_of(*LookedUpByte(*one)));
    llvm::Value* all = LookUp(table, Joined(parts));
    for (size_t i = 0; i < parts.size(); ++i) group.entries.push_back(LanesOf(all, static_cast<int>(i) * lanes, lanes));
  }
  return group.entries[found->second.index];
}

// Returns lanes [begin, begin + count) of a vector. Lanes behind its end are undefined.
llvm::Value* ByteTables::LanesOf(llvm::Value* vector, int begin, int count) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), begin);
  for (int& lane : order)
    if (lane >= CountOf(vector)) lane = -1;
  return builder_.CreateShuffleVector(vector, order);
}

// Returns the bytes of the vectors, which have equal lengths, as one vector. AVX512_VBMI takes the lowest bytes of two
// registers of i32 by one instruction.
llvm::Value* ByteTables::Joined(const std::vector<llvm::Value*>& parts) {
  const int lanes = CountOf(parts[0]);
  std::vector<llvm::Value*> halves = parts;
  if (RegisterLanes() == kX86Lanes && parts.size() % 2 == 0 && std::ranges::all_of(parts, WordsOf)) {
    constexpr int kBytesOfWord = 4;
    llvm::Type* bytes = llvm::FixedVectorType::get(builder_.getInt8Ty(), kX86Lanes);
    std::vector<int> lowest;
    for (int i = 0; i < 2 * lanes; ++i) lowest.push_back(i * kBytesOfWord);
    halves.clear();
    for (size_t i = 0; i < parts.size(); i += 2)
      halves.push_back(builder_.CreateShuffleVector(builder_.CreateBitCast(WordsOf(parts[i]), bytes),
                                                    builder_.CreateBitCast(WordsOf(parts[i + 1]), bytes), lowest));
  }
  llvm::Value* joined = halves[0];
  for (size_t i = 1; i < halves.size(); ++i) {
    const int before = CountOf(joined), all = before + CountOf(halves[i]);
    std::vector<int> order(static_cast<size_t>(all));
    std::iota(order.begin(), order.end(), 0);
    llvm::Value* next = CountOf(halves[i]) == before ? halves[i] : LanesOf(halves[i], 0, before);
    joined = builder_.CreateShuffleVector(joined, next, order);
  }
  return joined;
}

// Returns the entries for a vector of i8 of any length.
llvm::Value* ByteTables::LookUp(llvm::Value* table, llvm::Value* bytes) {
  const int count = CountOf(bytes), lanes = RegisterLanes();
  const std::vector<llvm::Value*> registers = LoadTable(builder_, table, lanes);
  std::vector<llvm::Value*> parts;
  for (int begin = 0; begin < count; begin += lanes) {
    llvm::Value* part = count == lanes ? bytes : LanesOf(bytes, begin, lanes);
    parts.push_back(lanes == kX86Lanes ? LookUpOnX86(builder_, registers, part)
                                       : LookUpOnArm(builder_, registers, part));
  }
  llvm::Value* found = Joined(parts);
  return CountOf(found) == count ? found : LanesOf(found, 0, count);
}

}  // namespace autotune
