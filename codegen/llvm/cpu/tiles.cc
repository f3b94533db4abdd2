#include "codegen/llvm/cpu/tiles.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <array>

#include "support/check.h"

namespace autotune {
namespace {

constexpr int kRegisters = 8;
constexpr int64_t kRowBytes = 64;  // of a register

// The layout of what `ldtilecfg` loads, the shapes of the registers [Intel 64 and IA-32 Architectures Software
// Developer's Manual, LDTILECFG].
struct Shapes {
  uint8_t palette = 1, start_row = 0;
  std::array<uint8_t, 14> reserved = {};
  std::array<uint16_t, 16> row_bytes = {};
  std::array<uint8_t, 16> rows = {};
};
static_assert(sizeof(Shapes) == 64);

llvm::Intrinsic::ID InstructionFor(DType a, DType b) {
  if (a.IsFloat()) return llvm::Intrinsic::x86_tdpbf16ps;
  if (a.IsSigned()) return b.IsSigned() ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
  return b.IsSigned() ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
}

// Returns the largest divisor of n up to `most`.
int64_t LargestDivisor(int64_t n, int64_t most) {
  int64_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

// Emits one product. Register tiles of up to two by two, or one by three, pass over all steps of the sum.
class ProductEmitter {
 public:
  ProductEmitter(llvm::IRBuilder<>& builder, const TileProduct& product, llvm::Value* c, llvm::Value* a, llvm::Value* b)
      : b_(builder), p_(product), c_(c), x_(a), y_(b), groups_(LargestDivisor(p_.groups.extent, kTileGroups)) {
    a_type_ = p_.a.dtype(), b_type_ = p_.b.dtype(), c_type_ = p_.c.dtype();
    high_ = p_.row_tiles.extent > 1 ? 2 : 1;
    broad_ = std::min<int64_t>(p_.columns.extent / kTileColumns, high_ > 1 ? 2 : 3);
  }

  void Emit() {
    const int64_t tall = p_.row_tiles.extent, wide = p_.columns.extent / kTileColumns;
    for (int64_t row = 0; row < tall; row += high_) {
      for (int64_t column = 0; column < wide; column += broad_)
        EmitBlock(row, std::min(high_, tall - row), column, std::min(broad_, wide - column));
    }
  }

  std::string Configuration() const {
    Shapes all;
    int64_t next = 0;
    const auto add = [&](int64_t count, int64_t rows, int64_t bytes) {
      for (int64_t i = 0; i < count; ++i, ++next) {
        all.rows[static_cast<size_t>(next)] = static_cast<uint8_t>(rows);
        all.row_bytes[static_cast<size_t>(next)] = static_cast<uint16_t>(bytes);
      }
    };
    add(high_ * broad_, p_.rows.extent, kRowBytes);
    add(high_, p_.rows.extent, groups_ * p_.group * a_type_.Bytes());
    add(broad_, groups_, kRowBytes);
    CHECK(next <= kRegisters);
    return {reinterpret_cast<const char*>(&all), sizeof all};
  }

 private:
  // The registers hold the sums first, then the rows, then the columns. A block of h x w tiles may use fewer of each.
  void EmitBlock(int64_t row, int64_t h, int64_t column, int64_t w) {
    const auto sum_at = [&](int64_t i, int64_t j) {
      return At(c_, c_type_, (row + i) * p_.row_tiles.c + (column + j) * kTileColumns);
    };
    const int64_t first_rows = high_ * broad_, first_columns = first_rows + high_;
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < w; ++j) Load(i * broad_ + j, sum_at(i, j), p_.rows.c * c_type_.Bytes());
    std::vector<TileProduct::Loop> loops = p_.others;
    loops.push_back({.extent = p_.groups.extent / groups_, .a = groups_ * p_.groups.a, .b = groups_ * p_.groups.b});
    llvm::Value* a = At(x_, a_type_, row * p_.row_tiles.a);
    llvm::Value* b = At(y_, b_type_, column * kTileColumns * p_.group);
    EmitSteps(loops, a, b, [&](llvm::Value* rows, llvm::Value* columns) {
      for (int64_t i = 0; i < h; ++i)
        Load(first_rows + i, At(rows, a_type_, i * p_.row_tiles.a), p_.rows.a * a_type_.Bytes());
      for (int64_t j = 0; j < w; ++j)
        Load(first_columns + j, At(columns, b_type_, j * kTileColumns * p_.group), p_.groups.b * b_type_.Bytes());
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j)
          b_.CreateIntrinsic(InstructionFor(a_type_, b_type_), {},
                             {Register(i * broad_ + j), Register(first_rows + i), Register(first_columns + j)});
    });
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < w; ++j)
        b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                           {Register(i * broad_ + j), sum_at(i, j), b_.getInt64(p_.rows.c * c_type_.Bytes())});
  }

  // Emits the loops over the steps of the sum, with pointers to the operands of each step.
  void EmitSteps(std::vector<TileProduct::Loop> loops, llvm::Value* a, llvm::Value* b,
                 llvm::function_ref<void(llvm::Value*, llvm::Value*)> body) {
    if (loops.empty()) return body(a, b);
    const TileProduct::Loop loop = loops.front();
    loops.erase(loops.begin());
    if (loop.extent == 1) return EmitSteps(loops, a, b, body);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* header = llvm::BasicBlock::Create(b_.getContext(), "tiles", function);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "tiles.end", function);
    b_.CreateBr(header);
    b_.SetInsertPoint(header);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(b_.getInt64(0), before);
    const auto moved = [&](llvm::Value* pointer, DType type, int64_t stride) {
      return b_.CreatePtrAdd(pointer, b_.CreateMul(i, b_.getInt64(stride * type.Bytes())));
    };
    EmitSteps(loops, moved(a, a_type_, loop.a), moved(b, b_type_, loop.b), body);
    llvm::Value* next = b_.CreateAdd(i, b_.getInt64(1));
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(loop.extent)), header, after);
    b_.SetInsertPoint(after);
  }

  llvm::Value* Register(int64_t number) { return b_.getInt8(static_cast<uint8_t>(number)); }
  llvm::Value* At(llvm::Value* pointer, DType type, int64_t elements) {
    return elements == 0 ? pointer : b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, elements * type.Bytes());
  }
  void Load(int64_t reg, llvm::Value* pointer, int64_t stride) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {Register(reg), pointer, b_.getInt64(stride)});
  }

  llvm::IRBuilder<>& b_;
  const TileProduct& p_;
  llvm::Value *c_, *x_, *y_;
  DType a_type_, b_type_, c_type_;
  const int64_t groups_;          // of one instruction
  int64_t high_ = 1, broad_ = 1;  // tiles of a block of registers
};

