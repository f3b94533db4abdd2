#include "topi/matmul.h"

#include "ir/dot.h"
#include "ir/nibble.h"
#include "support/check.h"
#include "topi/elementwise.h"
#include "topi/reduce.h"

namespace autotune::topi {
namespace {

Shape Concatenated(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<Expr> Concatenated(std::vector<Expr> a, const std::vector<Expr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Returns the subscripts of a vector or matrix operand. A left vector has no row, and a right vector has no column.
std::vector<Expr> MatrixIndices(const Tensor& t, const std::vector<Expr>& lead, const Expr& row, const Expr& column,
                                bool is_left) {
  if (t.rank() == 1) return {is_left ? column : row};
  return Concatenated(lead, {row, column});
}

}  // namespace

Tensor MatMul(const std::string& name, const Tensor& a, const Tensor& b, Rounding rounding) {
  CHECK(a.rank() >= 1 && b.rank() >= 1) << name;
  auto term = [&](const Expr& x, const Expr& y) {
    return rounding == Rounding::kTf32 ? MakeCall(Op::kTf32, {x}) * MakeCall(Op::kTf32, {y}) : Term(x, y);
  };
  const Shape &as = a.shape(), &bs = b.shape();
  Shape a_lead(as.begin(), as.end() - std::min<int>(a.rank(), 2)),
      b_lead(bs.begin(), bs.end() - std::min<int>(b.rank(), 2));
  Shape rows = a.rank() > 1 ? Shape{as[a.rank() - 2]} : Shape{}, columns = b.rank() > 1 ? Shape{bs.back()} : Shape{};
  int64_t k = as.back();
  CHECK(k == (b.rank() > 1 ? bs[b.rank() - 2] : bs[0])) << name << ": inner dimensions differ";
  Shape lead;
  CHECK(te::BroadcastShapes(a_lead, b_lead, &lead)) << name << ": leading dimensions differ";
  Shape shape = Concatenated(Concatenated(lead, rows), columns);
  int64_t m = te::Product(rows), n = te::Product(columns);

  // With one column, each row of `a` is summed along contiguous memory.
  if (n == 1 && k >= kShortestRow) {
    const Shape all_rows = Concatenated(lead, {m});
    const std::vector<te::Axis> nest =  // without axes if both operands are vectors
        shape.empty() ? std::vector<te::Axis>{} : std::vector<te::Axis>{{"m", te::Product(all_rows)}};
    return SumRows(
        name, nest, {}, k, {a, b},
        [&](const std::vector<Expr>& i, const std::vector<Expr>&, const Expr& at) {
          std::vector<Expr> row = te::ReshapeIndices(i, nest.empty() ? Shape{} : Shape{nest[0].extent}, all_rows);
          std::vector<Expr> index(row.begin(), row.end() - 1);
          return term(a(MatrixIndices(a, te::BroadcastIndices(index, lead, a_lead), row.back(), at, true)),
                      b(MatrixIndices(b, te::BroadcastIndices(index, lead, b_lead), at, Expr(0), false)));
        },
        shape);
  }

  if (b_lead.empty()) {
    Shape all_rows = Concatenated(a_lead, {m});
    int64_t count = te::Product(all_rows);
    return te::Reduce(
        name, {{"m", count}, {"n", n}}, {{"k", k}}, te::Combiner::kSum, {a, b},
        [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
          std::vector<Expr> row = te::ReshapeIndices({i[0]}, {count}, all_rows);
          std::vector<Expr> row_lead(row.begin(), row.end() - 1);
          return term(a(MatrixIndices(a, row_lead, row.back(), r[0], true)),
                      b(MatrixIndices(b, {}, r[0], i[1], false)));
        },
        shape);
  }
  int64_t batch = te::Product(lead);
  return te::Reduce(
      name, {{"b", batch}, {"m", m}, {"n", n}}, {{"k", k}}, te::Combiner::kSum, {a, b},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> index = te::ReshapeIndices({i[0]}, {batch}, lead);
        return term(a(MatrixIndices(a, te::BroadcastIndices(index, lead, a_lead), i[1], r[0], true)),
                    b(MatrixIndices(b, te::BroadcastIndices(index, lead, b_lead), r[0], i[2], false)));
      },
      shape);
}

namespace {

// The sums of the blocks of integers, of which each byte of the weights has two numbers if `in_halves`.
Tensor SumsOfIntegers(const std::string& name, const Tensor& x, const Tensor& w, int64_t block, bool in_halves) {
  constexpr int kMask = (1 << kNibbleBits) - 1;
  const DType byte = DType::UInt(8), sum = DType::Int(32);
  const std::vector<te::Axis> axes = {{"b", w.shape()[0]}, {"m", x.shape()[0]}, {"n", w.shape()[2]}};
  const auto factor = [&](const std::vector<Expr>& i, const Expr& term) {
    return MakeCast(sum, x({i[1], i[0] * block + term}));
  };
  if (!in_halves)
    return te::Reduce(name, axes, {{"k", block}}, te::Combiner::kSum, {x, w},
                      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        return factor(i, r[0]) * MakeCast(sum, w({i[0], r[0], i[2]}));
                      });
  return te::Reduce(name, axes, {{"q", block / (2 * kByteGroup)}, {"half", 2}, {"k", kByteGroup}}, te::Combiner::kSum,
                    {x, w}, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      const Expr both = w({i[0], r[0] * kByteGroup + r[2], i[2]});
                      const Expr upper = MakeBinary(BinaryOp::kShr, both, MakeCast(byte, r[1] * kNibbleBits));
                      const Expr number = MakeBinary(BinaryOp::kBitAnd, upper, ConstOf(kMask, byte));
                      return factor(i, (r[0] * 2 + r[1]) * kByteGroup + r[2]) * MakeCast(sum, number);
                    });
}

// The sums of the blocks of floats, times weights that are bytes or words of nibbles.
Tensor SumsOfFloats(const std::string& name, const Tensor& x, const Tensor& w, int64_t block) {
  const std::vector<te::Axis> axes = {{"b", w.shape()[0]}, {"m", x.shape()[0]}, {"n", w.shape()[2]}};
  if (w.dtype() != kWordOfNibbles)
    return te::Reduce(name, axes, {{"k", block}}, te::Combiner::kSum, {x, w},
                      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        return x({i[1], i[0] * block + r[0]}) * MakeCast(x.dtype(), w({i[0], r[0], i[2]}));
                      });
  return te::Reduce(name, axes, {{"q", block / kNibblesOfWord}, {"k", kNibblesOfWord}}, te::Combiner::kSum, {x, w},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      const Expr number = NibbleOf(w({i[0], r[0], i[2]}), r[1]);
                      return x({i[1], i[0] * block + r[0] * kNibblesOfWord + r[1]}) * MakeCast(x.dtype(), number);
                    });
}

}  // namespace

