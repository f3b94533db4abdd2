#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"
#include "support/integer.h"

namespace autotune::graph {
namespace {

constexpr int64_t kLongestWindow = 4096;  // most taps per dimension; TapsOnData examines each tap

// A window that slides along one dimension of an image. Its tap t meets position o * stride + t * dilation - before at
// output o. The data has elements at the positions 0, spacing, 2 * spacing, ... below `extent`, and zeros between them.
struct Axis {
  int64_t extent, spacing, kernel, stride, dilation, before, out;
};

// The taps first, first + step, ..., last of a window.
struct Taps {
  int64_t first, step, last;
  int64_t Count() const { return (last - first) / step + 1; }
};

// Returns true if the tap meets an element of the data at some output.
bool MeetsData(const Axis& a, int64_t tap) {
  const int64_t start = tap * a.dilation - a.before, room = a.extent - 1 - start;
  if (room < 0) return false;
  const int64_t first = start < 0 ? CeilDiv(-start, a.stride) : 0;
  // The remainders of the tap's positions modulo `spacing` repeat after `spacing` outputs.
  const int64_t last = std::min({a.out - 1, room / a.stride, first + a.spacing - 1});
  for (int64_t o = first; o <= last; ++o) {
    if ((start + o * a.stride) % a.spacing == 0) return true;
  }
  return false;
}

// Returns the fewest equidistant taps that include every tap which meets data at some output. A window of these taps
// must have the same number of outputs without negative padding. Returns nothing if these are all taps.
std::optional<Taps> TapsOnData(const Axis& a) {
  if (a.kernel > kLongestWindow) return std::nullopt;
  std::vector<int64_t> met;
  for (int64_t tap = 0; tap < a.kernel; ++tap) {
    if (MeetsData(a, tap)) met.push_back(tap);
  }
  if (met.empty()) met.push_back(0);  // all outputs are sums of zeros
  // Tap `first` begins in the padding or at the data's first element; behind tap `last` of the last output, there is
  // less than a stride of data.
  Taps taps{std::min(met.front(), a.before / a.dilation), 0, 0};
  taps.last = std::max(met.back(), CeilDiv(std::max<int64_t>(0, a.extent + a.before - a.out * a.stride), a.dilation));
  taps.step = taps.last - taps.first;
  for (int64_t tap : met) taps.step = std::gcd(taps.step, tap - taps.first);
  taps.step = std::max<int64_t>(1, taps.step);
  return taps.Count() < a.kernel ? std::optional(taps) : std::nullopt;
}

size_t FirstSpatial(Layout layout) { return layout == Layout::kNCHW ? 2 : 1; }

// Describes a window along spatial dimension `d` of an image. `image` and `out` are the shapes of the input and of the
// result.
template <class WindowAttrs>
Axis AxisOf(const WindowAttrs& attrs, size_t d, const Shape& image, const Shape& out, int64_t kernel, int64_t spacing) {
  const size_t at = FirstSpatial(attrs.layout) + d;
  return {image[at], spacing, kernel, attrs.strides[d], attrs.dilations[d], attrs.pads[d], out[at]};
}

// Keeps only these taps of spatial dimension d. The trailing pad becomes as large as the last output needs.
template <class WindowAttrs>
void Keep(const Axis& a, const Taps& taps, size_t d, WindowAttrs& attrs) {
  const int64_t count = taps.Count(), before = a.before - taps.first * a.dilation;
  const int64_t reach = (a.out - 1) * a.stride + (taps.last - taps.first) * a.dilation + 1;
  attrs.dilations[d] = count > 1 ? a.dilation * taps.step : 1;
  attrs.pads[d] = before;
  attrs.pads[d + attrs.strides.size()] = std::max<int64_t>(0, reach - before - a.extent);
}

class WindowTrimmer {
 public:
  explicit WindowTrimmer(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph.UseCounts()) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (std::holds_alternative<ConvAttrs>(node.attrs)) {
        rewriter_.Set(node.output, Convolution(node));
      } else if (std::holds_alternative<PoolAttrs>(node.attrs)) {
        rewriter_.Set(node.output, Pool(node));
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  GraphBuilder& builder() { return rewriter_.builder; }

  // Returns the attributes of the pad that makes a convolution's input, if it pads only with zeros, around and between
  // rows and columns; else null.
  const PadAttrs* ZerosAround(const Node* pad, size_t first, size_t dims) const {
    const auto* attrs = pad ? std::get_if<PadAttrs>(&pad->attrs) : nullptr;
    if (!attrs || attrs->mode != PadMode::kConstant || attrs->value != 0) return nullptr;
    for (size_t d = 0; d < attrs->before.size(); ++d) {
      const bool spatial = d >= first && d < first + dims;
      if (!spatial && (attrs->before[d] > 0 || attrs->after[d] > 0 || attrs->interior[d] > 0)) return nullptr;
    }
    return attrs;
  }

  // Returns the convolution's input with zeros only between elements. The zeros around it become padding in `attrs`.
  ValueId Unpadded(const Node& node, const PadAttrs& zeros, size_t first, ConvAttrs& attrs) {
    const Node& pad = *graph_.Producer(node.inputs[0]);
    const size_t dims = attrs.strides.size();
    PadAttrs between{Shape(zeros.before.size(), 0), Shape(zeros.after.size(), 0), zeros.interior, PadMode::kConstant,
                     0};
    const bool spread = std::any_of(between.interior.begin(), between.interior.end(), [](int64_t i) { return i > 0; });
    const ValueId x = rewriter_.Map(pad.inputs[0]);
    if (spread && uses_[pad.output] > 1) return rewriter_.Map(pad.output);
    for (size_t d = 0; d < dims; ++d) {
      attrs.pads[d] += zeros.before[first + d];
      attrs.pads[d + dims] += zeros.after[first + d];
    }
    return spread ? builder().Must(Op::kPad, {x}, between, pad.name) : x;
  }

  // Handles windows of one row with a stride, which skip rows of the image. If a transpose makes the image, the skipped
  // rows are removed before the transpose, which then does not copy them. `kernel` holds the extent of the window in
  // each spatial dimension. Keeps all of the last dimension of the transposed tensor, since its elements are vectors.
  template <class WindowAttrs>
  ValueId WithoutSkippedRows(const Node& node, ValueId x, const Shape& kernel, WindowAttrs& attrs) {
    const Node* transpose = builder().graph().Producer(x);
    const size_t dims = kernel.size(), first = FirstSpatial(attrs.layout);
    if (!transpose || transpose->op != Op::kTranspose || uses_[node.inputs[0]] > 1) return x;
    const std::vector<int64_t> perm = std::get<TransposeAttrs>(transpose->attrs).perm;
    const ValueId source = transpose->inputs[0];
    const std::string name = transpose->name;
    const Shape whole = builder().Spec(source).shape;
    SliceAttrs rows{Shape(whole.size(), 0), whole, Shape(whole.size(), 1)};
    for (size_t d = 0; d < dims; ++d) {
      const int64_t from = perm[first + d];
      const bool last = from + 1 == static_cast<int64_t>(whole.size());
      if (kernel[d] > 1 || attrs.strides[d] == 1 || attrs.pads[d] > 0 || attrs.pads[d + dims] > 0 || last) continue;
      rows.extent[from] = graph_.Spec(node.output).shape[first + d];
      rows.step[from] = std::exchange(attrs.strides[d], 1);
    }
    if (rows.extent == whole) return x;
    return builder().Transpose(builder().Must(Op::kSlice, {source}, rows, name), perm, name);
  }

  ValueId Convolution(const Node& node) {
    ConvAttrs attrs = std::get<ConvAttrs>(node.attrs);
    const size_t dims = attrs.strides.size(), first = FirstSpatial(attrs.layout);
    ValueId x = rewriter_.Map(node.inputs[0]), w = rewriter_.Map(node.inputs[1]);
    const PadAttrs* zeros = ZerosAround(graph_.Producer(node.inputs[0]), first, dims);
    const bool folded = zeros && (x = Unpadded(node, *zeros, first, attrs)) != rewriter_.Map(node.inputs[0]);
    const Shape image = builder().Spec(x).shape, kernel = builder().Spec(w).shape;
    const Shape& out = graph_.Spec(node.output).shape;
    SliceAttrs cut{Shape(kernel.size(), 0), kernel, Shape(kernel.size(), 1)};
    const size_t taps_at = attrs.layout == Layout::kNCHW ? 2 : 0;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t spacing = folded ? zeros->interior[first + d] + 1 : 1;
      const Axis axis = AxisOf(attrs, d, image, out, kernel[taps_at + d], spacing);
      const std::optional<Taps> taps = TapsOnData(axis);
      if (!taps) continue;
      Keep(axis, *taps, d, attrs);
      cut.begin[taps_at + d] = taps->first;
      cut.extent[taps_at + d] = taps->Count();
      cut.step[taps_at + d] = taps->step;
    }
    if (cut.extent != kernel) w = builder().Must(Op::kSlice, {w}, cut, node.name);
    const auto taps = cut.extent.begin() + static_cast<std::ptrdiff_t>(taps_at);
    x = WithoutSkippedRows(node, x, Shape(taps, taps + static_cast<std::ptrdiff_t>(dims)), attrs);
    return builder().Must(node.op, {x, w}, attrs, node.name);
  }