// Emits the instruction that gives the registers their shapes.
void Configure(llvm::IRBuilder<>& builder, const std::string& configuration) {
  llvm::Module* module = builder.GetInsertBlock()->getModule();
  llvm::Constant* bytes = llvm::ConstantDataArray::getRaw(configuration, configuration.size(), builder.getInt8Ty());
  auto* constant = new llvm::GlobalVariable(*module, bytes->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, bytes, "tiles");
  constant->setAlignment(llvm::Align(kRowBytes));
  builder.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {constant});
}

void EmitRelease(llvm::IRBuilder<>& builder) { builder.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {}); }

}  // namespace

void TileRegisters::Emit(llvm::IRBuilder<>& builder, const TileProduct& product, llvm::Value* c, llvm::Value* a,
                         llvm::Value* b) {
  ProductEmitter emitter(builder, product, c, a, b);
  const std::string configuration = emitter.Configuration();
  used_ = true;
  if (configuration_.empty() && !restored_) {
    llvm::BasicBlock& entry = builder.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    Configure(at_entry, configuration);
    configuration_ = configuration;
  }
  if (configuration == configuration_) return emitter.Emit();
  Configure(builder, configuration);
  emitter.Emit();
  configuration_.empty() ? EmitRelease(builder) : Configure(builder, configuration_);
}

// A later product must not configure the registers at the entry any more, since the call comes between.
void TileRegisters::Restore(llvm::IRBuilder<>& builder) {
  restored_ = true;
  if (!configuration_.empty()) Configure(builder, configuration_);
}

void TileRegisters::Release(llvm::IRBuilder<>& builder) const {
  if (!configuration_.empty()) EmitRelease(builder);
}

}  // namespace autotune
