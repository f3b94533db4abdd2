// Products of small integers become products of floats, if every sum of products is an integer that an f32 holds. The
// results are the same, bit for bit, in any order of the terms. Longer sums are cut into pieces that f32 holds, which
// are added as integers.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/range.h"
#include "graph/pass/rewriter.h"
#include "support/integer.h"

namespace autotune::graph {
namespace {

constexpr double kExactSums = 1 << 24;      // f32 holds all integers up to this magnitude
constexpr double kExactOperands = 1 << 11;  // TF32, to which a target may round operands, holds integers up to this
// Most taps of a depthwise window whose kernel converts bytes: nearly each tap converts them again. With 25 taps, an
// image of floats is faster by a tenth [measured].
constexpr int64_t kMostTaps = 16;
// Most pieces of a sum: with more, integers may be as fast [chosen]. Pieces have a multiple of so many channels, so
// that rows of floats stay whole cache lines.
constexpr int64_t kMostPieces = 16, kChannelsOfPiece = 16;

constexpr DType kFloats = DType::Float(32), kIntegers = DType::Int(32);

bool IsProduct(Op op) { return op == Op::kConv2d || op == Op::kConv3d || op == Op::kMatmul || op == Op::kBatchMatmul; }

class ExactProductsPass {
 public:
  ExactProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      const ValueId back = ReadsFloats(node);
      if (back >= 0) {
        rewriter_.Set(node.output, back);
      } else if (IsProduct(node.op) && graph_.Spec(node.output).dtype == kIntegers && IsExact(node)) {
        Rewrite(node);
      } else if (const int64_t channels = ChannelsOfPieces(node); channels > 0) {
        RewriteInPieces(node, channels);
      } else {
        rewriter_.Copy(node);
      }
    }
    return rewriter_.Finish();
  }

 private:
  // Returns a bound of the magnitude of all sums of some of the terms of one result of the product.
  double BoundOfSums(const Node& node, Range a, const Range& b) const {
    const Shape& weight = graph_.Spec(node.inputs[1]).shape;
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    const bool columns_first = conv && conv->layout == Layout::kNCHW;
    const int64_t columns = columns_first ? weight.front() : weight.back();
    if (conv) a = Hull(a, {static_cast<double>(conv->pad_value), static_cast<double>(conv->pad_value)});
    const Constant* c = graph_.FindConstant(node.inputs[1]);
    if (!c || !c->data || node.op == Op::kBatchMatmul) {
      const int64_t terms =
          conv ? graph_.Spec(node.inputs[1]).NumElements() / columns : graph_.Spec(node.inputs[0]).shape.back();
      return static_cast<double>(terms) * a.Magnitude() * b.Magnitude();
    }
    // The weights are known, so their sums are, too. Those of a column have half of the bound's magnitude or less.
    const TensorValue value = graph_.ConstantValue(*c);
    const int64_t terms = value.spec.NumElements() / columns;
    return MostOfSums(value, a, columns, [&](int64_t i) { return columns_first ? i / terms : i % columns; });
  }

  // Returns a bound of the magnitude of all partial sums of terms, of which weight i belongs to sum number sum_of(i).
  static double MostOfSums(const TensorValue& weights, const Range& a, int64_t sums, auto&& sum_of) {
    std::vector<double> up(static_cast<size_t>(sums), 0), down(static_cast<size_t>(sums), 0);
    for (int64_t i = 0; i < weights.spec.NumElements(); ++i) {
      const double w = weights.Number(i);
      const auto sum = static_cast<size_t>(sum_of(i));
      up[sum] += std::max({0.0, w * a.low, w * a.high});
      down[sum] -= std::min({0.0, w * a.low, w * a.high});
    }
    double most = 0;
    for (size_t i = 0; i < up.size(); ++i) most = std::max({most, up[i], down[i]});
    return most;
  }

  // Returns whether the product stays one of bytes or words, whose sums the target adds in groups.
  bool StaysInGroups(const Node& node) const {
    if (env_.multiplies_words && IsWord(graph_.Spec(node.inputs[1]).dtype)) return true;
    const auto is_byte = [&](ValueId v) { return IsByte(graph_.Spec(v).dtype); };
    if (!env_.multiplies_bytes || !is_byte(node.inputs[0]) || !is_byte(node.inputs[1])) return false;
    if (IsComputedProductOfGroups(graph_, node)) return true;
    return node.op != Op::kBatchMatmul && graph_.FindConstant(node.inputs[1]) && SumsInGroups(graph_, node) &&
           NeighboursOf(graph_, node) % kByteGroup == 0;
  }

