// For tests: quantized tensors in graphs, as the importer makes them, and tensors of random bytes.
#pragma once
#include <cmath>
#include <vector>

#include "tests/graph/maker.h"

namespace autotune::graph {

// One scale and one zero point. The type is u8 or i8.
struct ByteScale {
  double scale = 0.5, zero = 100;
  DType type = DType::UInt(8);
};

class Quantizer : public Maker {
 public:
  using Maker::Maker;
  ValueId Number(double x, DType type = DType::Float(32)) {
    return b.AddConstant("", TensorValue::FromNumbers(type, {}, {x}));
  }
  ValueId Quantize(ValueId x, const ByteScale& s) {
    const double low = s.type.IsSigned() ? -128 : 0;
    ValueId y = b.Must(Op::kRound, {b.Must(Op::kDiv, {x, Number(s.scale)})});
    y = b.Must(Op::kAdd, {y, Number(s.zero)});
    y = b.Must(Op::kMin, {b.Must(Op::kMax, {y, Number(low)}), Number(low + 255)});
    return b.Must(Op::kCast, {y}, CastAttrs{s.type});
  }
  ValueId Dequantize(ValueId bytes, const ByteScale& s) {
    const ValueId wide = b.Must(Op::kCast, {bytes}, CastAttrs{DType::Int(32)});
    const ValueId centered = b.Must(Op::kSub, {wide, Number(s.zero, DType::Int(32))});
    return b.Must(Op::kMul, {b.Must(Op::kCast, {centered}, CastAttrs{DType::Float(32)}), Number(s.scale)});
  }
  // Returns what dequantizes an input of bytes.
  ValueId Input(const std::string& name, const Shape& shape, const ByteScale& s) {
    return Dequantize(b.Input(name, {s.type, shape}), s);
  }
};

// Returns random numbers of each input's type; those of f32 are between -40 and 40.
inline std::vector<reference::Tensor> RandomBytes(const Graph& g, uint64_t seed) {
  Rng rng(seed);
  std::vector<reference::Tensor> in;
  for (const ValueId v : g.inputs) {
    const TensorSpec& spec = g.Spec(v);
    reference::Tensor t{spec.shape, {}};
    t.dtype = spec.dtype;
    for (int64_t i = 0; i < reference::Count(spec.shape); ++i) {
      const auto byte = static_cast<double>(rng.Below(256));
      t.data.push_back(!spec.dtype.IsInt() ? byte * 0.3125 - 40 : spec.dtype.IsSigned() ? byte - 128 : byte);
    }
    in.push_back(std::move(t));
  }
  return in;
}

// Expects that a pass keeps every number of every output.
inline void ExpectEqualOutputs(const Graph& before, const Graph& after) {
  EXPECT_TRUE(CheckGraph(after).ok());
  const std::vector<reference::Tensor> in = RandomBytes(before, 7);
  const auto want = reference::Evaluate(before, in), got = reference::Evaluate(after, in);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << GraphText(after);
}

}  // namespace autotune::graph
