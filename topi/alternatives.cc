#include "topi/alternatives.h"

#include <optional>

#include "ir/dot.h"
#include "ir/mma.h"
#include "topi/winograd.h"

namespace autotune::topi {
namespace {

bool AnyType(DType) { return true; }
// Winograd's transforms multiply by fractions, which integers do not have, and its guard reads the bits of an f32.
bool OnlyF32(DType type) { return type == DType::Float(32); }
// Sums of blocks are added in the type of the operands.
bool NoSmall(DType type) { return !type.IsHalf() && !IsByte(type) && !IsWord(type); }

using TilingOf = std::optional<WinogradTiling> (*)(int64_t tile, const Shape& data, const Shape& weight,
                                                   const ConvAttrs& attrs, const Target& target);

template <TilingOf tiling, int64_t tile>
constexpr ConvAlternative Winograd(std::string_view name) {
  return {
      name, OnlyF32,
      [](const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
        return WinogradApplies(data, weight, attrs, target) && tiling(tile, data, weight, attrs, target).has_value();
      },
      [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
         const Target& target) {
        return Conv2dWinograd(name, data, weight, attrs, *tiling(tile, data.shape(), weight.shape(), attrs, target));
      },
      false};
}

constexpr ConvAlternative kConv[] = {
    {"direct", AnyType, [](const Shape&, const Shape&, const ConvAttrs&, const Target&) { return true; },
     [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
       return Conv(name, data, weight, attrs);
     }},
    {"across_groups", AnyType, AcrossGroupsApplies,
     [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
       return ConvAcrossGroups(name, data, weight, attrs);
     }},
    {"skip_padding", AnyType, SkippingPaddingApplies,
     [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
       return ConvSkippingPadding(name, data, weight, attrs);
     }},
    Winograd<WinogradGroups, 4>("winograd4"),
    Winograd<WinogradWhole, 4>("winograd4_whole"),
    Winograd<WinogradGroups, 2>("winograd2"),
    Winograd<WinogradWhole, 2>("winograd2_whole"),
};

// Returns the number of terms of a block, for MatMulInBlocks. A panel of b with this many rows and two vectors of
// columns takes at most a quarter of the L2 cache. Returns 0 if b has one column, if the sum is too short, if no such
// number divides its length, if too few rows of a use a panel, or if the sums of the blocks take too much memory.
int64_t BlockOf(const Shape& a, const Shape& b, const Target& target) {
  constexpr int64_t kFewestRows = 64, kMostBytes = 64 << 20;
  if (a.size() < 2 || b.size() != 2 || b[1] == 1) return 0;
  const int64_t k = b[0], rows = te::Product(a) / std::max<int64_t>(1, k);
  const int64_t most = target.l2_bytes / 4 / (2 * target.VectorLanes(32) * 4);
  if (k < 2 * most || rows < kFewestRows) return 0;
  for (int64_t block = most; block > most / 4; --block) {
    if (k % block == 0) return k / block * rows * b[1] * 4 <= kMostBytes ? block : 0;
  }
  return 0;
}

constexpr MatMulAlternative kMatMul[] = {
    {"direct", AnyType, [](const Shape&, const Shape&, const Target&) { return true; },
     [](const std::string& name, const Tensor& a, const Tensor& b, const Target&) { return MatMul(name, a, b); }},
    {"blocks", NoSmall, [](const Shape& a, const Shape& b, const Target& target) { return BlockOf(a, b, target) > 0; },
     [](const std::string& name, const Tensor& a, const Tensor& b, const Target& target) {
       return MatMulInBlocks(name, a, b, BlockOf(a.shape(), b.shape(), target));
     }},
    // For tensor cores, whose instructions take a fixed number of terms of the sum at a time.
    {"tf32", OnlyF32,
     [](const Shape& a, const Shape& b, const Target& target) {
       return target.tf32 && a.size() > 1 && b.size() > 1 && a.back() % MmaTypeOf(DType::Float(32))->k() == 0;
     },
     [](const std::string& name, const Tensor& a, const Tensor& b, const Target&) {
       return MatMul(name, a, b, Rounding::kTf32);
     }},
};

}  // namespace

std::span<const ConvAlternative> ConvAlternatives() { return kConv; }
std::span<const MatMulAlternative> MatMulAlternatives() { return kMatMul; }

}  // namespace autotune::topi