  // Removes taps from a pool, except from averages that count padding. Keeps all taps of a dimension if fewer would
  // break a rule of pools: pads must be smaller than the window, and with ceil_mode the data after the last window must
  // not fill another one.
  ValueId Pool(const Node& node) {
    PoolAttrs attrs = std::get<PoolAttrs>(node.attrs);
    const size_t dims = attrs.strides.size();
    for (size_t d = 0; d < dims && !attrs.count_include_pad; ++d) {
      const Axis axis =
          AxisOf(attrs, d, graph_.Spec(node.inputs[0]).shape, graph_.Spec(node.output).shape, attrs.kernel[d], 1);
      const std::optional<Taps> taps = TapsOnData(axis);
      if (!taps) continue;
      PoolAttrs shorter = attrs;
      Keep(axis, *taps, d, shorter);
      shorter.kernel[d] = taps->Count();
      const int64_t reach = (shorter.kernel[d] - 1) * shorter.dilations[d], before = shorter.pads[d],
                    after = shorter.pads[d + dims], left = before + axis.extent + after - reach - 1;
      const bool same = !attrs.ceil_mode || left % axis.stride == 0;
      if (same && before <= reach && after <= reach) attrs = shorter;
    }
    const ValueId x = WithoutSkippedRows(node, rewriter_.Map(node.inputs[0]), attrs.kernel, attrs);
    return builder().Must(node.op, {x}, attrs, node.name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  const std::vector<int> uses_;
};

}  // namespace

Result<Graph> TrimWindows(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(WindowTrimmer(graph).Run(), env);
}

}  // namespace autotune::graph
