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

// Each block of a Winograd convolution has the annotation kWinograd, whose value is its stage. Tuner rules use it to
// place the block.
inline constexpr char kWinograd[] = "winograd";
enum class WinogradStage : int64_t {
  // (y, j, c, oc): weights with transformed rows. They depend on constants alone if the weights are constants.
  kWeightRows = 1,
  kWeight,   // (y, x, c, oc): weights with transformed rows and columns
  kRows,     // (n, gh, gw, y, t, j, c): data with transformed rows; t is the tile in its group
  kData,     // (n, gh, gw, y, x, t, c): data with transformed rows and columns
  kProduct,  // (n, gh, gw, y, x, t, oc), reduction c
  kBack,     // (n, gh, gw, a, x, t, oc): results with rows transformed back
  kOutput,   // (n, h, w, c): results with rows and columns transformed back
};

// Like Conv, for images of two dimensions and 3x3 kernels of stride and dilation 1 in one group (CHECK). Sizes and
// paddings are arbitrary, since results of tiles beyond the output are computed and dropped. At 512 channels, each
// output differs from the direct sum by at most about 1e-6 (tile 2) or 5e-6 (tile 4) of the largest output. The
// interpolation points are 0, 1, -1 (tile 2) and 0, 5/8, -5/8, 3/2, -3/2 (tile 4); the usual 0, 1, -1, 2, -2 lose four
// times as much. The theory is in Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
// for Deep Neural Networks" (2020).
Tensor Conv2dWinograd(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                      const WinogradTiling& tiling);

// Returns true if Winograd's convolution is defined for these shapes and may be faster: there must be enough channels
// for the products to outweigh the transforms.
bool WinogradApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);
// Returns why WinogradApplies is false: "its stride is not 1"; an empty text if it is true.
std::string WinogradObstacle(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);

// Returns groups of tiles that waste little at the edges and whose intermediates fit a core's own cache, if that leaves
// enough tiles for the products. There are as many groups as cores at least, since what another core has written is
// slow to read. Returns nothing if all images together have fewer tiles than two groups.
std::optional<WinogradTiling> WinogradGroups(int64_t tile, const Shape& data, const Shape& weight,
                                             const ConvAttrs& attrs, const Target& target);
// Returns all tiles as one group, or nothing if the intermediates do not fit the larger of the L2 and the L3 cache.
std::optional<WinogradTiling> WinogradWhole(int64_t tile, const Shape& data, const Shape& weight,
                                            const ConvAttrs& attrs, const Target& target);

}  // namespace autotune::topi
