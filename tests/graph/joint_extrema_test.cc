// One kernel finds both extrema of a tensor where only kernels read them. Results stay the same.
#include <gtest/gtest.h>

#include "graph/extract.h"
#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

ValueId ExtremumOf(Quantizer& q, Op op, ValueId x) {
  std::vector<int64_t> axes;
  for (int i = 0; i < q.b.Spec(x).rank(); ++i) axes.push_back(i);
  return q.b.Reshape(q.b.Must(op, {x}, AxesAttrs{axes}), {});
}

// The range of x and other numbers.
struct Range {
  ValueId x = -1, largest = -1, least = -1;
};

// Returns the number of kernels after the pass. `build`: makes the outputs from the range of an input.
template <class Build>
int KernelsOf(const Build& build) {
  Quantizer q(4);
  const ValueId x = q.b.Input("x", F32({6, 20}));
  build(q, Range{x, ExtremumOf(q, Op::kReduceMax, x), ExtremumOf(q, Op::kReduceMin, x)});
  const Graph fused = *FlatKernels(*Fuse(q.b.Finish(), {}), {}), now = *JointExtrema(fused, {});
  ExpectEqualOutputs(fused, now);
  return CountOps(now, Op::kFused);
}

ValueId Scaled(Quantizer& q, const Range& r) {
  const ValueId shifted = q.b.Must(Op::kSub, {r.x, r.least});
  return q.b.Must(Op::kMul, {shifted, r.largest});
}

TEST(JointExtrema, OneKernelFindsBoth) {
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) { q.b.Output(Scaled(q, r), "y"); }), 2);
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) {
              q.b.Output(q.b.Must(Op::kSub, {r.x, r.least}), "low");
              q.b.Output(q.b.Must(Op::kMul, {r.x, r.largest}), "high");
            }),
            3)
      << "two readers";
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) {
              q.b.Output(q.b.Must(Op::kSub, {r.largest, r.least}), "width");
            }),
            2)
      << "a kernel of one number";
}

TEST(JointExtrema, OthersStayApart) {
  const auto with_output = [](Quantizer& q, const Range& r) {
    q.b.Output(Scaled(q, r), "y");
    q.b.Output(r.least, "least");
  };
  EXPECT_EQ(KernelsOf(with_output), 3) << "one is an output";
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) {
              q.b.Output(q.b.Must(Op::kSub, {r.x, r.least}), "y");
            }),
            2)
      << "nothing reads the largest element";
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) {
              const ValueId other = ExtremumOf(q, Op::kReduceMin, q.Relu(q.b.Input("other", F32({6, 20}))));
              q.b.Output(Scaled(q, {r.x, r.largest, other}), "y");
            }),
            3)
      << "of another tensor";
  EXPECT_EQ(KernelsOf([](Quantizer& q, const Range& r) {
              const ValueId rows = q.b.Must(Op::kReduceMin, {r.x}, AxesAttrs{{1}});
              q.b.Output(Scaled(q, {r.x, r.largest, rows}), "y");
            }),
            3)
      << "of each row";
}

}  // namespace
}  // namespace autotune::graph
