#include "codegen/llvm/scalef.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <vector>

namespace autotune {
namespace {

constexpr int kRegisterBits = 512;
constexpr int kCurrentRounding = 4;  // _MM_FROUND_CUR_DIRECTION

// Returns lanes [begin, end) of `v`, then zeros up to `size` lanes. `lanes` is the number of lanes of `v`.
llvm::Value* Piece(llvm::IRBuilder<>& builder, llvm::Value* v, int lanes, int begin, int end, int size) {
  std::vector<int> at;
  for (int i = 0; i < size; ++i) at.push_back(begin + i < end ? begin + i : lanes);
  return builder.CreateShuffleVector(v, llvm::Constant::getNullValue(v->getType()), at);
}

}  // namespace

// Works in whole registers and fills the last one up with zeros.
llvm::Value* EmitScalef(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* n) {
  llvm::Type *type = x->getType(), *element = type->getScalarType();
  const int whole = kRegisterBits / static_cast<int>(element->getScalarSizeInBits());
  const int lanes =
      type->isVectorTy() ? static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()) : 1;
  const auto id = element->isFloatTy() ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                                       : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
  llvm::Type* mask = builder.getIntNTy(static_cast<unsigned>(whole));
  if (lanes == 1) {
    x = builder.CreateInsertElement(llvm::Constant::getNullValue(llvm::FixedVectorType::get(element, 1)), x,
                                    uint64_t{0});
    n = builder.CreateInsertElement(llvm::Constant::getNullValue(x->getType()), n, uint64_t{0});
  }
  llvm::Value* all = nullptr;
  for (int begin = 0; begin < lanes; begin += whole) {
    const int end = std::min(lanes, begin + whole);
    llvm::Value* piece_x = Piece(builder, x, lanes, begin, end, whole);
    llvm::Value* piece_n = Piece(builder, n, lanes, begin, end, whole);
    llvm::Value* piece =
        builder.CreateIntrinsic(id, {},
                                {piece_x, piece_n, llvm::Constant::getNullValue(piece_x->getType()),
                                 llvm::Constant::getAllOnesValue(mask), builder.getInt32(kCurrentRounding)});
    if (lanes == 1) return builder.CreateExtractElement(piece, uint64_t{0});
    // Appends the piece to the lanes before it. A shuffle takes operands of one length, so the piece is widened first.
    std::vector<int> wide(lanes, llvm::PoisonMaskElem), order(lanes, llvm::PoisonMaskElem);
    for (int i = begin; i < end; ++i) wide[i] = i - begin;
    piece = builder.CreateShuffleVector(piece, wide);
    if (!all) {
      all = piece;
      continue;
    }
    for (int i = 0; i < end; ++i) order[i] = i < begin ? i : lanes + i;
    all = builder.CreateShuffleVector(all, piece, order);
  }
  return all;
}

}  // namespace autotune
