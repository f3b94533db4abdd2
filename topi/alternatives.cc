#include "topi/alternatives.h"

#include <optional>

#include "topi/winograd.h"

namespace autotune::topi {
namespace {

using TilingOf = std::optional<WinogradTiling> (*)(int64_t tile, const Shape& data, const Shape& weight,
                                                   const ConvAttrs& attrs, const Target& target);

template <TilingOf tiling, int64_t tile>
constexpr ConvAlternative Winograd(std::string_view name) {
  return {
      name,
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
    {"direct", [](const Shape&, const Shape&, const ConvAttrs&, const Target&) { return true; },
     [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
       return Conv(name, data, weight, attrs);
     }},
    {"across_groups", AcrossGroupsApplies,
     [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
       return ConvAcrossGroups(name, data, weight, attrs);
     }},
    Winograd<WinogradGroups, 4>("winograd4"),
    Winograd<WinogradWhole, 4>("winograd4_whole"),
    Winograd<WinogradGroups, 2>("winograd2"),
    Winograd<WinogradWhole, 2>("winograd2_whole"),
};

constexpr MatMulAlternative kMatMul[] = {
    {"direct", [](const Shape&, const Shape&, const Target&) { return true; }, MatMul},
};

}  // namespace

std::span<const ConvAlternative> ConvAlternatives() { return kConv; }
std::span<const MatMulAlternative> MatMulAlternatives() { return kMatMul; }

}  // namespace autotune::topi
