#include "topi/alternatives.h"

namespace autotune::topi {
namespace {

constexpr Conv2dAlternative kConv2d[] = {
    {"direct", [](const Shape&, const Shape&, const Conv2dAttrs&, const Target&) { return true; }, Conv2d},
};

constexpr MatMulAlternative kMatMul[] = {
    {"direct", [](const Shape&, const Shape&, const Target&) { return true; }, MatMul},
};

}  // namespace

std::span<const Conv2dAlternative> Conv2dAlternatives() { return kConv2d; }
std::span<const MatMulAlternative> MatMulAlternatives() { return kMatMul; }

}  // namespace autotune::topi
