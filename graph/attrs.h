// Attributes of graph operators: one plain struct for each set of attributes. Each struct declares its fields once, and
// the text and the hashes of tasks derive from this declaration. Values. Not the operators themselves: graph/op.h says
// which operator takes which struct.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "support/fields.h"

namespace autotune::graph {

// Layout of image activations. It also determines the layout of weights: OIHW with NCHW, HWIO with NHWC (I is the
// channels of one group). Images of three dimensions have D before H: NCDHW and OIDHW, NDHWC and DHWIO.
enum class Layout { kNCHW, kNHWC };
// The values of the padding: a constant, the nearest element, or the elements mirrored at the border.
enum class PadMode { kConstant, kEdge, kReflect };
// How an update changes the element at its place: it replaces the element, or the two are combined.
enum class ScatterMode { kReplace, kAdd, kMul, kMax, kMin };
}  // namespace autotune::graph
namespace autotune {
AUTOTUNE_ENUM(graph::Layout, "NCHW", "NHWC")
AUTOTUNE_ENUM(graph::PadMode, "constant", "edge", "reflect")
AUTOTUNE_ENUM(graph::ScatterMode, "replace", "add", "mul", "max", "min")
}  // namespace autotune
namespace autotune::graph {

// conv2d and conv3d. The defaults are for two dimensions.
struct ConvAttrs {
  std::vector<int64_t> strides = {1, 1};
  // The pads before each dimension, then the pads after each dimension: top, left, bottom, right. None is negative.
  std::vector<int64_t> pads = {0, 0, 0, 0};
  std::vector<int64_t> dilations = {1, 1};
  int64_t groups = 1;
  Layout layout = Layout::kNCHW;
  // True: only algorithms that add the products of the direct sum may compute it. Its sums are exact and must stay so
  // (graph/pass/exact_products.cc), or Winograd's algorithm does not suit its weights (graph/pass/direct_sums.cc).
  bool exact = false;
  // The number that the padding holds: 0, or the zero point of an image of bytes.
  int64_t pad_value = 0;
  AUTOTUNE_FIELDS(strides, pads, dilations, groups, layout, exact, pad_value)
  static constexpr std::string_view kWrittenIfSet[] = {"exact", "pad_value"};  // a text without them: false, 0
  bool operator==(const ConvAttrs&) const = default;
};

// Pools, except global ones. The defaults are for two dimensions.
struct PoolAttrs {
  std::vector<int64_t> kernel = {1, 1};
  std::vector<int64_t> strides = {1, 1};
  std::vector<int64_t> pads = {0, 0, 0, 0};  // as in ConvAttrs
  std::vector<int64_t> dilations = {1, 1};
  // Output extents are rounded up: a last window may begin inside the input or its leading pad and end outside.
  bool ceil_mode = false;
  // True: averages divide by the size of the window clipped to the padded input. False: clipped to the input.
  bool count_include_pad = false;
  Layout layout = Layout::kNCHW;
  AUTOTUNE_FIELDS(kernel, strides, pads, dilations, ceil_mode, count_include_pad, layout)
  bool operator==(const PoolAttrs&) const = default;
};

struct ImageAttrs {  // global_avg_pool, global_max_pool
  Layout layout = Layout::kNCHW;
  AUTOTUNE_FIELDS(layout)
  bool operator==(const ImageAttrs&) const = default;
};

struct BatchNormAttrs {
  double epsilon = 1e-5;
  int64_t axis = 1;  // axis of the channels
  AUTOTUNE_FIELDS(epsilon, axis)
  bool operator==(const BatchNormAttrs&) const = default;
};

struct ClipAttrs {
  float min = 0, max = 0;  // infinities where there is no bound
  AUTOTUNE_FIELDS(min, max)
  bool operator==(const ClipAttrs&) const = default;
};

// y = x / (bias + alpha / size * sum of x^2 over `size` channels around it)^beta; the window reaches
// floor((size-1)/2) channels down and ceil((size-1)/2) up.
struct LrnAttrs {
  int64_t size = 1;
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
  int64_t axis = 1;
  AUTOTUNE_FIELDS(size, alpha, beta, bias, axis)
  bool operator==(const LrnAttrs&) const = default;
};

struct AxisAttrs {   // softmax, concat, gather, gather_elements
  int64_t axis = 0;  // in [0, rank)
  AUTOTUNE_FIELDS(axis)
  bool operator==(const AxisAttrs&) const = default;
};

// leaky_relu: x < 0 ? alpha * x : x.
struct AlphaAttrs {
  float alpha = 0.01f;
  AUTOTUNE_FIELDS(alpha)
  bool operator==(const AlphaAttrs&) const = default;
};

struct CastAttrs {
  DType to;
  AUTOTUNE_FIELDS(to)
  bool operator==(const CastAttrs&) const = default;
};

struct AxesAttrs {            // reductions
  std::vector<int64_t> axes;  // ascending; at least one
  AUTOTUNE_FIELDS(axes)
  bool operator==(const AxesAttrs&) const = default;
};

struct ArgAttrs {
  int64_t axis = 0;
  bool largest = true;
  bool last = false;  // true: the last of several equal elements counts, instead of the first
  AUTOTUNE_FIELDS(axis, largest, last)
  bool operator==(const ArgAttrs&) const = default;
};

struct ScatterAttrs {
  int64_t axis = 0;
  ScatterMode mode = ScatterMode::kReplace;
  AUTOTUNE_FIELDS(axis, mode)
  bool operator==(const ScatterAttrs&) const = default;
};

struct CumulateAttrs {
  int64_t axis = 0;
  bool product = false, exclusive = false, reverse = false;
  AUTOTUNE_FIELDS(axis, product, exclusive, reverse)
  bool operator==(const CumulateAttrs&) const = default;
};

// Non-maximum suppression, as topi::Suppression (topi/select.h).
struct BoxesAttrs {
  int64_t most = 1, rows = 1;           // most boxes per batch and class; rows of the result
  double overlap = 0, least_score = 0;  // largest overlap of two selected boxes; score that a box must exceed
  bool any_score = true;                // true: least_score is ignored
  bool centers = false;                 // true: a box is its center and size; false: two corners
  AUTOTUNE_FIELDS(most, rows, overlap, least_score, any_score, centers)
  bool operator==(const BoxesAttrs&) const = default;
};

struct TopKAttrs {
  int64_t k = 1;
  bool largest = true;
  AUTOTUNE_FIELDS(k, largest)
  bool operator==(const TopKAttrs&) const = default;
};

// Element (i, j, ...) is input element (begin[0] + i * step[0], ...).
struct SliceAttrs {
  std::vector<int64_t> begin, extent, step;  // one each per dimension; steps may be negative
  AUTOTUNE_FIELDS(begin, extent, step)
  bool operator==(const SliceAttrs&) const = default;
};

struct PadAttrs {
  std::vector<int64_t> before, after;  // elements that are added before and after each dimension; not negative
  std::vector<int64_t> interior;       // elements between neighbouring elements, per dimension; kConstant only
  PadMode mode = PadMode::kConstant;
  double value = 0;
  AUTOTUNE_FIELDS(before, after, interior, mode, value)
  bool operator==(const PadAttrs&) const = default;
};

struct ReshapeAttrs {          // reshape, broadcast_to
  std::vector<int64_t> shape;  // fully known
  AUTOTUNE_FIELDS(shape)
  bool operator==(const ReshapeAttrs&) const = default;
};

struct TransposeAttrs {
  std::vector<int64_t> perm;  // output axis i is input axis perm[i]
  AUTOTUNE_FIELDS(perm)
  bool operator==(const TransposeAttrs&) const = default;
};

struct CallAttrs {
  std::string function;  // name of a function of the module
  AUTOTUNE_FIELDS(function)
  bool operator==(const CallAttrs&) const = default;
};

using AnyAttrs = std::variant<std::monostate, ConvAttrs, PoolAttrs, ImageAttrs, BatchNormAttrs, ClipAttrs, LrnAttrs,
                              AxisAttrs, AlphaAttrs, CastAttrs, AxesAttrs, ArgAttrs, SliceAttrs, PadAttrs, ReshapeAttrs,
                              TransposeAttrs, CallAttrs, ScatterAttrs, TopKAttrs, CumulateAttrs, BoxesAttrs>;
// One of them. A type of its own, so that only one file compiles the copies and destructors of twenty types.
struct Attrs : AnyAttrs {
  using AnyAttrs::AnyAttrs;
  using AnyAttrs::operator=;
  Attrs() = default;
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();
  bool operator==(const Attrs& other) const;
};

}  // namespace autotune::graph
