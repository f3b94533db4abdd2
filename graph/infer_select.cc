#include "graph/infer.h"
#include "ir/byte_table.h"
#include "ir/nibble.h"

namespace autotune::graph {

Result<TensorSpec> InferScatter(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<ScatterAttrs>(attrs);
  const Shape &data = in[0].shape, &updates = in[1].shape;
  TRY(NeedRank(in[1], in[0].rank(), "updates"));
  TRY(NeedRank(in[2], in[0].rank(), "indices"));
  if (a.axis < 0 || a.axis >= in[0].rank()) return Err("axis ", a.axis, " is outside ", in[0].Text());
  if (a.mode != ScatterMode::kReplace && in[0].dtype.IsBool()) return Err("combines numbers, not ", in[0].Text());
  for (int d = 0; d < in[0].rank(); ++d) {
    if (d != a.axis && updates[d] > data[d]) return Err("updates ", in[1].Text(), " reach beyond ", in[0].Text());
    if (in[2].shape[d] != updates[d] && in[2].shape[d] != 1)
      return Err("indices ", in[2].Text(), " do not broadcast to ", in[1].Text());
  }
  return in[0];
}

Result<TensorSpec> InferCumulate(const Attrs& attrs, const Specs& in) {
  const int64_t axis = std::get<CumulateAttrs>(attrs).axis;
  if (axis < 0 || axis >= in[0].rank()) return Err("axis ", axis, " is outside ", in[0].Text());
  return in[0];
}

Result<TensorSpec> InferSelectBoxes(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<BoxesAttrs>(attrs);
  for (const TensorSpec& spec : in) TRY(NeedRank(spec, 3, "operands"));
  const Shape &boxes = in[0].shape, &scores = in[1].shape;
  if (boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != 4 || in[2].shape != scores)
    return Err("operands ", in[0].Text(), ", ", in[1].Text(), " and ", in[2].Text(), " do not fit");
  if (a.most < 1 || a.rows < 1) return Err("selects ", a.most, " boxes a class, ", a.rows, " in all");
  return TensorSpec{DType::Int(64), {a.rows, 3}};
}

Result<TensorSpec> InferTopK(const Attrs& attrs, const Specs& in) {
  const int64_t k = std::get<TopKAttrs>(attrs).k;
  if (in[0].rank() < 1) return Err("needs a dimension");
  if (k < 1 || k > in[0].shape.back()) return Err("takes ", k, " of ", in[0].shape.back(), " elements");
  TensorSpec out{DType::Int(64), in[0].shape};
  out.shape.back() = k;
  return out;
}

Result<TensorSpec> InferGatherSum(const Attrs&, const Specs& in) {
  for (const TensorSpec& spec : in) TRY(NeedRank(spec, 3, "operands"));
  if (in[1].shape != in[2].shape || in[1].shape[0] != in[0].shape[0])
    return Err("operands ", in[0].Text(), ", ", in[1].Text(), " and ", in[2].Text(), " do not fit");
  return TensorSpec{in[0].dtype, {in[0].shape[0], in[1].shape[1], in[0].shape[2]}};
}

Result<TensorSpec> InferLookUp(const Attrs&, const Specs& in) {
  if (!IsByte(in[0].dtype)) return Err("looks up 8-bit integers, not ", in[0].Text());
  if (!IsByte(in[1].dtype) || in[1].shape != Shape{kByteValues})
    return Err("takes a table of ", kByteValues, " 8-bit integers, not ", in[1].Text());
  return TensorSpec{in[1].dtype, in[0].shape};
}

Result<TensorSpec> InferDet(const Attrs&, const Specs& in) {
  const Shape& shape = in[0].shape;
  if (in[0].rank() < 2 || shape.back() != shape[shape.size() - 2])
    return Err("needs square matrices, not ", in[0].Text());
  return TensorSpec{in[0].dtype, {shape.begin(), shape.end() - 2}};
}

Result<TensorSpec> InferBlockMatmul(const Attrs&, const Specs& in) {
  if (in.size() < 3 || in[0].rank() != 2 || in[1].rank() != 3) return Err("takes rows [M,K] and blocks [B,K,N]");
  const Shape &x = in[0].shape, &w = in[1].shape, of_x = {x[0], w[0]}, of_w = {w[0], w[2]};
  const DType floats = DType::Float(32), byte = DType::UInt(8);
  const bool of_integers = in[0].dtype != floats, of_words = in[1].dtype == kWordOfNibbles;
  std::vector<TensorSpec> wanted = {{DType::Int(8), x},     {byte, w},   {floats, of_w}, {floats, of_x},
                                    {DType::Int(32), of_x}, {byte, of_w}};
  if (!of_integers)
    wanted = {{floats, x},
              {of_words ? kWordOfNibbles : DType::Int(8), w},
              {floats, of_w},
              {floats, of_x},
              {DType::Int(8), of_w}};
  const size_t few = of_integers ? wanted.size() - 1 : wanted.size() - 2;
  if (in.size() != few && in.size() != wanted.size())
    return Err("takes ", few, " or ", wanted.size(), " operands, not ", in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != wanted[i]) return Err("operand ", i, " must be ", wanted[i].Text(), ", not ", in[i].Text());
  }
  const int64_t terms = w[0] * w[1];
  const bool in_halves = of_integers && x[1] == 2 * terms && w[1] % kByteGroup == 0;
  if (x[1] != (of_words ? kNibblesOfWord * terms : terms) && !in_halves)
    return Err("cannot multiply ", in[0].Text(), " by blocks of ", in[1].Text());
  return TensorSpec{floats, {x[0], w[2]}};
}

}  // namespace autotune::graph
