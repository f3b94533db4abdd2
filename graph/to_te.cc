#include "graph/to_te.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/extract.h"
#include "graph/pass.h"
#include "graph/pipeline.h"
#include "ir/arithmetic.h"
#include "ir/op.h"
#include "te/create_prim_func.h"
#include "topi/alternatives.h"
#include "topi/elementwise.h"
#include "topi/norm.h"
#include "topi/pool.h"
#include "topi/reduce.h"
#include "topi/select.h"
#include "topi/transform.h"
#include "topi/winograd.h"

namespace autotune::graph {

topi::ConvAttrs ToTopi(const ConvAttrs& attrs) {
  return {attrs.strides, attrs.dilations, attrs.pads, attrs.groups, attrs.pad_value};
}

namespace {

using te::Tensor;

topi::PoolAttrs ToTopi(const PoolAttrs& a) {
  const bool channels_first = a.layout == Layout::kNCHW;
  return {a.kernel, a.strides, a.dilations, a.pads, a.ceil_mode, a.count_include_pad, channels_first};
}

te::Combiner CombinerOf(Op op) {
  return op == Op::kReduceSum    ? te::Combiner::kSum
         : op == Op::kReduceProd ? te::Combiner::kProd
         : op == Op::kReduceMax  ? te::Combiner::kMax
                                 : te::Combiner::kMin;
}

std::optional<te::Combiner> CombinerOf(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::kReplace:
      return std::nullopt;
    case ScatterMode::kAdd:
      return te::Combiner::kSum;
    case ScatterMode::kMul:
      return te::Combiner::kProd;
    case ScatterMode::kMax:
      return te::Combiner::kMax;
    case ScatterMode::kMin:
      return te::Combiner::kMin;
  }
  UNREACHABLE();
  return std::nullopt;
}

Tensor Pad(const std::string& name, const Tensor& x, const PadAttrs& a) {
  if (a.mode == PadMode::kConstant) return topi::Pad(name, x, a.before, a.after, a.value, a.interior);
  return topi::PadFromInside(name, x, a.before, a.after, a.mode == PadMode::kReflect);
}

// Returns the local response normalization along any axis, by transposes around topi::Lrn, which uses the last axis.
Tensor LrnAlongAxis(const std::string& name, const Tensor& x, const LrnAttrs& a) {
  topi::LrnAttrs attrs{a.size, a.alpha, a.beta, a.bias};
  int last = x.rank() - 1, axis = static_cast<int>(a.axis);
  if (axis == last) return topi::Lrn(name, x, attrs);
  std::vector<int> swap(x.rank());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[axis], swap[last]);
  Tensor y = topi::Lrn(name, topi::Transpose(name + "_to_last", x, swap), attrs);
  return topi::Transpose(name + "_back", y, swap);
}

Status CheckNhwc(Layout layout) {
  if (layout != Layout::kNHWC) return Err("images must be NHWC");
  return {};
}

// Makes the tensors of one subgraph. `alternative` is an index into topi's list for the anchor.
class Lowering {
 public:
  Lowering(const Graph& graph, const Target& target, const LowerOptions& options)
      : graph_(graph), target_(target), options_(options), tensors_(graph.values.size()) {}

  Result<std::optional<Alternative>> Run(size_t alternative, const std::string& name) {
    alternative_ = alternative;
    name_ = "direct";
    std::vector<te::TensorParam> params;
    auto placeholder = [&](ValueId v, ParamRole role) {
      std::string parameter = "p" + std::to_string(params.size());
      tensors_[v] = te::Placeholder(parameter, graph_.Spec(v).shape, graph_.Spec(v).dtype);
      params.push_back({tensors_[v], role, parameter});
    };
    for (ValueId v : graph_.inputs) placeholder(v, ParamRole::kInput);
    for (const Constant& c : graph_.constants) {
      if (!c.data) {
        placeholder(c.value, ParamRole::kConstant);
        continue;
      }
      TensorValue value = graph_.ConstantValue(c);
      if (value.spec.NumElements() != 1)
        return Err("a constant in a kernel must be one number, not ", value.spec.Text());
      tensors_[c.value] = te::Splat(value.spec.shape, value.Number(0), value.spec.dtype);
    }
    for (const Node& node : graph_.nodes) {
      std::vector<Tensor> in;
      for (ValueId v : node.inputs) in.push_back(tensors_[v]);
      std::optional<Tensor> out = TRY_NOTE(Compute(node, in), "in " + std::string(ToText(node.op)));
      if (!out) return std::optional<Alternative>();
      tensors_[node.output] = *out;
      CHECK(out->shape() == graph_.Spec(node.output).shape) << ToText(node.op) << ": " << ShapeText(out->shape());
    }
    Tensor out = tensors_[graph_.outputs[0]];
    // If the output is a parameter or a constant, adds a copy, since a block must store the output.
    if (!graph_.Producer(graph_.outputs[0])) out = topi::Identity("copy", out);
    params.push_back({out, ParamRole::kOutput, "out"});
    return std::optional<Alternative>({name_, te::CreatePrimFunc(name, params, {target_.has_fma})});
  }

