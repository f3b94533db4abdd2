// The operators of the graph language: one explicit table with, for each, its name, number of inputs, attribute struct
// with defaults, type inference, fusion kind and behaviour under a change of layout. Immutable; thread-safe.
// Not here: how operators are computed (topi/, through graph/to_te.h).
#pragma once
#include <string_view>
#include <vector>

#include "graph/attrs.h"
#include "graph/tensor_value.h"
#include "support/result.h"

namespace autotune::graph {

enum class Op {
  kConv2d,       // x [N,C,H,W], w [O,C/groups,KH,KW] (or NHWC, HWIO)
  kConv3d,       // as kConv2d, with D before H
  kMatmul,       // a [M,K], b [K,N]
  kBatchMatmul,  // a [...,M,K], b [...,K,N]; leading dimensions broadcast; ranks equal, at least 3
  // y[m,n] = sum over b of xs[m,b] ws[b,n] (sum over the block's k of x[m,k] w[b,k,n] - o[m,b] z[b,n]).
  // Rows of integers: x [M,B*K] i8, w [B,H,N] u8, scales of w [B,N] f32, scales of x [M,B] f32, offsets [M,B] i32, zero
  // points [B,N] u8 (may be absent: 1). H is K, or K / 2 if w has two numbers a byte: of each eight terms, the first
  // four in the lower halves.
  // Rows of floats, which have no scales: x [M,B*K] f32, w [B,K,N] i8 or [B,K/8,N] i32, scales of w [B,N] f32, and
  // either offsets [M,B] f32 and zero points [B,N] i8 or none of both. An i32 has eight numbers from -8 to 7, number k
  // in the bits from 4 k on.
  kBlockMatmul,
  kBatchNorm,  // x, scale, bias, mean, variance (each [C])
  kRelu,
  kClip,
  kSigmoid,
  kSqrt,
  kTanh,
  kErf,
  kExp,
  kLog,
  kAbs,
  kNeg,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kLeakyRelu,
  kIsNan,    // gives bool
  kNot,      // logical for bools, bitwise for integers
  kCast,     // floats to integers: truncated; numbers to bool: x != 0
  kBitCast,  // the same bits as numbers of another type of that width
  kAdd,      // binary operators broadcast as NumPy does
  kSub,
  kMul,
  kDiv,  // quotients of integers are truncated, and x / 0 is x
  kMod,  // remainder of integers with the divisor's sign; x mod 0 is 0
  kPow,  // of floats
  kMax,
  kMin,
  kEqual,  // comparisons give bool
  kLess,
  kLessEqual,
  kAnd,  // kAnd, kOr, kXor: logical for bools, bitwise for integers
  kOr,
  kXor,
  kShiftLeft,  // shifts of unsigned integers; a shift by their width or more gives 0
  kShiftRight,
  kWhere,      // condition, then, else; all three broadcast
  kFma,        // a, b, c: a b + c of floats, which broadcast; rounded once where the target has an instruction for it
  kLookUp,     // x i8 or u8, table [256] i8 or u8: the entry for the bits of each x, read as a u8
  kMaxPool2d,  // windows hold at least one element of the input; pads never win
  kAvgPool2d,
  kMaxPool3d,
  kAvgPool3d,
  kArgMaxPool,     // i64 index in the image, h * W + w, of the first largest element of each window of a max pool
  kGlobalAvgPool,  // result with H = W = 1
  kGlobalMaxPool,
  kReduceSum,  // reduced dimensions stay, with extent 1
  kReduceProd,
  kReduceMax,
  kReduceMin,
  kArgReduce,  // the i64 index of the largest (smallest) element along an axis, which stays with extent 1
  kLrn,
  kSoftmax,
  kConcat,
  kGather,          // data, integer indices: data[..., indices[i], ...]; negative indices count from the end
  kGatherElements,  // data, integer indices of the result's shape: data[i, indices[i, j], ...]
  kScatter,         // data, updates, integer indices that broadcast to updates: data with updates at these indices
  kCumulate,        // cumulative sums or products along an axis
  kTopK,            // i64 indices of the k best elements of the last dimension, the best first
  kSelectBoxes,     // non-maximum suppression of boxes [B,N,4], scores [B,C,N], indices that sort scores descending
  kGatherSum,       // x [B,R,C], weights [B,P,T], integer indices [B,P,T]: sums of T weighted rows of x
  kDet,             // determinants of the matrices in the last two dimensions
  kSlice,
  kPad,
  kBroadcastTo,
  kReshape,  // an alias of its input
  kTranspose,
  kFused,  // a call of the node's body, which the fuse pass makes: one kernel
  kCall,   // a call of another function of the module, by name
};
}  // namespace autotune::graph
namespace autotune {
AUTOTUNE_ENUM(graph::Op, "conv2d", "conv3d", "matmul", "batch_matmul", "block_matmul", "batch_norm", "relu", "clip",
              "sigmoid", "sqrt", "tanh", "erf", "exp", "log", "abs", "neg", "floor", "ceil", "round", "sin", "cos",
              "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "leaky_relu", "isnan", "not",
              "cast", "bit_cast", "add", "sub", "mul", "div", "mod", "pow", "max", "min", "equal", "less", "less_equal",
              "and", "or", "xor", "shift_left", "shift_right", "where", "fma", "look_up", "max_pool2d", "avg_pool2d",
              "max_pool3d", "avg_pool3d", "arg_max_pool", "global_avg_pool", "global_max_pool", "reduce_sum",
              "reduce_prod", "reduce_max", "reduce_min", "arg_reduce", "lrn", "softmax", "concat", "gather",
              "gather_elements", "scatter", "cumulate", "top_k", "select_boxes", "gather_sum", "det", "slice", "pad",
              "broadcast_to", "reshape", "transpose", "fused", "call")
}
namespace autotune::graph {
inline constexpr int kNumOps = static_cast<int>(Op::kCall) + 1;

enum class OpKind {
  kElementwise,  // each output element from the broadcast-corresponding elements of the inputs; tables do not broadcast
  kInjective,    // each output element from one input element
  kReduction,    // reductions over windows, images or axes; element-wise consumers may join the kernel
  kAnchor,       // convolutions and products, scheduled by tiling; element-wise consumers join the kernel
  kOpaque,       // several passes over memory, a kernel of its own
  kAlias,        // no kernel at all
};

enum class LayoutRule {
  kImage,        // has a `layout` attribute
  kElementwise,  // any layout, the same for all operands
  kAxis,         // any layout, after mapping its axis or axes
  kPerDim,       // any layout, after permuting its lists of one number per dimension
  kFixed,        // keeps the layout of the model
};

// The element types that an operator accepts. All operands have one type, except conditions and indices.
enum class OperandTypes {
  kAny,
  kOwn,         // each operand has its own type, which the operator states
  kAnyNumbers,  // floats and integers
  kFactors,     // so, or two types: 8-bit integers and each other or f32; f32 and 16-bit floats
  // The sets below exclude floats of 16 bits, which are only stored; arithmetic uses wider types.
  kComputed,  // floats, integers and bools
  kFloats,
  kNumbers,  // floats and integers
  kSigned,   // floats and signed integers
  kIntegers,
  kBools,
  kBits,  // bools and integers
  kUnsigned,
  kSelected,  // a condition of bools, then operands of any one type
  kIndexed,   // an operand of any type, then integer indices
  kPlaced,    // operands of any one type, then integer indices
  kWeighted,  // floats of one type, then integer indices
};

struct OpInfo {
  Op op;
  int num_inputs;  // -1: one or more
  OperandTypes types;
  Attrs defaults;  // also says which alternative of Attrs the operator takes
  OpKind kind;
  LayoutRule layout;
  bool commutative;
  // Returns the result type. The caller has checked the number and the element types of the operands. Errors do not
  // name the node.
  Result<TensorSpec> (*infer)(const Attrs&, const std::vector<TensorSpec>&);
};

const OpInfo& GetOpInfo(Op op);
inline OpKind KindOf(Op op) { return GetOpInfo(op).kind; }

// Checks the number and the element types of the inputs, then infers the result type. The attributes must be the
// operator's (CHECK). Not for kFused and kCall, whose types are those of the function that they call.
Result<TensorSpec> InferType(Op op, const Attrs& attrs, const std::vector<TensorSpec>& inputs);

// Returns an error for negative extents, and for more elements than any machine holds (leaving out extents of zero), so
// that no product of extents overflows.
Status CheckSize(const TensorSpec& spec);

// Returns the shape of NumPy's broadcasting, or an error if the shapes do not fit.
Result<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Returns all fields as text: "strides=[1,1], groups=1". Floats have enough digits to be read back exactly.
std::string AttrsText(const Attrs& attrs);

}  // namespace autotune::graph
