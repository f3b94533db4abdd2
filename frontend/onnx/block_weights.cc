// Products with weights of few bits, which have a scale for each block of terms of a sum.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/formulas.h"
#include "graph/rounded_rows.h"
#include "support/integer.h"

namespace autotune::onnx_import {
namespace {

// The weights of MatMulNBits: n columns of k terms, in blocks of `block` terms.
struct BlockWeights {
  int64_t k = 0, n = 0, bits = 4, block = 0, blocks = 0;
  int64_t Terms() const { return blocks * block; }  // k, rounded up to whole blocks
};

Result<BlockWeights> ReadAttributes(const ImportContext& c) {
  BlockWeights w;
  w.k = TRY(c.Int("K", 0)), w.n = TRY(c.Int("N", 0)), w.bits = TRY(c.Int("bits", 4)),
  w.block = TRY(c.Int("block_size", 0));
  constexpr int64_t kMost = int64_t{1} << 24;  // so that products of two of them do not overflow
  for (const auto& [name, value] : {std::pair{"K", w.k}, {"N", w.n}, {"block_size", w.block}})
    if (value < 1 || value > kMost) return Err(name, "=", value, " is no number from 1 to ", kMost);
  if (w.bits != 4 && w.bits != 8) return Err("bits=", w.bits, " is not supported, only 4 and 8");
  if (w.block % 2 != 0) return Err("block_size=", w.block, " is odd");
  w.blocks = CeilDiv(w.k, w.block);
  return w;
}

// Returns a constant input of `count` elements.
Result<const TensorValue*> ConstantInput(const ImportContext& c, size_t input, const char* what, int64_t count) {
  const TensorValue* value = c.Known(input);
  if (!value) return Err("its ", what, " must be constants");
  if (value->spec.NumElements() != count)
    return Err("its ", what, " must have ", count, " elements, not ", value->spec.Text());
  return value;
}

// Returns element i of a row of numbers of 4 or 8 bits; the lower half of a byte comes first.
int Unpacked(const uint8_t* row, int64_t i, int64_t bits) {
  if (bits == 8) return row[i];
  return i % 2 == 0 ? row[i / 2] & 15 : row[i / 2] >> 4;
}

// Returns the zero points [n, blocks]; without input 3 they are half of the range.
Result<std::vector<double>> ZeroPoints(const ImportContext& c, const BlockWeights& w) {
  std::vector<double> zeros(static_cast<size_t>(w.n * w.blocks), std::ldexp(1.0, static_cast<int>(w.bits) - 1));
  if (!c.Has(3)) return zeros;
  const TensorValue* given = c.Known(3);
  const bool packed = given && given->spec.dtype == DType::UInt(8);
  const int64_t row = CeilDiv(w.blocks * w.bits, 8);
  given = TRY(ConstantInput(c, 3, "zero points", packed ? w.n * row : w.n * w.blocks));
  for (int64_t i = 0; i < w.n * w.blocks; ++i) {
    zeros[static_cast<size_t>(i)] =
        packed ? Unpacked(given->As<uint8_t>() + i / w.blocks * row, i % w.blocks, w.bits) : given->Number(i);
  }
  return zeros;
}

// Calls visit(place, number, zero point, scale's index) for each weight that exists. `place`: in [blocks, block, n].
template <class Visit>
void ForEachWeight(const BlockWeights& w, const uint8_t* packed, const std::vector<double>& zeros, const Visit& visit) {
  const int64_t row = w.block * w.bits / 8;
  for (int64_t column = 0; column < w.n; ++column) {
    for (int64_t k = 0; k < w.k; ++k) {
      const int64_t block = column * w.blocks + k / w.block;
      const int number = Unpacked(packed + block * row, k % w.block, w.bits);
      visit(k * w.n + column, number, zeros[static_cast<size_t>(block)], block);
    }
  }
}

}  // namespace

Status ImportMatMulNBits(ImportContext& c) {
  constexpr size_t kOrder = 4, kBias = 5;
  const BlockWeights w = TRY(ReadAttributes(c));
  if (c.Has(kOrder)) return Err("g_idx, another order of the terms, is not supported");
  const int64_t bytes = w.n * w.blocks * w.block * w.bits / 8;
  const TensorValue* packed = TRY(ConstantInput(c, 1, "weights", bytes));
  if (packed->spec.dtype != DType::UInt(8)) return Err("its weights must be u8, not ", packed->spec.Text());
  const TensorValue* scale = TRY(ConstantInput(c, 2, "scales", w.n * w.blocks));
  const std::vector<double> zeros = TRY(ZeroPoints(c, w));
  const Shape shape = {w.blocks, w.block, w.n};
  TRY(c.Reserve(shape));
  // Numbers minus their zero points mostly fit a byte. If not, the weights become floats.
  bool fits = true;
  ForEachWeight(w, packed->As<uint8_t>(), zeros, [&](int64_t, int number, double zero, int64_t) {
    fits = fits && std::trunc(zero) == zero && number - zero >= -128 && number - zero <= 127;
  });
  std::vector<float> scales(static_cast<size_t>(w.blocks * w.n)), floats(fits ? 0 : w.Terms() * w.n, 0);
  for (int64_t i = 0; i < w.n * w.blocks; ++i)
    scales[static_cast<size_t>(i % w.blocks * w.n + i / w.blocks)] = static_cast<float>(scale->Number(i));
  char* small = nullptr;
  const SharedBytes data = SharedBytes::Allocate(static_cast<size_t>(fits ? w.Terms() * w.n : 1), &small);
  if (fits) std::fill_n(small, w.Terms() * w.n, 0);
  ForEachWeight(w, packed->As<uint8_t>(), zeros, [&](int64_t at, int number, double zero, int64_t block) {
    if (fits) {
      small[at] = static_cast<char>(number - static_cast<int>(zero));
    } else {
      floats[static_cast<size_t>(at)] = static_cast<float>(number - zero) * static_cast<float>(scale->Number(block));
    }
  });
  ValueId matrix = -1;
  if (fits) {
    const ValueId numbers = c.builder.AddConstant("", TensorValue{{DType::Int(8), shape}, data});
    const ValueId of_blocks = c.builder.AddConstant("", TensorValue::Of<float>({w.blocks, 1, w.n}, scales));
    const ValueId wide = TRY(c.EmitUnfolded(Op::kCast, {numbers}, CastAttrs{DType::Float(32)}));
    matrix = TRY(c.Reshape(TRY(c.EmitUnfolded(Op::kMul, {wide, of_blocks})), {w.Terms(), w.n}));
  } else {
    matrix = c.builder.AddConstant("", TensorValue::Of<float>({w.Terms(), w.n}, floats));
  }
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) == 0 || c.ShapeOfValue(x).back() != w.k)
    return Err("A must have K=", w.k, " columns, not ", c.builder.Spec(x).Text());
  if (w.Terms() > w.k) {
    PadAttrs zeros_behind{Shape(c.Rank(x), 0), Shape(c.Rank(x), 0), Shape(c.Rank(x), 0), PadMode::kConstant, 0};
    zeros_behind.after.back() = w.Terms() - w.k;
    x = TRY(c.Emit(Op::kPad, {x}, zeros_behind));
  }
  constexpr int64_t kInt8 = 4;  // ONNX Runtime rounds data to 8 bits; at other levels, its products are of floats
  if (TRY(c.Int("accuracy_level", 0)) == kInt8) {
    const Shape of_x = c.ShapeOfValue(x);
    x = AddFloatsOf(c.builder, AddRowsInBlocks(c.builder, x, w.block), of_x);
  }
  ValueId y = TRY(MatMulValues(c, x, matrix));
  if (c.Has(kBias)) {
    const ValueId bias = TRY(c.Tensor(kBias));
    if (c.ShapeOfValue(bias) != Shape{w.n}) return Err("the bias must have N=", w.n, " elements");
    y = TRY(c.Apply(Op::kAdd, y, bias));
  }
  return c.Bind(y);
}

}  // namespace autotune::onnx_import