  // Returns the number of alternatives that topi lists for the anchor's operator.
  size_t Count() const {
    const auto is_product = [](const Node& node) { return node.op == Op::kMatmul || node.op == Op::kBatchMatmul; };
    if (std::count_if(graph_.nodes.begin(), graph_.nodes.end(), is_product) > 1) return 1;  // attention
    for (const Node& node : graph_.nodes) {
      if (std::holds_alternative<ConvAttrs>(node.attrs)) return topi::ConvAlternatives().size();
      if (is_product(node)) return topi::MatMulAlternatives().size();
    }
    return 1;
  }

 private:
  // Returns the tensor of a node, or nothing if the alternative does not apply.
  Result<std::optional<Tensor>> Compute(const Node& node, const std::vector<Tensor>& in) {
    std::string name(ToText(node.op));
    auto done = [](Tensor t) { return std::optional<Tensor>(std::move(t)); };
    switch (node.op) {
      case Op::kConv2d:
      case Op::kConv3d:
        return Convolution(name, std::get<ConvAttrs>(node.attrs), in);
      case Op::kMatmul:
      case Op::kBatchMatmul:
        return Product(node, in);
      case Op::kBlockMatmul: {
        const auto operand = [&](size_t i) { return i < in.size() ? in[i] : Tensor(); };
        if (in[0].dtype().IsFloat())
          return done(topi::BlockMatMul(name, {in[0], Tensor(), operand(3)}, {in[1], in[2], operand(4)}));
        return done(topi::BlockMatMul(name, {in[0], in[3], in[4]}, {in[1], in[2], operand(5)}));
      }
      case Op::kRelu:
        return done(topi::Relu(name, in[0]));
      case Op::kClip: {
        const auto& a = std::get<ClipAttrs>(node.attrs);
        return done(topi::Clip(name, in[0], a.min, a.max));
      }
      case Op::kSigmoid:
        return done(topi::ApplyOp(name, autotune::Op::kSigmoid, in[0]));
      case Op::kSqrt:
        return done(topi::ApplyOp(name, autotune::Op::kSqrt, in[0]));
      case Op::kTanh:
        return done(topi::ApplyOp(name, autotune::Op::kTanh, in[0]));
      case Op::kErf:
        return done(topi::ApplyOp(name, autotune::Op::kErf, in[0]));
      case Op::kExp:
        return done(
            topi::ApplyOp(name, IsExpBelowMax(node.output) ? autotune::Op::kExpOfNegative : autotune::Op::kExp, in[0]));
      case Op::kLog:
        return done(topi::ApplyOp(name, autotune::Op::kLog, in[0]));
      case Op::kFloor:
        return done(topi::ApplyOp(name, autotune::Op::kFloor, in[0]));
      case Op::kCeil:
        return done(topi::ApplyOp(name, autotune::Op::kCeil, in[0]));
      case Op::kRound:
        return done(topi::ApplyOp(name, autotune::Op::kRound, in[0]));
      case Op::kSin:
        return done(topi::ApplyOp(name, autotune::Op::kSin, in[0]));
      case Op::kCos:
        return done(topi::ApplyOp(name, autotune::Op::kCos, in[0]));
      case Op::kTan:
        return done(topi::ApplyOp(name, autotune::Op::kTan, in[0]));
      case Op::kAsin:
        return done(topi::ApplyOp(name, autotune::Op::kAsin, in[0]));
      case Op::kAcos:
        return done(topi::ApplyOp(name, autotune::Op::kAcos, in[0]));
      case Op::kAtan:
        return done(topi::ApplyOp(name, autotune::Op::kAtan, in[0]));
      case Op::kSinh:
        return done(topi::ApplyOp(name, autotune::Op::kSinh, in[0]));
      case Op::kCosh:
        return done(topi::ApplyOp(name, autotune::Op::kCosh, in[0]));
      case Op::kAsinh:
        return done(topi::ApplyOp(name, autotune::Op::kAsinh, in[0]));
      case Op::kAcosh:
        return done(topi::ApplyOp(name, autotune::Op::kAcosh, in[0]));
      case Op::kAtanh:
        return done(topi::ApplyOp(name, autotune::Op::kAtanh, in[0]));
      case Op::kIsNan:
        return done(topi::ApplyOp(name, autotune::Op::kIsNan, in[0]));
      case Op::kAbs:
        return done(topi::Abs(name, in[0]));
      case Op::kNeg:
        return done(topi::Neg(name, in[0]));
      case Op::kLeakyRelu:
        return done(topi::LeakyRelu(name, in[0], std::get<AlphaAttrs>(node.attrs).alpha));
      case Op::kNot:
        return done(topi::Not(name, in[0]));
      case Op::kCast:
        return done(topi::CastTo(name, in[0], std::get<CastAttrs>(node.attrs).to));
      case Op::kBitCast:
        return done(topi::BitCast(name, in[0], std::get<CastAttrs>(node.attrs).to));
      case Op::kAdd:
        return done(topi::Add(name, in[0], in[1]));
      case Op::kSub:
        return done(topi::Sub(name, in[0], in[1]));
      case Op::kMul:
        return done(topi::Mul(name, in[0], in[1]));
      case Op::kDiv:
        return done(topi::Div(name, in[0], in[1]));
      case Op::kMod:
        return done(topi::Mod(name, in[0], in[1]));
      case Op::kPow:
        return done(topi::Pow(name, in[0], in[1]));
      case Op::kMax:
        return done(topi::Maximum(name, in[0], in[1]));
      case Op::kMin:
        return done(topi::Minimum(name, in[0], in[1]));
      case Op::kEqual:
        return done(topi::Compare(name, in[0], in[1], BinaryOp::kEq));
      case Op::kLess:
        return done(topi::Compare(name, in[0], in[1], BinaryOp::kLt));
      case Op::kLessEqual:
        return done(topi::Compare(name, in[0], in[1], BinaryOp::kLe));
      case Op::kAnd:
        return done(topi::And(name, in[0], in[1]));
      case Op::kOr:
        return done(topi::Or(name, in[0], in[1]));
      case Op::kXor:
        return done(topi::Xor(name, in[0], in[1]));
      case Op::kShiftLeft:
        return done(topi::ShiftLeft(name, in[0], in[1]));
      case Op::kShiftRight:
        return done(topi::ShiftRight(name, in[0], in[1]));
      case Op::kWhere:
        return done(topi::Where(name, in[0], in[1], in[2]));
      case Op::kFma:
        return done(topi::Fma(name, in[0], in[1], in[2]));
      case Op::kLookUp:
        return done(topi::LookUp(name, in[0], in[1]));
      case Op::kMaxPool2d:
      case Op::kMaxPool3d: {
        return done(topi::MaxPool(name, in[0], ToTopi(std::get<PoolAttrs>(node.attrs))));
      }
      case Op::kAvgPool2d:
      case Op::kAvgPool3d: {
        return done(topi::AvgPool(name, in[0], ToTopi(std::get<PoolAttrs>(node.attrs))));
      }
      case Op::kArgMaxPool: {
        const auto& a = std::get<PoolAttrs>(node.attrs);
        TRY(CheckNhwc(a.layout));
        return done(topi::ArgMaxPool(name, in[0], ToTopi(a)));
      }
      case Op::kGlobalAvgPool:
        TRY(CheckNhwc(std::get<ImageAttrs>(node.attrs).layout));
        return done(topi::GlobalAvgPool(name, in[0]));
      case Op::kGlobalMaxPool:
        TRY(CheckNhwc(std::get<ImageAttrs>(node.attrs).layout));
        return done(topi::GlobalMaxPool(name, in[0]));
      case Op::kReduceSum:
      case Op::kReduceProd:
      case Op::kReduceMax:
      case Op::kReduceMin: {
        const auto& axes = std::get<AxesAttrs>(node.attrs).axes;
        return done(topi::ReduceAxes(name, in[0], {axes.begin(), axes.end()}, CombinerOf(node.op)));
      }
      case Op::kArgReduce: {
        const auto& a = std::get<ArgAttrs>(node.attrs);
        return done(topi::ArgReduce(name, in[0], static_cast<int>(a.axis), a.largest, a.last));
      }
      case Op::kLrn:
        if (in[0].rank() != 4) return Err("input must have rank 4, not ", graph_.Spec(node.inputs[0]).Text());
        return done(LrnAlongAxis(name, in[0], std::get<LrnAttrs>(node.attrs)));
      case Op::kSoftmax:
        return done(topi::Softmax(name, in[0], {static_cast<int>(std::get<AxisAttrs>(node.attrs).axis)}));
      case Op::kConcat:
        return done(topi::Concat(name, in, static_cast<int>(std::get<AxisAttrs>(node.attrs).axis)));
      case Op::kGather:
        return done(topi::Gather(name, in[0], in[1], static_cast<int>(std::get<AxisAttrs>(node.attrs).axis)));
      case Op::kGatherElements:
        return done(topi::GatherElements(name, in[0], in[1], static_cast<int>(std::get<AxisAttrs>(node.attrs).axis)));
      case Op::kScatter: {
        const auto& a = std::get<ScatterAttrs>(node.attrs);
        return done(topi::Scatter(name, in[0], in[1], in[2], static_cast<int>(a.axis), CombinerOf(a.mode)));
      }
      case Op::kCumulate: {
        const auto& a = std::get<CumulateAttrs>(node.attrs);
        const te::Combiner combiner = a.product ? te::Combiner::kProd : te::Combiner::kSum;
        return done(topi::Cumulate(name, in[0], static_cast<int>(a.axis), combiner, a.exclusive, a.reverse));
      }
      case Op::kTopK: {
        const auto& a = std::get<TopKAttrs>(node.attrs);
        return done(topi::TopK(name, in[0], a.k, a.largest));
      }
      case Op::kSelectBoxes: {
        const auto& a = std::get<BoxesAttrs>(node.attrs);
        topi::Suppression s{.most = a.most, .rows = a.rows, .overlap = a.overlap, .centers = a.centers};
        if (!a.any_score) s.least_score = a.least_score;
        return done(topi::SelectBoxes(name, in[0], in[1], in[2], s));
      }
      case Op::kGatherSum:
        return done(topi::GatherSum(name, in[0], in[1], in[2]));
      case Op::kDet:
        return done(topi::Determinant(name, in[0]));
      case Op::kSlice: {
        const auto& a = std::get<SliceAttrs>(node.attrs);
        return done(topi::Slice(name, in[0], a.begin, a.extent, a.step));
      }
      case Op::kPad:
        return done(Pad(name, in[0], std::get<PadAttrs>(node.attrs)));
      case Op::kBroadcastTo:
        return done(topi::BroadcastTo(name, in[0], graph_.Spec(node.output).shape));
      case Op::kReshape:
        return done(topi::Reshape(name, in[0], graph_.Spec(node.output).shape));
      case Op::kTranspose: {
        const auto& perm = std::get<TransposeAttrs>(node.attrs).perm;
        return done(topi::Transpose(name, in[0], {perm.begin(), perm.end()}));
      }
      case Op::kBatchNorm:  // FoldBatchNorm replaces it
      case Op::kFused:
      case Op::kCall:
        break;
    }
    return Err("no computation for ", name, " inside a kernel");
  }

