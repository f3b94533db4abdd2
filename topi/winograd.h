// Winograd's convolution: F(2x2, 3x3) and F(4x4, 3x3), after Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks" (2016). A tile of T x T outputs costs (T+2)^2 products instead of 9 T^2. Thread-safe. Not exact: see below.
#pragma once
#include <optional>
#include <string>

#include "target/target.h"
#include "topi/conv.h"

namespace autotune::topi {

// Outputs are computed in tiles of `tile` x `tile`, and tiles in groups of `rows` x `columns`, whose intermediates are
// neighbours in memory. rows == 0: all tiles of all images are one group.
struct WinogradTiling {
  int64_t tile = 4;  // 2 or 4
  int64_t rows = 0, columns = 0;
};

// The blocks of a Winograd convolution say which they are: annotation kWinograd, one of these. Tuner rules place them.
inline constexpr char kWinograd[] = "winograd";
enum class WinogradStage : int64_t {
  kWeightRows =
      1,     // (y, j, c, oc): weights, their rows transformed; depends on constants alone where they are constant
  kWeight,   // (y, x, c, oc): and their columns
  kRows,     // (n, gh, gw, y, t, j, c): data, its rows transformed; t: tile of a group
  kData,     // (n, gh, gw, y, x, t, c): and its columns
  kProduct,  // (n, gh, gw, y, x, t, oc), reduction c
  kBack,     // (n, gh, gw, a, x, t, oc): results, their rows transformed back
  kOutput,   // (n, h, w, c): and their columns
};

// As Conv, for images of two dimensions and 3x3 kernels of stride and dilation 1 in one group (CHECK). Every size and
// padding: tiles that leave the output are computed and dropped. Each output differs from the direct sum by at most
// about 1e-6 (tile 2) or 5e-6 (tile 4) of the largest output at 512 channels; interpolation points 0, 1, -1 and 0, 5/8,
// -5/8, 3/2, -3/2 (0, 1, -1, 2, -2 lose four times as much; the theory is Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020).
Tensor Conv2dWinograd(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                      const WinogradTiling& tiling);

// Whether Winograd's convolution is defined and can pay: also, enough channels for the products to outweigh the
// transforms.
bool WinogradApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);

// Groups whose intermediates stay in a core's own cache where that leaves enough tiles for the products, and that waste
// little at the edges; nothing where the whole image is no larger.
std::optional<WinogradTiling> WinogradGroups(int64_t tile, const Shape& data, const Shape& weight,
                                             const ConvAttrs& attrs, const Target& target);
// All tiles as one group; nothing where the intermediates would not fit the shared cache.
std::optional<WinogradTiling> WinogradWhole(int64_t tile, const Shape& data, const Shape& weight,
                                            const ConvAttrs& attrs, const Target& target);

}  // namespace autotune::topi
