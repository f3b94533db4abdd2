// Winograd's convolution: F(2x2, 3x3) and F(4x4, 3x3), after Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks" (2016). A tile of T x T outputs costs (T+2)^2 products instead of 9 T^2. Thread-safe. Not exact: see below.
#pragma once
#include <optional>
#include <span>
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

// A tile mixes all of its inputs: each of its outputs has an error of some 40 units in the last place of the largest
// product of the tile, also an output whose window does not contain the large input. So a *guard* decides for each tile
// whether the algorithm is accurate enough there. A tile is *tame* if its inputs are finite, and if the largest one
// near it is at most 2^kTameTile4 (or kTameTile2) times the largest one of each quarter of the channels in each *cell*,
// a square of 2 x 2 pixels. The cells are placed so that the window of each output contains one. So each output has
// four large terms or more: a single one might have a weight near 0. Weights are tame if the same holds, with
// 2^kTameWeights, for each quarter of the channels and each of the nine positions of the kernel of each output channel:
// an output of a kernel with one position sees one pixel of its cell, which may be far smaller than the others. An
// output channel without any weight is tame. Outputs of other tiles, and all outputs if the weights are not tame, are
// direct sums.
//
// The limits are chosen so that ordinary data are tame. Among 20,000 normally distributed tiles, the largest ratio was
// 6.4 with 16 channels and 3.2 with 64; among as many kernels it was 60 and 7.3. So with few channels and weights of
// wider distributions than the normal one, a layer may lose Winograd's algorithm. Units are the last place of the sum
// of the magnitudes of an output's terms. With tile 4 and 16 channels, the error was at most 4 units for normal data,
// and 160 in 64,000 outputs whose cells and positions were all at the limits, over all channels; one channel had 1,100.
// Tile 2 loses four to five times less, so its limit is larger.
inline constexpr int kTameTile4 = 4, kTameTile2 = 6, kTameWeights = 6;
// Tame numbers are below 2^kTameExponent, so that no product overflows which would not overflow in the direct sum.
inline constexpr int kTameExponent = 56;

// Returns true if the guard takes these weights, (3, 3, c, oc), for tame.
bool AreTameWeights(std::span<const float> weights, int64_t oc);

// Each block of a Winograd convolution has the annotation kWinograd, whose value is its stage. Tuner rules use it to
// place the block. Magnitudes are the bits of |x| as i32, which are ordered like the numbers; infinities and NaNs are
// above all numbers.
inline constexpr char kWinograd[] = "winograd";
enum class WinogradStage : int64_t {
  // (y, j, c, oc): weights with transformed rows. They depend on constants alone if the weights are constants.
  kWeightRows = 1,
  kWeight,   // (y, x, c, oc): weights with transformed rows and columns
  kRows,     // (n, gh, gw, y, t, j, c): data with transformed rows; t is the tile in its group
  kData,     // (n, gh, gw, y, x, t, c): data with transformed rows and columns
  kProduct,  // (n, gh, gw, y, x, t, oc), reduction c
  kBack,     // (n, gh, gw, a, x, t, oc): results with rows transformed back
  kOutput,   // (n, h, w, c): results with rows and columns transformed back, or direct sums
  // The guard.
  kWeightPeak,   // (kh, kw, g, oc), reduction c: largest magnitude of the weights, of every fourth channel from g on
  kWeightRange,  // (oc): 1 if the weights of the output channel are tame, else 0
  kWeightTame,   // (1), reduction oc: 1 if all weights are tame, else 0
  kPeakLanes,    // (n, y, x, l), reduction (dy, dx, k): largest magnitude in cell (y, x), of channels l, l + lanes, ...
  kPeakFold,     // (n, y, x, f), reduction l: the lanes, folded into four
  kPeak,         // (n, y, x, end), reduction f: the largest number of the fold in cell (y, x), and minus the least one
  kTame,         // (n, gh, gw, t): 1 if the tile and the weights are tame, else 0
  kDirect,       // (n, gh, gw, t, a, b, oc), reduction (kh, kw, c): direct sums of tiles that are not tame, else 0
};

// Like Conv, for images of two dimensions and 3x3 kernels of stride and dilation 1 in one group (CHECK). Sizes and
// paddings are arbitrary, since results of tiles beyond the output are computed and dropped. At 512 channels, each
// output differs from the direct sum by at most about 1e-6 (tile 2) or 5e-6 (tile 4) of the largest output. The
// interpolation points are 0, 1, -1 (tile 2) and 0, 5/8, -5/8, 3/2, -3/2 (tile 4); the usual 0, 1, -1, 2, -2 lose four
// times as much. The theory is in Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
// for Deep Neural Networks" (2020).
Tensor Conv2dWinograd(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                      const WinogradTiling& tiling);

// Returns why no target computes a convolution by Winograd's algorithm, whatever its channels and the size of its
// images: "its stride is 2"; an empty text if targets may.
std::string WinogradObstacle(const Shape& window, const ConvAttrs& attrs);
// With fewer channels of the data or of the result, the transforms cost more than the products save [chosen].
inline constexpr int64_t kFewestWinogradChannels = 16;
// Returns true if Winograd's convolution is defined for these shapes and may be faster: there must be enough channels
// for the products to outweigh the transforms.
bool WinogradApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);
// Returns why WinogradApplies is false: "its stride is 2"; an empty text if it is true.
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