  Result<std::optional<Tensor>> Convolution(const std::string& name, const ConvAttrs& a,
                                            const std::vector<Tensor>& in) {
    topi::ConvAttrs attrs = ToTopi(a);
    if (a.layout == Layout::kNCHW) {  // there is only one computation
      if (a.groups > 1) return Err("images of grouped convolutions must be NHWC");
      if (alternative_ > 0) return std::optional<Tensor>();
      return std::optional<Tensor>(topi::ConvChannelsFirst(name, in[0], in[1], attrs));
    }
    const topi::ConvAlternative& row = topi::ConvAlternatives()[alternative_];
    if (((options_.exact || a.exact) && !row.exact) || !row.takes(in[0].dtype()) || !row.takes(in[1].dtype()) ||
        !row.applies(in[0].shape(), in[1].shape(), attrs, target_))
      return std::optional<Tensor>();
    name_ = row.name;
    return std::optional<Tensor>(row.make(name, in[0], in[1], attrs, target_));
  }

  Result<std::optional<Tensor>> Product(const Node& node, std::vector<Tensor> in) {
    const std::string name(ToText(node.op));
    const topi::MatMulAlternative& row = topi::MatMulAlternatives()[alternative_];
    if (!row.takes(in[0].dtype()) || !row.takes(in[1].dtype()) || !row.applies(in[0].shape(), in[1].shape(), target_))
      return std::optional<Tensor>();
    name_ = row.name;
    const std::optional<topi::SoftmaxFactors> factors = FactorsOf(node.inputs[0]);
    if (!factors) return std::optional<Tensor>(row.make(name, in[0], in[1], target_));
    const Tensor product = row.make(name, factors->exp, in[1], target_);
    // The factors come first, so that their blocks stand before the product, whose epilogue reads them.
    return std::optional<Tensor>(topi::Mul(name + "_scaled", factors->scale, product));
  }

