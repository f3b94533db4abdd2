#include <algorithm>

#include "graph/pass.h"

namespace autotune::graph {
namespace {

// Axis i of NHWC is axis ToNhwc(4)[i] of NCHW. Rank 5: the same for NDHWC and NCDHW.
std::vector<int64_t> ToNhwc(int rank) {
  return rank == 5 ? std::vector<int64_t>{0, 2, 3, 4, 1} : std::vector<int64_t>{0, 2, 3, 1};
}
// Axis i of NCHW is axis ToNchw(4)[i] of NHWC.
std::vector<int64_t> ToNchw(int rank) {
  return rank == 5 ? std::vector<int64_t>{0, 4, 1, 2, 3} : std::vector<int64_t>{0, 3, 1, 2};
}
std::vector<int64_t> OihwToHwio(int rank) {
  return rank == 5 ? std::vector<int64_t>{2, 3, 4, 1, 0} : std::vector<int64_t>{2, 3, 1, 0};
}

constexpr int64_t kFewChannels = 4;      // most channels of a result that stays NCHW: one vector of 128 bits of f32
constexpr int64_t kVectorOfPixels = 16;  // pixels in a row of the output that fill the longest vector of any target

// Every value has up to two forms: `native`, as in the old graph, and, if it may be an image, permuted to NHWC (three
// dimensions: NDHWC). Each form is made from the other when it is first needed. So a conversion appears only between
// the two layouts, and only once per value.
class LayoutConverter {
 public:
  explicit LayoutConverter(const Graph& graph)
      : graph_(graph), native_(graph.values.size(), -1), nhwc_(graph.values.size(), -1) {
    for (ValueId v : graph.inputs) native_[v] = builder_.Input(graph.values[v].name, graph.Spec(v));
  }