Tensor BlockMatMul(const std::string& name, const BlockRows& x, const BlockColumns& w) {
  CHECK(x.numbers.rank() == 2 && w.numbers.rank() == 3) << name;
  const bool of_integers = x.numbers.dtype().IsInt();
  CHECK(of_integers == static_cast<bool>(x.scales)) << name;
  const int64_t blocks = w.numbers.shape()[0], block = x.numbers.shape()[1] / blocks, held = w.numbers.shape()[1];
  const std::string of_blocks = name + "_blocks";
  const Tensor sums = of_integers ? SumsOfIntegers(of_blocks, x.numbers, w.numbers, block, held != block)
                                  : SumsOfFloats(of_blocks, x.numbers, w.numbers, block);
  std::vector<Tensor> operands = {sums, w.scales};
  for (const Tensor& other : {x.scales, x.offsets, w.zeros})
    if (other) operands.push_back(other);
  return te::Reduce(name, {{"m", x.numbers.shape()[0]}, {"n", w.numbers.shape()[2]}}, {{"b", blocks}},
                    te::Combiner::kSum, operands, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      Expr sum = sums({r[0], i[0], i[1]}), scale = w.scales({r[0], i[1]});
                      if (x.offsets) {
                        Expr offset = x.offsets({i[0], r[0]});
                        if (w.zeros) offset = offset * MakeCast(offset.dtype(), w.zeros({r[0], i[1]}));
                        sum = sum - offset;
                      }
                      if (!of_integers) return sum * scale;
                      return MakeCast(DType::Float(32), sum) * (x.scales({i[0], r[0]}) * scale);
                    });
}

Tensor MatMulInBlocks(const std::string& name, const Tensor& a, const Tensor& b, int64_t block) {
  CHECK(a.rank() >= 2 && b.rank() == 2) << name;
  const int64_t k = a.shape().back(), n = b.shape()[1];
  CHECK(k == b.shape()[0] && k % block == 0) << name;
  Shape rows(a.shape().begin(), a.shape().end() - 1);
  const int64_t m = te::Product(rows), blocks = k / block;
  Tensor sums = te::Reduce(name + "_blocks", {{"kb", blocks}, {"m", m}, {"n", n}}, {{"k", block}}, te::Combiner::kSum,
                           {a, b}, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                             Expr at = i[0] * block + r[0];
                             return a(Concatenated(te::ReshapeIndices({i[1]}, {m}, rows), {at})) * b({at, i[2]});
                           });
  return te::Reduce(
      name, {{"m", m}, {"n", n}}, {{"kb", blocks}}, te::Combiner::kSum, {sums},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        return sums({r[0], i[0], i[1]});
      },
      Concatenated(rows, {n}));
}

}  // namespace autotune::topi