  // If this kernel computes `v` as a softmax along the last dimension, returns the two factors of the softmax: the
  // exponentials, and one scale for each row. The scale can be applied to the row of the product instead, which is
  // shorter. Otherwise returns nothing.
  std::optional<topi::SoftmaxFactors> FactorsOf(ValueId v) const {
    const Node* node = graph_.Producer(v);
    if (!node) return std::nullopt;
    if (node->op == Op::kSoftmax) {
      const int axis = static_cast<int>(std::get<AxisAttrs>(node->attrs).axis);
      return topi::FactorsOfSoftmax("softmax", tensors_[node->inputs[0]], {axis});
    }
    if (node->op != Op::kMul) return std::nullopt;
    for (int e : {0, 1}) {
      const bool factor = graph_.Spec(node->inputs[1 - e]).shape == RowsOf(v);
      if (factor && IsExpBelowMax(node->inputs[e])) return {{tensors_[node->inputs[e]], tensors_[node->inputs[1 - e]]}};
    }
    return std::nullopt;
  }

  // Returns the shape of a tensor with one number for each row.
  Shape RowsOf(ValueId v) const {
    Shape shape = graph_.Spec(v).shape;
    shape.back() = 1;
    return shape;
  }

  // Returns true if the value is exp(x - most), where `most` is at least the largest element of each row. The value is
  // then at most 1, and a sum of products with it is at most the number of keys times the weighted mean. Values within
  // that factor of the type's largest number may overflow, although their mean would not.
  bool IsExpBelowMax(ValueId v) const {
    const Node* exp = graph_.Producer(v);
    const Node* sub = exp && exp->op == Op::kExp ? graph_.Producer(exp->inputs[0]) : nullptr;
    if (!sub || sub->op != Op::kSub || graph_.Spec(sub->inputs[1]).shape != RowsOf(v)) return false;
    const Node* most = graph_.Producer(sub->inputs[1]);
    for (int i : {0, 1}) {
      if (!most || most->op != Op::kMax) break;
      if (const Node* reduced = graph_.Producer(most->inputs[i]); reduced && reduced->op == Op::kReduceMax)
        most = reduced;
    }
    return most && most->op == Op::kReduceMax && most->inputs[0] == sub->inputs[0];
  }

