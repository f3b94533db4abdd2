// Graph passes. A pass is a name and a function from graph to graph; the pipeline is the list in graph/pipeline.cc.
// Thread-safe.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ir/pass_context.h"
#include "support/result.h"

namespace autotune::graph {

// Computes the outputs of a graph without inputs, in order. The compiler layer implements it: it fuses the graph
// (Fuse), builds default kernels and runs them. A pass makes one call for all its constants, so that kernels are built
// in parallel and equal kernels only once.
using ConstantEvaluator = std::function<Result<std::vector<TensorValue>>(const Graph&)>;

// How kernels look bytes up in tables (ir/byte_table.h). kNone: tables do not suit the target.
enum class ByteLookUps { kNone, kByLoads, kInRegisters };

// The environment of graph passes.
struct PassEnv {
  PassContext context = {};
  ConstantEvaluator evaluate = nullptr;  // if absent, FoldConstants folds nothing
  bool fuses_attention = true;           // false: no rule of the target schedules attention as one kernel
  bool multiplies_bytes = false;         // true: the target has dot products of bytes (ir/dot.h)
  bool multiplies_words = false;         // true: the target has dot products of words, and none of bytes
  bool multiplies_bf16 = false;          // true: the target has dot products of bf16
  bool multiplies_tiles = false;         // true: the target multiplies tiles of bf16 (ir/tile_product.h)
  bool rounds_to_bf16 = false;           // true: the user allows that operands of products are rounded to bf16
  bool rounds_to_int8 = false;           // true: the user allows that data that meet weights in blocks are rounded
  bool winograd = true;                  // true: the user allows Winograd's algorithm for convolutions of floats
  bool repeats_scalars = false;          // true: a kernel computes a few numbers faster than another kernel starts
  bool converts_factors = false;         // true: kernels of products convert bytes and halves that meet f32 in vectors
  ByteLookUps byte_look_ups = ByteLookUps::kNone;
};

struct Pass {
  std::string_view name;
  Result<Graph> (*run)(const Graph&, const PassEnv&);
  std::string_view needed = "";  // why kernels cannot be made without the pass; empty: the pass may be disabled
};

// Each pass keeps the graph's inputs and outputs: number, order, names and types. Calls of other functions of the
// module (kCall) stay calls of these functions, but their arguments may change.

// Drops nodes and constants that no output needs. Inputs stay.
Result<Graph> DropDeadCode(const Graph& graph, const PassEnv& env);

// Joins reshapes of reshapes and transposes of transposes, also across a reshape that only cuts or only joins
// dimensions, and drops those that do nothing. Divisions by a number become multiplications by its reciprocal, unless
// the graph quantizes, or an operator depends on them that a rounding error could change by a whole step: results
// differ by rounding.
Result<Graph> SimplifyGraph(const Graph& graph, const PassEnv& env);

// Moves reshapes behind the element-wise operators and reductions that read them. These operators then directly follow
// the node before the reshape, so Fuse can join them with it. For example, the importer makes a product of a batch of
// matrices with one matrix from reshape, matmul, reshape and add. The pass moves the second reshape behind the add.
Result<Graph> SinkReshapes(const Graph& graph, const PassEnv& env);

// Orders the views that only a product reads: first reshapes, then slices, then transposes. The product can read a
// transposed slice in place (Fuse), and a reshape of a computed tensor needs no kernel.
Result<Graph> OrderViews(const Graph& graph, const PassEnv& env);

// Merges equal operators on equal inputs, and equal constants of few elements. Larger constants are compared by
// identity only: equal ones are rare, and hashing a model's weights takes time.
inline constexpr IntOption kSharedConstantElements{"shared_constant_elements", 64, 0, int64_t{1} << 30,
                                                   "most elements of constants that are compared, to share equal ones"};
Result<Graph> ShareCommonSubexpressions(const Graph& graph, const PassEnv& env);

// Rewrites batch normalization of inference as x*s + t. Moves a multiplication by a constant per output channel into
// the constant weight of the convolution or product before it, also across an addition of a constant. Joins additions
// of constants. Results differ by rounding. FoldConstants evaluates the new operations on constants. Leaves operators
// as they are where the new constants could overflow or vanish, and where whole weights would become fractions.
Result<Graph> FoldBatchNorm(const Graph& graph, const PassEnv& env);

// Converts images to NHWC and weights to HWIO. Rewrites the image operators, and after them element-wise operators,
// concat and others with an axis. Inserts transposes where another operator needs the old layout; adjacent transposes
// cancel.
Result<Graph> ConvertLayout(const Graph& graph, const PassEnv& env);

// Removes taps (elements of a window) that meet padding at every output: from convolutions, whose weights are sliced,
// and from pools. Turns the zeros that a pad puts around a convolution's input into the convolution's own padding.
// Exact, except that products of padding with infinite or NaN weights are left out. If a window has one row and a
// stride, and a transpose makes its image, the transpose leaves out the rows that the stride skips.
Result<Graph> TrimWindows(const Graph& graph, const PassEnv& env);

// Replaces a convolution or product whose operand is a concatenation of channels by the sum of the products of the
// parts, so that nothing copies the parts. Moves the concatenation behind pools and element-wise operators first. Keeps
// concatenations with other readers, and those whose partial sums and further kernels would cost more than a quarter as
// much. Results differ by rounding. FoldConstants cuts the weights.
Result<Graph> SplitConcats(const Graph& graph, const PassEnv& env);

// Evaluates everything that depends on constants only, in one call of env.evaluate.
Result<Graph> FoldConstants(const Graph& graph, const PassEnv& env);

// Moves views and maxima of dequantized numbers before the dequantization (quantized_views.cc), where the arithmetic
// can join the kernels that read the result, and transposes behind the quantization of their results. Leaves out
// quantization of what the same scale and zero point dequantized.
// Results stay equal, bit for bit. QuantizedViewsOfKernels also does this before a transpose that becomes a kernel,
// which takes the arithmetic in. Other passes join such transposes with each other first.
Result<Graph> QuantizedViews(const Graph& graph, const PassEnv& env);
Result<Graph> QuantizedViewsOfKernels(const Graph& graph, const PassEnv& env);

// Turns products of dequantized numbers into products of integers that are scaled afterwards (quantized_products.cc),
// if env.multiplies_bytes or env.multiplies_words. Results differ by rounding.
Result<Graph> QuantizedProducts(const Graph& graph, const PassEnv& env);

// Turns products of few rows with weights that have a scale for each block of terms into sums of the blocks' products
// with bytes, which are scaled afterwards (block_products.cc), if env.converts_factors. Results differ by rounding.
Result<Graph> BlockProducts(const Graph& graph, const PassEnv& env);

// Rounds the operands of products with constant weights to bf16, if env.rounds_to_bf16 and the target gains from it
// (bf16_products.cc). Sums are of f32, and so is everything else.
Result<Graph> RoundProducts(const Graph& graph, const PassEnv& env);

// Multiplies bf16 that the graph widens to f32 as bf16 (bf16_products.cc), where the target does so faster. Results
// differ by the rounding of sums.
Result<Graph> Bf16Products(const Graph& graph, const PassEnv& env);

// Lets products of few rows read weights of 16 bits as they are stored (half_weights.cc), if env.converts_factors.
// Results stay equal, bit for bit.
Result<Graph> HalfWeights(const Graph& graph, const PassEnv& env);

// Turns functions of one tensor of 8 bits with results of 8 bits into tables of their values (byte_tables.cc), as far
// as env.byte_look_ups makes that worthwhile. Results stay equal, bit for bit, but for roundoffs of the machine that
// folds constants.
Result<Graph> ByteTables(const Graph& graph, const PassEnv& env);

// Moves the division by the scale of QuantizeLinear into the constants in front of it (fold_scales.cc). Results of
// QuantizeLinear differ by one where the quotient is within a few roundoffs of a tie.
Result<Graph> FoldScales(const Graph& graph, const PassEnv& env);

// Turns products of i32 whose operands are small integers into products of bytes (integer_products.cc), if
// env.multiplies_bytes. Results stay equal, bit for bit.
Result<Graph> IntegerProducts(const Graph& graph, const PassEnv& env);

// Turns products of integers that i16 holds into products of i16 (word_products.cc), if env.multiplies_words and dot
// products suit them. Results stay equal, bit for bit.
Result<Graph> WordProducts(const Graph& graph, const PassEnv& env);

// Computes convolutions and matrix products of i32 in f32 if all sums of their products are integers that f32 holds.
// This follows from the ranges of the operands, such as u8 minus a zero point, and from the values of constant weights.
// Results stay equal, bit for bit. CPUs multiply and add floats in one instruction, i32 in at least two.
Result<Graph> ExactProducts(const Graph& graph, const PassEnv& env);

// Marks the convolutions of f32 (ConvAttrs::exact) whose constant weights the guard of Winograd's algorithm refuses
// (topi/winograd.h). All of their results would be direct sums anyway, by a slow schedule.
Result<Graph> DirectSums(const Graph& graph, const PassEnv& env);

// Groups nodes into kernels (kFused). A group is an anchor or reduction with the element-wise nodes after it;
// element-wise nodes and a transpose after them; a slice and its transpose; or reductions and softmax of rows with the
// element-wise nodes around them (a layer normalization in parts). It ends at the value of fewest bits if what follows
// is cheap and can join the groups that read it. A group has one output and at most one anchor. The exception is
// attention, which has two: a product of computed matrices, element-wise nodes, the softmax of its rows (as one node or
// in parts), and the product of the result with a computed matrix. Both products are of floats or both of bytes. It is
// a group only if env.fuses_attention. It then reads and stores transposed heads in place, as products of computed
// bytes do. Such products also have the sums that correct them by zero points. Other reshapes stay outside of groups,
// since they are aliases. Constants of one element that only element-wise nodes read move into the body.
inline constexpr std::string_view kFuseAll = "all", kFuseNone = "none";
inline constexpr std::string_view kFuseChoices[] = {kFuseAll, kFuseNone};
inline constexpr TextOption kFuseGroups{"fuse_groups", kFuseAll, kFuseChoices,
                                        "which nodes share a kernel; none: every node is a kernel of its own"};
Result<Graph> Fuse(const Graph& graph, const PassEnv& env);

// Lets kernels compute numbers again that follow from a few other numbers (repeat_scalars.cc), if env.repeats_scalars.
// Dynamic quantization makes such numbers. Results stay equal, bit for bit.
Result<Graph> RepeatScalars(const Graph& graph, const PassEnv& env);

// Gives element-wise kernels that treat all elements of their tensors alike, and the extrema of all elements, vectors
// in place of the tensors (flat_kernels.cc), so that more of these kernels are equal. Results stay equal, bit for bit.
Result<Graph> FlatKernels(const Graph& graph, const PassEnv& env);

// Lets one kernel find the largest and the least element of a vector (joint_extrema.cc). Results stay equal, bit for
// bit.
Result<Graph> JointExtrema(const Graph& graph, const PassEnv& env);

// Leaves out the integers between floats of whole numbers and floats, as QuantizeLinear and DequantizeLinear make them
// in one group, if both types hold them, and those between such floats and bytes of the other sign. Results stay equal,
// bit for bit. Vectors need several instructions for each conversion.
Result<Graph> WholeFloats(const Graph& graph, const PassEnv& env);

}  // namespace autotune::graph