  // Returns whether the padding of a convolution is no 0, so that only an image of bytes can have it.
  static bool PadsWithBytes(const Node& node) {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    return conv && conv->pad_value != 0;
  }

  bool IsExact(const Node& node) const {
    if (StaysInGroups(node) || (PadsWithBytes(node) && !ImageOfBytes(node))) return false;
    const std::optional<Range> a = RangeOf(graph_, node.inputs[0]), b = RangeOf(graph_, node.inputs[1]);
    if (!a || !b || std::max(a->Magnitude(), b->Magnitude()) > kExactOperands) return false;
    return BoundOfSums(node, *a, *b) <= kExactSums;
  }

  // Returns how many channels (or steps of the sum of a product of matrices) a piece of the product has, so that f32
  // holds the sums of each piece; 0: the product stays one of integers.
  int64_t ChannelsOfPieces(const Node& node) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    const bool fits =
        node.op == Op::kMatmul || (node.op == Op::kConv2d && conv->layout == Layout::kNHWC && conv->groups == 1);
    if (!fits || graph_.Spec(node.output).dtype != kIntegers || StaysInGroups(node) || PadsWithBytes(node)) return 0;
    // A product of few rows takes as long as its weights need from memory, and floats are four times as many bytes.
    if (IsOfFewRows(graph_, node) && IsByte(graph_.Spec(node.inputs[1]).dtype)) return 0;
    const Constant* weights = graph_.FindConstant(node.inputs[1]);
    std::optional<Range> a = RangeOf(graph_, node.inputs[0]);
    const std::optional<Range> b = weights && weights->data ? RangeOf(graph_, node.inputs[1]) : std::nullopt;
    if (!a || !b || std::max(a->Magnitude(), b->Magnitude()) > kExactOperands) return 0;
    if (conv) a = Hull(*a, {0, 0});  // the padding
    const TensorValue value = graph_.ConstantValue(*weights);
    const Shape& shape = value.spec.shape;
    if (shape.size() < 2) return 0;
    const int64_t columns = shape.back(), channels = shape[shape.size() - 2];
    for (int64_t pieces = 2; pieces <= kMostPieces; ++pieces) {
      const int64_t size = CeilDiv(CeilDiv(channels, pieces), kChannelsOfPiece) * kChannelsOfPiece;
      if (size >= channels) continue;
      const auto sum_of = [&](int64_t i) { return i / columns % channels / size * columns + i % columns; };
      if (MostOfSums(value, *a, CeilDiv(channels, size) * columns, sum_of) <= kExactSums) return size;
    }
    return 0;
  }

  // Returns the channels [first, first + count) of the tensor, in dimension `axis`.
  ValueId Channels(ValueId v, const Shape& shape, size_t axis, int64_t first, int64_t count) {
    SliceAttrs slice{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
    slice.begin[axis] = first, slice.extent[axis] = count;
    return rewriter_.builder.Must(Op::kSlice, {v}, slice);
  }

  void RewriteInPieces(const Node& node, int64_t size) {
    Attrs attrs = node.attrs;
    if (auto* conv = std::get_if<ConvAttrs>(&attrs)) conv->exact = true;
    const Shape &x = graph_.Spec(node.inputs[0]).shape, &w = graph_.Spec(node.inputs[1]).shape;
    const ValueId a = Floats(node.inputs[0]), b = Floats(node.inputs[1]);
    ValueId sum = -1;
    for (int64_t first = 0; first < x.back(); first += size) {
      const int64_t count = std::min(size, x.back() - first);
      const ValueId part = rewriter_.builder.Must(
          node.op, {Channels(a, x, x.size() - 1, first, count), Channels(b, w, w.size() - 2, first, count)}, attrs,
          node.name);
      const ValueId integers = rewriter_.builder.Must(Op::kCast, {part}, CastAttrs{kIntegers});
      sum = sum < 0 ? integers : rewriter_.builder.Must(Op::kAdd, {sum, integers});
    }
    rewriter_.Set(node.output, sum);
  }

  // Returns the operand as floats; makes one conversion for all products that read it.
  ValueId Floats(ValueId v) {
    const auto [it, is_new] = floats_.try_emplace(v, -1);
    if (!is_new) return it->second;
    const Constant* c = graph_.FindConstant(v);
    if (!c || !c->data) return it->second = rewriter_.builder.Must(Op::kCast, {rewriter_.Map(v)}, CastAttrs{kFloats});
    return it->second = rewriter_.AddFloats(*c);
  }

  // Bytes from which a convolution of each channel reads its image.
  struct Image {
    ValueId bytes = -1;
    int64_t zero = 0;
  };

  // Returns the bytes of the image minus a zero point that a depthwise convolution reads, if its kernel can convert
  // them: vectors of channels take one instruction for it, and memory holds a quarter of what floats would take.
  std::optional<Image> ImageOfBytes(const Node& node) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    const Constant* weights = graph_.FindConstant(node.inputs[1]);
    if (!env_.converts_factors || !conv || conv->layout != Layout::kNHWC || !weights || !weights->data) return {};
    const Shape& shape = graph_.Spec(node.inputs[1]).shape;
    if (conv->groups == 1 || conv->groups != shape.back() || shape[shape.size() - 2] != 1) return {};
    if (graph_.Spec(node.inputs[1]).NumElements() > kMostTaps * shape.back()) return {};
    const bool is_bytes = IsByte(graph_.Spec(node.inputs[0]).dtype);
    const auto x = is_bytes ? Centered{node.inputs[0], -1, {}} : CenteredOf(graph_, node.inputs[0]);
    if (!x || !x->views.empty()) return {};
    Image image{x->bytes, 0};
    if (x->zero >= 0) {
      const Constant* zero = graph_.FindConstant(x->zero);
      if (!zero || !zero->data || graph_.Spec(x->zero).NumElements() != 1) return {};
      image.zero = static_cast<int64_t>(graph_.ConstantValue(*zero).Number(0));
    }
    const Range bytes = *RangeOf(graph_, x->bytes);
    const auto z = static_cast<double>(image.zero);
    if (z < bytes.low || z > bytes.high) return {};
    return BoundOfSums(node, bytes, *RangeOf(graph_, node.inputs[1])) <= kExactSums ? std::optional(image)
                                                                                    : std::nullopt;
  }

  // Returns the sums of products of x and w, from those of x + z and w.
  ValueId WithoutZero(ValueId sums, int64_t z, const Node& node) {
    if (z == 0) return sums;
    const TensorValue weights = graph_.ConstantValue(*graph_.FindConstant(node.inputs[1]));
    const int64_t channels = weights.spec.shape.back();
    std::vector<double> of_channels(static_cast<size_t>(channels), 0);
    for (int64_t i = 0; i < weights.spec.NumElements(); ++i)
      of_channels[static_cast<size_t>(i % channels)] += weights.Number(i) * static_cast<double>(z);
    const ValueId excess =
        rewriter_.builder.AddConstant("", TensorValue::FromNumbers(kFloats, {channels}, of_channels));
    return rewriter_.builder.Must(Op::kSub, {sums, excess});
  }

  void Rewrite(const Node& node) {
    Attrs attrs = node.attrs;
    auto* conv = std::get_if<ConvAttrs>(&attrs);
    if (conv) conv->exact = true;
    const std::optional<Image> image = ImageOfBytes(node);
    if (image && image->zero != 0) conv->pad_value = image->zero;
    const ValueId a = image ? rewriter_.Map(image->bytes) : Floats(node.inputs[0]), b = Floats(node.inputs[1]);
    ValueId y = rewriter_.builder.Must(node.op, {a, b}, attrs, node.name);
    if (image) y = WithoutZero(y, image->zero, node);
    products_[node.output] = y;
    rewriter_.Set(node.output, rewriter_.builder.Must(Op::kCast, {y}, CastAttrs{kIntegers}, node.name));
  }

  // If the node converts the result of a rewritten product to floats, returns these floats; else -1.
  ValueId ReadsFloats(const Node& node) const {
    if (node.op != Op::kCast || graph_.Spec(node.output).dtype != kFloats) return -1;
    const auto it = products_.find(node.inputs[0]);
    return it == products_.end() ? -1 : it->second;
  }

  const Graph& graph_;
  const PassEnv& env_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> floats_;    // an operand as floats, by its value in graph_
  std::map<ValueId, ValueId> products_;  // a product's floats, by its integers in graph_
};

}  // namespace

Result<Graph> ExactProducts(const Graph& graph, const PassEnv& env) {
  return FoldConstants(TRY(DropDeadCode(ExactProductsPass(graph, env).Run(), env)), env);
}

}  // namespace autotune::graph