  const Graph& graph_;
  const Target& target_;
  const LowerOptions& options_;
  std::vector<Tensor> tensors_;
  size_t alternative_ = 0;
  std::string name_;
};

}  // namespace

Result<std::vector<Alternative>> LowerSubgraph(const Graph& subgraph, const Target& target, const std::string& name,
                                               const LowerOptions& options) {
  if (subgraph.outputs.size() != 1) return Err("a kernel has one output, not ", subgraph.outputs.size());
  std::vector<Alternative> out;
  size_t count = Lowering(subgraph, target, options).Count();
  for (size_t i = 0; i < count; ++i) {
    std::optional<Alternative> alternative = TRY(Lowering(subgraph, target, options).Run(i, name));
    if (alternative) out.push_back(std::move(*alternative));
  }
  CHECK(!out.empty()) << "no alternative applies to " << GraphText(subgraph);
  return out;
}

std::optional<std::string> WinogradObstacle(const Graph& subgraph, const Target& target) {
  for (const Node& node : subgraph.nodes) {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if (!conv) continue;
    const DType type = subgraph.Spec(node.inputs[0]).dtype;
    if (type != DType::Float(32)) return "its elements are " + type.Text() + ", not f32";
    if (conv->exact) return "its sums must be exact, or its weights differ too much in size";
    if (conv->layout == Layout::kNCHW) return "its result has too few channels";
    const Shape &data = subgraph.Spec(node.inputs[0]).shape, &weight = subgraph.Spec(node.inputs[1]).shape;
    const topi::ConvAttrs attrs = ToTopi(*conv);
    std::string obstacle = topi::WinogradObstacle(data, weight, attrs, target);
    if (!obstacle.empty()) return obstacle;
    for (const topi::ConvAlternative& row : topi::ConvAlternatives()) {
      if (!row.exact && row.takes(type) && row.applies(data, weight, attrs, target)) return "";
    }
    return "its tiles fit no cache";
  }
  return std::nullopt;
}

Result<double> FlopsOf(const Graph& network, const Target& target) {
  const IRModule fused = TRY(Optimize(IRModule(network)));
  double flops = 0;
  for (const Task& task : ExtractTasks(fused.main())) {
    const std::vector<Alternative> alternatives = TRY(LowerSubgraph(*task.subgraph, target));
    flops += task.weight * ArithmeticOf(alternatives[0].func.body).Flops();
  }
  return flops;
}

}  // namespace autotune::graph
