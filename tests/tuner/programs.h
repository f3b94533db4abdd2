// For tests of the tuner: small programs to search over.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"
#include "te/tensor.h"
#include "topi/conv.h"
#include "tuner/task.h"

namespace autotune::test {

inline Target TestTarget() { return Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2").value(); }

// relu(conv2d(data, weight) + bias) in NHWC. `alternative` names the algorithm of the convolution.
PrimFunc ConvBiasRelu(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t kernel, topi::ConvAttrs attrs = {},
                      std::string_view alternative = "direct", int64_t images = 1);

// relu(conv2d(data, weight) + bias), NCHW and OIHW.
PrimFunc ConvChannelsFirst(const te::Shape& shape, const te::Shape& kernel, topi::ConvAttrs attrs);

// x * sigmoid(x) for x = conv2d(data, weight) * scale + shift + residual, in NHWC, padded to the same size.
PrimFunc ConvResidualSwish(int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t kernel);

PrimFunc Dense(int64_t m, int64_t n, int64_t k, ParamRole role = ParamRole::kConstant);

// A matrix product of bytes with a constant: u8 or i8 [m, k] and i8 [k, n].
PrimFunc BytesDense(int64_t m, int64_t n, int64_t k, bool is_signed = false);

// Products of matrices of bytes that are both computed, as in attention: u8 [batch, m, k] and i8 [batch, k, n], or
// [batch, n, k] if transposed.
PrimFunc ComputedBytes(int64_t batch, int64_t m, int64_t n, int64_t k, bool transposed = false);

// Products of integers in blocks of `block` terms, with two numbers a byte or one.
PrimFunc BlockProducts(int64_t rows, int64_t n, int64_t blocks, int64_t block, bool in_halves, bool has_zeros = false);
// Products of floats with numbers in blocks of `block` terms, eight a word or bytes.
PrimFunc FloatBlockProducts(int64_t rows, int64_t n, int64_t blocks, int64_t block, bool in_words,
                            bool has_zeros = false);

// A product of bf16 with a constant, with sums of f32; of words (i16), with sums of i32.
PrimFunc Bf16Dense(int64_t m, int64_t n, int64_t k);
PrimFunc WordsDense(int64_t m, int64_t n, int64_t k);

// A convolution of an image [1, h, w, c] of u8 with weights [3, 3, c / groups, oc]: i8, or f32 if it is depthwise.
// `skips_padding`: by ConvSkippingPadding.
PrimFunc BytesConv(int64_t h, int64_t w, int64_t c, int64_t oc, const topi::ConvAttrs& attrs,
                   bool skips_padding = false);

// Sizes and variants of MakeAttention. Unless `heads_inside` or `shared` is set, the operands are q [batch, queries,
// width], k [batch, width, keys] and v [batch, keys, depth].
struct Attention {
  te::Shape batch;
  int64_t queries, keys, width, depth;
  te::Shape mask = {};  // shape of the mask; empty: none
  double scale = 1;     // factor of the scores
  bool ends_in_add = false;
  bool exponentials = true;  // false: without exp, so that small integers are exact
  int64_t shared = 1;        // > 1: all heads along the last dimension of `batch` share their keys and values
  // heads_inside: queries, keys and values lie as [batch[0], rows, batch[1], columns], heads side by side. So does the
  // result if batch[0] is 1. `piece`: each operand is the second of three slices of such a tensor.
  bool heads_inside = false, piece = false;
};

te::Shape Joined(te::Shape a, std::initializer_list<int64_t> b);

// softmax(q * k * scale + mask) * v, as the graph passes express it.
PrimFunc MakeAttention(const Attention& a);

// A matrix product of two run-time operands.
inline PrimFunc Product(int64_t m, int64_t n, int64_t k) { return Dense(m, n, k, ParamRole::kInput); }

// `batch` matrix products of run-time operands.
PrimFunc Products(int64_t batch, int64_t m, int64_t n, int64_t k);

// Softmax over one dimension, by default the last.
PrimFunc Softmax(const te::Shape& shape, int axis = -1);

PrimFunc CenteredSquares(int64_t rows, int64_t columns);

PrimFunc RowSums(int64_t rows, int64_t columns);

// The sum of the products of two vectors: one result without loops.
PrimFunc ScalarProduct(int64_t length);

PrimFunc ColumnSums(const te::Shape& shape, const std::vector<int>& axes);

// Half the sum of squares over some axes.
PrimFunc SumOfSquares(const te::Shape& shape, const std::vector<int>& axes);

PrimFunc Transposed(const te::Shape& shape, const std::vector<int>& perm);

// Largest elements of square windows of an image in NHWC, which is padded by one pixel if the windows are odd.
PrimFunc MaxPool(const te::Shape& shape, int64_t kernel, int64_t stride);

PrimFunc Joined(const te::Shape& a, const te::Shape& b, int axis);

// Rows of a matrix at run-time indices.
PrimFunc Gathered(const te::Shape& shape, int64_t rows);

TuneTask MakeTask(const std::string& label, PrimFunc func, int weight = 1);

// The positions of the k largest elements of each row.
PrimFunc BestOfRows(int64_t rows, int64_t columns, int64_t k);

// Adds `updates` rows to rows of a matrix at run-time indices. With `own_places`, adds elements to elements, each with
// its own index.
PrimFunc AddedRows(int64_t rows, int64_t columns, int64_t updates, bool own_places);

// Weighted sums of gathered rows: [1, points, channels].
PrimFunc GatheredSums(int64_t rows, int64_t channels, int64_t points, int64_t taps);

}  // namespace autotune::test