  Graph Run() {
    std::vector<bool> is_output(graph_.values.size(), false);
    for (ValueId v : graph_.outputs) is_output[v] = true;
    for (const Node& node : graph_.nodes) {
      Convert(node);
      // Converts an output directly after its node: it may still be in the cache, and its memory is free afterwards.
      if (is_output[node.output]) Native(node.output);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      builder_.Output(Native(graph_.outputs[i]), graph_.output_names[i]);
    return builder_.Finish();
  }

 private:
  bool MayBeImage(ValueId v) const { return graph_.Spec(v).rank() == 4 || graph_.Spec(v).rank() == 5; }
  bool IsNhwc(ValueId v) const { return nhwc_[v] >= 0 && graph_.values[v].def == Value::Def::kNode; }

  ValueId Native(ValueId v) {
    if (native_[v] >= 0) return native_[v];
    const std::string& name = graph_.values[v].name;
    if (const Constant* c = graph_.FindConstant(v)) {
      return native_[v] = c->data ? builder_.AddConstant(name, graph_.ConstantValue(*c))
                                  : builder_.ConstantParameter(name, graph_.Spec(v));
    }
    return native_[v] = builder_.Transpose(nhwc_[v], ToNchw(graph_.Spec(v).rank()), name);
  }
  ValueId Nhwc(ValueId v) {
    if (nhwc_[v] < 0) nhwc_[v] = builder_.Transpose(Native(v), ToNhwc(graph_.Spec(v).rank()), graph_.values[v].name);
    return nhwc_[v];
  }

  // Returns an operand of an element-wise operator in NHWC. An operand of lower rank first gets leading dimensions of
  // extent 1, as in broadcasting.
  ValueId BroadcastNhwc(ValueId v, int rank) {
    const TensorSpec& spec = graph_.Spec(v);
    if (spec.NumElements() == 1) return Native(v);
    if (spec.rank() == rank) return Nhwc(v);
    Shape shape = spec.shape;
    shape.insert(shape.begin(), rank - spec.rank(), 1);
    return builder_.Transpose(builder_.Reshape(Native(v), shape, graph_.values[v].name), ToNhwc(rank),
                              graph_.values[v].name);
  }

  void DefineNative(const Node& node, ValueId now) { Define(native_, node, now); }
  void DefineNhwc(const Node& node, ValueId now) { Define(nhwc_, node, now); }
  void Define(std::vector<ValueId>& form, const Node& node, ValueId now) {
    form[node.output] = now;
    if (builder_.graph().values[now].name.empty()) builder_.SetName(now, graph_.values[node.output].name);
  }

  void Keep(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(Native(v));
    DefineNative(node, builder_.Again(node, graph_.Spec(node.output), std::move(inputs)));
  }

  void Convert(const Node& node) {
    int rank = graph_.Spec(node.output).rank();
    bool image = MayBeImage(node.output), any_nhwc = false;
    for (ValueId v : node.inputs) any_nhwc = any_nhwc || (IsNhwc(v) && graph_.Spec(v).rank() == rank);
    switch (GetOpInfo(node.op).layout) {
      case LayoutRule::kImage:
        return ConvertImage(node);
      case LayoutRule::kElementwise: {
        if (!image || !any_nhwc) return Keep(node);
        std::vector<ValueId> inputs;
        for (ValueId v : node.inputs) inputs.push_back(BroadcastNhwc(v, rank));
        return DefineNhwc(node, builder_.Must(node.op, inputs, node.attrs, node.name));
      }
      case LayoutRule::kAxis:
        // Local response normalization works along the last axis. A gather keeps the image's dimensions only if its
        // indices are a vector.
        if (node.op == Op::kGather &&
            (graph_.Spec(node.inputs[0]).rank() != rank || graph_.Spec(node.inputs[1]).rank() != 1))
          return Keep(node);
        if (image && (any_nhwc || node.op == Op::kLrn)) return ConvertAxis(node);
        return Keep(node);
      case LayoutRule::kPerDim:
        return image && any_nhwc ? ConvertPerDim(node) : Keep(node);
      case LayoutRule::kFixed:
        return node.op == Op::kTranspose ? ConvertTranspose(node) : Keep(node);
    }
  }

  // Returns true if a window over an NCHW image stays NCHW. The pixels of a row are then the vectors, and nothing is
  // transposed. This is better for convolutions to few channels, which would not fill long vectors, and for pools
  // without padding. Padding would need a condition per lane.
  bool StaysChannelsFirst(const Node& node) const {
    const Shape& out = graph_.Spec(node.output).shape;
    if (nhwc_[node.inputs[0]] >= 0 || out.back() < kVectorOfPixels) return false;
    if (const auto* conv = std::get_if<ConvAttrs>(&node.attrs)) {
      return conv->groups == 1 && conv->strides.back() == 1 && out[1] <= kFewChannels;
    }
    const auto* pool = std::get_if<PoolAttrs>(&node.attrs);
    const bool padded = pool && std::any_of(pool->pads.begin(), pool->pads.end(), [](int64_t p) { return p > 0; });
    return pool && node.op != Op::kArgMaxPool && !padded && !pool->ceil_mode && pool->strides.back() == 1;
  }

  void ConvertImage(const Node& node) {
    Attrs attrs = node.attrs;
    bool nchw = std::visit(
        [](auto& a) {
          if constexpr (requires { a.layout; }) return std::exchange(a.layout, Layout::kNHWC) == Layout::kNCHW;
          return false;
        },
        attrs);
    if (!nchw || StaysChannelsFirst(node)) return Keep(node);
    std::vector<ValueId> inputs = {Nhwc(node.inputs[0])};
    if (std::holds_alternative<ConvAttrs>(attrs)) {
      ValueId w = node.inputs[1];
      inputs.push_back(builder_.Transpose(Native(w), OihwToHwio(graph_.Spec(w).rank()), graph_.values[w].name));
    }
    DefineNhwc(node, builder_.Must(node.op, inputs, attrs, node.name));
  }

  void ConvertAxis(const Node& node) {
    Attrs attrs = node.attrs;
    const int rank = graph_.Spec(node.output).rank();
    const std::vector<int64_t> to_nchw = ToNchw(rank);
    std::visit(
        [&](auto& a) {
          if constexpr (requires { a.axis; }) a.axis = to_nchw[a.axis];
          if constexpr (requires { a.axes; }) {
            for (int64_t& axis : a.axes) axis = to_nchw[axis];
            std::sort(a.axes.begin(), a.axes.end());
          }
        },
        attrs);
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(graph_.Spec(v).rank() == rank ? Nhwc(v) : Native(v));
    DefineNhwc(node, builder_.Must(node.op, inputs, attrs, node.name));
  }

  void ConvertPerDim(const Node& node) {
    Attrs attrs = node.attrs;
    const std::vector<int64_t> to_nhwc = ToNhwc(graph_.Spec(node.output).rank());
    std::visit(
        [&](auto& a) {
          if constexpr (HasFields<std::remove_cvref_t<decltype(a)>>) {
            ForEachField(a, [&](std::string_view, auto& list) {
              if constexpr (std::is_same_v<std::remove_cvref_t<decltype(list)>, std::vector<int64_t>>) {
                std::vector<int64_t> native = list;
                for (size_t d = 0; d < to_nhwc.size(); ++d) list[d] = native[to_nhwc[d]];
              }
            });
          }
        },
        attrs);
    DefineNhwc(node, builder_.Must(node.op, {Nhwc(node.inputs[0])}, attrs, node.name));
  }

  void ConvertTranspose(const Node& node) {
    ValueId x = node.inputs[0];
    std::vector<int64_t> perm = std::get<TransposeAttrs>(node.attrs).perm;
    const std::vector<int64_t> to_nchw = ToNchw(graph_.Spec(x).rank());
    if (perm == to_nchw && !IsNhwc(x)) return DefineNhwc(node, Native(x));  // the model itself has the image in NHWC
    if (!IsNhwc(x)) return Keep(node);
    for (int64_t& axis : perm) axis = to_nchw[axis];
    DefineNative(node, builder_.Transpose(nhwc_[x], perm, node.name));
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> native_, nhwc_;
};

}  // namespace

Result<Graph> ConvertLayout(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(LayoutConverter(graph).Run(), env);
}

}  // namespace autotune::graph
